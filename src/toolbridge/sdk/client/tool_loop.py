"""Runs Python functions as tools: asks the model, runs its calls, and asks again until it is done.

The generators have no reference to the `Run` that yields their events, so that a dropped run ends at
once and not with the next garbage collection.
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
    """The conversation of a run: the next request, and the calls to run before it."""

    def __init__(self, order: PreparedAsk, max_turns: int) -> None:
        self.order = order
        self.aborted = ""
        """The reason of an abort; empty without one."""
        self.usage = Usage()
        """The usage of all answers."""
        self._left = max_turns
        self._owners = {tool.name for tool in order.request.tools} - order.functions.keys()

    def take(self, message: Message) -> tuple[Call, ...]:
        """Add an answer; return the calls to run, empty if the run is finished."""
        self._left -= 1
        self.usage = _sum(self.usage, message.usage)
        if message.content:
            self._add(Turn("assistant", message.content))
        # A cut-off answer may hold an incomplete call, so only calls of a complete answer are run.
        if message.stop != "tool_use" or self._left <= 0:
            return ()
        if any(call.name in self._owners for call in message.calls):
            return ()
        return message.calls

    def give(self, results: Iterable[Result]) -> None:
        """Add the results of the calls."""
        self._add(Turn("user", tuple(results)))
        # A tool choice that forces a call would force one in every turn.
        if self.order.request.tool_choice.mode in {"required", "named"}:
            request = replace(self.order.request, tool_choice=ToolChoice())
            self.order = replaced(self.order, request=request)

    def _add(self, turn: Turn) -> None:
        request = self.order.request
        request = replace(request, turns=(*request.turns, turn))
        self.order = replaced(self.order, request=request)

    def function(self, call: Call) -> Function:
        """Return the function for `call`; raise an error for the model if it cannot be called."""
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
class _Current:
    """The current answer of a run."""

    stream: Stream | None = None


class Run:
    """A run with tools: iterate it for the events of every answer; `result` returns the last one."""

    def __init__(
        self, tool_loop: ToolLoop, ask: Callable[[PreparedAsk], Stream], wait: Wait
    ) -> None:
        self._tool_loop = tool_loop
        self._current = _Current()
        self._events = _work(tool_loop, self._current, ask, wait)
        if tool_loop.order.signal is not None:
            tool_loop.order.signal.attach(self)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> ev.Event:
        return next(self._events)

    @property
    def message(self) -> Message:
        """The current answer, as far as it was read."""
        return Message() if self._current.stream is None else self._current.stream.message

    @property
    def turns(self) -> tuple[Turn, ...]:
        """The conversation so far: answers, calls and results."""
        return self._tool_loop.order.request.turns

    @property
    def usage(self) -> Usage:
        """The usage of all answers that have ended."""
        return self._tool_loop.usage

    def result(self) -> Message:
        """Finish the run; return the last answer. Its stop reason is `tool_use` if turns ran out."""
        for _ in self:
            pass
        return self.message

    def abort(self, why: str = ASKED) -> None:
        """End the run: the current answer, or the next one, ends with `Failed`."""
        self._tool_loop.aborted = self._tool_loop.aborted or why
        if self._current.stream is not None:
            self._current.stream.abort(why)


def _work(
    tool_loop: ToolLoop, current: _Current, ask: Callable[[PreparedAsk], Stream], wait: Wait
) -> Generator[ev.Event, None, None]:
    while True:
        current.stream = stream = ask(tool_loop.order)
        if tool_loop.aborted:
            stream.abort(tool_loop.aborted)
        yield from stream
        calls = tool_loop.take(stream.message)
        if not calls:
            return
        tool_loop.give([_perform(tool_loop, call, wait) for call in calls])


def _perform(tool_loop: ToolLoop, call: Call, wait: Wait) -> Result:
    """Call a function in the caller's thread."""
    try:
        value = tool_loop.function(call).call(call.arguments)
        return result_of(call, wait(value) if inspect.isawaitable(value) else value)
    except Exception as error:  # noqa: BLE001  the model gets every exception of a tool
        return failure_of(call, error)


# ── awaiting ─────────────────────────────────────────────────────────────────


@dataclass
class _AsyncCurrent:
    stream: AsyncStream | None = None
    tools: "asyncio.Future[list[Result]] | None" = None
    loop: asyncio.AbstractEventLoop | None = None


class AsyncRun:
    """A run with tools: iterate it for the events of every answer; `result` returns the last one."""

    def __init__(self, tool_loop: ToolLoop, ask: Callable[[PreparedAsk], AsyncStream]) -> None:
        self._tool_loop = tool_loop
        self._current = _AsyncCurrent()
        self._events = _work_async(tool_loop, self._current, ask)
        if tool_loop.order.signal is not None:
            tool_loop.order.signal.attach(self)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ev.Event:
        return await anext(self._events)

    @property
    def message(self) -> Message:
        """The current answer, as far as it was read."""
        return Message() if self._current.stream is None else self._current.stream.message

    @property
    def turns(self) -> tuple[Turn, ...]:
        """The conversation so far: answers, calls and results."""
        return self._tool_loop.order.request.turns

    @property
    def usage(self) -> Usage:
        """The usage of all answers that have ended."""
        return self._tool_loop.usage

    async def result(self) -> Message:
        """Finish the run; return the last answer. Its stop reason is `tool_use` if turns ran out."""
        async for _ in self:
            pass
        return self.message

    def abort(self, why: str = ASKED) -> None:
        """End the run, from any thread: this answer or the next ends with `Failed`; tools are cancelled."""
        self._tool_loop.aborted = self._tool_loop.aborted or why
        current = self._current
        if current.stream is not None:
            current.stream.abort(why)
        if current.tools is not None and current.loop is not None:
            current.loop.call_soon_threadsafe(current.tools.cancel)


async def _work_async(
    tool_loop: ToolLoop, current: _AsyncCurrent, ask: Callable[[PreparedAsk], AsyncStream]
) -> AsyncGenerator[ev.Event, None]:
    while True:
        current.stream = stream = ask(tool_loop.order)
        if tool_loop.aborted:
            stream.abort(tool_loop.aborted)
        async with stream:
            async for event in stream:
                yield event
        calls = tool_loop.take(stream.message)
        if not calls:
            return
        tool_loop.give(await _perform_all(tool_loop, current, calls))


async def _perform_all(
    tool_loop: ToolLoop, current: _AsyncCurrent, calls: tuple[Call, ...]
) -> list[Result]:
    current.loop = asyncio.get_running_loop()
    current.tools = asyncio.gather(*(_perform_async(tool_loop, call) for call in calls))
    try:
        return await current.tools
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if not tool_loop.aborted or task is None or task.cancelling():
            raise
        return [failure_of(call, InterruptedError(tool_loop.aborted)) for call in calls]
    finally:
        current.tools = None


async def _perform_async(tool_loop: ToolLoop, call: Call) -> Result:
    """Call a function: a coroutine in the loop, any other in a thread."""
    try:
        function = tool_loop.function(call)
        if function.waits:
            value = function.call(call.arguments)
        else:
            value = await asyncio.to_thread(function.call, call.arguments)
        return result_of(call, await value if inspect.isawaitable(value) else value)
    except Exception as error:  # noqa: BLE001  the model gets every exception of a tool
        return failure_of(call, error)
