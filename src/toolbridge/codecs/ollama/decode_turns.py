"""Ollama's messages, as our turns.

Ollama's SDKs drop the ids of calls. A call without an id gets one made from its position, so that
the same history has the same ids again. A result belongs to a call by its id, else by the name of
the tool, else by order.
"""

import msgspec

from toolbridge.codecs.ollama import shapes
from toolbridge.codecs.ollama.media import decode_media
from toolbridge.codecs.ollama.shapes import ORIGIN
from toolbridge.core.ids import Ids
from toolbridge.core.json import dumps, maybe_object
from toolbridge.core.messages import (
    Audio,
    Call,
    Foreign,
    Image,
    Origin,
    Part,
    Result,
    Role,
    Text,
    Thinking,
    Turn,
)
from toolbridge.core.pending_calls import PendingCalls
from toolbridge.core.source import sourced
from toolbridge.wire import shapes as wire

_messages = msgspec.json.Decoder(shapes.Message)
_ROLES: dict[str, Role] = {"system": "system", "developer": "system", "assistant": "assistant"}


class TurnDecoder:
    """The messages so far, as turns, and the calls that have no result yet."""

    def __init__(self) -> None:
        self.system: list[Text] = []
        """The system messages before the first turn."""
        self._turns: list[tuple[Role, list[Part], Origin]] = []
        self._pending = PendingCalls()

    @property
    def turns(self) -> tuple[Turn, ...]:
        return tuple(sourced(Turn(role, tuple(p)), source) for role, p, source in self._turns)

    def add(self, number: int, raw: msgspec.Raw) -> None:
        """Read the next message; `number` is its index."""
        where = f"messages.{number}"
        message = wire.decode_request(raw, _messages, where)
        unknown = wire.unknown_names(raw, shapes.Message, where)
        source = Origin(ORIGIN, where, raw, unknown)
        role = (message.role or "").lower()
        if role == "tool":
            self._add_result(number, message, source)
            return
        # Ollama, server/routes.go: any role is passed to the template; unknown ones act as user.
        self._add_message(number, _ROLES.get(role, "user"), message, source)

    def _add_message(
        self, number: int, role: Role, message: shapes.Message, source: Origin
    ) -> None:
        # Ollama, docs/api: a message of the system may stand anywhere.
        if role == "system" and not self._turns:
            self.system.append(sourced(Text(message.content or ""), source))
            return
        parts: list[Part] = []
        if message.thinking and role == "assistant":
            parts.append(Thinking(message.thinking, source=_at(source, "thinking")))
        if message.content:
            parts.append(Text(message.content, source=_at(source, "content")))
        parts += _media(message)
        if role == "assistant":
            parts += self._calls(number, message)
        else:
            parts += _rest(source)
        if role == "user" and self._after_results():
            self._turns[-1][1].extend(parts)
            return
        whole = source if role == "assistant" else Origin(ORIGIN, source.path)
        self._turns.append((role, parts or [Text("")], whole))

    def _after_results(self) -> bool:
        """Return whether the last turn ends with a result, so that the user's text joins it."""
        return bool(self._turns) and isinstance(self._turns[-1][1][-1], Result)

    def _calls(self, number: int, message: shapes.Message) -> list[Call]:
        calls = []
        for index, asked in enumerate(message.tool_calls or ()):
            id = asked.id or Ids(f"ollama.{number}.{index}").call()
            source = Origin(ORIGIN, f"messages.{number}.tool_calls.{index}")
            call = msgspec.structs.replace(_call(id, asked.function), source=source)
            self._pending.add(id, call.name)
            calls.append(call)
        return calls

    def _add_result(self, number: int, message: shapes.Message, source: Origin) -> None:
        id = self._answered(number, message)
        asked = self._pending.pop(id)
        name = message.tool_name or asked
        written = message.content or ""
        text = written.removeprefix(shapes.ERROR_MARK)
        content: list[Text | Image | Audio] = [Text(text)] if text else []
        content += _media(message)
        result = Result(id, tuple(content), is_error=text != written, name=name)
        result = sourced(result, source)
        if self._after_results():
            self._turns[-1][1].append(result)
        else:
            self._turns.append(("user", [result], Origin(ORIGIN, source.path)))

    def _answered(self, number: int, message: shapes.Message) -> str:
        """Return the id of the call that `message` answers."""
        if message.tool_call_id:
            return message.tool_call_id
        # Ollama, docs/api: `tool_name` is what SDKs send; `tool_call_id` came later.
        found = self._pending.find(message.tool_name or "")
        return found or Ids(f"ollama.{number}.result").call()


def _at(source: Origin, name: str) -> Origin:
    return Origin(ORIGIN, f"{source.path}.{name}")


def _rest(source: Origin) -> list[Foreign]:
    """Return the fields of a message that only Ollama understands, as a part."""
    names = tuple(name for name in source.unknown if "." not in name)
    if not names or not isinstance(source.raw, msgspec.Raw):
        return []
    fields = wire.leftovers(source.raw, shapes.Message)
    return [Foreign(ORIGIN, shapes.MESSAGE, fields, Origin(ORIGIN, source.path, unknown=names))]


def _call(id: str, function: shapes.Function) -> Call:
    name, given = function.name or "", function.arguments
    if isinstance(given, dict):
        return Call(id, name, given)
    # Ollama, docs/api: `arguments` is an object. Clients that were written for OpenAI send a string.
    written = given if isinstance(given, str) else "" if given is None else dumps(given)
    if not written.strip():
        return Call(id, name)
    arguments = maybe_object(written)
    return Call(id, name, raw=written) if arguments is None else Call(id, name, arguments)


def _media(message: shapes.Message) -> list[Image | Audio]:
    return [decode_media(image) for image in message.images or ()]
