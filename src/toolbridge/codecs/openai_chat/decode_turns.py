"""A client's messages, as our turns.

Results are messages of their own here and parts of a user turn with us: those that follow one
another make one turn, and what the user says next belongs to it.
"""

import msgspec

from toolbridge.codecs.openai_chat import shapes
from toolbridge.codecs.openai_chat.shapes import ERROR_MARK, ORIGIN, split_data_url
from toolbridge.core.errors import MalformedRequest
from toolbridge.core.ids import Ids
from toolbridge.core.json import JsonObject, dumps, maybe_object
from toolbridge.core.messages import (
    Audio,
    Call,
    Document,
    Foreign,
    Image,
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
_parts = wire.StrictDecoder(shapes.ContentPart)
_objects = msgspec.json.Decoder(wire.AnyObject)

MESSAGE = "message"
"""The kind of a part that holds fields of a message which have no place of their own."""
FILE_NAME = "document.pdf"
"""The name of a file that nobody named; the API demands one."""
AUDIO_TYPES = {"mp3": "audio/mpeg"}
_ROLES: dict[str, Role] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
}


class TurnDecoder:
    """The messages so far: the system in front, then turns."""

    def __init__(self) -> None:
        self.system: list[Text] = []
        self._turns: list[tuple[Role, list[Part], Origin]] = []
        self._called: dict[str, str] = {}
        """The id of the last call of each function, for clients that know only its name."""

    @property
    def turns(self) -> tuple[Turn, ...]:
        return tuple(
            sourced(Turn(role, tuple(parts)), source) for role, parts, source in self._turns
        )

    def add(self, number: int, raw: msgspec.Raw) -> None:
        where = f"messages.{number}"
        message, unknown = _messages.decode(raw, where)
        if message.role in {"tool", "function"}:
            self._add_result(message, raw, where, unknown)
            return
        role = _ROLES.get(message.role)
        if role is None:
            raise MalformedRequest(f"there is no role {message.role!r}", where=f"{where}.role")
        if role == "assistant":
            parts = self._answer(number, message)
        else:
            parts = list(decode_content(message.content, f"{where}.content"))
        if role == "system" and not self._turns:
            self.system += _system_texts(parts, Origin(ORIGIN, where, raw, unknown))
            return
        parts += _rest(raw, message, where) if unknown or message.name else ()
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

    def _answer(self, number: int, message: shapes.Message) -> list[Part]:
        where = f"messages.{number}"
        parts: list[Part] = [*decode_thoughts(message)]
        parts += decode_content(message.content, f"{where}.content")
        if message.refusal:
            parts.append(Text(message.refusal, source=Origin(ORIGIN, f"{where}.refusal")))
        for place, call in enumerate(message.tool_calls or ()):
            parts.append(self._call(call, f"{where}.tool_calls.{place}"))
        if message.function_call is not None:
            id = Ids(f"{ORIGIN}.{number}").call()  # the same history gives the same ids
            parts.append(self._call(shapes.ToolCall(id, function=message.function_call), where))
        return parts

    def _call(self, asked: shapes.ToolCall, where: str) -> Call:
        id = asked.id or Ids(f"{ORIGIN}.{where}").call()
        call = msgspec.structs.replace(decode_call(asked, id), source=Origin(ORIGIN, where))
        self._called[call.name] = id
        return call

    def _add_result(
        self, message: shapes.Message, raw: msgspec.Raw, where: str, unknown: tuple[str, ...]
    ) -> None:
        name = message.name or ""
        id = message.tool_call_id or self._called.get(name, "")
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
    """Return what the system says first; the first text of a message stands for all of it."""
    texts = [part for part in parts if isinstance(part, Text)]
    if texts:
        inner = texts[0].source.unknown if texts[0].source else ()
        names = (*source.unknown, *(f"content.0.{name}" for name in inner))
        texts[0] = sourced(texts[0], msgspec.structs.replace(source, unknown=names))
    return texts


def _rest(raw: msgspec.Raw, message: shapes.Message, where: str) -> list[Part]:
    """Return what a message says beside its content: a speaker's name, a place's own fields."""
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
    """Return what the model had thought. A token stays only where the text it seals is certain."""
    details = message.reasoning_details or []
    pieces = [(d.text or d.summary or "", shapes.read_seal(d)) for d in details]
    told = message.reasoning_content or message.reasoning or ""
    written = "".join(text for text, _ in pieces)
    if sum(bool(detail.signature) for detail in details) > 1:
        if written:
            return [Thinking(text, (seal,) if seal else ()) for text, seal in pieces]
        return [Thinking(told)] if told else []
    seals = tuple(seal for _, seal in pieces if seal)
    if seals and written and told != written and written in told:
        # Only a part of it is sealed: the rest was thought without a token.
        before, _, after = told.partition(written)
        found = (Thinking(before), Thinking(written, seals), Thinking(after))
        return [thought for thought in found if thought.text]
    if seals and told and not written and not any(detail.signature for detail in details):
        return [Thinking(told), Thinking("", seals)]  # what is encrypted seals no other text
    text = told or written
    return [Thinking(text, seals)] if text or seals else []


