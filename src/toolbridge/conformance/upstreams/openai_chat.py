"""A server of Chat Completions."""

import re

from toolbridge.conformance.cases import WireFraming
from toolbridge.conformance.json_path import items, members, pick, text
from toolbridge.conformance.upstreams import UpstreamApi, sse
from toolbridge.core.json import Json, JsonObject, maybe_object

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_ROLES = {"system", "developer", "user", "assistant", "tool"}


def frame(line: str, framing: WireFraming) -> bytes:
    return sse.write(line, framing)


def tools(body: JsonObject) -> list[str]:
    return [text(tool, "function.name") for tool in items(body, "tools")]


def refuses(body: JsonObject) -> list[str]:
    """Return why OpenAI would reject a request: every call needs its result in the next messages."""
    found = [f"there is no {name}" for name in ("model", "messages") if name not in body]
    waiting: list[str] = []
    for message in items(body, "messages"):
        role = text(message, "role")
        if role not in _ROLES:
            found.append(f"no role is called {role!r}")
        if role == "tool":
            found += _answer(message, waiting)
            continue
        if waiting:
            found.append(f"the {role} speaks before the calls {waiting} are answered")
        waiting = [text(call, "id") for call in items(message, "tool_calls")]
        found += _calls(message)
    if waiting:
        found.append(f"the calls {waiting} are never answered")
    for tool in items(body, "tools"):
        if not _NAME.fullmatch(text(tool, "function.name")):
            found.append(f"the tool name {text(tool, 'function.name')!r} is not allowed")
    return found


def _answer(message: Json, waiting: list[str]) -> list[str]:
    id = text(message, "tool_call_id")
    found = []
    if any(text(part, "type") != "text" for part in items(message, "content")):
        found.append("a tool message holds something else than text")
    if pick(message, "content") is None:
        found.append("a tool message has no content")
    if id not in waiting:
        return [*found, f"a tool message answers {id!r}, which was not called"]
    waiting.remove(id)
    return found


def _calls(message: Json) -> list[str]:
    calls = items(message, "tool_calls")
    found = []
    for call in calls:
        if not 0 < len(text(call, "id")) <= 64:
            found.append(f"the call id {text(call, 'id')!r} is empty or too long")
        if maybe_object(text(call, "function.arguments")) is None:
            found.append("the arguments of a call are no JSON object")
    if not calls and members(message).get("content") in (None, []):
        found.append(f"a message of the {text(message, 'role')} has no content")
    return found


UPSTREAM = UpstreamApi(
    path=re.compile(r"/chat/completions$"),
    base="/v1",
    content_type="text/event-stream",
    frame=frame,
    tools=tools,
    refuses=refuses,
)
