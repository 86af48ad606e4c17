"""The items of an input, as turns.

An item is a message, a thought, a call or an output of its own. What the model did one after the
other is one turn; so are the outputs that answer it, and the user's message behind them. What an
item says beside its content (its id, above all) is kept for its own API.
"""

from typing import TypeGuard

import msgspec

from toolbridge.codecs.openai_responses import shapes
from toolbridge.codecs.openai_responses.builtins import BY_CALL, read_call, read_output
from toolbridge.codecs.openai_responses.compaction import read_summary
from toolbridge.codecs.openai_responses.marks import (
    full_name,
    is_own_id,
    read_cache,
    seal_item,
    split_data_url,
)
from toolbridge.codecs.openai_responses.shapes import (
    AUDIO_TYPES,
    CONTENT,
    ERROR_MARK,
    ITEMS,
    ORIGIN,
    PARTS,
)
from toolbridge.core.errors import MalformedRequest
from toolbridge.core.json import Json, JsonObject, dump_bytes, maybe_object
from toolbridge.core.messages import (
    Audio,
    Call,
    Document,
    Foreign,
    Image,
    Opaque,
    Origin,
    Part,
    Reference,
    Result,
    ResultPart,
    Role,
    Text,
    Thinking,
    Turn,
)
from toolbridge.core.source import sourced
from toolbridge.wire import shapes as wire

_ROLES: dict[str, Role] = {
    "user": "user",
    "assistant": "assistant",
    "system": "system",
    "developer": "system",
}
_USERS = ("_output", "_response", "compaction_trigger", "additional_tools", "configuration_update")
"""How the types of those items end that do not come from the model."""


class TurnDecoder:
    """The turns so far."""

    def __init__(self) -> None:
        self.system: list[Text] = []
        """What the system says before anybody else speaks."""
        self.found: list[tuple[str, msgspec.Raw]] = []
        """The tools that searches found, and where they stand."""
        self._turns: list[tuple[Role, list[Part]]] = []
        self._called: dict[str, str] = {}
        """The ids of calls of built-in tools, by the ids of their items."""
        self._hosted: set[Json] = set()
        """The ids of calls that the server has run itself."""

    @property
    def turns(self) -> tuple[Turn, ...]:
        return tuple(Turn(role, tuple(parts)) for role, parts in self._turns)

    def say(self, text: str) -> None:
        said = Text(text, source=Origin(ORIGIN, "input"))
        self._turns.append(("user", [said] if text else []))

    def add(self, raw: msgspec.Raw, where: str) -> None:
        item = ITEMS.decode(raw, where)
        match item:
            case shapes.MessageItem():
                self._add_message(item, raw, where)
            case shapes.FunctionCall() | shapes.CustomCall():
                call = _decode_call(item, _beside(raw, item, where))
                self._answer(sourced(call, _source(item, raw, where)))
            case shapes.Output():
                result = _decode_output(item, raw, where)
                self._give(sourced(result, _source(item, raw, where)))
            case shapes.Reasoning():
                thought = _decode_thought(item, _beside(raw, item, where))
                self._answer(sourced(thought, _source(item, raw, where)))
            case wire.Unknown(kind, fields):
                self._add_typed(kind, fields, where)

    def _add_typed(self, kind: str, item: JsonObject, where: str) -> None:
        """Add a call of a built-in tool or its output; any other item is only its API's."""
        if (summary := read_summary(item)) is not None:
            self.say(summary)
            return
        source = Origin(ORIGIN, where, item)
        arguments = read_call(item)
        result = None if item.get("call_id") in self._hosted else self._result(item, where)
        if arguments is not None:
            id = str(item.get("call_id") or item.get("id") or "")
            self._called[str(item.get("id"))] = id
            beside = {name: value for name, value in item.items() if name != "call_id"}
            call = Call(id, BY_CALL[kind].type, arguments, opaque=seal_item(beside))
            self._answer(sourced(call, source))
        elif result is not None:
            self._give(sourced(result, source))
        else:
            if kind in BY_CALL:
                self._hosted.add(item.get("call_id"))
            part = _own_picture(item) or Foreign(ORIGIN, kind, item, Origin(ORIGIN, where))
            self._give(part) if kind.endswith(_USERS) else self._answer(part)

    def _result(self, item: JsonObject, where: str) -> Result | None:
        told = read_output(item)
        if told is None:
            return None
        text, is_error = told
        id, own = str(item.get("call_id") or ""), str(item.get("id") or "")
        beside = {name: value for name, value in item.items() if name != "call_id"}
        if not id:  # a local shell's output may have the id of the item that called it
            id = self._called.get(own, own)
            beside |= {} if is_own_id(own) else {"call_id": None}
        found = self._find(item, where)
        return Result(id, (Text(text, opaque=seal_item(beside)), *found), is_error=is_error)

    def _find(self, item: JsonObject, where: str) -> list[Reference]:
        """Return references to the tools that a search found, and keep the tools."""
        tools = item.get("tools")
        names: list[Reference] = []
        for i, tool in enumerate(tools if isinstance(tools, list) else ()):
            if not _names_of(tool):
                continue
            self.found.append((f"{where}.tools.{i}", msgspec.Raw(dump_bytes(tool))))
            names += [Reference(name) for name in _names_of(tool)]
        return names

    def _answer(self, part: Part) -> None:
        """Add what the model did to its turn."""
        if not self._turns or self._turns[-1][0] != "assistant":
            self._turns.append(("assistant", []))
        self._turns[-1][1].append(part)

    def _give(self, part: Result | Foreign | Image) -> None:
        """Add what a tool gave to the turn of outputs."""
        if not self._gave():
            self._turns.append(("user", []))
        self._turns[-1][1].append(part)

    def _gave(self) -> bool:
        """Whether the last turn holds outputs and nothing else yet."""
        if not self._turns or self._turns[-1][0] != "user":
            return False
        return all(isinstance(part, Result) or _is_item(part) for part in self._turns[-1][1])

    def _add_message(self, item: shapes.MessageItem, raw: msgspec.Raw, where: str) -> None:
        fields = _beside(raw, item, where)
        if not item.role and not item.type and "id" in fields:
            self._answer(Foreign(ORIGIN, "item_reference", fields, Origin(ORIGIN, where)))
            return
        if item.role not in _ROLES:
            known = ", ".join(_ROLES)
            text = f"there is no role {item.role!r}; there are {known}" if item.role else _REQUIRED
            raise MalformedRequest(text, where=f"{where}.role")
        if item.role == "system":
            fields["role"] = "system"
        parts = _marked(_decode_content(item.content, where), fields)
        names = tuple(name for name in fields if name not in {*_HARMLESS, "role"})
        if parts and names:  # the first part says what is lost of the message elsewhere
            parts[0] = _within(parts[0], tuple(f"{where}.{name}" for name in names))
        self._speak(_ROLES[item.role], parts)

    def _speak(self, role: Role, parts: list[Part]) -> None:
        texts = [part for part in parts if isinstance(part, Text)]
        if role == "system" and not self._turns and len(texts) == len(parts):
            self.system += texts
        elif role == "assistant":
            for part in parts:
                self._answer(part)
        elif role == "user" and self._gave():
            self._turns[-1][1].extend(parts)
        else:
            self._turns.append((role, parts))


