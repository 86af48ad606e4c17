"""Structured output of the Messages API: `output_config.format`."""

from toolbridge.codecs.anthropic.shapes import ORIGIN
from toolbridge.core.codec import OutputSupport, Target
from toolbridge.core.json import JsonObject
from toolbridge.core.messages import Loss, Request
from toolbridge.wire.output_schema import fit_output
from toolbridge.wire.schema_fit import SchemaMisfit
from toolbridge.wire.schema_subsets import ANTHROPIC


def output_support(_: Target) -> OutputSupport:
    """Return that answers are constrained, also beside tools: the format binds the final text."""
    return OutputSupport(bound=True, schema=True)


def encode_output(request: Request, losses: list[Loss]) -> JsonObject:
    """Return the field `format` of `output_config`; empty for text."""
    output = request.output
    if output is None:
        return {}
    if output.schema is None:
        # Anthropic, structured outputs: "json_schema" is the only type of `output_config.format`.
        losses.append(Loss("output", "Anthropic's API has no JSON output without a schema"))
        return {}
    for name in ("name", "strict"):
        if getattr(output, name):
            why = "Anthropic's schema has no name and is always strict"
            losses.append(Loss(f"output.{name}", why, minor=output.checked))
    schema = output.schema
    if request.origin != ORIGIN:
        try:
            schema = fit_output(output, ANTHROPIC, losses).schema
        except SchemaMisfit as misfit:
            losses.append(Loss("output.schema", f"Anthropic does not accept it: {misfit}"))
            return {}
    return {"format": {"type": "json_schema", "schema": schema}}
