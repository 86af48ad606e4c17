"""`AsyncStructuredStream`: a structured stream for async callers."""

import asyncio
import inspect
from collections import deque
from contextlib import suppress
from operator import attrgetter
from types import TracebackType
from typing import Generic, Self, TypeVar

from toolbridge.core.errors import ToolbridgeError
from toolbridge.core.json import Json
from toolbridge.sdk.structured.errors import StreamFailed, failure_of
from toolbridge.sdk.structured.fold import ReceivedObject, StreamFold, StreamPiece, UsedTool
from toolbridge.sdk.structured.options import TOOL_TIMEOUT, PreparedStream, StreamOptions
from toolbridge.sdk.structured.run_reader import ATTEMPTS, RunReader
from toolbridge.sdk.structured.tools import CallerTools
from toolbridge.sdk.structured.transports import Transport
from toolbridge.structured import events as fe

T = TypeVar("T")

_GRACE = 1.0
"""Seconds that the client waits longer than the server, whose own error is more precise."""
_ABORT_GRACE = 5.0
_value_of = attrgetter("value")
"""Untyped here: the reader of the schema has converted the value to the caller's type."""


class Gate:
    """A gate that any thread can close and that one loop waits for."""

    def __init__(self) -> None:
        self.shut = False
        self._waiting: tuple[asyncio.AbstractEventLoop, asyncio.Event] | None = None

    def close(self) -> None:
        self.shut = True

    def open(self) -> None:
        self.shut = False
        waiting = self._waiting
        if waiting is not None:
            with suppress(RuntimeError):  # the loop is closed
                waiting[0].call_soon_threadsafe(waiting[1].set)

    async def wait(self) -> None:
        while self.shut:
            opened = asyncio.Event()
            self._waiting = (asyncio.get_running_loop(), opened)
            if self.shut:  # not opened in between
                await opened.wait()
            self._waiting = None


