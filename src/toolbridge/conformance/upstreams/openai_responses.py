"""A server of OpenAI's Responses."""

import re

from toolbridge.conformance.cases import WireFraming
from toolbridge.conformance.json_path import items, text
from toolbridge.conformance.upstreams import UpstreamApi, sse
from toolbridge.core.json import JsonObject, maybe_object

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")


def frame(line: str, framing: WireFraming) -> bytes:
    return sse.write(line, framing, event=text(maybe_object(line), "type"))


def tools(body: JsonObject) -> list[str]:
    return [text(tool, "name") for tool in items(body, "tools")]


def refuses(body: JsonObject) -> list[str]:
    """Return why OpenAI would reject a request: calls and outputs are paired by call id."""
    found = [f"there is no {name}" for name in ("model", "input") if name not in body]
    given = items(body, "input")
    calls = [text(item, "call_id") for item in given if text(item, "type") == "function_call"]
    outputs = [
        text(item, "call_id") for item in given if text(item, "type") == "function_call_output"
    ]
    if sorted(calls) != sorted(outputs):
        found.append(f"calls {calls} are answered by outputs for {outputs}")
    found += [f"the call id {id!r} is empty or too long" for id in calls if not 0 < len(id) <= 64]
    for item in given:
        if text(item, "role") == "assistant":
            found += [
                f"an assistant's message holds {text(part, 'type')}"
                for part in items(item, "content")
                if text(part, "type") not in {"output_text", "refusal"}
            ]
    for tool in items(body, "tools"):
        if text(tool, "type") == "function" and not _NAME.fullmatch(text(tool, "name")):
            found.append(f"the tool name {text(tool, 'name')!r} is not allowed")
    return found


UPSTREAM = UpstreamApi(
    path=re.compile(r"/responses$"),
    base="/v1",
    content_type="text/event-stream",
    frame=frame,
    tools=tools,
    refuses=refuses,
)
