"""All runs of a server: starts, follows, answers, aborts and repeats them."""

import asyncio
import os
import re
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b
from typing import TypeAlias

import msgspec

from toolbridge.core.caller import owner_of
from toolbridge.core.errors import ClientError, MalformedRequest, RateLimited
from toolbridge.core.ids import Ids
from toolbridge.core.json import Json, JsonObject
from toolbridge.runs.kept_events import KEPT, Record, RunEventForm, record_of
from toolbridge.runs.kept_events import MOST as RUN_BYTES
from toolbridge.runs.log import EventLog, run_place
from toolbridge.runs.run import StreamRun
from toolbridge.store.claims import Claim, Claims
from toolbridge.store.interface import Store
from toolbridge.store.presence import Presence
from toolbridge.store.shared_log import LogPlace, stored_items
from toolbridge.structured.events import Event, RunDone, RunError
from toolbridge.tools.keys import canonical
from toolbridge.tools.registry import ToolOutcome

Batches: TypeAlias = AsyncGenerator[list[Record], None]
GRACE = 30.0
"""Seconds after which a run without subscribers is ended."""
MOST = 4096
_PASSING = frozenset(
    {"upstream_error", "overloaded", "request_timeout", "aborted", "abandoned", "internal"}
)
"""Errors after which a repeat may succeed: the idempotency key of such a run is free again."""
_STOPPED = ("abandoned", "the server was stopped before the stream had ended")


class UnknownRun(ClientError):
    kind = "unknown_run"
    status = 404


class RunElsewhere(ClientError):
    """The run is active in another process of the same gateway."""

    kind = "run_elsewhere"
    status = 409


@dataclass
class _Live:
    run: StreamRun
    owner: str
    task: "asyncio.Task[None]"
    alone: float | None = None
    began: float = field(default_factory=time.monotonic)


@dataclass(frozen=True)
class RunSubscription:
    """A run, and its events from the number that a reader asked for."""

    run: str
    batches: Batches


