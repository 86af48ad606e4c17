"""Converts a pi context to a request.

Members may be named as in TypeScript (`toolCallId`) or as in Python (`tool_call_id`), so a context
saved by one can be read by the other.
"""

import re
from collections.abc import Mapping, Sequence
from typing import TypeAlias, TypeVar

import msgspec

from toolbridge.core.errors import MalformedRequest
from toolbridge.core.json import Json, JsonObject, dump_bytes
from toolbridge.core.messages import (
    Call,
    Image,
    Message,
    Opaque,
    Part,
    Request,
    Result,
    ResultPart,
    Text,
    Thinking,
    Tool,
    Turn,
)
from toolbridge.sdk.streams.options import AnyTool

Context: TypeAlias = str | Request | Mapping[str, object]
_T = TypeVar("_T")

_ORIGINS = {"anthropic-messages": "anthropic", "google-generative-ai": "gemini"}
"""pi's API names whose thinking signatures can be sent back, and our names of those APIs."""


class _Content(msgspec.Struct):
    type: str
    text: str = ""
    thinking: str = ""
    thinking_signature: str = ""
    thought_signature: str = ""
    data: str = ""
    mime_type: str = ""
    id: str = ""
    name: str = ""
    arguments: JsonObject = {}


class _Message(msgspec.Struct):
    role: str
    content: str | list[_Content] = ""
    api: str = ""
    tool_call_id: str = ""
    tool_name: str = ""
    is_error: bool = False


class _Tool(msgspec.Struct):
    name: str
    description: str = ""
    parameters: JsonObject = {}


def request_of(context: Context) -> tuple[Request, tuple[AnyTool, ...]]:
    """Return the request of a context, without a model, and its tools."""
    match context:
        case str():
            return Request("", (Turn("user", (Text(context),)),)), ()
        case Request():
            return context, ()
        case Mapping():
            return _of_mapping(context)
    raise TypeError("a context must be a string, a Request, or a mapping with `messages`")


def _of_mapping(context: Mapping[str, object]) -> tuple[Request, tuple[AnyTool, ...]]:
    given = {_snake(name): value for name, value in context.items()}
    if unknown := given.keys() - {"system_prompt", "messages", "tools"}:
        raise MalformedRequest(f"a context has no {min(unknown)!r}", where="context")
    system = given.get("system_prompt") or ""
    if not isinstance(system, str):
        raise MalformedRequest("must be a string", where="context.system_prompt")
    turns: list[Turn] = []
    for at, message in enumerate(_listed(given, "messages")):
        _add(turns, _turn(message, f"context.messages.{at}"))
    tools = [_tool(tool, f"context.tools.{at}") for at, tool in enumerate(_listed(given, "tools"))]
    return Request("", tuple(turns), (Text(system),) if system else ()), tuple(tools)


def _listed(given: Mapping[str, object], name: str) -> Sequence[object]:
    value = given.get(name) or ()
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise MalformedRequest("must be a list", where=f"context.{name}")
    return value


def _add(turns: list[Turn], turn: Turn) -> None:
    """Add a turn; consecutive results are merged, because they answer the calls of one turn."""
    if turns and turn.role == "user" == turns[-1].role and _all_results(turn, turns[-1]):
        turns[-1] = Turn("user", turns[-1].content + turn.content)
    else:
        turns.append(turn)


def _all_results(*turns: Turn) -> bool:
    return all(isinstance(part, Result) for turn in turns for part in turn.content)


def _turn(message: object, where: str) -> Turn:
    match message:
        case Turn():
            return message
        case Message():
            return Turn("assistant", message.content)
        case _:
            read = _convert(message, _Message, where)
    content = read.content
    parts = [_Content("text", text=content)] if isinstance(content, str) else content
    match read.role:
        case "user":
            return Turn("user", tuple(_shown(part, where) for part in parts))
        case "assistant":
            origin = _ORIGINS.get(read.api, "")
            return Turn("assistant", tuple(_part(part, origin, where) for part in parts))
        case "toolResult":
            shown = tuple(_shown(part, where) for part in parts)
            return Turn("user", (_result(read, shown),))
        case _:
            raise MalformedRequest(f"there is no role {read.role!r}", where=where)


def _result(read: _Message, shown: tuple[ResultPart, ...]) -> Result:
    return Result(read.tool_call_id, shown, is_error=read.is_error, name=read.tool_name)


def _shown(part: _Content, where: str) -> Text | Image:
    match part.type:
        case "text":
            return Text(part.text)
        case "image":
            return Image(data=part.data, media_type=part.mime_type)
        case _:
            raise MalformedRequest(f"cannot hold a part of type {part.type!r}", where=where)


def _part(part: _Content, origin: str, where: str) -> Part:
    match part.type:
        case "text":
            return Text(part.text)
        case "thinking":
            sealed = Opaque(origin, "signature", part.thinking_signature)
            keeps = origin and part.thinking_signature
            return Thinking(part.thinking, (sealed,) if keeps else ())
        case "toolCall":
            sealed = Opaque(origin, "thought_signature", part.thought_signature)
            keeps = origin and part.thought_signature
            return Call(part.id, part.name, part.arguments, opaque=(sealed,) if keeps else ())
        case _:
            raise MalformedRequest(f"cannot hold a part of type {part.type!r}", where=where)


def _tool(tool: object, where: str) -> AnyTool:
    if isinstance(tool, Tool) or callable(tool):
        return tool
    read = _convert(tool, _Tool, where)
    return Tool(read.name, read.description, read.parameters)


def _convert(value: object, shape: type[_T], where: str) -> _T:
    try:
        plain: Json = msgspec.json.decode(dump_bytes(value))
        return msgspec.convert(_snaked(plain), shape)
    except (msgspec.MsgspecError, TypeError) as error:
        raise MalformedRequest(str(error), where=where) from None


_KEPT = frozenset({"arguments", "parameters"})
"""Members whose keys belong to the caller and are not renamed."""


def _snaked(value: Json) -> Json:
    match value:
        case dict():
            return {
                _snake(name): item if name in _KEPT else _snaked(item)
                for name, item in value.items()
            }
        case list():
            return [_snaked(item) for item in value]
        case _:
            return value


def _snake(name: str) -> str:
    return re.sub(r"[A-Z]", lambda found: "_" + found[0].lower(), name)