def decode_call(asked: shapes.ToolCall, id: str) -> Call:
    """Return a call of the past. What is no JSON object stays as it was written."""
    opaque: tuple[Opaque, ...] = ()
    google = asked.extra_content and asked.extra_content.google
    if google and google.thought_signature:
        opaque = (Opaque(ORIGIN, "thought_signature", google.thought_signature),)
    if asked.custom is not None:
        input: JsonObject = {"input": asked.custom.input or ""}
        return Call(id, asked.custom.name or "", input, opaque=opaque)
    function = asked.function or shapes.Function()
    name, given = function.name or "", function.arguments
    if isinstance(given, dict):
        return Call(id, name, given, opaque=opaque)
    written = given if isinstance(given, str) else "" if given is None else dumps(given)
    if not written.strip():
        return Call(id, name, opaque=opaque)
    arguments = maybe_object(written)
    if arguments is None:
        return Call(id, name, raw=written, opaque=opaque)
    return Call(id, name, arguments, opaque=opaque)


# ── content ──────────────────────────────────────────────────────────────────


def decode_content(content: str | list[msgspec.Raw] | None, where: str) -> list[ResultPart]:
    if isinstance(content, str):
        return [Text(content, source=Origin(ORIGIN, where))] if content else []
    return [_decode_part(raw, f"{where}.{i}") for i, raw in enumerate(content or ())]


def _result_content(
    content: str | list[msgspec.Raw] | None, where: str
) -> tuple[tuple[ResultPart, ...], bool]:
    parts = decode_content(content, where)
    first = parts[0] if parts else None
    if not isinstance(first, Text) or not first.text.startswith(ERROR_MARK):
        return tuple(parts), False
    told = msgspec.structs.replace(first, text=first.text.removeprefix(ERROR_MARK))
    return (*([told] if told.text else []), *parts[1:]), True


def _decode_part(raw: msgspec.Raw, where: str) -> ResultPart:
    part, unknown = _parts.decode(raw, where)
    found = _decode_known(part, raw, where)
    if isinstance(found, Foreign):
        return msgspec.structs.replace(found, source=Origin(ORIGIN, where))
    return sourced(found, Origin(ORIGIN, where, raw, unknown))


def _decode_known(part: shapes.ContentPart, raw: msgspec.Raw, where: str) -> ResultPart:
    match part.type:
        case "text":
            return Text(_needed(part.text, f"{where}.text"), cache=shapes.read_cache(part))
        case "refusal":
            return Text(_needed(part.refusal, f"{where}.refusal"))
        case "image_url":
            return _decode_image(part, f"{where}.image_url")
        case "input_audio":
            audio = _needed(part.input_audio, f"{where}.input_audio")
            return Audio(audio.data, AUDIO_TYPES.get(audio.format, f"audio/{audio.format}"))
        case "file":
            return _decode_file(_needed(part.file, f"{where}.file"), part, where)
        case kind:
            return Foreign(ORIGIN, kind, wire.decode_request(raw, _objects, where))


def _needed(value: wire.T | None, where: str) -> wire.T:
    if value is None:
        raise MalformedRequest("field required", where=where)
    return value


def _decode_image(part: shapes.ContentPart, where: str) -> Image:
    given = part.image_url
    image = shapes.ImageUrl(given) if isinstance(given, str) else _needed(given, where)
    media_type, data = split_data_url(image.url)
    return Image(
        data=data,
        media_type=media_type,
        url="" if data else image.url,
        detail=image.detail or "",
        cache=shapes.read_cache(part),
    )


def _decode_file(file: shapes.File, part: shapes.ContentPart, where: str) -> Document:
    title = "" if file.filename == FILE_NAME else file.filename or ""
    cache = shapes.read_cache(part)
    if file.file_id:
        return Document(file_id=file.file_id, title=title, cache=cache)
    given = _needed(file.file_data, f"{where}.file.file_data")
    media_type, data = split_data_url(given)
    # Some clients send bare base64; the API's own documents are PDFs.
    return Document(
        data=data or given, media_type=media_type or "application/pdf", title=title, cache=cache
    )
