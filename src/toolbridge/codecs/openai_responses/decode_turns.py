"""Input items of the Responses API to turns.

OpenAI Responses, input items: messages, reasoning, calls and outputs are items of their own.
Consecutive items of the model become one assistant turn. The outputs after it become one user turn,
together with the user message that follows. Fields beside the content (the id, `phase`) are kept
as tokens, which only this API gets back.
"""

from typing import TypeGuard

import msgspec

from toolbridge.codecs.openai_responses import shapes
from toolbridge.codecs.openai_responses.builtins import (
    BY_CALL,
    decode_call_arguments,
    decode_output_text,
)
from toolbridge.codecs.openai_responses.compaction import read_summary
from toolbridge.codecs.openai_responses.content import decode_content
from toolbridge.codecs.openai_responses.decode_hosted import (
    decode_hosted,
    file_search_text,
    is_hosted,
)
from toolbridge.codecs.openai_responses.item_fields import (
    full_name,
    is_own_id,
    seal_item,
)
from toolbridge.codecs.openai_responses.shapes import CONTENT, ERROR_MARK, ITEMS, ORIGIN
from toolbridge.codecs.openai_responses.thinking import seal_thought
from toolbridge.core.errors import MalformedRequest
from toolbridge.core.json import Json, JsonObject, dump_bytes, maybe_object
from toolbridge.core.messages import (
    Call,
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
from toolbridge.core.server_tools import McpApproval, ServerCall, ServerResult
from toolbridge.core.source import sourced
from toolbridge.wire import shapes as wire

_ROLES: dict[str, Role] = {
    "user": "user",
    "assistant": "assistant",
    "system": "system",
    "developer": "system",
}
_USER_ITEMS = (
    "_output",
    "_response",
    "compaction_trigger",
    "additional_tools",
    "configuration_update",
)
"""The endings of the types of items that the client writes; the model writes all others."""


class TurnDecoder:
    """Collects items: leading system texts in `system`, all others in `turns`."""

    def __init__(self) -> None:
        self.system: list[Text] = []
        """The instructions, and the system messages before the first turn."""
        self.found: list[tuple[str, msgspec.Raw]] = []
        """The tools in the outputs of tool searches, with their paths."""
        self._turns: list[tuple[Role, list[Part]]] = []
        self._call_ids: dict[str, str] = {}
        """By item id the call id of a built-in tool's call."""
        self._hosted: set[Json] = set()
        """The ids of calls that the provider has run."""

    @property
    def turns(self) -> tuple[Turn, ...]:
        return tuple(Turn(role, tuple(parts)) for role, parts in self._turns)

    def add_text(self, text: str) -> None:
        """Add an input that is a string: one user message."""
        part = Text(text, source=Origin(ORIGIN, "input"))
        self._turns.append(("user", [part] if text else []))

    def add(self, raw: msgspec.Raw, where: str) -> None:
        """Add one item of the input."""
        item = ITEMS.decode(raw, where)
        match item:
            case shapes.MessageItem():
                self._add_message(item, raw, where)
            case shapes.FunctionCall() | shapes.CustomCall():
                call = _decode_call(item, _other_fields(raw, item, where))
                self._add_to_assistant(sourced(call, _source(item, raw, where)))
            case shapes.Output():
                result = _decode_output(item, raw, where)
                self._add_to_results(sourced(result, _source(item, raw, where)))
            case shapes.Reasoning():
                thought = _decode_thought(item, _other_fields(raw, item, where))
                self._add_to_assistant(sourced(thought, _source(item, raw, where)))
            case wire.Unknown(kind, fields):
                self._add_typed(kind, fields, where)

    def _add_typed(self, kind: str, item: JsonObject, where: str) -> None:
        """Add the call or the output of a built-in tool; any other item stays as it is."""
        # A compaction item of the gateway is readable; one of OpenAI's goes back only to OpenAI.
        if (summary := read_summary(item)) is not None:
            self.add_text(summary)
            return
        if is_hosted(item):
            self._add_hosted(item, where)
            return
        source = Origin(ORIGIN, where, item)
        arguments = decode_call_arguments(item)
        result = None if item.get("call_id") in self._hosted else self._result(item, where)
        if arguments is not None:
            id = str(item.get("call_id") or item.get("id") or "")
            self._call_ids[str(item.get("id"))] = id
            beside = {name: value for name, value in item.items() if name != "call_id"}
            call = Call(id, BY_CALL[kind].type, arguments, opaque=seal_item(beside))
            self._add_to_assistant(sourced(call, source))
        elif result is not None:
            self._add_to_results(sourced(result, source))
        else:
            if kind in BY_CALL:
                self._hosted.add(item.get("call_id"))
            text = file_search_text(item) if kind == "file_search_call" else ""
            part = _own_image(item) or Foreign(ORIGIN, kind, item, Origin(ORIGIN, where), text)
            if kind.endswith(_USER_ITEMS):
                self._add_to_results(part)
            else:
                self._add_to_assistant(part)

    def _add_hosted(self, item: JsonObject, where: str) -> None:
        """Add a call and a result of a tool that the server ran: parts of the model's answer."""
        if item.get("type") == "tool_search_output":
            self._find(item, where)
        for part in decode_hosted(item, where):
            if isinstance(part, ServerResult) and isinstance(part.outcome, McpApproval):
                self._add_to_results(part)
            else:
                self._add_to_assistant(part)

    def _result(self, item: JsonObject, where: str) -> Result | None:
        output = decode_output_text(item)
        if output is None:
            return None
        text, is_error = output
        id, own = str(item.get("call_id") or ""), str(item.get("id") or "")
        beside = {name: value for name, value in item.items() if name != "call_id"}
        if not id:  # OpenAI Responses, local shell: `id` may be the id of the call's item
            id = self._call_ids.get(own, own)
            beside |= {} if is_own_id(own) else {"call_id": None}
        found = self._find(item, where)
        return Result(id, (Text(text, opaque=seal_item(beside)), *found), is_error=is_error)

    def _find(self, item: JsonObject, where: str) -> list[Reference]:
        """Return references to the tools that a search found; keep the tools in `found`."""
        tools = item.get("tools")
        names: list[Reference] = []
        for i, tool in enumerate(tools if isinstance(tools, list) else ()):
            if not _names_of(tool):
                continue
            self.found.append((f"{where}.tools.{i}", msgspec.Raw(dump_bytes(tool))))
            names += [Reference(name) for name in _names_of(tool)]
        return names

    def _add_to_assistant(self, part: Part) -> None:
        """Add an item of the model to the current assistant turn, or to a new one."""
        if not self._turns or self._turns[-1][0] != "assistant":
            self._turns.append(("assistant", []))
        self._turns[-1][1].append(part)

    def _add_to_results(self, part: Result | Foreign | Image | ServerResult) -> None:
        """Add an output to the current turn of outputs, or to a new one."""
        if not self._after_results():
            self._turns.append(("user", []))
        self._turns[-1][1].append(part)

    def _after_results(self) -> bool:
        """Return True if the last turn contains only outputs."""
        if not self._turns or self._turns[-1][0] != "user":
            return False
        outputs = (Result, ServerResult)
        return all(isinstance(part, outputs) or _is_item(part) for part in self._turns[-1][1])

    def _add_message(self, item: shapes.MessageItem, raw: msgspec.Raw, where: str) -> None:
        fields = _other_fields(raw, item, where)
        # OpenAI Responses, item references: `type` is optional, so one may be only an id.
        if not item.role and not item.type and "id" in fields:
            self._add_to_assistant(Foreign(ORIGIN, "item_reference", fields, Origin(ORIGIN, where)))
            return
        if item.role not in _ROLES:
            known = ", ".join(_ROLES)
            text = f"there is no role {item.role!r}; known roles: {known}"
            text = text if item.role else "field required"
            raise MalformedRequest(text, where=f"{where}.role")
        # OpenAI Responses: `developer` replaces `system`; both are accepted and kept as they were.
        if item.role == "system":
            fields["role"] = "system"
        parts = _with_fields(decode_content(item.content, where), fields)
        names = tuple(name for name in fields if name not in {*_BOOKKEEPING, "role"})
        if parts and names:  # the first part has the names of fields that other APIs lose
            parts[0] = _with_names(parts[0], tuple(f"{where}.{name}" for name in names))
        self._add_parts(_ROLES[item.role], parts)

    def _add_parts(self, role: Role, parts: list[Part]) -> None:
        texts = [part for part in parts if isinstance(part, Text)]
        if role == "system" and not self._turns and len(texts) == len(parts):
            self.system += texts
        elif role == "assistant":
            for part in parts:
                self._add_to_assistant(part)
        elif role == "user" and self._after_results():
            self._turns[-1][1].extend(parts)
        else:
            self._turns.append((role, parts))


def decode_item(item: JsonObject, where: str) -> tuple[Part, ...]:
    """Return the parts of one item as if it were in an input at `where`."""
    conversation = TurnDecoder()
    conversation.add(msgspec.Raw(dump_bytes(item)), where)
    return tuple(part for turn in conversation.turns for part in turn.content)


def _own_image(item: JsonObject) -> Image | None:
    """Return an image that the gateway wrote as an item; the provider does not know its id."""
    id, data = str(item.get("id")), item.get("result")
    if item.get("type") != "image_generation_call" or not is_own_id(id) or not data:
        return None
    format = item.get("output_format") or "png"
    return Image(data=str(data), media_type=f"image/{format}")


def _names_of(tool: Json) -> list[str]:
    """Return the name of a tool, or the names of all tools in a namespace."""
    if not isinstance(tool, dict) or not isinstance(name := tool.get("name"), str):
        return []
    inside = tool.get("tools")
    if not isinstance(inside, list):
        return [name]
    return [full_name(inner, name) for one in inside for inner in _names_of(one)]


def _is_item(part: Part) -> bool:
    """Return True for a foreign part that is an item, and not content of a message."""
    return isinstance(part, Foreign) and not part.kind.startswith(CONTENT)


def _source(item: shapes.AnyItem, raw: msgspec.Raw, where: str) -> Origin:
    unknown = wire.unknown_names(raw, type(item), where)
    return Origin(ORIGIN, where, raw, tuple(name for name in unknown if name not in _BOOKKEEPING))


_BOOKKEEPING = frozenset({"id", "status"})
"""Fields of an item that no model reads; losing them is not reported."""


def _decode_call(item: shapes.FunctionCall | shapes.CustomCall, fields: JsonObject) -> Call:
    name = full_name(item.name, item.namespace)
    # OpenAI Responses, custom tools: `input` is plain text; other APIs carry it as an object.
    if isinstance(item, shapes.CustomCall):
        opaque = _seal(fields | {"type": item.type}, item.namespace)
        return Call(item.call_id, name, {"input": item.input}, opaque=opaque)
    opaque = _seal(fields, item.namespace)
    arguments = maybe_object(item.arguments) if item.arguments.strip() else {}
    if arguments is None:
        return Call(item.call_id, name, raw=item.arguments, opaque=opaque)
    return Call(item.call_id, name, arguments, opaque=opaque)


def _other_fields(raw: msgspec.Raw, item: msgspec.Struct, where: str) -> JsonObject:
    fields = wire.leftovers(raw, type(item), where)
    return {name: value for name, value in fields.items() if value is not None}


def _seal(fields: JsonObject, namespace: str | None) -> tuple[Opaque, ...]:
    return seal_item(fields | {"namespace": namespace} if namespace else fields)


def _with_fields(parts: list[Part], fields: JsonObject) -> list[Part]:
    """Return the parts of a message; its first text keeps the other fields of the message."""
    for i, part in enumerate(parts):
        if isinstance(part, Text):
            marked = msgspec.structs.replace(part, opaque=seal_item(fields))
            parts[i] = sourced(marked, part.source) if part.source else marked
            break
    return parts


def _with_names(part: Part, around: tuple[str, ...]) -> Part:
    if part.source is None:
        return part
    return msgspec.structs.replace(part, source=msgspec.structs.replace(part.source, around=around))


def _decode_thought(item: shapes.Reasoning, fields: JsonObject) -> Thinking:
    # OpenAI returns a summary; open-weight models (vLLM, llama.cpp) the full text in `content`.
    summary = [part.text for part in item.summary or ()]
    content = [part.text for part in item.content or ()]
    seals = (Opaque(ORIGIN, "encrypted", item.encrypted_content),) if item.encrypted_content else ()
    return Thinking("\n\n".join(summary or content), seals + seal_thought(fields, summary, content))


def _decode_output(item: shapes.Output, raw: msgspec.Raw, where: str) -> Result:
    # OpenAI Responses: `output` is a string or content parts; unlike in chat, images are allowed.
    if isinstance(item.output, str):
        parts: list[Part] = [Text(item.output, source=Origin(ORIGIN, f"{where}.output"))]
    else:
        parts = decode_content(item.output, where, "output")
    parts, is_error = _unmark_error(parts)
    parts = _with_fields(parts, _other_fields(raw, item, where))
    if parts and isinstance(parts[0], Text) and not parts[0].text and not parts[0].opaque:
        parts = parts[1:]
    return Result(item.call_id, tuple(filter(_fits_result, parts)), is_error=is_error)


def _fits_result(part: Part) -> TypeGuard[ResultPart]:
    return not isinstance(part, Thinking | Call | Result | ServerCall | ServerResult)


def _unmark_error(parts: list[Part]) -> tuple[list[Part], bool]:
    if not parts or not isinstance(parts[0], Text):
        return parts, False
    first = parts[0]
    text = first.text.removeprefix(ERROR_MARK)
    if text == first.text:
        return parts, False
    return [msgspec.structs.replace(first, text=text), *parts[1:]], True
