"""A client of Gemini: the parts of all events are added up; the stream ends after finishReason."""

from toolbridge.conformance.client_requests import (
    CasePart,
    CaseRequest,
    CaseTool,
    CaseTurn,
    EncodedRequest,
    tool_named,
)
from toolbridge.conformance.clients import CaseClient
from toolbridge.conformance.json_path import items, members, number, pick, text
from toolbridge.conformance.observed import (
    Observed,
    ObservedCall,
    parse,
    require,
)
from toolbridge.conformance.server_tool_answers import read_gemini_part, read_grounding
from toolbridge.conformance.server_tool_requests import gemini_tools
from toolbridge.conformance.sse import ObservedEvent, split_sse
from toolbridge.core.json import Json, JsonObject, dumps

_DATA = (
    "text", "inlineData", "fileData", "functionCall", "functionResponse", "executableCode",
    "codeExecutionResult", "toolCall", "toolResponse",
)  # fmt: skip
_BLOCKED = frozenset(
    {"SAFETY", "PROHIBITED_CONTENT", "RECITATION", "BLOCKLIST", "SPII", "LANGUAGE", "OTHER"}
)
_STOPS = {
    "end": frozenset({"STOP"}),
    "length": frozenset({"MAX_TOKENS"}),
    "tool_use": frozenset({"STOP"}),
    "stop_sequence": frozenset({"STOP"}),
    "refusal": _BLOCKED,
}


# ── asking ───────────────────────────────────────────────────────────────────


def ask(wanted: CaseRequest, model: str, stream: bool) -> EncodedRequest:  # noqa: FBT001  as every client's
    config: JsonObject = {"maxOutputTokens": wanted.max_tokens}
    if wanted.stop:
        config["stopSequences"] = [*wanted.stop]
    if wanted.thinking:
        config["thinkingConfig"] = {"includeThoughts": True, "thinkingBudget": 1024}
    contents: list[Json] = [_content(turn, wanted) for turn in wanted.turns]
    body: JsonObject = {"contents": contents, "generationConfig": config}
    if wanted.system:
        body["systemInstruction"] = {"parts": [{"text": wanted.system}]}
    served = gemini_tools(wanted)
    if wanted.tools:
        served.append({"functionDeclarations": [_tool(tool) for tool in wanted.tools]})
    if served:
        body["tools"] = served
    if wanted.choice and wanted.tools:
        body["toolConfig"] = {"functionCallingConfig": _choice(wanted.choice)}
    method = "streamGenerateContent?alt=sse" if stream else "generateContent"
    return EncodedRequest(f"/v1beta/models/{model}:{method}", body)


def authorize(key: str) -> dict[str, str]:
    return {"x-goog-api-key": key}


def _content(turn: CaseTurn, wanted: CaseRequest) -> JsonObject:
    role = "model" if turn.role == "assistant" else "user"
    return {"role": role, "parts": [_part(part, wanted) for part in turn.parts]}


def _part(part: CasePart, wanted: CaseRequest) -> JsonObject:
    if part.call:
        return {"functionCall": {"id": part.id, "name": part.call, "args": part.arguments}}
    if part.result is not None:
        word = "error" if part.error else "output"
        return {
            "functionResponse": {
                "id": part.id,
                "name": tool_named(wanted, part.id) or "unknown",
                "response": {word: part.result},
            }
        }
    if part.image:
        return {"inlineData": {"mimeType": "image/png", "data": part.image}}
    if part.thinking:
        return {"text": part.thinking, "thought": True}
    return {"text": part.text or ""}


def _tool(tool: CaseTool) -> JsonObject:
    return {
        "name": tool.name,
        "description": tool.description,
        "parametersJsonSchema": tool.schema,
    }


def _choice(choice: str) -> JsonObject:
    mode = {"auto": "AUTO", "none": "NONE", "required": "ANY"}.get(choice)
    return {"mode": mode} if mode else {"mode": "ANY", "allowedFunctionNames": [choice]}


# ── reading ──────────────────────────────────────────────────────────────────


