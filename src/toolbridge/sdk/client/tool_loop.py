"""A prompt with tools that are run here, asked again until the model has what it needs.

The generators that do the work do not know the object that hands out their events: one that is
dropped half-way must end at once, not when the collector comes by.
"""

import asyncio
import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterable
from dataclasses import dataclass
from dataclasses import replace as replaced
from typing import Self, TypeAlias

from msgspec.structs import replace

from toolbridge.core import events as ev
from toolbridge.core.messages import Call, Message, Result, ToolChoice, Turn
from toolbridge.core.usage import Cost, Usage
from toolbridge.sdk.client.functions import failure_of, result_of
from toolbridge.sdk.streams.async_stream import AsyncStream
from toolbridge.sdk.streams.blocking_stream import Stream
from toolbridge.sdk.streams.options import PreparedAsk
from toolbridge.sdk.streams.signal import ASKED
from toolbridge.tools.functions import Function

Wait: TypeAlias = Callable[[Awaitable[object]], object]


class ToolLoop:
    """The conversation of a run: what to ask next, and which calls to make before."""

    def __init__(self, order: PreparedAsk, max_turns: int) -> None:
        self.order = order
        self.aborted = ""
        """Why the run was ended from outside, if it was."""
        self.usage = Usage()
        """What all the answers took."""
        self._left = max_turns
        self._owners = {tool.name for tool in order.request.tools} - order.functions.keys()

    def take(self, message: Message) -> tuple[Call, ...]:
        """Note an answer; return the calls to make, none when nothing is left to do here."""
        self._left -= 1
        self.usage = _sum(self.usage, message.usage)
        if message.content:
            self._add(Turn("assistant", message.content))
        # An answer that was cut may hold half a call; only one that ended with its calls is obeyed.
        if message.stop != "tool_use" or self._left <= 0:
            return ()
        if any(call.name in self._owners for call in message.calls):
            return ()
        return message.calls

    def give(self, results: Iterable[Result]) -> None:
        """Note what the calls brought."""
        self._add(Turn("user", tuple(results)))
        # A choice that forces a call would force one for ever.
        if self.order.request.tool_choice.mode in {"required", "named"}:
            request = replace(self.order.request, tool_choice=ToolChoice())
            self.order = replaced(self.order, request=request)

    def _add(self, turn: Turn) -> None:
        request = self.order.request
        request = replace(request, turns=(*request.turns, turn))
        self.order = replaced(self.order, request=request)

    def function(self, call: Call) -> Function:
        """Return what `call` names; raise what the model should read where it cannot be called."""
        if call.raw:
            raise ValueError(f"the arguments are not a JSON object: {call.raw[:200]}")
        if call.name not in self.order.functions:
            raise LookupError(f"there is no tool {call.name!r}")
        return self.order.functions[call.name]


def _sum(one: Usage, other: Usage) -> Usage:
    counts = {
        name: getattr(one, name) + getattr(other, name)
        for name in Usage.__struct_fields__
        if name not in {"cost", "native"}
    }
    costs = [usage.cost for usage in (one, other) if usage.cost is not None]
    total = {name: sum(getattr(cost, name) for cost in costs) for name in Cost.__struct_fields__}
    return Usage(**counts, cost=Cost(**total) if costs else None)


# ── blocking ─────────────────────────────────────────────────────────────────


@dataclass
class _Place:
    """Where a run is."""

    stream: Stream | None = None


class Run:
    """Iterate it for the events of every answer; `result` is the last one."""

    def __init__(
        self, tool_loop: ToolLoop, ask: Callable[[PreparedAsk], Stream], wait: Wait
    ) -> None:
        self._tool_loop = tool_loop
        self._place = _Place()
        self._events = _work(tool_loop, self._place, ask, wait)
        if tool_loop.order.signal is not None:
            tool_loop.order.signal.attach(self)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> ev.Event:
        return next(self._events)

    @property
    def message(self) -> Message:
        """The answer that is being given, as far as it was handed out."""
        return Message() if self._place.stream is None else self._place.stream.message

    @property
    def turns(self) -> tuple[Turn, ...]:
        """The conversation so far: answers, calls and results."""
        return self._tool_loop.order.request.turns

    @property
    def usage(self) -> Usage:
        """What the answers took together, up to the last that has ended."""
        return self._tool_loop.usage

    def result(self) -> Message:
        """Do the rest; return the last answer. If it stopped for `tool_use`, turns ran out."""
        for _ in self:
            pass
        return self.message

    def abort(self, why: str = ASKED) -> None:
        """End it: the answer that is being given, or the next one, ends as `Failed`."""
        self._tool_loop.aborted = self._tool_loop.aborted or why
        if self._place.stream is not None:
            self._place.stream.abort(why)


