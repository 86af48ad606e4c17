"""A client of Chat Completions: deltas that are added up, calls by their index, `[DONE]` last."""

from toolbridge.conformance.client_requests import (
    CasePart,
    CaseRequest,
    CaseTool,
    CaseTurn,
    EncodedRequest,
)
from toolbridge.conformance.clients import CaseClient
from toolbridge.conformance.json_path import items, members, number, pick, text
from toolbridge.conformance.observed import (
    Observed,
    ObservedCall,
    parse,
    require,
)
from toolbridge.conformance.server_tool_answers import read_chat_annotation
from toolbridge.conformance.server_tool_requests import chat_fields
from toolbridge.conformance.sse import ObservedEvent, split_sse
from toolbridge.core.json import Json, JsonObject, dumps

_CHUNK = ("id", "object", "created", "model", "choices")
_STOPS = {
    "end": frozenset({"stop"}),
    "length": frozenset({"length"}),
    "tool_use": frozenset({"tool_calls"}),
    "stop_sequence": frozenset({"stop"}),
    "refusal": frozenset({"content_filter"}),
}


# ── asking ───────────────────────────────────────────────────────────────────


def ask(wanted: CaseRequest, model: str, stream: bool) -> EncodedRequest:  # noqa: FBT001  as every client's
    messages: list[Json] = []
    if wanted.system:
        messages.append({"role": "system", "content": wanted.system})
    for turn in wanted.turns:
        messages += _messages(turn)
    body: JsonObject = {
        "model": model,
        "messages": messages,
        "max_completion_tokens": wanted.max_tokens,
        "stream": stream,
    }
    if stream:
        body["stream_options"] = {"include_usage": True}
    if wanted.tools:
        body["tools"] = [{"type": "function", "function": _tool(tool)} for tool in wanted.tools]
    body |= chat_fields(wanted)
    if wanted.choice and wanted.tools:
        body["tool_choice"] = _choice(wanted.choice)
    if wanted.stop:
        body["stop"] = [*wanted.stop]
    if wanted.thinking:
        body["reasoning_effort"] = "medium"
    return EncodedRequest("/v1/chat/completions", body)


def authorize(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}


def _messages(turn: CaseTurn) -> list[JsonObject]:
    if turn.role == "assistant":
        return [_assistant(turn)]
    found: list[JsonObject] = [
        {"role": "tool", "tool_call_id": part.id, "content": part.result}
        for part in turn.parts
        if part.result is not None
    ]
    rest: list[Json] = [_content(part) for part in turn.parts if part.result is None]
    return [*found, {"role": turn.role, "content": rest}] if rest else found


def _assistant(turn: CaseTurn) -> JsonObject:
    message: JsonObject = {"role": "assistant"}
    message["content"] = "".join(part.text or "" for part in turn.parts) or None
    if thought := "".join(part.thinking for part in turn.parts):
        message["reasoning_content"] = thought
    calls: list[Json] = [
        {
            "id": part.id,
            "type": "function",
            "function": {"name": part.call, "arguments": dumps(part.arguments)},
        }
        for part in turn.parts
        if part.call
    ]
    return message | {"tool_calls": calls} if calls else message


