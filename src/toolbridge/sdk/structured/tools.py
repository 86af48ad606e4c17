"""Client-side tools: run in this process, answered over the stream's back channel."""

import asyncio
import inspect
from collections.abc import Mapping
from contextlib import suppress

from toolbridge.core.json import Json, dump_bytes, loads
from toolbridge.sdk.structured.errors import StreamFailed
from toolbridge.sdk.structured.options import TOOL_TIMEOUT, OnToolCall
from toolbridge.sdk.structured.transports import ToolReplySent, Transport
from toolbridge.structured.events import RunToolCall
from toolbridge.tools.functions import Function

_TRIES = 3
_PAUSE = 0.2


class CallerTools:
    """Runs each call in a separate task, so that the stream is read meanwhile."""

    def __init__(
        self,
        line: Transport,
        functions: Mapping[str, Function],
        on_tool_call: OnToolCall | None,
        timeout: float = TOOL_TIMEOUT,
    ) -> None:
        self._line = line
        self._functions = functions
        self._on_tool_call = on_tool_call
        self._timeout = timeout
        self._running: dict[str, asyncio.Task[None]] = {}

    def start(self, call: RunToolCall, run: str) -> None:
        """Run a client-side call; report a server-side call to `on_tool_call`."""
        if call.client:
            self._running[call.id] = asyncio.create_task(self._answer(call, run))
        elif self._on_tool_call is not None:
            self._running[call.id] = asyncio.create_task(self._notify(call))

    def stop(self, id: str) -> None:
        """Cancel a call whose result is no longer needed."""
        task = self._running.pop(id, None)
        if task is not None:
            task.cancel()

    async def close(self) -> None:
        tasks = list(self._running.values())
        for id in list(self._running):
            self.stop(id)
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _notify(self, call: RunToolCall) -> None:
        with suppress(Exception):  # a notification only: the server runs the tool
            await self._perform(call)

    async def _answer(self, call: RunToolCall, run: str) -> None:
        try:
            async with asyncio.timeout(self._timeout):
                answer = ToolReplySent(call.id, _json(await self._perform(call)))
        except TimeoutError:
            answer = ToolReplySent(call.id, error=f"no answer after {self._timeout * 1000:.0f} ms")
        except Exception as error:  # noqa: BLE001  the model gets every exception of a tool
            answer = ToolReplySent(call.id, error=str(error) or type(error).__name__)
        await self._send(run, answer)

    async def _perform(self, call: RunToolCall) -> object:
        function = self._functions.get(call.name)
        if function is not None:
            if function.waits:
                value = function.call(call.args)
            else:
                value = await asyncio.to_thread(function.call, call.args)
        elif self._on_tool_call is None:
            raise LookupError(f"the caller has no tool {call.name}")
        elif inspect.iscoroutinefunction(self._on_tool_call):
            value = self._on_tool_call(call)
        else:
            value = await asyncio.to_thread(self._on_tool_call, call)
        return await value if inspect.isawaitable(value) else value

    async def _send(self, run: str, answer: ToolReplySent) -> None:
        """Send the result, with retries; a rejection means that the run does not wait for it."""
        for attempt in range(1, _TRIES + 1):
            try:
                await self._line.answer(run, answer)
            except StreamFailed as error:
                if not error.passing:
                    return
                await asyncio.sleep(_PAUSE * attempt)
            else:
                return


def _json(value: object) -> Json:
    """Return a tool's return value as JSON; raise `TypeError` if it cannot be encoded."""
    return loads(dump_bytes(value))