def _work(
    tool_loop: ToolLoop, place: _Place, ask: Callable[[PreparedAsk], Stream], wait: Wait
) -> Generator[ev.Event, None, None]:
    while True:
        place.stream = stream = ask(tool_loop.order)
        if tool_loop.aborted:
            stream.abort(tool_loop.aborted)
        yield from stream
        calls = tool_loop.take(stream.message)
        if not calls:
            return
        tool_loop.give([_perform(tool_loop, call, wait) for call in calls])


def _perform(tool_loop: ToolLoop, call: Call, wait: Wait) -> Result:
    """Call a function, here in the caller's own thread."""
    try:
        value = tool_loop.function(call).call(call.arguments)
        return result_of(call, wait(value) if inspect.isawaitable(value) else value)
    except Exception as error:  # noqa: BLE001  whatever a tool raises is the model's to read
        return failure_of(call, error)


# ── awaiting ─────────────────────────────────────────────────────────────────


@dataclass
class _AsyncPlace:
    stream: AsyncStream | None = None
    tools: "asyncio.Future[list[Result]] | None" = None
    loop: asyncio.AbstractEventLoop | None = None


class AsyncRun:
    """Iterate it for the events of every answer; `result` is the last one."""

    def __init__(self, tool_loop: ToolLoop, ask: Callable[[PreparedAsk], AsyncStream]) -> None:
        self._tool_loop = tool_loop
        self._place = _AsyncPlace()
        self._events = _work_async(tool_loop, self._place, ask)
        if tool_loop.order.signal is not None:
            tool_loop.order.signal.attach(self)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ev.Event:
        return await anext(self._events)

    @property
    def message(self) -> Message:
        """The answer that is being given, as far as it was handed out."""
        return Message() if self._place.stream is None else self._place.stream.message

    @property
    def turns(self) -> tuple[Turn, ...]:
        """The conversation so far: answers, calls and results."""
        return self._tool_loop.order.request.turns

    @property
    def usage(self) -> Usage:
        """What the answers took together, up to the last that has ended."""
        return self._tool_loop.usage

    async def result(self) -> Message:
        """Do the rest; return the last answer. If it stopped for `tool_use`, turns ran out."""
        async for _ in self:
            pass
        return self.message

    def abort(self, why: str = ASKED) -> None:
        """End it, from any thread: this answer or the next ends as `Failed`, tools are cancelled."""
        self._tool_loop.aborted = self._tool_loop.aborted or why
        place = self._place
        if place.stream is not None:
            place.stream.abort(why)
        if place.tools is not None and place.loop is not None:
            place.loop.call_soon_threadsafe(place.tools.cancel)


async def _work_async(
    tool_loop: ToolLoop, place: _AsyncPlace, ask: Callable[[PreparedAsk], AsyncStream]
) -> AsyncGenerator[ev.Event, None]:
    while True:
        place.stream = stream = ask(tool_loop.order)
        if tool_loop.aborted:
            stream.abort(tool_loop.aborted)
        async with stream:
            async for event in stream:
                yield event
        calls = tool_loop.take(stream.message)
        if not calls:
            return
        tool_loop.give(await _perform_all(tool_loop, place, calls))


async def _perform_all(
    tool_loop: ToolLoop, place: _AsyncPlace, calls: tuple[Call, ...]
) -> list[Result]:
    place.loop = asyncio.get_running_loop()
    place.tools = asyncio.gather(*(_perform_async(tool_loop, call) for call in calls))
    try:
        return await place.tools
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if not tool_loop.aborted or task is None or task.cancelling():
            raise
        return [failure_of(call, InterruptedError(tool_loop.aborted)) for call in calls]
    finally:
        place.tools = None


async def _perform_async(tool_loop: ToolLoop, call: Call) -> Result:
    """Call a function: a coroutine here, any other in a thread, so that the loop goes on."""
    try:
        function = tool_loop.function(call)
        if function.waits:
            value = function.call(call.arguments)
        else:
            value = await asyncio.to_thread(function.call, call.arguments)
        return result_of(call, await value if inspect.isawaitable(value) else value)
    except Exception as error:  # noqa: BLE001  whatever a tool raises is the model's to read
        return failure_of(call, error)