_REQUIRED = "field required"


def decode_item(item: JsonObject, where: str) -> tuple[Part, ...]:
    """Return the parts of one item, as it would stand in an input at `where`."""
    conversation = TurnDecoder()
    conversation.add(msgspec.Raw(dump_bytes(item)), where)
    return tuple(part for turn in conversation.turns for part in turn.content)


def _own_picture(item: JsonObject) -> Image | None:
    """Return a picture that another API's model made: nobody here knows its id."""
    id, data = str(item.get("id")), item.get("result")
    if item.get("type") != "image_generation_call" or not is_own_id(id) or not data:
        return None
    format = item.get("output_format") or "png"
    return Image(data=str(data), media_type=f"image/{format}")


def _names_of(tool: Json) -> list[str]:
    """Return the name of a tool, or of those in a namespace."""
    if not isinstance(tool, dict) or not isinstance(name := tool.get("name"), str):
        return []
    inside = tool.get("tools")
    if not isinstance(inside, list):
        return [name]
    return [full_name(inner, name) for one in inside for inner in _names_of(one)]


def _is_item(part: Part) -> bool:
    """Whether a foreign part is an item of its own."""
    return isinstance(part, Foreign) and not part.kind.startswith(CONTENT)


def _source(item: shapes.AnyItem, raw: msgspec.Raw, where: str) -> Origin:
    unknown = wire.unknown_names(raw, type(item), where)
    return Origin(ORIGIN, where, raw, tuple(name for name in unknown if name not in _HARMLESS))


_HARMLESS = frozenset({"id", "status"})
"""What an item says of itself that no model reads."""


def _decode_call(item: shapes.FunctionCall | shapes.CustomCall, fields: JsonObject) -> Call:
    name = full_name(item.name, item.namespace)
    if isinstance(item, shapes.CustomCall):
        opaque = _seal(fields | {"type": item.type}, item.namespace)
        return Call(item.call_id, name, {"input": item.input}, opaque=opaque)
    opaque = _seal(fields, item.namespace)
    arguments = maybe_object(item.arguments) if item.arguments.strip() else {}
    if arguments is None:
        return Call(item.call_id, name, raw=item.arguments, opaque=opaque)
    return Call(item.call_id, name, arguments, opaque=opaque)


def _beside(raw: msgspec.Raw, item: msgspec.Struct, where: str) -> JsonObject:
    fields = wire.leftovers(raw, type(item), where)
    return {name: value for name, value in fields.items() if value is not None}


def _seal(fields: JsonObject, namespace: str | None) -> tuple[Opaque, ...]:
    return seal_item(fields | {"namespace": namespace} if namespace else fields)


