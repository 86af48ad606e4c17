"""A client of OpenAI's Responses: items that are added, written and done, all numbered."""

from collections.abc import Callable

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
from toolbridge.conformance.server_tool_answers import (
    HOSTED_EVENTS,
    PROGRESS,
    read_annotation,
    read_responses_item,
)
from toolbridge.conformance.server_tool_requests import responses_fields, responses_search
from toolbridge.conformance.sse import ObservedEvent, split_sse
from toolbridge.core.json import Json, JsonObject, dumps

_RESPONSE = ("id", "object", "created_at", "status", "model", "output")
_TERMINALS = {"response.completed", "response.incomplete", "response.failed"}
_TEXTS = {"message": "text", "reasoning": "thinking"}
_DELTAS = {
    "response.output_text.delta": "message",
    "response.refusal.delta": "message",
    "response.reasoning_summary_text.delta": "reasoning",
    "response.reasoning_text.delta": "reasoning",
    "response.function_call_arguments.delta": "function_call",
    "response.custom_tool_call_input.delta": "custom_tool_call",
}
_STOPS = {
    "end": frozenset({"completed"}),
    "length": frozenset({"max_output_tokens"}),
    "tool_use": frozenset({"completed"}),
    "stop_sequence": frozenset({"completed"}),
    "refusal": frozenset({"content_filter", "completed"}),
}


# ── asking ───────────────────────────────────────────────────────────────────


def ask(wanted: CaseRequest, model: str, stream: bool) -> EncodedRequest:  # noqa: FBT001  as every client's
    body: JsonObject = {
        "model": model,
        "input": [item for turn in wanted.turns for item in _items(turn)],
        "max_output_tokens": wanted.max_tokens,
        "stream": stream,
        "store": False,
    }
    if wanted.system:
        body["instructions"] = wanted.system
    served, beside = responses_fields(wanted)
    body |= beside
    if wanted.tools or served:
        body["tools"] = [*served, *(_tool(tool) for tool in wanted.tools)]
    if wanted.choice:
        body["tool_choice"] = _choice(wanted.choice, {tool.kind for tool in wanted.server_tools})
    if wanted.thinking:
        body["reasoning"] = {"effort": "medium", "summary": "auto"}
    return EncodedRequest("/v1/responses", body)


def authorize(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}


def _items(turn: CaseTurn) -> list[JsonObject]:
    found: list[JsonObject] = []
    said: list[Json] = []
    for part in turn.parts:
        if part.search:
            found.append(responses_search(part))
        elif part.call:
            found.append(_call(part))
        elif part.result is not None:
            found.append(_result(part))
        elif not part.thinking:
            said.append(_content(part, turn.role))
    message: list[JsonObject] = [{"role": turn.role, "content": said}] if said else []
    return message + found if turn.role == "assistant" else found + message


def _call(part: CasePart) -> JsonObject:
    return {
        "type": "function_call",
        "call_id": part.id,
        "name": part.call,
        "arguments": dumps(part.arguments),
    }


def _result(part: CasePart) -> JsonObject:
    output: Json = part.result
    if part.picture:
        output = [{"type": "input_text", "text": part.result}, _image(part.picture)]
    return {"type": "function_call_output", "call_id": part.id, "output": output}


def _content(part: CasePart, role: str) -> JsonObject:
    if part.image:
        return _image(part.image)
    type = "output_text" if role == "assistant" else "input_text"
    return {"type": type, "text": part.text or ""}


def _image(data: str) -> JsonObject:
    url = f"data:image/png;base64,{data}"
    return {"type": "input_image", "image_url": url, "detail": "auto"}


def _tool(tool: CaseTool) -> JsonObject:
    return {
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.schema,
        "strict": False,
    }


def _choice(choice: str, served: set[str]) -> Json:
    if choice in {"auto", "none", "required"}:
        return choice
    if choice in served:
        return {"type": choice}
    return {"type": "function", "name": choice}


# ── reading ──────────────────────────────────────────────────────────────────


class _Item:
    def __init__(self, type: str, id: str) -> None:
        self.type = type
        self.id = id
        self.written = ""
        self.done = False


