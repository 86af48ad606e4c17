"""A prompt with tools that are run here, asked again until the model has what it needs."""

import asyncio
import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterable
from dataclasses import replace as replaced
from typing import Self

from msgspec.structs import replace

from toolbridge.core import events as ev
from toolbridge.core.messages import Call, Message, Result, ToolChoice, Turn
from toolbridge.sdk.async_stream import AsyncStream
from toolbridge.sdk.functions import Function, failure_of, result_of
from toolbridge.sdk.options import Order
from toolbridge.sdk.signal import ASKED
from toolbridge.sdk.stream import Stream


class Errand:
    """The conversation of a run: what to ask next, and which calls to make before."""

    def __init__(self, order: Order, max_turns: int) -> None:
        self.order = order
        self._left = max_turns
        self._owners = {tool.name for tool in order.request.tools} - order.functions.keys()

    def take(self, message: Message) -> tuple[Call, ...]:
        """Note an answer; return the calls to make, none when nothing is left to do here."""
        self._left -= 1
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


class Run:
    """Iterate it for the events of every answer; `result` is the last one."""

    def __init__(
        self,
        errand: Errand,
        ask: Callable[[Order], Stream],
        wait: Callable[[Awaitable[object]], object],
    ) -> None:
        self._errand = errand
        self._ask = ask
        self._wait = wait
        self._current: Stream | None = None
        self._aborted = ""
        self._events = self._work()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> ev.Event:
        return next(self._events)

    def _work(self) -> Generator[ev.Event, None, None]:
        while True:
            self._current = stream = self._ask(self._errand.order)
            if self._aborted:
                stream.abort(self._aborted)
            yield from stream
            calls = self._errand.take(stream.message)
            if not calls:
                return
            self._errand.give([self._perform(call) for call in calls])

    def _perform(self, call: Call) -> Result:
        """Call a function, here in the caller's own thread."""
        try:
            value = self._errand.function(call).call(call.arguments)
            return result_of(call, self._wait(value) if inspect.isawaitable(value) else value)
        except Exception as error:  # noqa: BLE001  whatever a tool raises is the model's to read
            return failure_of(call, error)

    @property
    def message(self) -> Message:
        """The answer that is being given, as far as it was handed out."""
        return self._current.message if self._current else Message()

    @property
    def turns(self) -> tuple[Turn, ...]:
        """The conversation so far: answers, calls and results."""
        return self._errand.order.request.turns

    def result(self) -> Message:
        """Do the rest; return the last answer. If it stopped for `tool_use`, turns ran out."""
        for _ in self:
            pass
        return self.message

    def abort(self, why: str = ASKED) -> None:
        """End it: the answer that is being given, or the next one, ends as `Failed`."""
        self._aborted = self._aborted or why
        if self._current is not None:
            self._current.abort(why)


class AsyncRun:
    """Iterate it for the events of every answer; `result` is the last one."""

    def __init__(self, errand: Errand, ask: Callable[[Order], AsyncStream]) -> None:
        self._errand = errand
        self._ask = ask
        self._current: AsyncStream | None = None
        self._working: asyncio.Future[list[Result]] | None = None
        self._aborted = ""
        self._events = self._work()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ev.Event:
        return await anext(self._events)

    async def _work(self) -> AsyncGenerator[ev.Event, None]:
        while True:
            self._current = stream = self._ask(self._errand.order)
            if self._aborted:
                stream.abort(self._aborted)
            async with stream:
                async for event in stream:
                    yield event
            calls = self._errand.take(stream.message)
            if not calls:
                return
            self._errand.give(await self._perform_all(calls))

    async def _perform_all(self, calls: tuple[Call, ...]) -> list[Result]:
        self._working = asyncio.gather(*(self._perform(call) for call in calls))
        try:
            return await self._working
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if not self._aborted or task is None or task.cancelling():
                raise
            stopped = InterruptedError(self._aborted)
            return [failure_of(call, stopped) for call in calls]
        finally:
            self._working = None

    async def _perform(self, call: Call) -> Result:
        """Call a function: a coroutine here, any other in a thread, so that the loop goes on."""
        try:
            function = self._errand.function(call)
            if function.waits:
                value = function.call(call.arguments)
            else:
                value = await asyncio.to_thread(function.call, call.arguments)
            return result_of(call, await value if inspect.isawaitable(value) else value)
        except Exception as error:  # noqa: BLE001  whatever a tool raises is the model's to read
            return failure_of(call, error)

    @property
    def message(self) -> Message:
        """The answer that is being given, as far as it was handed out."""
        return self._current.message if self._current else Message()

    @property
    def turns(self) -> tuple[Turn, ...]:
        """The conversation so far: answers, calls and results."""
        return self._errand.order.request.turns

    async def result(self) -> Message:
        """Do the rest; return the last answer. If it stopped for `tool_use`, turns ran out."""
        async for _ in self:
            pass
        return self.message

    def abort(self, why: str = ASKED) -> None:
        """End it: the answer that is being given, or the next one, ends as `Failed`."""
        self._aborted = self._aborted or why
        if self._current is not None:
            self._current.abort(why)
        if self._working is not None:
            self._working.cancel()
