"""Structured output of Chat Completions: `response_format`.

OpenAI chat, structured outputs: with `strict: true` the answer is constrained to the schema, which
must be in a subset of JSON Schema. Other servers constrain without `strict`, each with a subset of its
own (`Quirks.schema_subset`).
"""

from toolbridge.codecs.openai_chat import shapes
from toolbridge.codecs.openai_chat.quirks import Quirks, read_quirks
from toolbridge.codecs.openai_chat.shapes import ORIGIN
from toolbridge.core.codec import OutputSupport, Target
from toolbridge.core.json import JsonObject
from toolbridge.core.messages import Loss, OutputFormat, Request, TaggedJson
from toolbridge.wire.output_schema import OPTIONAL, fit_output
from toolbridge.wire.schema_fit import SchemaMisfit
from toolbridge.wire.schema_subsets import SUBSETS

_PLAIN: JsonObject = {"type": "json_object"}


def output_support(target: Target) -> OutputSupport:
    """Return how far the provider constrains answers, by its quirks."""
    quirks = read_quirks(target.quirks)
    bound = bool(quirks.schema_subset) and _is_strict(quirks, target.model) is not False
    return OutputSupport(
        bound=bound and quirks.json_schema,
        schema=quirks.json_schema,
        with_tools=quirks.schema_with_tools,
    )


def _is_strict(quirks: Quirks, model: str) -> bool | None:
    """Return whether the model accepts `strict`; None where the server has no such mode."""
    subset = SUBSETS.get(quirks.schema_subset)
    if subset is None or not subset.strict:
        return None
    return not quirks.strict_models or model in quirks.strict_models


def encode_output(
    request: Request, quirks: Quirks, losses: list[Loss], *, model: str
) -> JsonObject:
    """Return `response_format` in an object; empty for text."""
    output = request.output
    if output is None:
        return {}
    if output.tagged is not None:
        return _structural_tag(output.tagged, quirks, losses)
    if output.schema is None:
        return {"response_format": _PLAIN}
    if not quirks.json_schema:
        why = "this provider can write JSON, but not for a schema"
        losses.append(Loss("output.schema", why))
        return {"response_format": _PLAIN}
    if request.origin == ORIGIN or not quirks.schema_subset:
        return _format(output)
    if request.tools and not quirks.schema_with_tools:
        # llama.cpp: a schema beside tools binds the whole answer, and no tool is ever called.
        why = "this provider accepts a schema or tools; the tools are offered"
        losses.append(Loss("output", why))
        return {}
    if (strict := _is_strict(quirks, model)) is None:
        return _constrained(output, quirks, losses)
    return _strict(output, quirks, losses) if strict else _format(output)


def _structural_tag(tagged: TaggedJson, quirks: Quirks, losses: list[Loss]) -> JsonObject:
    """Return the format that constrains the JSON after a trigger.

    vLLM and SGLang, structured outputs: `structures` with `triggers` is the form that all versions
    accept; a trigger is the beginning of `begin`.
    """
    subset = SUBSETS.get(quirks.schema_subset)
    schema = tagged.schema
    if subset is not None:
        try:
            schema = fit_output(OutputFormat(schema), subset, []).schema
        except SchemaMisfit as misfit:
            losses.append(Loss("tools", f"the calls are not constrained: {misfit}", minor=True))
            return {}
    structure: JsonObject = {"begin": tagged.begin, "schema": schema, "end": tagged.end}
    return {
        "response_format": {
            "type": "structural_tag",
            "structures": [structure],
            "triggers": [tagged.begin.strip()],
        }
    }


def _constrained(output: OutputFormat, quirks: Quirks, losses: list[Loss]) -> JsonObject:
    """Return the format for a server that constrains every answer with a schema."""
    try:
        fitted = fit_output(output, SUBSETS[quirks.schema_subset], losses)
    except SchemaMisfit as misfit:
        losses.append(Loss("output.schema", f"the provider does not accept it: {misfit}"))
        return {"response_format": _PLAIN}
    return _format(output, fitted.schema)


def _strict(output: OutputFormat, quirks: Quirks, losses: list[Loss]) -> JsonObject:
    """Return the format with `strict: true`, unless the client excludes it or the schema does not fit.

    A client that does not check the answer would get null for keys that it calls optional.
    """
    if output.strict is False:
        return _format(output)
    found: list[Loss] = []
    try:
        fitted = fit_output(output, SUBSETS[quirks.schema_subset], found)
    except SchemaMisfit as misfit:
        why = f"the schema is sent, but not enforced: {misfit}"
        losses.append(Loss("output.strict", why))
        return _format(output, strict=False)
    if fitted.nullable and not output.checked:
        if output.strict:
            losses.append(Loss("output.strict", OPTIONAL))
        return _format(output, strict=False if output.strict else None)
    losses += found
    return _format(output, fitted.schema, strict=True)


def _format(
    output: OutputFormat, schema: JsonObject | None = None, *, strict: bool | None = None
) -> JsonObject:
    described: JsonObject = {
        "name": output.name or shapes.ANSWER_NAME,
        "schema": output.schema if schema is None else schema,
    }
    strict = output.strict if strict is None else strict
    if strict is not None:
        described["strict"] = strict
    return {"response_format": {"type": "json_schema", "json_schema": described}}