class Streams:
    def __init__(
        self,
        store: Store,
        *,
        grace: float = GRACE,
        most: int = MOST,
        run_bytes: int = RUN_BYTES,
    ) -> None:
        self._store = store
        self._run_bytes = run_bytes
        self._grace = grace
        self._most = most
        self._live: dict[str, _Live] = {}
        self._ids = Ids(os.urandom(16))
        self._sweeping: asyncio.Task[None] | None = None
        self._claims = Claims(store, "idempotency")
        self._presence = Presence(store)

    # ── starting ─────────────────────────────────────────────────────────────

    def new_id(self) -> str:
        return f"run_{self._ids.draw(16)}"

    def log_for(self, run: str, caller: str) -> EventLog:
        return EventLog(self._place(run, caller))

    def _place(self, run: str, caller: str) -> LogPlace:
        return run_place(self._store, owner_of(caller), run, self._run_bytes)

    async def _process_of(self, run: str, caller: str) -> str:
        """Return the other process in which a run is active; empty without one."""
        noted = await self._store.get(f"run_process/{owner_of(caller)}", run)
        process = (noted or b"").decode()
        if not process or process == self._presence.id:
            return ""
        active = await self._presence.is_alive(process)
        return process if active and await self._end_of(run, caller) is None else ""

    async def begin(self, id: str, run: StreamRun, caller: str) -> RunSubscription:
        """Start `run` and follow it from its first event; other processes can find it from now on."""
        self.check_room()
        task = asyncio.create_task(run.drive(), name=id)
        self._live[id] = _Live(run, owner_of(caller), task)
        task.add_done_callback(lambda _: self._ended(id))
        if self._sweeping is None:
            self._sweeping = asyncio.create_task(self._sweep())
        # Nothing may wait before this point: a claim of this process must lead to a live run.
        await self._presence.begin()
        process = self._presence.id.encode()
        await self._store.put(f"run_process/{owner_of(caller)}", id, process, seconds=KEPT)
        return RunSubscription(id, _follow(run.log, 0))

    def check_room(self) -> None:
        """Raise if the server runs its maximum of streams already."""
        if len(self._live) >= self._most:
            text = f"this server runs its maximum of {self._most} streams; retry later"
            raise RateLimited(text, retry_after=1.0)

    def _ended(self, id: str) -> None:
        if self._live.pop(id, None) is not None:
            self._presence.end()

    async def claim(
        self, id: str, body: JsonObject, caller: str, key: str
    ) -> RunSubscription | None:
        """Claim `key` for the run `id`; return the run that holds it already, or None.

        Raise `IdempotencyConflict` if that run was started with another request.
        """
        asked = blake2b(canonical(body), digest_size=16).hexdigest()
        mine = Claim(id, asked, self._presence.id)
        repeated = partial(self._repeated, caller=caller)
        # The lease comes first: a claim without one is taken for that of a dead process.
        await self._presence.begin()
        try:
            return await self._claims.claim(owner_of(caller), key, mine, repeated, seconds=KEPT)
        finally:
            self._presence.end()

    async def _repeated(self, held: Claim, caller: str) -> RunSubscription | None:
        """Return the run of a claim; None if it ended with an error that a repeat may avoid."""
        run = held.work
        live = self._live.get(run)
        if live is not None and not live.run.log.ended:
            return RunSubscription(run, _follow(live.run.log, 0))
        if live is not None:
            await asyncio.wait({live.task})  # its last events are being stored
        end = await self._end_of(run, caller)
        if end is None and held.process != self._presence.id:
            if await self._presence.is_alive(held.process):
                return RunSubscription(run, self._elsewhere(run, held.process, caller))
            end = await self._end_of(run, caller)
        if end is None or end in _PASSING:
            return None
        return RunSubscription(run, self._past(run, caller, 0))

    async def _end_of(self, run: str, caller: str) -> str | None:
        """Return the code of the error that ended a stored run, "" for none; None if it never ended."""
        before: Record | None = None
        async with aclosing(self._stored(run, caller, 0)) as batches:
            async for batch in batches:
                for record in batch:
                    if record.is_last:
                        return _code(before)
                    before = record
        return None

    async def _stored(self, run: str, caller: str, after: int, process: str = "") -> Batches:
        """Yield the stored events; while `process` is alive, wait for further ones."""
        place = self._place(run, caller)
        form = RunEventForm(self._store.redactor)
        alive = partial(self._presence.is_alive, process) if process else None
        async with aclosing(stored_items(place, form, after, alive)) as batches:
            async for batch in batches:
                yield [record for _, record in batch]
                if batch[-1][1].is_last:
                    return

    # ── following ────────────────────────────────────────────────────────────

    def active(self, caller: str) -> dict[str, float]:
        """Return the runs of this caller that run in this process, with their seconds so far."""
        owner, now = owner_of(caller), time.monotonic()
        return {
            id: now - live.began
            for id, live in self._live.items()
            if live.owner == owner and not live.run.log.ended
        }

    async def follow(self, run: str, caller: str, after: int = 0) -> RunSubscription:
        """Follow a run of this caller, live or past; raise `UnknownRun`."""
        live = self._mine(run, caller)
        if live is not None:
            if after > live.run.log.last:
                raise _beyond(live.run.log.last)
            return RunSubscription(run, _follow(live.run.log, after))
        if process := await self._process_of(run, caller):
            return RunSubscription(run, self._elsewhere(run, process, caller, after))
        if not await self._has(run, caller, 0):
            raise UnknownRun(f"there is no run {run[:64]!r} for this caller; it may have expired")
        if after and not await self._has(run, caller, after - 1):
            await self._check_ended_early(run, caller)
        return RunSubscription(run, self._past(run, caller, after))

    async def _has(self, run: str, caller: str, after: int) -> bool:
        """Return whether events after `after` are stored."""
        async with aclosing(self._stored(run, caller, after)) as batches:
            return await anext(batches, None) is not None

    async def _check_ended_early(self, run: str, caller: str) -> None:
        """Raise `MalformedRequest` for an event after the end of a run.

        A process that was killed may have sent events that it did not store.
        """
        async with aclosing(self._stored(run, caller, 0)) as batches:
            async for batch in batches:
                if batch[-1].is_last:
                    raise _beyond(batch[-1].n)

    async def _past(self, run: str, caller: str, after: int) -> Batches:
        last: Record | None = None
        # Read from the event before: it may be the last one of the run.
        async with aclosing(self._stored(run, caller, max(0, after - 1))) as batches:
            async for batch in batches:
                last = batch[-1]
                if fresh := [record for record in batch if record.n > after]:
                    yield fresh
        if last is None or not last.is_last:
            yield _ending(last.n if last else after)

    async def _elsewhere(self, run: str, process: str, caller: str, after: int = 0) -> Batches:
        """Follow a run of another process on the same store."""
        cursor = after
        async with aclosing(self._stored(run, caller, after, process)) as batches:
            async for batch in batches:
                cursor = batch[-1].n
                yield batch
                if batch[-1].is_last:
                    return
        yield _ending(cursor)

    # ── tool results and aborts ──────────────────────────────────────────────

    async def answer_tool(self, run: str, caller: str, id: str, outcome: ToolOutcome) -> bool:
        """Deliver the result of a client-side tool; return False if the run does not wait for it."""
        live = self._mine(run, caller)
        if live is None or live.run.log.ended:
            await self._refuse_elsewhere(run, caller)
            raise UnknownRun(f"the run {run[:64]!r} is not active")
        return live.run.answer_tool(id, outcome)

    async def abort(self, run: str, caller: str, why: str = "aborted") -> bool:
        """End an active run; return False if it had ended; raise `UnknownRun`."""
        live = self._mine(run, caller)
        if live is None:
            await self._refuse_elsewhere(run, caller)
            if not await self._has(run, caller, 0):
                raise UnknownRun(f"there is no run {run[:64]!r}")
            return False
        return _stop(live, why, "the caller aborted the stream")

    async def _refuse_elsewhere(self, run: str, caller: str) -> None:
        """Raise for a run that is active in another process, which alone can change it."""
        if await self._process_of(run, caller):
            raise RunElsewhere(
                f"the run {run[:64]!r} is active in another process of the gateway, "
                "which alone takes results and aborts it; with several workers use the WebSocket, "
                "which stays with its process"
            )

    def _mine(self, run: str, caller: str) -> _Live | None:
        live = self._live.get(run)
        return live if live is not None and live.owner == owner_of(caller) else None

    # ── ending ───────────────────────────────────────────────────────────────

    async def _sweep(self) -> None:
        """End runs that have had no subscriber for `grace` seconds."""
        loop = asyncio.get_running_loop()
        while self._live:
            await asyncio.sleep(min(1.0, self._grace / 4))
            for live in list(self._live.values()):
                if live.run.log.readers:
                    live.alone = None
                elif live.alone is None:
                    live.alone = loop.time()
                elif loop.time() - live.alone > self._grace:
                    _stop(live, "abandoned", f"no client read the stream for {self._grace:g} s")
        self._sweeping = None

    async def close(self) -> None:
        """End all active runs."""
        tasks = []
        for live in list(self._live.values()):
            _stop(live, *_STOPPED)
            tasks.append(live.task)
        if self._sweeping is not None:
            self._sweeping.cancel()
            tasks.append(self._sweeping)
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._presence.close()


