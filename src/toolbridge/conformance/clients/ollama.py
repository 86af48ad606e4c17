"""A client of Ollama's chat: one JSON object per line, calls whole, `done` on the last line."""

from toolbridge.conformance.client_requests import (
    CaseRequest,
    CaseTool,
    CaseTurn,
    EncodedRequest,
    tool_named,
)
from toolbridge.conformance.clients import CaseClient
from toolbridge.conformance.json_path import items, members, number, pick, text
from toolbridge.conformance.observed import Observed, ObservedCall, parse, require
from toolbridge.core.json import Json, JsonObject, dumps

_STOPS = {
    "end": frozenset({"stop"}),
    "length": frozenset({"length"}),
    "tool_use": frozenset({"stop"}),
    "stop_sequence": frozenset({"stop"}),
    "refusal": frozenset({"stop"}),
}


# ── asking ───────────────────────────────────────────────────────────────────


def ask(wanted: CaseRequest, model: str, stream: bool) -> EncodedRequest:  # noqa: FBT001  as every client's
    messages: list[Json] = []
    if wanted.system:
        messages.append({"role": "system", "content": wanted.system})
    for turn in wanted.turns:
        messages += _messages(turn, wanted)
    options: JsonObject = {"num_predict": wanted.max_tokens}
    if wanted.stop:
        options["stop"] = [*wanted.stop]
    body: JsonObject = {
        "model": model,
        "messages": messages,
        "stream": stream,
        "options": options,
    }
    if wanted.tools and wanted.choice != "none":
        body["tools"] = [{"type": "function", "function": _tool(tool)} for tool in wanted.tools]
    if wanted.thinking:
        body["think"] = True
    return EncodedRequest("/api/chat", body)


def authorize(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}


def _messages(turn: CaseTurn, wanted: CaseRequest) -> list[JsonObject]:
    found: list[JsonObject] = []
    for part in turn.parts:
        if part.result is not None:
            name = tool_named(wanted, part.id)
            message: JsonObject = {"role": "tool", "content": part.result, "tool_name": name}
            found.append(message | {"tool_call_id": part.id})
    said: JsonObject = {
        "role": turn.role,
        "content": "\n".join(part.text for part in turn.parts if part.text),
    }
    if thought := "".join(part.thinking for part in turn.parts):
        said["thinking"] = thought
    if images := [part.image for part in turn.parts if part.image]:
        said["images"] = [*images]
    if calls := [part for part in turn.parts if part.call]:
        said["tool_calls"] = [
            {"id": part.id, "function": {"name": part.call, "arguments": part.arguments}}
            for part in calls
        ]
    return found if found and len(said) == 2 and not said["content"] else [*found, said]


def _tool(tool: CaseTool) -> JsonObject:
    return {"name": tool.name, "description": tool.description, "parameters": tool.schema}


# ── reading ──────────────────────────────────────────────────────────────────


class _Reader:
    def __init__(self) -> None:
        self.seen = Observed(order=[])

    def read(self, line: bytes) -> None:
        if not line.strip():
            self.seen.fault("an empty line, which is no JSON")
            return
        chunk = parse(line, self.seen)
        if chunk is None:
            return
        if self.seen.terminal != "none":
            self.seen.fault(f"a line comes after the end: {line[:60]!r}")
        elif "error" in chunk:
            self.seen.terminal = "error"
            self.seen.error = read_error(chunk)
            if not self.seen.error:
                self.seen.fault("the error is no text")
        else:
            self.chunk(chunk)

    def chunk(self, chunk: JsonObject) -> None:
        require(self.seen, "a line", chunk, ("model", "created_at", "message", "done"))
        message = members(chunk, "message")
        if text(message, "role") != "assistant" or not isinstance(message.get("content"), str):
            self.seen.fault("a message lacks its role, or its content is no text")
        if not chunk.get("done"):
            self._count_keep_alive(message)
        self._flow("thinking", text(message, "thinking"))
        self._flow("text", text(message, "content"))
        for call in items(message, "tool_calls"):
            self._call(call)
        if chunk.get("done") is True:
            self._finish(chunk)

    def _count_keep_alive(self, message: JsonObject) -> None:
        seen = self.seen
        if not (seen.text or seen.thinking or seen.calls):
            said = ("content", "thinking", "tool_calls")
            seen.keep_alives += not any(message.get(name) for name in said)

    def _flow(self, kind: str, said: str) -> None:
        if not said:
            return
        if self.seen.order is not None and self.seen.order[-1:] != [kind]:
            self.seen.add(kind)
        if kind == "text":
            self.seen.text += said
        else:
            self.seen.thinking += said

    def _call(self, call: Json) -> None:
        arguments = pick(call, "function.arguments")
        if not isinstance(arguments, dict):
            self.seen.fault(f"the arguments of a call are no object: {arguments!r}")
        self.seen.add("call")
        id = text(call, "id") or f"call {len(self.seen.calls)}"  # many servers give none
        written = dumps(arguments)
        self.seen.calls.append(ObservedCall(text(call, "function.name"), id, written, closed=True))

    def _finish(self, chunk: JsonObject) -> None:
        self.seen.terminal = "finished"
        self.seen.stop = text(chunk, "done_reason")
        self.seen.input = number(chunk, "prompt_eval_count")
        self.seen.output = number(chunk, "eval_count")
        if self.seen.stop not in {"stop", "length"}:
            self.seen.fault(f"no done_reason is called {self.seen.stop!r}")
        if not number(chunk, "eval_duration"):
            self.seen.fault("eval_duration is zero, by which clients divide")


def read_stream(body: bytes) -> Observed:
    reader = _Reader()
    for line in body.split(b"\n")[:-1]:
        reader.read(line)
    reader.seen.check_calls()
    return reader.seen


def read_whole(body: JsonObject) -> Observed:
    reader = _Reader()
    reader.chunk(body)
    reader.seen.check_calls()
    return reader.seen


def read_error(body: JsonObject) -> str:
    return text(body, "error")


CLIENT = CaseClient(ask, read_stream, read_whole, read_error, _STOPS, authorize)
