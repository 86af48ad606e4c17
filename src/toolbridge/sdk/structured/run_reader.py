"""Reads one run to its end, and reconnects after a lost connection."""

import asyncio
import random

from toolbridge.sdk.structured.errors import StreamFailed, lost
from toolbridge.sdk.structured.fold import EventOrder, ReceivedEvent
from toolbridge.sdk.structured.transports import ClientConnection, Transport
from toolbridge.structured import events as fe

ATTEMPTS = 6
_FIRST_WAIT = 0.25
_LONGEST_WAIT = 5.0
_ABANDONED = 30.0
"""Seconds after which a server ends a run without a reader, so waiting longer is useless."""


class RunReader:
    """Reads events on demand; the server waits while none are read."""

    def __init__(self, line: Transport, attempts: int = ATTEMPTS) -> None:
        self.order = EventOrder()
        self.done = False
        self._line = line
        self._attempts = attempts
        self._connection: ClientConnection | None = None
        self._fault: StreamFailed | None = None
        self._failures = 0
        self._reached = 0

    async def next(self) -> list[fe.Event]:
        """Return the next events, empty at the end; raise `StreamFailed` if the run is lost."""
        while not self.done:
            try:
                events = await self._read()
            except StreamFailed as fault:
                await self.hang_up()
                await self._wait_after(fault)
                continue
            if events:
                self.done = isinstance(events[-1], fe.RunDone)
                return events
        return []

    async def hang_up(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()

    async def _read(self) -> list[fe.Event]:
        fault, self._fault = self._fault, None
        if fault is not None:
            raise fault
        connection = self._connection or await self._open()
        arrivals = await connection.read()
        if not arrivals:
            raise lost("the connection ended before the stream was done")
        return self._taken(arrivals)

    async def _open(self) -> ClientConnection:
        order = self.order
        self._connection = await self._line.open(order.run, order.last_event_id)
        if self._connection.run:
            order.learn(self._connection.run)
        return self._connection

    def _taken(self, arrivals: list[ReceivedEvent]) -> list[fe.Event]:
        """Return the events before a fault; the next read raises the fault."""
        events: list[fe.Event] = []
        for arrival in arrivals:
            try:
                event = self.order.take(arrival)
            except StreamFailed as fault:
                self._fault = fault
                break
            if event is not None:
                events.append(event)
            if isinstance(event, fe.RunDone):
                break
        return events

    async def _wait_after(self, fault: StreamFailed) -> None:
        """Wait before the next attempt, or raise if none is left."""
        if self.order.last > self._reached:
            self._failures = 0
        self._reached = self.order.last
        self._failures += 1
        if self._failures > self._attempts or not self._may_retry(fault):
            raise fault
        wait = min(_FIRST_WAIT * 2 ** (self._failures - 1), _LONGEST_WAIT)
        wait *= random.uniform(0.5, 1.0)  # noqa: S311  jitter: clients do not reconnect all at once
        await asyncio.sleep(max(wait, min(fault.retry_after or 0.0, _ABANDONED)))

    def _may_retry(self, fault: StreamFailed) -> bool:
        if self.order.run:
            return fault.passing
        return fault.code == "connection_lost" and self._line.repeatable
