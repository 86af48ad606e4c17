"""Structured output of the Gemini API: `responseMimeType` with `responseJsonSchema`."""

from toolbridge.codecs.gemini.quirks import Quirks, read_quirks
from toolbridge.codecs.gemini.schemas import project
from toolbridge.codecs.gemini.shapes import CONFIG, ORIGIN
from toolbridge.core.codec import OutputSupport, Target
from toolbridge.core.json import JsonObject
from toolbridge.core.messages import Loss, Request
from toolbridge.wire.output_schema import fit_output
from toolbridge.wire.schema_fit import SchemaMisfit
from toolbridge.wire.schema_subsets import GEMINI


def output_support(target: Target) -> OutputSupport:
    """Return that answers are constrained; older models reject that beside functions."""
    quirks = read_quirks(target.model, target.quirks)
    return OutputSupport(bound=True, schema=True, with_tools=quirks.json_with_tools)


def encode_output(
    request: Request, quirks: Quirks, losses: list[Loss], *, any_function: bool
) -> JsonObject:
    """Return the fields of `generationConfig` for JSON output; empty for text."""
    output = request.output
    if output is None:
        return {}
    if any_function and not quirks.json_with_tools:
        # "Function calling with a response mime type: 'application/json' is unsupported"
        losses.append(Loss("output", "this model rejects JSON output together with tools"))
        return {}
    for name in ("name", "strict"):
        if getattr(output, name):
            why = "Gemini's schema has no name and is always strict"
            losses.append(Loss(f"output.{name}", why, minor=output.checked))
    encoded: JsonObject = {"responseMimeType": "application/json"}
    kept = request.extra.get(CONFIG)
    if output.schema is None or (isinstance(kept, dict) and "responseSchema" in kept):
        return encoded  # the client's own `responseSchema` is put back from `extra`
    if not quirks.json_schema:
        return encoded | {"responseSchema": project(output.schema)}
    if request.origin == ORIGIN:
        return encoded | {"responseJsonSchema": output.schema}
    try:
        return encoded | {"responseJsonSchema": fit_output(output, GEMINI, losses).schema}
    except SchemaMisfit as misfit:
        losses.append(Loss("output.schema", f"Gemini does not accept it: {misfit}"))
        return encoded