def _content(part: CasePart) -> JsonObject:
    if part.image:
        return {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{part.image}"}}
    return {"type": "text", "text": part.text or ""}


def _tool(tool: CaseTool) -> JsonObject:
    return {"name": tool.name, "description": tool.description, "parameters": tool.schema}


def _choice(choice: str) -> Json:
    if choice in {"auto", "none", "required"}:
        return choice
    return {"type": "function", "function": {"name": choice}}


# ── reading ──────────────────────────────────────────────────────────────────


class _Reader:
    def __init__(self) -> None:
        self.seen = Observed()
        self._envelope: Json = None
        self._role = False
        self._finished = False
        self._done = False

    def read(self, event: ObservedEvent) -> None:
        if event.name:
            self.seen.fault(f"chunks have no event name, this one has {event.name!r}")
        if self._done or self.seen.terminal == "error":
            self.seen.fault(f"an event comes after the end: {event.data[:60]}")
        elif event.data == "[DONE]":
            self._end()
        elif (chunk := parse(event.data, self.seen)) is not None:
            self._chunk(chunk)

    def _end(self) -> None:
        self._done = True
        if not self._finished:
            self.seen.fault("[DONE] comes without a finish_reason")
        self.seen.terminal = "finished"

    def _chunk(self, chunk: JsonObject) -> None:
        if "error" in chunk:
            self.seen.terminal = "error"
            self.seen.error = read_error(chunk)
            if not self.seen.error:
                self.seen.fault("the error chunk has no message")
            return
        require(self.seen, "a chunk", chunk, _CHUNK)
        if not _is_silent(chunk):
            self._check_envelope(chunk)
        if text(chunk, "object") != "chat.completion.chunk":
            self.seen.fault(f"a chunk calls itself {chunk.get('object')!r}")
        self.seen.input = number(chunk, "usage.prompt_tokens") or self.seen.input
        self.seen.output = number(chunk, "usage.completion_tokens") or self.seen.output
        for choice in items(chunk, "choices"):
            self._choice(choice)

    def _check_envelope(self, chunk: JsonObject) -> None:
        envelope: Json = [chunk.get(name) for name in ("id", "object", "created", "model")]
        self._envelope = self._envelope or envelope
        if envelope != self._envelope:
            self.seen.fault(f"the envelope changes from {self._envelope} to {envelope}")

    def _choice(self, choice: Json) -> None:
        delta = members(choice, "delta")
        self._role = self._role or text(delta, "role") == "assistant"
        said = text(delta, "content")
        thought = text(delta, "reasoning_content") or text(delta, "reasoning")
        calls = items(delta, "tool_calls")
        if (said or thought or calls) and not self._role:
            self.seen.fault("content comes before the role")
        if not (said or thought or calls or pick(choice, "finish_reason")):
            self.seen.keep_alives += not (self.seen.text or self.seen.thinking or self.seen.calls)
        if self._finished and (said or thought or calls or pick(choice, "finish_reason")):
            self.seen.fault("content comes after the finish_reason")
        self.seen.text += said
        self.seen.thinking += thought
        for annotation in items(delta, "annotations"):
            read_chat_annotation(annotation, self.seen)
        for call in calls:
            self._call(call)
        if reason := text(choice, "finish_reason"):
            self._finish(reason)

    def _call(self, delta: Json) -> None:
        index = pick(delta, "index")
        if not isinstance(index, int) or not 0 <= index <= len(self.seen.calls):
            self.seen.fault(f"a call has the index {index}, after {len(self.seen.calls)} calls")
            return
        id, name = text(delta, "id"), text(delta, "function.name")
        if index == len(self.seen.calls):
            if not id or not name or text(delta, "type") != "function":
                self.seen.fault("the first piece of a call lacks its id, type or name")
            self.seen.calls.append(ObservedCall(name, id))
        elif (id and id != self.seen.calls[index].id) or name:
            self.seen.fault(f"call {index} is named again, as {id!r} {name!r}")
        self.seen.calls[index].written += text(delta, "function.arguments")

    def _finish(self, reason: str) -> None:
        self._finished = True
        self.seen.stop = reason
        for call in self.seen.calls:
            call.closed = True
        _check_stop(self.seen)


def _is_silent(chunk: JsonObject) -> bool:
    """Whether a chunk is only a keep-alive, which a gateway may send before the id is known."""
    choices = items(chunk, "choices")
    if pick(chunk, "usage") or not choices:
        return False
    return not any(pick(choice, "finish_reason") or pick(choice, "delta") for choice in choices)


def read_stream(body: bytes) -> Observed:
    reader = _Reader()
    for event in split_sse(body).events:
        reader.read(event)
    reader.seen.check_calls(cut=reader.seen.stop in _STOPS["length"])
    return reader.seen


def read_whole(body: JsonObject) -> Observed:
    seen = Observed(terminal="finished")
    require(seen, "the completion", body, (*_CHUNK, "usage"))
    message = members(body, "choices.0.message")
    seen.text = text(message, "content")
    seen.thinking = text(message, "reasoning_content") or text(message, "reasoning")
    for annotation in items(message, "annotations"):
        read_chat_annotation(annotation, seen)
    for call in items(message, "tool_calls"):
        name, arguments = text(call, "function.name"), text(call, "function.arguments")
        seen.calls.append(ObservedCall(name, text(call, "id"), arguments, closed=True))
    seen.stop = text(body, "choices.0.finish_reason")
    seen.input = number(body, "usage.prompt_tokens")
    seen.output = number(body, "usage.completion_tokens")
    _check_stop(seen)
    seen.check_calls(cut=seen.stop in _STOPS["length"])
    return seen


def read_error(body: JsonObject) -> str:
    said = text(body, "error.message")
    return f"{pick(body, 'error.type')} {pick(body, 'error.code')}: {said}" if said else ""


def _check_stop(seen: Observed) -> None:
    if not any(seen.stop in words for words in _STOPS.values()):
        seen.fault(f"no finish_reason is called {seen.stop!r}")
    if (seen.stop == "tool_calls") != bool(seen.calls) and seen.stop in {"tool_calls", "stop"}:
        seen.fault(f"the finish_reason is {seen.stop} with {len(seen.calls)} calls")


CLIENT = CaseClient(ask, read_stream, read_whole, read_error, _STOPS, authorize)
