"""Contents of the Gemini API, as our turns.

Many clients send no call ids. A call without an id gets one made from its position, so that the
same history has the same ids again. A result belongs to a call by its id, else by the name of the
function, else by order.
"""

import msgspec

from toolbridge.codecs.gemini import shapes
from toolbridge.codecs.gemini.builtin_parts import BuiltinParts
from toolbridge.codecs.gemini.media import decode_blob, decode_file
from toolbridge.codecs.gemini.shapes import MESSAGE, MODIFIERS, ORIGIN
from toolbridge.codecs.gemini.signatures import decode_signature
from toolbridge.core.ids import Ids
from toolbridge.core.json import Json, JsonObject, dumps
from toolbridge.core.messages import (
    Call,
    Foreign,
    Origin,
    Part,
    Result,
    ResultPart,
    Role,
    Text,
    Thinking,
    Turn,
)
from toolbridge.core.pending_calls import PendingCalls
from toolbridge.core.source import sourced
from toolbridge.wire import shapes as wire

_ROLES: dict[str, Role] = {"model": "assistant", "assistant": "assistant", "system": "system"}


def decode_system(
    given: JsonObject | list[JsonObject] | str | None,
) -> tuple[tuple[Text, ...], JsonObject]:
    """Return the texts of `systemInstruction`, and the fields that only Gemini understands."""
    where = "systemInstruction"
    # Clients also send a string, or the parts without the content around them.
    if isinstance(given, str):
        return ((Text(given, source=Origin(ORIGIN, where)),) if given else ()), {}
    if isinstance(given, list):
        given = {"parts": [*given]}
    content = wire.convert_request(given or {}, shapes.Content, where)
    parts = content.parts or []
    texts = tuple(
        sourced(Text(text), _source(part, f"{where}.parts.{i}"))
        for i, part in enumerate(parts)
        if isinstance(text := part.get("text"), str) and text
    )
    return texts, {name: value for name, value in (given or {}).items() if name != "parts"}


def _source(raw: JsonObject, where: str) -> Origin:
    unknown = wire.unknown_keys(raw, shapes.Part)
    return Origin(ORIGIN, where, raw, unknown)


class TurnDecoder:
    """The contents so far, as turns, and the calls that have no result yet."""

    def __init__(self) -> None:
        self._turns: list[Turn] = []
        self._pending = PendingCalls()

    @property
    def turns(self) -> tuple[Turn, ...]:
        return tuple(self._turns)

    def add(self, number: int, given: JsonObject) -> None:
        """Read the next content; `number` is its index."""
        content = wire.convert_request(given, shapes.Content, f"contents.{number}")
        # Gemini API, Content: the roles are user and model; `function` is an old one of the user.
        role = _ROLES.get(content.role or "user", "user")
        parts: list[Part] = []
        builtins = BuiltinParts(Ids(f"gemini.{number}.builtin"))
        for index, raw in enumerate(content.parts or ()):
            where = f"contents.{number}.parts.{index}"
            part = wire.convert_request(raw, shapes.Part, where)
            source = _source(raw, where)
            if (builtin := builtins.decode(raw, where)) is not None:
                parts.append(builtin)
            elif part.function_call is not None:
                call = self._call(part, part.function_call, f"{number}.{index}")
                parts.append(sourced(call, source))
            elif part.function_response is not None:
                result = self._result(part.function_response, where, f"{number}.{index}")
                parts.append(sourced(result, source))
            else:
                parts += (sourced(found, source) for found in _decode_content(part, raw))
        # Other APIs require results before the rest of a turn.
        parts.sort(key=lambda part: not isinstance(part, Result))
        source = Origin(ORIGIN, f"contents.{number}")
        if fields := {name: given[name] for name in wire.unknown_keys(given, shapes.Content)}:
            named = msgspec.structs.replace(source, unknown=tuple(fields))
            parts.append(Foreign(ORIGIN, MESSAGE, fields, named))
        self._turns.append(Turn(role, tuple(parts), source))

    def _call(self, part: shapes.Part, asked: shapes.FunctionCall, position: str) -> Call:
        id = asked.id or Ids(f"gemini.{position}").call()
        name = asked.name or ""
        self._pending.add(id, name)
        return Call(id, name, asked.args or {}, opaque=decode_signature(part.thought_signature))

    def _result(self, given: shapes.FunctionResponse, where: str, position: str) -> Result:
        name = given.name or ""
        id = given.id or self._pending.find(name) or Ids(f"gemini.{position}.result").call()
        asked = self._pending.pop(id)
        name = name or asked
        text, is_error = _unwrap(given.response or {})
        content: list[ResultPart] = [Text(text)] if text else []
        for i, raw in enumerate(given.parts or ()):
            at = f"{where}.functionResponse.parts.{i}"
            found = _decode_content(wire.convert_request(raw, shapes.Part, at), raw)
            source = _source(raw, at)
            content += [sourced(one, source) for one in found if not isinstance(one, Thinking)]
        return Result(id, tuple(content), is_error=is_error, name=name)


def _decode_content(part: shapes.Part, raw: JsonObject) -> list[ResultPart | Thinking]:
    """Return a part that may stand in a content or inside a result."""
    if part.text is not None:
        return _decode_text(part, part.text)
    if part.inline_data is not None:
        return [decode_blob(part.inline_data, part.media_resolution, raw)]
    if part.file_data is not None:
        return [decode_file(part.file_data, part.media_resolution, raw)]
    kind = next((key for key in raw if key not in MODIFIERS), "")
    return [Foreign(ORIGIN, kind, raw)] if kind else _decode_text(part, "")


def _decode_text(part: shapes.Part, text: str) -> list[ResultPart | Thinking]:
    """Return a text or a thought; nothing for an empty part without a signature."""
    opaque = decode_signature(part.thought_signature)
    # Gemini API, thought signatures: an answer may end with an empty text that has a signature.
    if part.thought or (opaque and not text):
        return [Thinking(text, opaque)] if text or opaque else []
    return [Text(text, opaque=opaque)] if text else []


def _unwrap(response: JsonObject) -> tuple[str, bool]:
    """Return the text of a function's response, and whether it is an error.

    Gemini API, FunctionResponse: `response` is an object; "output" and "error" are its usual keys.
    """
    if response.keys() == {"output"}:
        return _as_text(response["output"]), False
    if response.keys() == {"error"}:
        return _as_text(response["error"]), True
    return (dumps(response) if response else ""), False


def _as_text(value: Json) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else dumps(value)
