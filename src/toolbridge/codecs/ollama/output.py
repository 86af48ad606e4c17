"""Structured output of Ollama's API: `format`."""

from toolbridge.codecs.ollama.shapes import ORIGIN
from toolbridge.core.codec import OutputSupport, Target
from toolbridge.core.json import Json
from toolbridge.core.messages import Loss, OutputFormat
from toolbridge.wire.output_schema import fit_output
from toolbridge.wire.schema_fit import SchemaMisfit
from toolbridge.wire.schema_subsets import OLLAMA


def output_support(_: Target) -> OutputSupport:
    """Return that answers are constrained; beside tools, `format` also binds the text of a call."""
    return OutputSupport(bound=True, schema=True, with_tools=False)


def encode_output(output: OutputFormat, origin: str, losses: list[Loss]) -> Json:
    """Return `format`. Ollama: a schema has no name, and it is always enforced."""
    if output.schema is None or origin == ORIGIN:
        return "json" if output.schema is None else output.schema
    try:
        return fit_output(output, OLLAMA, losses).schema
    except SchemaMisfit as misfit:
        losses.append(Loss("output.schema", f"Ollama does not accept it: {misfit}"))
        return "json"
