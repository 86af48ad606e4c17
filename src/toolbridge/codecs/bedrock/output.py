"""Structured output of the Converse API: `outputConfig.textFormat`."""

from toolbridge.codecs.bedrock.quirks import Quirks, read_quirks
from toolbridge.core.codec import OutputSupport, Target
from toolbridge.core.json import JsonObject, dumps
from toolbridge.core.messages import Loss, Request
from toolbridge.wire.output_schema import fit_output
from toolbridge.wire.schema_fit import SchemaMisfit
from toolbridge.wire.schema_subsets import ANTHROPIC


def output_support(target: Target) -> OutputSupport:
    """Return that a schema can be sent; whether a model is bound by it is not known for all."""
    return OutputSupport(schema=read_quirks(target.quirks).json_schema)


def encode_output(request: Request, quirks: Quirks, losses: list[Loss]) -> JsonObject:
    """Return the field `textFormat` of `outputConfig`; empty for text."""
    output = request.output
    if output is None:
        return {}
    if output.schema is None:
        losses.append(Loss("output", "Converse has no JSON output without a schema"))
        return {}
    if not quirks.json_schema:
        losses.append(Loss("output.schema", "this model takes no schema for its answer"))
        return {}
    try:
        # Assumed: Bedrock documents the same subset of JSON Schema as Anthropic's API.
        schema = fit_output(output, ANTHROPIC, losses).schema
    except SchemaMisfit as misfit:
        losses.append(Loss("output.schema", f"Bedrock does not accept it: {misfit}"))
        return {}
    if output.strict is False:
        losses.append(Loss("output.strict", "a schema of Converse is always strict", minor=True))
    # Amazon Bedrock, JsonSchemaDefinition: the schema is a text.
    definition: JsonObject = {"schema": dumps(schema)}
    if output.name:
        definition["name"] = output.name
    return {"textFormat": {"type": "json_schema", "structure": {"jsonSchema": definition}}}
