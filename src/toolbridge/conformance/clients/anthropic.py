"""A client of Anthropic's Messages: blocks one after the other, numbered without gaps."""

from collections.abc import Callable

from toolbridge.conformance.client_requests import (
    CasePart,
    CaseRequest,
    CaseTool,
    CaseTurn,
    EncodedRequest,
)
from toolbridge.conformance.clients import CaseClient
from toolbridge.conformance.json_path import has, items, members, number, pick, text
from toolbridge.conformance.observed import (
    Observed,
    ObservedCall,
    parse,
    require,
)
from toolbridge.conformance.server_tool_answers import (
    SERVER_CALLS,
    read_anthropic_block,
    read_citation,
)
from toolbridge.conformance.server_tool_requests import anthropic_fields, anthropic_search
from toolbridge.conformance.sse import ObservedEvent, split_sse
from toolbridge.core.json import Json, JsonObject, dumps, maybe_object

_MESSAGE = ("id", "type", "role", "content", "model", "stop_reason", "stop_sequence", "usage")
_DELTAS = {
    "text_delta": "text",
    "citations_delta": "text",
    "thinking_delta": "thinking",
    "signature_delta": "thinking",
    "input_json_delta": "tool_use",
}
_INPUTS = ("tool_use", *SERVER_CALLS)
"""The types of blocks whose input comes in deltas."""
_KINDS = {"text": "text", "thinking": "thinking", "redacted_thinking": "thinking"}
_STOPS = {
    "end": frozenset({"end_turn"}),
    "length": frozenset({"max_tokens", "model_context_window_exceeded"}),
    "tool_use": frozenset({"tool_use"}),
    "stop_sequence": frozenset({"stop_sequence"}),
    "refusal": frozenset({"refusal"}),
}


# ── asking ───────────────────────────────────────────────────────────────────


def ask(wanted: CaseRequest, model: str, stream: bool) -> EncodedRequest:  # noqa: FBT001  as every client's
    body: JsonObject = {
        "model": model,
        "max_tokens": wanted.max_tokens,
        "messages": [_message(turn) for turn in wanted.turns],
        "stream": stream,
    }
    if wanted.system:
        body["system"] = wanted.system
    served, beside = anthropic_fields(wanted)
    body |= beside
    if wanted.tools or served:
        body["tools"] = [*served, *(_tool(tool) for tool in wanted.tools)]
    if wanted.choice:
        body["tool_choice"] = _choice(wanted.choice)
    if wanted.stop:
        body["stop_sequences"] = [*wanted.stop]
    if wanted.thinking:
        body["thinking"] = {"type": "enabled", "budget_tokens": 1024}
        body["max_tokens"] = wanted.max_tokens + 1024
    return EncodedRequest("/v1/messages", body, {"anthropic-version": "2023-06-01"})


def authorize(key: str) -> dict[str, str]:
    return {"x-api-key": key}


def _message(turn: CaseTurn) -> JsonObject:
    blocks: list[Json] = []
    for part in turn.parts:
        blocks += anthropic_search(part) if part.search else [_block(part)]
    return {"role": turn.role, "content": blocks}


def _block(part: CasePart) -> JsonObject:
    if part.call:
        return {"type": "tool_use", "id": part.id, "name": part.call, "input": part.arguments}
    if part.result is not None:
        content: list[Json] = [{"type": "text", "text": part.result}] if part.result else []
        content += [_image(part.picture)] if part.picture else []
        block: JsonObject = {"type": "tool_result", "tool_use_id": part.id, "content": content}
        return block | {"is_error": True} if part.error else block
    if part.image:
        return _image(part.image)
    if part.thinking:
        return {"type": "thinking", "thinking": part.thinking, "signature": part.signature}
    return {"type": "text", "text": part.text or ""}


def _image(data: str) -> JsonObject:
    return {
        "type": "image",
        "source": {"type": "base64", "media_type": "image/png", "data": data},
    }


def _tool(tool: CaseTool) -> JsonObject:
    return {"name": tool.name, "description": tool.description, "input_schema": tool.schema}


def _choice(choice: str) -> JsonObject:
    named = {"auto": "auto", "none": "none", "required": "any"}.get(choice)
    return {"type": named} if named else {"type": "tool", "name": choice}


# ── reading ──────────────────────────────────────────────────────────────────


