"""Sends the requests of a conversation to the same slot of a llama.cpp server (`id_slot`).

`policy/slots.py` decides about the slot. It is taken when a request is sent, and is busy until its
answer is closed.
"""

import asyncio
from collections.abc import Callable, Mapping

from toolbridge.core.json import JsonObject
from toolbridge.core.messages import Request
from toolbridge.policy.agent_requests import kind_of
from toolbridge.policy.session_key import session_key
from toolbridge.policy.slots import SlotTable
from toolbridge.routing.route import Route
from toolbridge.routing.sources import Batch, Source

SLOT = "id_slot"
"""llama.cpp server: the field of `/v1/chat/completions` and `/v1/responses`; `/v1/messages` ignores it."""


class ServerSlots:
    """The slots of all servers that one gateway or client uses."""

    def __init__(self) -> None:
        self._tables: dict[str, SlotTable] = {}

    def pin(self, request: Request, route: Route, headers: Mapping[str, str]) -> "SlotPin | None":
        """Return the pin of a request; None if its server has no slots to choose from."""
        if route.slots < 2 or not route.provider_config.pin_slots:
            return None
        if not route.provider_config.api.startswith("openai"):
            return None
        table = self._tables.setdefault(route.address, SlotTable())
        return SlotPin(table, route.slots, request, headers)


class SlotPin:
    """Takes a slot for each attempt to answer one request."""

    field = SLOT

    def __init__(
        self, table: SlotTable, slots: int, request: Request, headers: Mapping[str, str]
    ) -> None:
        self._table = table
        self._slots = slots
        self._session = session_key(request, headers)
        self._kind = kind_of(request, headers)

    def source(self, send: Callable[[JsonObject | None], Source]) -> Source:
        """Return a source that calls `send` at its first read, with the field for the slot."""
        return PinnedSource(self, send)

    def take(self) -> int | None:
        now = asyncio.get_running_loop().time()
        return self._table.take(self._session, self._kind, self._slots, now)

    def release(self, slot: int) -> None:
        self._table.release(slot)


class PinnedSource:
    """The source of an answer whose request takes a slot at the first read."""

    passing = False

    def __init__(self, pin: SlotPin, send: Callable[[JsonObject | None], Source]) -> None:
        self._pin = pin
        self._send = send
        self._slot: int | None = None
        self._source: Source | None = None

    async def read(self) -> Batch | None:
        if self._source is None:
            self._slot = self._pin.take()
            self._source = self._send(None if self._slot is None else {SLOT: self._slot})
        return await self._source.read()

    async def close(self) -> None:
        slot, self._slot = self._slot, None
        try:
            if self._source is not None:
                await self._source.close()
        finally:
            if slot is not None:
                self._pin.release(slot)
