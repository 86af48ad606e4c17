"""Calls of an answer, as deltas of a stream or as fields of a whole message.

A client that sent the deprecated `functions` reads its call from `function_call` only. That field
has room for one call, so such a client gets the first one.
"""

from typing import Protocol

from toolbridge.codecs.openai_chat.encode_turns import encode_signature
from toolbridge.codecs.openai_chat.shapes import FINISH_REASONS, ORIGIN
from toolbridge.core import events as ev
from toolbridge.core.json import Json, JsonObject, dumps
from toolbridge.core.messages import Call, Message, Request, StopReason


class CallWriter(Protocol):
    """Writes the calls of one stream."""

    def write(self, event: ev.CallStart | ev.CallDelta | ev.CallEnd, /) -> JsonObject:
        """Return the delta for `event`; empty if there is nothing to write."""
        ...


def call_writer(request: Request) -> CallWriter:
    """Return the writer for the shape of tools that the client sent."""
    return _FunctionCall() if _uses_functions(request) else _ToolCalls(request)


def encode_calls(message: Message, request: Request) -> JsonObject:
    """Return the field with the calls of a whole answer; no field without calls."""
    if not message.calls:
        return {}
    if _uses_functions(request):
        call = message.calls[0]
        return {"function_call": {"name": call.name, "arguments": _written(call, custom=False)}}
    freeform = {tool.name for tool in request.tools if tool.freeform}
    calls: list[Json] = [_whole(call, custom=call.name in freeform) for call in message.calls]
    return {"tool_calls": calls}


def finish_reason(stop: StopReason, request: Request) -> str:
    """Return the `finish_reason` of an answer."""
    if stop == "tool_use" and _uses_functions(request):
        return "function_call"
    return FINISH_REASONS.get(stop, "stop")


def _uses_functions(request: Request) -> bool:
    return any(tool.native is not None and tool.origin == ORIGIN for tool in request.tools)


class _ToolCalls:
    """Writes `tool_calls`, numbered in the order of the calls."""

    def __init__(self, request: Request) -> None:
        self._freeform = {tool.name for tool in request.tools if tool.freeform}
        self._number = -1
        self._custom = False
        self._written = False

    def write(self, event: ev.CallStart | ev.CallDelta | ev.CallEnd, /) -> JsonObject:
        match event:
            case ev.CallStart(_, id, name):
                self._number += 1
                self._custom = name in self._freeform
                self._written = False
                return self._delta(_head(id, name, custom=self._custom))
            case ev.CallDelta(_, piece):
                # Free text is a string inside a JSON object; it is written once that is complete.
                self._written = not self._custom
                return self._delta(self._piece("" if self._custom else piece))
            case ev.CallEnd(_, call):
                rest = self._piece("" if self._written else _written(call, custom=self._custom))
                return self._delta(rest | encode_signature(call.opaque))

    def _delta(self, fields: JsonObject) -> JsonObject:
        return {"tool_calls": [{"index": self._number, **fields}]} if fields else {}

    def _piece(self, text: str) -> JsonObject:
        if not text:
            return {}
        return {"custom": {"input": text}} if self._custom else {"function": {"arguments": text}}


class _FunctionCall:
    """Writes the deprecated `function_call`."""

    def __init__(self) -> None:
        self._called = -1
        self._written = False

    def write(self, event: ev.CallStart | ev.CallDelta | ev.CallEnd, /) -> JsonObject:
        if isinstance(event, ev.CallStart) and self._called < 0:
            self._called = event.index
            return {"function_call": {"name": event.name, "arguments": ""}}
        if event.index != self._called:
            return {}
        match event:
            case ev.CallDelta(_, piece):
                self._written = True
                return {"function_call": {"arguments": piece}}
            case ev.CallEnd(_, call) if not self._written:
                return {"function_call": {"arguments": _written(call, custom=False)}}
            case _:
                return {}


def _head(id: str, name: str, *, custom: bool) -> JsonObject:
    if custom:
        return {"id": id, "type": "custom", "custom": {"name": name, "input": ""}}
    return {"id": id, "type": "function", "function": {"name": name, "arguments": ""}}


def _whole(call: Call, *, custom: bool) -> JsonObject:
    kind, field = ("custom", "input") if custom else ("function", "arguments")
    inner: JsonObject = {"name": call.name, field: _written(call, custom=custom)}
    return _head(call.id, call.name, custom=custom) | {kind: inner} | encode_signature(call.opaque)


def _written(call: Call, *, custom: bool) -> str:
    """Return the text of a call's input: free text, or a JSON object (`{}` without arguments)."""
    if not custom:
        return call.raw or dumps(call.arguments)
    input = call.arguments.get("input", "")
    return call.raw or (input if isinstance(input, str) else dumps(input))
