"""Our calls as those of Chat Completions, piece by piece and whole.

A client that offers its tools as `functions`, as all did before there were tools, reads its call
from `function_call` and looks nowhere else. It can make one call at a time, so it is told one.
"""

from typing import Protocol

from toolbridge.codecs.openai_chat.encode_turns import encode_signature
from toolbridge.codecs.openai_chat.shapes import FINISH_REASONS, ORIGIN
from toolbridge.core import events as ev
from toolbridge.core.json import Json, JsonObject, dumps
from toolbridge.core.messages import Call, Message, Request, StopReason


class CallWriter(Protocol):
    def write(self, event: ev.CallStart | ev.CallDelta | ev.CallEnd, /) -> JsonObject:
        """Return the delta that says what `event` does; empty where it says nothing."""
        ...


def call_writer(request: Request) -> CallWriter:
    return _FunctionCall() if _is_old(request) else _ToolCalls(request)


def encode_calls(message: Message, request: Request) -> JsonObject:
    """Return the field that holds the calls of a whole answer; none where there are none."""
    if not message.calls:
        return {}
    if _is_old(request):
        call = message.calls[0]
        return {"function_call": {"name": call.name, "arguments": _written(call, custom=False)}}
    freeform = {tool.name for tool in request.tools if tool.freeform}
    calls: list[Json] = [_whole(call, custom=call.name in freeform) for call in message.calls]
    return {"tool_calls": calls}


def finish_reason(stop: StopReason, request: Request) -> str:
    if stop == "tool_use" and _is_old(request):
        return "function_call"
    return FINISH_REASONS.get(stop, "stop")


def _is_old(request: Request) -> bool:
    return any(tool.native is not None and tool.origin == ORIGIN for tool in request.tools)


class _ToolCalls:
    """Calls, one after the other, numbered as they come."""

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
                # Free text lies inside an object, and is known when that object is whole.
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
    """The one call of an old client."""

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
    """Return what the model wrote: free text, or an object, which for no arguments is `{}`."""
    if not custom:
        return call.raw or dumps(call.arguments)
    input = call.arguments.get("input", "")
    return call.raw or (input if isinstance(input, str) else dumps(input))