class AsyncStructuredStream(Generic[T]):
    """Iterate it for events; `result()` reads the rest and returns the result.

    The stream is pulled: it starts when it is first read, and an unread stream makes the server wait.
    Leaving it early (`aclose`, the end of `async with`) disconnects; `abort` stops the run itself.
    """

    def __init__(self, line: Transport, ordered: PreparedStream, options: StreamOptions) -> None:
        self._line = line
        self._options = options
        self._reading = RunReader(line, options.get("attempts", ATTEMPTS))
        timeout = options.get("tool_timeout", TOOL_TIMEOUT)
        on_tool_call = options.get("on_tool_call")
        self._toolbox = CallerTools(line, ordered.functions, on_tool_call, timeout)
        self._fold = StreamFold(ordered.readers)
        self._gate = Gate()
        self._turn = asyncio.Lock()
        self._ready: deque[fe.Event] = deque()
        self._pulling: asyncio.Task[list[fe.Event]] | None = None
        self._left = options.get("request_timeout")
        self._aborting = False
        self._abort_sent = False
        self._closed = False
        self._failure: StreamFailed | None = None

    # ── the stream so far ──

    @property
    def run(self) -> str:
        """The id of the run; known with the first event."""
        return self._reading.order.run

    @property
    def last_event_id(self) -> str:
        return self._reading.order.last_event_id

    @property
    def text(self) -> str:
        """The text so far."""
        return self._fold.text

    @property
    def objects(self) -> tuple[ReceivedObject, ...]:
        """The complete objects so far."""
        return tuple(self._fold.objects)

    @property
    def tools(self) -> tuple[UsedTool, ...]:
        """The tool calls so far, with their results."""
        return self._fold.tools

    @property
    def errors(self) -> tuple[fe.RunError, ...]:
        """The errors that did not end the stream."""
        return self._fold.errors

    @property
    def found(self) -> ReceivedObject | None:
        """The result with its schema and status; None before it has arrived."""
        return self._fold.result

    @property
    def usage(self) -> Json:
        """The tokens and the cost of all model calls; set at the end, if a provider reported them."""
        return self._reading.order.usage

    @property
    def paused(self) -> bool:
        return self._gate.shut

    # ── reading ──

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> fe.Event:
        await self.fill()
        if self.ended:
            raise StopAsyncIteration
        event, calls = self.pop()
        for call in calls:
            if inspect.isawaitable(call):
                await call
        return event

    async def result(self) -> T:
        """Read the rest; return the result, or raise `StreamFailed`."""
        async for _ in self:
            pass
        return self.outcome()

    def outcome(self) -> T:
        """Return the result of a stream that has ended.

        Raise `StreamFailed` if it has none, and `StreamDegraded` for a degraded one, unless
        `on_degraded` is "accept".
        """
        if self._failure is not None:
            raise self._failure
        if self._fold.failure is not None:
            raise self._fold.failure
        degraded = self._fold.degraded
        if degraded is not None and self._options.get("on_degraded", "raise") != "accept":
            raise degraded
        if self._fold.result is None:
            code = "closed" if self._closed and not self._fold.done else "no_result"
            raise StreamFailed(code, "the stream ended without a result")
        value: T = _value_of(self._fold.result)
        return value

    @property
    def ended(self) -> bool:
        over = self._reading.done or self._closed or self._failure is not None
        return over and not self._ready

    def pop(self) -> tuple[fe.Event, list[object]]:
        """Return the next event, and what the callbacks returned."""
        event = self._ready.popleft()
        try:
            piece = self._fold.feed(event)
        except ToolbridgeError as error:
            self._failure = failure_of(error)
            self._ready.clear()
            raise self._failure from None
        return event, self._call_back(event, piece)

    async def fill(self) -> None:
        """Wait until an event is available, or until the stream has ended."""
        await self._gate.wait()
        async with self._turn:
            if not self._ready and not self.ended:
                try:
                    self._ready.extend(await self._pull())
                except ToolbridgeError as error:
                    self._failure = failure_of(error)
                    await self._finish()
                    raise self._failure from None

    async def _pull(self) -> list[fe.Event]:
        if self._aborting and not self.run:
            raise StreamFailed("aborted", "the stream was aborted before it started")
        # A separate task, so that `aclose` can cancel the wait without cancelling the caller.
        self._pulling = asyncio.create_task(self._next())
        try:
            events = await self._pulling
        except asyncio.CancelledError:
            if self._closed:
                return []
            raise
        finally:
            self._pulling.cancel()
            self._pulling = None
        for event in events:
            self._note(event)
        await self._send_abort()
        if self._reading.done:
            await self._finish()
        return events

    async def _next(self) -> list[fe.Event]:
        """Read the next events; time between two reads is not counted."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        wait = None if self._left is None else self._left + _GRACE
        wait = _ABORT_GRACE if self._aborting else wait
        try:
            async with asyncio.timeout(wait):
                return await self._reading.next()
        except TimeoutError:
            raise await self._late() from None
        finally:
            if self._left is not None:
                self._left = max(0.0, self._left - (loop.time() - began))

    async def _late(self) -> StreamFailed:
        if self._aborting:
            return StreamFailed("aborted", "the server did not confirm the end of the run")
        self._aborting = True
        await self._send_abort()
        allowed = self._options.get("request_timeout", 0.0)
        return StreamFailed("request_timeout", f"the stream took longer than {allowed:g} s")

    def _note(self, event: fe.Event) -> None:
        match event:
            case fe.RunToolCall():
                self._toolbox.start(event, self.run)
            case fe.ToolResult(id):
                self._toolbox.stop(id)
            case _:
                pass

    def _call_back(self, event: fe.Event, piece: StreamPiece | None) -> list[object]:
        options = self._options
        returned: list[object] = []
        if "on_event" in options:
            returned.append(options["on_event"](event))
        if isinstance(event, fe.RunTextDelta) and "on_text" in options:
            returned.append(options["on_text"](event.text))
        if piece is not None:
            is_result = isinstance(event, fe.ResultBegin | fe.ResultDelta | fe.ResultEnd)
            tell = options.get("on_result") if is_result else options.get("on_json")
            returned += [tell(piece)] if tell is not None else []
        return returned

    # ── holding and ending ──

    def pause(self) -> None:
        """Stop reading until `resume`; may be called from any thread."""
        self._gate.close()

    def resume(self) -> None:
        self._gate.open()

    async def resumed(self) -> None:
        """Wait until it is not paused."""
        await self._gate.wait()

    async def abort(self) -> None:
        """Stop the run: the model and the tool. The stream still gets its final events."""
        self._aborting = True
        self.resume()
        await self._send_abort()

    async def _send_abort(self) -> None:
        if self._aborting and not self._abort_sent and self.run and not self._reading.done:
            self._abort_sent = True
            with suppress(ToolbridgeError):  # the run has ended, or the server is unreachable
                await self._line.abort(self.run)

    async def aclose(self) -> None:
        """Disconnect. A run at a server continues for a while; a local one ends."""
        self._closed = True
        self.resume()
        pulling = self._pulling
        if pulling is not None:
            pulling.cancel()
            await asyncio.wait([pulling])
        self._ready.clear()
        await self._finish()

    async def _finish(self) -> None:
        await self._toolbox.close()
        await self._reading.hang_up()
        await self._line.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()
