"""The format of an answer whose JSON the provider constrains to a schema.

Used with the tool mode `constrained` where the provider's constraint is a JSON schema for the whole
answer. A call is `{"name": …, "parameters": {…}}`, several calls are an array of such objects, and
text is `{"text": "…"}`. Some servers write members in alphabetical order (Ollama, `/v1`), so the
keys are chosen such that the name of the tool still comes first. The calls and the text are passed
on while they arrive. An answer in any other form is read as `dialect = "auto"` reads it: a server
may ignore the constraint.
"""

import re

from toolbridge.core.json import Json, JsonObject
from toolbridge.core.messages import TaggedJson, Tool
from toolbridge.dialects import for_model
from toolbridge.dialects.auto import auto_reader
from toolbridge.dialects.dialect import Dialect, ReadStream
from toolbridge.dialects.engines.calls_json import CallShape, read_calls
from toolbridge.dialects.engines.event_writer import EventWriter, NotACall
from toolbridge.dialects.engines.render import NAME_PARAMETERS, Renderer
from toolbridge.wire.json_schema import inline
from toolbridge.wire.json_stream import JsonReader
from toolbridge.wire.tags import Marks, Wait

TEXT = "text"
"""The only member of an object that is text for the user."""
MAX_CALLS = 8
"""The most calls in one answer. A small model may repeat itself until the token limit."""
_TEXT_OBJECT = re.compile(r'\{(?:\s*(?:"(?:t(?:e(?:x(?:t(?:"\s*:?)?)?)?)?)?)?)?')
_CALLS = CallShape(strict=True, between="")
_THOUGHT_END = Marks(("</think>",))


def union_schema(
    tools: list[Tool], *, forced: bool, parallel: bool, otherwise: JsonObject | None = None
) -> JsonObject:
    """Return the schema of an answer that is a call of one of `tools`, several calls, or text.

    A `forced` answer is never text. `otherwise` replaces the object with text, where the client
    asks for JSON of its own.
    """
    calls: list[Json] = [_call_schema(tool) for tool in tools]
    forms = list(calls)
    if parallel:
        items: JsonObject = {"anyOf": calls} if len(calls) > 1 else _call_schema(tools[0])
        forms.append({"type": "array", "items": items, "minItems": 1, "maxItems": MAX_CALLS})
    if not forced:
        forms.append(otherwise or _object({TEXT: {"type": "string"}}))
    only = forms[0]
    return only if len(forms) == 1 and isinstance(only, dict) else {"anyOf": forms}


def tagged_calls(tools: list[Tool]) -> TaggedJson:
    """Return the form of a call in a text, as the dialect `hermes_json` writes it."""
    calls: list[Json] = [_call_schema(tool, "arguments") for tool in tools]
    schema: JsonObject = {"anyOf": calls} if len(calls) > 1 else _call_schema(tools[0], "arguments")
    return TaggedJson("<tool_call>\n", schema, "\n</tool_call>")


def _call_schema(tool: Tool, key: str = "parameters") -> JsonObject:
    # References point into the tool's own schema, which is no longer the root of the document.
    parameters, _ = inline(tool.input_schema)
    parameters = {key: value for key, value in parameters.items() if key != "$schema"}
    return _object({"name": {"type": "string", "enum": [tool.name]}, key: parameters})


def _object(properties: JsonObject) -> JsonObject:
    required: list[Json] = list(properties)
    return {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }


def constrained_reader(model: str = "") -> ReadStream:
    """Return the reader of constrained answers of `model`."""

    def read(writer: EventWriter, *, thinking: bool = False) -> Wait[None]:
        if not thinking:
            yield from _read_thought(writer)
            yield from _read_json(writer)
        yield from auto_reader(for_model(model) or "")(writer, thinking=thinking)

    return read


def _read_thought(writer: EventWriter) -> Wait[None]:
    """Read the reasoning before the JSON, where the server has no parser for it."""
    cursor = writer.cursor
    position = cursor.remember()
    yield from cursor.skip()
    opened = yield from cursor.accept("<think>")
    if not opened:
        cursor.rewind(position)
    cursor.forget()
    if opened:
        yield from cursor.until(_THOUGHT_END, writer.think)
        writer.end_thought()


def _read_json(writer: EventWriter) -> Wait[None]:
    """Read the answer if it is JSON of the union; take nothing otherwise."""
    cursor = writer.cursor
    position = cursor.remember()
    yield from cursor.skip()
    first = yield from cursor.peek()
    if first not in {"{", "["}:
        cursor.rewind(position)
        cursor.forget()
        return
    if (yield from cursor.match(_TEXT_OBJECT)).endswith(":"):
        cursor.forget()
        yield from _read_text(writer)
        return
    try:
        yield from read_calls(writer, _CALLS)
    except NotACall:
        cursor.rewind(position)
    cursor.forget()


def _read_text(writer: EventWriter) -> Wait[None]:
    """Read `{"text": "…"}` and write the text as it grows."""
    cursor, reader, written = writer.cursor, JsonReader(), 0
    while not reader.complete and not reader.fault:
        rest = cursor.text[cursor.at :]
        cursor.take(reader.feed(rest))
        value = reader.value
        text = value.get(TEXT) if isinstance(value, dict) else None
        if isinstance(text, str) and len(text) > written:
            writer.text(text[written:])
            written = len(text)
        if cursor.ended:
            return
        yield


CONSTRAINED = Dialect(
    name="constrained",
    marks=(),
    reader=constrained_reader(),
    render=Renderer(call=NAME_PARAMETERS, result="Result of $name: $result"),
)
"""How calls and results of the history are written. It is no dialect of a model, so it has no mark
and cannot be set with `dialect`."""