class _Reader:
    def __init__(self) -> None:
        self.seen = Observed(order=[])
        self._sequence = 0
        self._created = False
        self._items: dict[int, _Item] = {}
        self._calls: dict[int, ObservedCall] = {}
        self._steps: dict[str, Callable[[JsonObject], None]] = {
            "response.created": self._create,
            "response.in_progress": self._progress,
            "response.output_item.added": self._add,
            "response.output_item.done": self._done,
            "response.function_call_arguments.done": self._arguments,
            "error": self._error,
            **dict.fromkeys(_DELTAS, self._delta),
            **dict.fromkeys(_TERMINALS, self._end),
        }

    def read(self, event: ObservedEvent) -> None:
        data = parse(event.data, self.seen)
        if data is None:
            return
        type = text(data, "type")
        if event.name != type:
            self.seen.fault(f"the event is {event.name!r}, its data says {type!r}")
        if data.get("sequence_number") != self._sequence:
            self.seen.fault(f"event {self._sequence} is numbered {data.get('sequence_number')}")
        self._sequence += 1
        if self.seen.terminal != "none":
            self.seen.fault(f"{type} comes after the end")
        elif not self._created and type not in {"response.created", "error"}:
            self.seen.fault(f"{type} comes before response.created")
        elif step := self._steps.get(type):
            step(data)
        elif type in PROGRESS:
            self._item(data)
        elif type.startswith(HOSTED_EVENTS):
            self.seen.fault(f"no event is called {type!r}")

    def _create(self, data: JsonObject) -> None:
        if self._created:
            self.seen.fault("response.created comes twice")
        self._created = True
        require(self.seen, "the response", members(data, "response"), _RESPONSE)

    def _progress(self, _: JsonObject) -> None:
        self.seen.keep_alives += not self._items

    def _add(self, data: JsonObject) -> None:
        index = number(data, "output_index")
        if index != len(self._items):
            self.seen.fault(f"item {len(self._items)} has the index {index}")
        item = _Item(text(data, "item.type"), text(data, "item.id"))
        if not item.id or any(item.id == other.id for other in self._items.values()):
            self.seen.fault(f"an item has the id {item.id!r}")
        self._items[index] = item
        self.seen.add(_TEXTS.get(item.type, "call"))
        if item.type == "function_call":
            call = ObservedCall(text(data, "item.name"), text(data, "item.call_id"))
            self._calls[index] = call
            self.seen.calls.append(call)

    def _item(self, data: JsonObject) -> _Item | None:
        item = self._items.get(number(data, "output_index"))
        if item is None or item.done or text(data, "item_id") not in {"", item.id}:
            self.seen.fault(f"{text(data, 'type')} is for an item that is not open")
            return None
        return item

    def _delta(self, data: JsonObject) -> None:
        item = self._item(data)
        if item is None:
            return
        type, piece = text(data, "type"), text(data, "delta")
        if _DELTAS[type] != item.type:
            self.seen.fault(f"{type} comes in an item of type {item.type}")
        item.written += piece
        if item.type == "message":
            self.seen.text += piece
        elif item.type == "reasoning":
            self.seen.thinking += piece
        elif call := self._calls.get(number(data, "output_index")):
            call.written += piece

    def _arguments(self, data: JsonObject) -> None:
        item = self._item(data)
        if item and text(data, "arguments") != item.written:
            self.seen.fault("the arguments that are done are not those that were written")

    def _done(self, data: JsonObject) -> None:
        item = self._items.get(number(data, "output_index"))
        if item is None or item.done or text(data, "item.id") != item.id:
            self.seen.fault("an item is done that is not open")
            return
        item.done = True
        read_responses_item(members(data, "item"), self.seen)
        for part in items(data, "item.content"):
            for annotation in items(part, "annotations"):
                read_annotation(annotation, self.seen)
        told = _item_text(members(data, "item"))
        if item.type in {"message", "reasoning", "function_call"} and told != item.written:
            self.seen.fault(f"the {item.type} that is done is not the one that was written")
        if call := self._calls.get(number(data, "output_index")):
            call.closed = True

    def _end(self, data: JsonObject) -> None:
        response = members(data, "response")
        require(self.seen, "the response", response, (*_RESPONSE, "usage"))
        if text(data, "type") == "response.failed":
            self.seen.terminal = "error"
            self.seen.error = _failure(response)
            return
        self.seen.terminal = "finished"
        if any(not item.done for item in self._items.values()):
            self.seen.fault("the response ends while an item is open")
        ids = [text(item, "id") for item in items(response, "output")]
        if ids != [item.id for item in self._items.values()]:
            self.seen.fault("the last event does not repeat the items of the stream")
        _finish(self.seen, response)

    def _error(self, data: JsonObject) -> None:
        self.seen.terminal = "error"
        self.seen.error = text(data, "message") or text(data, "error.message")
        if not self.seen.error:
            self.seen.fault("the error has no message")


def read_stream(body: bytes) -> Observed:
    reader = _Reader()
    for event in split_sse(body).events:
        reader.read(event)
    reader.seen.check_calls(cut=reader.seen.stop in _STOPS["length"])
    return reader.seen


def read_whole(body: JsonObject) -> Observed:
    seen = Observed(order=[], terminal="finished")
    require(seen, "the response", body, (*_RESPONSE, "usage"))
    if text(body, "status") == "failed":
        return Observed(terminal="error", error=_failure(body))
    for item in items(body, "output"):
        type, said = text(item, "type"), _item_text(members(item))
        seen.add(_TEXTS.get(type, "call"))
        if type == "function_call":
            name, id = text(item, "name"), text(item, "call_id")
            seen.calls.append(ObservedCall(name, id, said, closed=True))
        elif type == "message":
            seen.text += said
            for part in items(item, "content"):
                for annotation in items(part, "annotations"):
                    read_annotation(annotation, seen)
        elif type == "reasoning":
            seen.thinking += said
        else:
            read_responses_item(members(item), seen)
    _finish(seen, body)
    seen.check_calls(cut=seen.stop in _STOPS["length"])
    return seen


def _item_text(item: JsonObject) -> str:
    """Return the text of an item, as its deltas would give it."""
    if "arguments" in item:
        return text(item, "arguments")
    parts = [*items(item, "summary"), *items(item, "content")]
    return "".join(text(part, "text") or text(part, "refusal") for part in parts)


def _finish(seen: Observed, response: JsonObject) -> None:
    seen.stop = text(response, "incomplete_details.reason") or text(response, "status")
    seen.searches = number(response, "tool_usage.web_search.num_requests")
    seen.input = number(response, "usage.input_tokens")
    seen.output = number(response, "usage.output_tokens")
    if not any(seen.stop in words for words in _STOPS.values()):
        seen.fault(f"a response does not end with {seen.stop!r}")


def _failure(response: JsonObject) -> str:
    return f"{pick(response, 'error.code')}: {text(response, 'error.message')}"


def read_error(body: JsonObject) -> str:
    said = text(body, "error.message")
    return f"{pick(body, 'error.type')} {pick(body, 'error.code')}: {said}" if said else ""


_SHOWS = frozenset({"web_search", "web_fetch", "code_execution", "tool_search", "mcp"})
CLIENT = CaseClient(ask, read_stream, read_whole, read_error, _STOPS, authorize, _SHOWS)