class _Reader:
    def __init__(self) -> None:
        self.seen = Observed(order=[])

    def read(self, event: ObservedEvent) -> None:
        if event.name or event.data == "[DONE]":
            self.seen.fault(f"Gemini has no event names and no [DONE]: {event}")
            return
        data = parse(event.data, self.seen)
        if data is None:
            return
        if self.seen.terminal != "none":
            self.seen.fault(f"an event comes after the end: {event.data[:60]}")
        elif "error" in data:
            self.seen.terminal = "error"
            self.seen.error = read_error(data)
            if not self.seen.error:
                self.seen.fault("the error has no code, status and message")
        else:
            self.response(data)

    def response(self, data: JsonObject) -> None:
        self._count(members(data, "usageMetadata"))
        if pick(data, "promptFeedback.blockReason"):
            self.seen.terminal = "finished"
            self.seen.stop = "SAFETY"
            return
        if not items(data, "candidates"):
            self.seen.fault("an event has no candidates")
        candidate = members(data, "candidates.0")
        parts = items(candidate, "content.parts")
        if parts and text(candidate, "content.role") != "model":
            self.seen.fault("the content's role is not model")
        empty = all(part == {"text": ""} for part in parts)
        if empty and not (self.seen.order or pick(candidate, "finishReason")):
            self.seen.keep_alives += 1
        for part in parts:
            self._part(part)
        read_grounding(candidate, self.seen)
        if reason := text(candidate, "finishReason"):
            self._finish(reason)

    def _part(self, part: Json) -> None:
        held = [name for name in _DATA if name in members(part)]
        if len(held) != 1:
            self.seen.fault(f"a part holds {held or 'nothing'}; it must hold one thing")
        said = text(part, "text")
        read_gemini_part(members(part), self.seen)
        if "functionCall" in held:
            self._call(members(part, "functionCall"))
        elif said and pick(part, "thought") is True:
            self._flow("thinking")
            self.seen.thinking += said
        elif said:
            self._flow("text")
            self.seen.text += said

    def _flow(self, kind: str) -> None:
        if self.seen.order is not None and self.seen.order[-1:] != [kind]:
            self.seen.add(kind)

    def _call(self, call: JsonObject) -> None:
        require(self.seen, "a functionCall", call, ("name", "args"))
        if not isinstance(call.get("args"), dict):
            self.seen.fault("the args of a call are no object")
        self.seen.add("call")
        id = text(call, "id") or f"call {len(self.seen.calls)}"  # ids are optional here
        written = dumps(call.get("args"))
        self.seen.calls.append(ObservedCall(text(call, "name"), id, written, closed=True))

    def _count(self, usage: JsonObject) -> None:
        self.seen.input = number(usage, "promptTokenCount") or self.seen.input
        told = number(usage, "candidatesTokenCount") + number(usage, "thoughtsTokenCount")
        self.seen.output = told or self.seen.output

    def _finish(self, reason: str) -> None:
        self.seen.terminal = "finished"
        self.seen.stop = reason
        if not any(reason in words for words in _STOPS.values()):
            self.seen.fault(f"an answer that is whole does not end with {reason!r}")


def read_stream(body: bytes) -> Observed:
    reader = _Reader()
    found = split_sse(body)
    for event in found.events:
        reader.read(event)
    if found.comments:
        reader.seen.fault("a comment, on which Google's own client breaks")
    reader.seen.check_calls()
    return reader.seen


def read_whole(body: JsonObject) -> Observed:
    reader = _Reader()
    reader.response(body)
    if reader.seen.terminal == "none":
        reader.seen.fault("the answer has no finishReason")
    reader.seen.check_calls()
    return reader.seen


def read_error(body: JsonObject) -> str:
    status, said = text(body, "error.status"), text(body, "error.message")
    return f"{status}: {said}" if number(body, "error.code") and status and said else ""


_SHOWS = frozenset({"web_search", "web_fetch", "code_execution"})
CLIENT = CaseClient(ask, read_stream, read_whole, read_error, _STOPS, authorize, _SHOWS)
