"""A server of Anthropic's Messages."""

import re

from toolbridge.conformance.cases import WireFraming
from toolbridge.conformance.json_path import items, members, pick, text
from toolbridge.conformance.upstreams import UpstreamApi, sse
from toolbridge.core.json import Json, JsonObject, maybe_object

_ID = re.compile(r"[a-zA-Z0-9_-]+")
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")


def frame(line: str, framing: WireFraming) -> bytes:
    return sse.write(line, framing, event=text(maybe_object(line), "type"))


def tools(body: JsonObject) -> list[str]:
    return [text(tool, "name") for tool in items(body, "tools")]


def refuses(body: JsonObject) -> list[str]:
    """Return why Anthropic would reject a request, by the rules in its error messages."""
    found = [
        f"there is no {name}" for name in ("model", "max_tokens", "messages") if name not in body
    ]
    messages = items(body, "messages")
    if messages and text(messages[0], "role") != "user":
        found.append("the first message is not the user's")
    waiting: list[str] = []
    for message in messages:
        found += _content(message) + _answers(message, waiting)
        waiting = _ids(message, "tool_use", "id")
    if waiting:
        found.append(f"tool_use ids without tool_result: {waiting}")
    for tool in items(body, "tools"):
        # A toolset is named by its server, and has no name of its own.
        named = text(tool, "type") != "mcp_toolset"
        if named and not _NAME.fullmatch(text(tool, "name")):
            found.append(f"the tool name {text(tool, 'name')!r} is not allowed")
    return found


def _content(message: Json) -> list[str]:
    content = pick(message, "content")
    if content in ("", []):
        return [f"a message of the {text(message, 'role')} is empty"]
    found = []
    for block in items(message, "content"):
        if text(block, "type") == "text" and not text(block, "text").strip():
            found.append("a text block is empty")
        if text(block, "type") == "thinking" and not text(block, "signature"):
            found.append("a thinking block has no signature")
        found += [
            f"the {name} {text(block, name)!r} is not allowed"
            for name in ("id", "tool_use_id")
            if name in members(block) and not _ID.fullmatch(text(block, name))
        ]
    return found


def _answers(message: Json, waiting: list[str]) -> list[str]:
    answered = _ids(message, "tool_result", "tool_use_id")
    kinds = [text(block, "type") == "tool_result" for block in items(message, "content")]
    found = []
    if sorted(answered) != sorted(waiting):
        found.append(f"calls {waiting} are followed by results for {answered}")
    if kinds != sorted(kinds, reverse=True):
        found.append("a tool_result comes after other content")
    return found


def _ids(message: Json, type: str, name: str) -> list[str]:
    blocks = items(message, "content")
    return [text(block, name) for block in blocks if text(block, "type") == type]


UPSTREAM = UpstreamApi(
    path=re.compile(r"/v1/messages$"),
    base="",
    content_type="text/event-stream",
    frame=frame,
    tools=tools,
    refuses=refuses,
)
