"""Messages of Chat Completions to turns.

OpenAI chat, messages: each result is a message of its own (`role: tool`). Ours are parts of a user
turn: results that follow one another become one turn, together with the user message after them.
"""

import msgspec

from toolbridge.codecs.openai_chat import shapes
from toolbridge.codecs.openai_chat.content import decode_content
from toolbridge.codecs.openai_chat.shapes import ERROR_MARK, MESSAGE, ORIGIN
from toolbridge.codecs.openai_chat.thinking import decode_seal
from toolbridge.core.errors import MalformedRequest
from toolbridge.core.ids import Ids
from toolbridge.core.json import JsonObject, dumps, maybe_object
from toolbridge.core.messages import (
    Call,
    Foreign,
    Opaque,
    Origin,
    Part,
    Result,
    ResultPart,
    Role,
    Text,
    Thinking,
    Turn,
)
from toolbridge.core.source import sourced
from toolbridge.wire import shapes as wire

_messages = wire.StrictDecoder(shapes.Message)
_ROLES: dict[str, Role] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
}


class TurnDecoder:
    """Collects messages: leading system texts in `system`, all others in `turns`."""

    def __init__(self) -> None:
        self.system: list[Text] = []
        self._turns: list[tuple[Role, list[Part], Origin]] = []
        self._call_ids: dict[str, str] = {}
        """By function name the id of its last call, for results of the deprecated role `function`."""

    @property
    def turns(self) -> tuple[Turn, ...]:
        return tuple(
            sourced(Turn(role, tuple(parts)), source) for role, parts, source in self._turns
        )

    def add(self, number: int, raw: msgspec.Raw) -> None:
        """Add the message with this number."""
        where = f"messages.{number}"
        message, unknown = _messages.decode(raw, where)
        if message.role in {"tool", "function"}:
            self._add_result(message, raw, where, unknown)
            return
        role = _ROLES.get(message.role)
        if role is None:
            raise MalformedRequest(f"there is no role {message.role!r}", where=f"{where}.role")
        if role == "assistant":
            parts = self._assistant_parts(number, message)
        else:
            parts = list(decode_content(message.content, f"{where}.content"))
        if role == "system" and not self._turns:
            self.system += _system_texts(parts, Origin(ORIGIN, where, raw, unknown))
            return
        parts += _other_fields(raw, message, where) if unknown or message.name else ()
        if role == "user" and self._after_results():
            self._turns[-1][1].extend(parts)
        elif role == "assistant":
            nested = tuple(name for name in unknown if "." in name)
            self._turns.append((role, parts, Origin(ORIGIN, where, raw, nested)))
        else:
            self._turns.append((role, parts, Origin(ORIGIN, where)))

    def _after_results(self) -> bool:
        last = self._turns[-1][1] if self._turns else []
        return bool(last) and all(isinstance(part, Result) for part in last)

    def _assistant_parts(self, number: int, message: shapes.Message) -> list[Part]:
        where = f"messages.{number}"
        parts: list[Part] = [*decode_thoughts(message)]
        parts += decode_content(message.content, f"{where}.content")
        if message.refusal:
            parts.append(Text(message.refusal, source=Origin(ORIGIN, f"{where}.refusal")))
        for i, call in enumerate(message.tool_calls or ()):
            parts.append(self._call(call, f"{where}.tool_calls.{i}"))
        if message.function_call is not None:
            # The deprecated `function_call` has no id; the same history gets the same ids.
            id = Ids(f"{ORIGIN}.{number}").call()
            parts.append(self._call(shapes.ToolCall(id, function=message.function_call), where))
        return parts

    def _call(self, given: shapes.ToolCall, where: str) -> Call:
        id = given.id or Ids(f"{ORIGIN}.{where}").call()
        call = msgspec.structs.replace(decode_call(given, id), source=Origin(ORIGIN, where))
        self._call_ids[call.name] = id
        return call

    def _add_result(
        self, message: shapes.Message, raw: msgspec.Raw, where: str, unknown: tuple[str, ...]
    ) -> None:
        name = message.name or ""
        id = message.tool_call_id or self._call_ids.get(name, "")
        if not id:
            raise MalformedRequest("field required", where=f"{where}.tool_call_id")
        content, is_error = _result_content(message.content, f"{where}.content")
        source = Origin(ORIGIN, where, raw, unknown)
        result = sourced(Result(id, content, is_error=is_error, name=name), source)
        if self._after_results():
            self._turns[-1][1].append(result)
        else:
            self._turns.append(("user", [result], Origin(ORIGIN, where)))


