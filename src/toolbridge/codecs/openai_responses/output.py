"""Structured output of the Responses API: `text.format`."""

from toolbridge.codecs.openai_responses.shapes import ANSWER_NAME, ORIGIN
from toolbridge.core.codec import OutputSupport, Target
from toolbridge.core.json import JsonObject
from toolbridge.core.messages import Loss, OutputFormat, Request
from toolbridge.wire.output_schema import OPTIONAL, fit_output
from toolbridge.wire.schema_fit import SchemaMisfit
from toolbridge.wire.schema_subsets import OPENAI


def output_support(_: Target) -> OutputSupport:
    """Return that answers are constrained, also beside tools."""
    return OutputSupport(bound=True, schema=True)


def encode_output(request: Request, losses: list[Loss]) -> JsonObject:
    """Return `text.format`. With `strict: true` the schema is fitted to OpenAI's subset.

    The client's own schema stays as it is if the client uses this API, excludes `strict`, or does not
    check the answer: it would get null for keys that it calls optional.
    """
    output = request.output
    if output is None:
        return {}
    if output.schema is None or request.origin == ORIGIN or output.strict is False:
        return encode_format(output)
    found: list[Loss] = []
    try:
        fitted = fit_output(output, OPENAI, found)
    except SchemaMisfit as misfit:
        why = f"the schema is sent, but not enforced: {misfit}"
        losses.append(Loss("output.strict", why))
        return encode_format(output) | {"strict": False}
    if fitted.nullable and not output.checked:
        if not output.strict:
            return encode_format(output)
        losses.append(Loss("output.strict", OPTIONAL))
        return encode_format(output) | {"strict": False}
    losses += found
    return encode_format(output) | {"schema": fitted.schema, "strict": True}


def encode_format(output: OutputFormat) -> JsonObject:
    """Return `text.format`. OpenAI Responses: the fields of `json_schema` have no wrapper here."""
    if output.schema is None:
        return {"type": "json_object"}
    format: JsonObject = {"type": "json_schema", "name": output.name or ANSWER_NAME}
    format["schema"] = output.schema
    if output.strict is not None:
        format["strict"] = output.strict
    return format