class _Reader:
    def __init__(self) -> None:
        self.seen = Observed(order=[])
        self._started = False
        self._told = False
        """Whether `message_delta` has come."""
        self._next = 0
        self._open = ""
        """The type of the block that is open."""
        self._block: JsonObject = {}
        self._written = ""
        self._steps: dict[str, Callable[[JsonObject], None]] = {
            "message_start": self._start,
            "content_block_start": self._open_block,
            "content_block_delta": self._delta,
            "content_block_stop": self._close_block,
            "message_delta": self._end,
            "message_stop": self._stop,
            "error": self._error,
            "ping": self._ping,
        }

    def read(self, event: ObservedEvent) -> None:
        data = parse(event.data, self.seen)
        if data is None:
            return
        type = text(data, "type")
        if event.name != type:
            self.seen.fault(f"the event is {event.name!r}, its data says {type!r}")
        if self.seen.terminal != "none":
            self.seen.fault(f"{type} comes after the end")
        elif type not in self._steps:
            self.seen.fault(f"no event is called {type!r}")
        elif not self._started and type not in {"message_start", "ping", "error"}:
            self.seen.fault(f"{type} comes before message_start")
        else:
            self._steps[type](data)

    def _ping(self, _: JsonObject) -> None:
        self.seen.keep_alives += not self._next and not self._open

    def _start(self, data: JsonObject) -> None:
        if self._started:
            self.seen.fault("message_start comes twice")
        self._started = True
        message = members(data, "message")
        require(self.seen, "message_start.message", message, _MESSAGE)
        if message.get("content") != [] or message.get("stop_reason") is not None:
            self.seen.fault("message_start.message is not empty")
        self.seen.early_input = _input(members(message, "usage"))

    def _open_block(self, data: JsonObject) -> None:
        if self._open:
            self.seen.fault(f"a block starts while a {self._open} block is open")
        if number(data, "index") != self._next:
            self.seen.fault(f"block {self._next} is numbered {data.get('index')}")
        block = members(data, "content_block")
        self._open = text(block, "type")
        self._block, self._written = block, ""
        self.seen.add(_KINDS.get(self._open, "call" if self._open == "tool_use" else self._open))
        wanted = {"text": ("text",), "thinking": ("thinking", "signature")}
        require(self.seen, f"a {self._open} block", block, wanted.get(self._open, ()))
        self.seen.text += text(block, "text")
        if self._open == "tool_use":
            self.seen.calls.append(ObservedCall(text(block, "name"), text(block, "id")))
            if block.get("input") != {}:
                self.seen.fault("a tool_use block starts with input, which clients do not read")

    def _delta(self, data: JsonObject) -> None:
        type = text(data, "delta.type")
        if not self._open or number(data, "index") != self._next:
            self.seen.fault(f"a {type} belongs to block {data.get('index')}, which is not open")
            return
        wanted = _INPUTS if type == "input_json_delta" else (_DELTAS.get(type),)
        if self._open not in wanted:
            self.seen.fault(f"a {type} comes in a {self._open} block")
            return
        self._written += text(data, "delta.partial_json")
        if type == "citations_delta":
            read_citation(pick(data, "delta.citation"), self.seen)
        self.seen.text += text(data, "delta.text")
        self.seen.thinking += text(data, "delta.thinking")
        if type == "input_json_delta" and self._open == "tool_use":
            self.seen.calls[-1].written += text(data, "delta.partial_json")

    def _close_block(self, data: JsonObject) -> None:
        if not self._open or number(data, "index") != self._next:
            self.seen.fault(f"block {data.get('index')} ends, which is not open")
            return
        if self._open == "tool_use":
            self.seen.calls[-1].closed = True
        elif self._open in SERVER_CALLS:
            # The start of a block has an empty input; some servers send it whole there.
            input = maybe_object(self._written) if self._written else self._block.get("input")
            read_anthropic_block(self._block | {"input": input}, self.seen)
        elif self._open.endswith("_tool_result"):
            read_anthropic_block(self._block, self.seen)
        self._open = ""
        self._next += 1

    def _end(self, data: JsonObject) -> None:
        if self._open:
            self.seen.fault(f"message_delta comes while a {self._open} block is open")
        if self._told:
            self.seen.fault("message_delta comes twice")
        self._told = True
        self.seen.stop = text(data, "delta.stop_reason")
        if not has(data, "usage.output_tokens"):
            self.seen.fault("message_delta lacks usage.output_tokens")
        usage = members(data, "usage")
        self.seen.searches = number(usage, "server_tool_use.web_search_requests")
        self.seen.input = _input(usage) or self.seen.early_input or 0
        self.seen.output = number(usage, "output_tokens")

    def _stop(self, _: JsonObject) -> None:
        if self._open or not self._told:
            self.seen.fault("message_stop comes before message_delta, or while a block is open")
        self.seen.terminal = "finished"
        _check_stop(self.seen)

    def _error(self, data: JsonObject) -> None:
        self.seen.terminal = "error"
        self.seen.error = read_error(data)
        if not self.seen.error:
            self.seen.fault("the error event has no type and message")


def read_stream(body: bytes) -> Observed:
    reader = _Reader()
    for event in split_sse(body).events:
        reader.read(event)
    reader.seen.check_calls(cut=reader.seen.stop in _STOPS["length"])
    return reader.seen


def read_whole(body: JsonObject) -> Observed:
    seen = Observed(order=[])
    require(seen, "the message", body, _MESSAGE)
    for block in items(body, "content"):
        type = text(block, "type")
        seen.add(_KINDS.get(type, "call" if type == "tool_use" else type))
        seen.text += text(block, "text")
        seen.thinking += text(block, "thinking")
        read_anthropic_block(members(block), seen)
        if type == "tool_use":
            input = dumps(pick(block, "input"))
            seen.calls.append(
                ObservedCall(text(block, "name"), text(block, "id"), input, closed=True)
            )
    seen.stop = text(body, "stop_reason")
    seen.input = _input(members(body, "usage"))
    seen.output = number(body, "usage.output_tokens")
    seen.searches = number(body, "usage.server_tool_use.web_search_requests")
    seen.terminal = "finished"
    _check_stop(seen)
    seen.check_calls(cut=seen.stop in _STOPS["length"])
    return seen


def read_error(body: JsonObject) -> str:
    kind, said = text(body, "error.type"), text(body, "error.message")
    return f"{kind}: {said}" if text(body, "type") == "error" and kind and said else ""


def _check_stop(seen: Observed) -> None:
    if not any(seen.stop in words for words in _STOPS.values()):
        seen.fault(f"no stop reason is called {seen.stop!r}")
    if (seen.stop == "tool_use") != bool(seen.calls) and seen.stop in {"tool_use", "end_turn"}:
        seen.fault(f"the stop reason is {seen.stop} with {len(seen.calls)} calls")


def _input(usage: JsonObject) -> int:
    names = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
    return sum(number(usage, name) for name in names)


_SHOWS = frozenset({"web_search", "web_fetch", "code_execution", "tool_search", "mcp"})
CLIENT = CaseClient(ask, read_stream, read_whole, read_error, _STOPS, authorize, _SHOWS)