def _system_texts(parts: list[Part], source: Origin) -> list[Text]:
    """Return the texts of a leading system message; the first has the message as its source."""
    texts = [part for part in parts if isinstance(part, Text)]
    if texts:
        inner = texts[0].source.unknown if texts[0].source else ()
        names = (*source.unknown, *(f"content.0.{name}" for name in inner))
        texts[0] = sourced(texts[0], msgspec.structs.replace(source, unknown=names))
    return texts


def _other_fields(raw: msgspec.Raw, message: shapes.Message, where: str) -> list[Part]:
    """Return the fields of a message that have no counterpart: `name`, a provider's own fields."""
    fields: JsonObject = {
        name: value
        for name, value in wire.leftovers(raw, shapes.Message).items()
        if value not in (None, [], {})
    }
    if message.name:
        fields["name"] = message.name
    source = Origin(ORIGIN, where, unknown=tuple(fields))
    return [Foreign(ORIGIN, MESSAGE, fields, source)] if fields else []


def decode_thoughts(message: shapes.Message) -> list[Thinking]:
    """Return the thoughts of an assistant message.

    A token is kept only if it is certain which text it seals: `reasoning_content` (DeepSeek, Qwen,
    Kimi, GLM) or `reasoning` (OpenRouter, vLLM) repeats the text of the details, or adds to it.
    """
    details = message.reasoning_details or []
    pieces = [(d.text or d.summary or "", decode_seal(d)) for d in details]
    plain = message.reasoning_content or message.reasoning or ""
    sealed = "".join(text for text, _ in pieces)
    if sum(bool(detail.signature) for detail in details) > 1:
        if sealed:
            return [Thinking(text, (seal,) if seal else ()) for text, seal in pieces]
        return [Thinking(plain)] if plain else []
    seals = tuple(seal for _, seal in pieces if seal)
    if seals and sealed and plain != sealed and sealed in plain:
        # Only a part of the text is sealed; the text around it has no token.
        before, _, after = plain.partition(sealed)
        found = (Thinking(before), Thinking(sealed, seals), Thinking(after))
        return [thought for thought in found if thought.text]
    if seals and plain and not sealed and not any(detail.signature for detail in details):
        return [Thinking(plain), Thinking("", seals)]  # an encrypted detail seals no other text
    text = plain or sealed
    return [Thinking(text, seals)] if text or seals else []


def decode_call(given: shapes.ToolCall, id: str) -> Call:
    """Return a call of the history; arguments that are not a JSON object are kept in `raw`."""
    opaque: tuple[Opaque, ...] = ()
    # Gemini, OpenAI compatibility: the signature of a call is in `extra_content.google`.
    google = given.extra_content and given.extra_content.google
    if google and google.thought_signature:
        opaque = (Opaque(ORIGIN, "thought_signature", google.thought_signature),)
    if given.custom is not None:
        input: JsonObject = {"input": given.custom.input or ""}
        return Call(id, given.custom.name or "", input, opaque=opaque)
    function = given.function or shapes.Function()
    name, written = function.name or "", function.arguments
    if isinstance(written, dict):
        return Call(id, name, written, opaque=opaque)
    text = written if isinstance(written, str) else "" if written is None else dumps(written)
    if not text.strip():
        return Call(id, name, opaque=opaque)
    arguments = maybe_object(text)
    if arguments is None:
        return Call(id, name, raw=text, opaque=opaque)
    return Call(id, name, arguments, opaque=opaque)


def _result_content(
    content: str | list[msgspec.Raw] | None, where: str
) -> tuple[tuple[ResultPart, ...], bool]:
    """Return the content of a result, without the error mark, and True if it had the mark."""
    parts = decode_content(content, where)
    first = parts[0] if parts else None
    if not isinstance(first, Text) or not first.text.startswith(ERROR_MARK):
        return tuple(parts), False
    rest = msgspec.structs.replace(first, text=first.text.removeprefix(ERROR_MARK))
    return (*([rest] if rest.text else []), *parts[1:]), True