def _marked(parts: list[Part], fields: JsonObject) -> list[Part]:
    """Return the parts of a message; its first text keeps what the message says beside them."""
    for i, part in enumerate(parts):
        if isinstance(part, Text):
            marked = msgspec.structs.replace(part, opaque=seal_item(fields))
            parts[i] = sourced(marked, part.source) if part.source else marked
            break
    return parts


def _within(part: Part, around: tuple[str, ...]) -> Part:
    if part.source is None:
        return part
    return msgspec.structs.replace(part, source=msgspec.structs.replace(part.source, around=around))


def _decode_thought(item: shapes.Reasoning, fields: JsonObject) -> Thinking:
    summary = [part.text for part in item.summary or ()]
    content = [part.text for part in item.content or ()]
    seals = (Opaque(ORIGIN, "encrypted", item.encrypted_content),) if item.encrypted_content else ()
    return Thinking("\n\n".join(summary or content), seals + seal_thought(fields, summary, content))


def seal_thought(fields: JsonObject, summary: list[str], content: list[str]) -> tuple[Opaque, ...]:
    """Return what a thought says beside its text, with its parts where they are not one summary."""
    if len(summary) > 1 or (summary and content):
        fields = fields | {"summary": [{"type": "summary_text", "text": text} for text in summary]}
    if content and fields.get("id") is not None:
        fields = fields | {
            "content": [{"type": "reasoning_text", "text": text} for text in content]
        }
    return seal_item(fields)


def _decode_output(item: shapes.Output, raw: msgspec.Raw, where: str) -> Result:
    if isinstance(item.output, str):
        parts: list[Part] = [Text(item.output, source=Origin(ORIGIN, f"{where}.output"))]
    else:
        parts = _decode_content(item.output, where, "output")
    parts, is_error = _unmark_error(parts)
    parts = _marked(parts, _beside(raw, item, where))
    if parts and isinstance(parts[0], Text) and not parts[0].text and not parts[0].opaque:
        parts = parts[1:]
    return Result(item.call_id, tuple(filter(_may_be_given, parts)), is_error=is_error)


def _may_be_given(part: Part) -> TypeGuard[ResultPart]:
    return not isinstance(part, Thinking | Call | Result)


def _unmark_error(parts: list[Part]) -> tuple[list[Part], bool]:
    if not parts or not isinstance(parts[0], Text):
        return parts, False
    first = parts[0]
    text = first.text.removeprefix(ERROR_MARK)
    if text == first.text:
        return parts, False
    return [msgspec.structs.replace(first, text=text), *parts[1:]], True


# ── content ──────────────────────────────────────────────────────────────────


def _decode_content(
    content: str | list[msgspec.Raw] | None, where: str, name: str = "content"
) -> list[Part]:
    if isinstance(content, str):
        said = Origin(ORIGIN, f"{where}.{name}")
        return [Text(content, source=said)] if content else []
    parts = enumerate(content or ())
    return [_decode_part(raw, f"{where}.{name}.{i}") for i, raw in parts]


def _decode_part(raw: msgspec.Raw, where: str) -> ResultPart:
    part, unknown = PARTS.decode_named(raw, where)
    if isinstance(part, wire.Unknown):
        if not part.type:
            raise MalformedRequest(_REQUIRED, where=f"{where}.type")
        return Foreign(ORIGIN, CONTENT + part.type, part.raw, Origin(ORIGIN, where))
    return sourced(_decode_known(part, where), Origin(ORIGIN, where, raw, unknown))


def _decode_known(part: shapes.AnyPart, where: str) -> ResultPart:
    match part:
        case shapes.TextPart(text, annotations, cache):
            return Text(text, citations=tuple(annotations or ()), cache=read_cache(cache))
        case shapes.RefusalPart(text):
            return Text(text)
        case shapes.ImagePart():
            return _decode_image(part, where)
        case shapes.FilePart():
            return _decode_file(part, where)
        case shapes.AudioPart(audio):
            return Audio(audio.data, AUDIO_TYPES.get(audio.format, f"audio/{audio.format}"))


def _decode_image(part: shapes.ImagePart, where: str) -> Image:
    given = part.image_url
    url = given.url if isinstance(given, shapes.ImageUrl) else given or ""
    if not url and not part.file_id:
        raise MalformedRequest("one of image_url and file_id is required", where=where)
    media_type, data = split_data_url(url)
    return Image(
        data=data,
        media_type=media_type,
        url="" if data else url,
        file_id=part.file_id or "",
        detail="" if part.detail == "auto" else part.detail or "",
        cache=read_cache(part.prompt_cache_breakpoint),
    )


def _decode_file(part: shapes.FilePart, where: str) -> Document:
    if not (part.file_data or part.file_url or part.file_id):
        text = "one of file_data, file_url and file_id is required"
        raise MalformedRequest(text, where=where)
    media_type, data = split_data_url(part.file_data or "")
    return Document(
        data=data or part.file_data or "",
        media_type=media_type,
        url=part.file_url or "",
        file_id=part.file_id or "",
        title="" if part.filename == shapes.FILENAME else part.filename or "",
        cache=read_cache(part.prompt_cache_breakpoint),
    )
