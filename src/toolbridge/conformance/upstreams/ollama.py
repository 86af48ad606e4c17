"""A server of Ollama's chat."""

import re

from toolbridge.conformance.cases import WireFraming
from toolbridge.conformance.json_path import items, members, pick, text
from toolbridge.conformance.upstreams import UpstreamApi
from toolbridge.core.json import Json, JsonObject


def frame(line: str, framing: WireFraming) -> bytes:
    return (line + (framing.eol or "\n")).encode()


def tools(body: JsonObject) -> list[str]:
    return [text(tool, "function.name") for tool in items(body, "tools")]


def refuses(body: JsonObject) -> list[str]:
    """Return why Ollama would reject or misread a request: content is text, arguments are objects."""
    found = [f"there is no {name}" for name in ("model", "messages") if name not in body]
    waiting = 0
    for message in items(body, "messages"):
        found += _message(message)
        if text(message, "role") == "tool":
            waiting -= 1
            if waiting < 0:
                found.append("a tool answers, but nobody called")
                waiting = 0
            continue
        if waiting:
            found.append(f"{waiting} calls are not answered")
        waiting = len(items(message, "tool_calls"))
    return [*found, f"{waiting} calls are not answered"] if waiting else found


def _message(message: Json) -> list[str]:
    found = []
    if "content" in members(message) and not isinstance(pick(message, "content"), str):
        found.append("a content is no text")
    if any(text(message, "images.0").startswith(start) for start in ("data:", "http")):
        found.append("an image is no plain base64")
    if any(not isinstance(pick(c, "function.arguments"), dict) for c in _calls(message)):
        found.append("the arguments of a call are no object")
    return found


def _calls(message: Json) -> list[Json]:
    return items(message, "tool_calls")


UPSTREAM = UpstreamApi(
    path=re.compile(r"/api/chat$"),
    base="",
    content_type="application/x-ndjson",
    frame=frame,
    tools=tools,
    refuses=refuses,
)