def _stop(live: _Live, why: str, text: str) -> bool:
    news = live.run.end(why, text)
    if news:
        live.task.cancel()
    return news


async def _follow(log: EventLog, after: int) -> Batches:
    with log.follow(after) as reader:
        async with aclosing(reader.batches()) as batches:
            async for batch in batches:
                yield [record for _, record in batch]


def _beyond(last: int) -> MalformedRequest:
    return MalformedRequest(f"the run has {last} events", where="Last-Event-ID")


def _ending(last: int) -> list[Record]:
    """Return the final events of a run whose process stopped before it sent them."""
    events: tuple[Event, ...] = (RunError(*_STOPPED), RunDone())
    return [record_of(last + at, event) for at, event in enumerate(events, 1)]


def _code(record: Record | None) -> str:
    if record is None or record.name != "error":
        return ""
    data: Json = msgspec.json.decode(record.data)
    return str(data.get("code", "")) if isinstance(data, dict) else ""


def parse_event_id(event_id: str) -> tuple[str, int]:
    """Return the run and the number in an event id; raise `MalformedRequest`."""
    run, colon, number = event_id.rpartition(":")
    if not colon or re.fullmatch(r"[0-9]{1,12}", number) is None:
        text = f"{event_id[:80]!r} is not an event id; ids look like run_0123456789abcdef:17"
        raise MalformedRequest(text, where="Last-Event-ID")
    return run, int(number)
