"""Kept answers: responses that a repeat attaches to, and that a client can continue.

An answer is made once, in a task of its own, and is written to a log of the store. The client that
asked for it, its retries and other processes read that log. `Idempotency-Key` finds the answer to a
repeat; a retry without a key finds an answer whose client has left (`docs/decisions/0032`).
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

import msgspec

from toolbridge.core.caller import owner_of
from toolbridge.core.errors import UnknownAnswer
from toolbridge.core.json import maybe_object
from toolbridge.server.answer_log import (
    AnswerEnd,
    AnswerEntry,
    AnswerForm,
    AnswerLog,
    end_of,
    head_of,
)
from toolbridge.server.http import HttpExchange
from toolbridge.server.produced_exchange import ProducedExchange
from toolbridge.server.resume_wishes import AnswerWish
from toolbridge.store.claims import Claim, Claims
from toolbridge.store.interface import Store
from toolbridge.store.presence import Presence
from toolbridge.store.shared_log import LogPlace, stored_items

EntryBatches: TypeAlias = AsyncGenerator[list[AnswerEntry], None]
Produce: TypeAlias = Callable[[ProducedExchange], Awaitable[None]]
"""Makes the response of an exchange."""
_DELAY = 0.2
"""Seconds after which an event is stored at the latest."""


@dataclass
class _LiveAnswer:
    """An answer that this process makes."""

    log: AnswerLog
    owner: str
    wish: AnswerWish
    claim: Claim
    exchange: ProducedExchange
    task: "asyncio.Task[None] | None" = None
    timer: asyncio.TimerHandle | None = None

    @property
    def is_good(self) -> bool:
        """Whether the answer is complete and kept, so that a repeat can have it."""
        return self.exchange.finished and self.exchange.status == 200 and not self.log.is_cut


@dataclass(frozen=True)
class FollowedAnswer:
    """An answer and its entries."""

    id: str
    batches: EntryBatches
    repeats: bool = False
    """Whether the answer was asked for by an earlier request."""


class KeptAnswers:
    """All kept answers of one gateway."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._live: dict[str, _LiveAnswer] = {}
        self._claims = Claims(store, "answer_keys")
        self._presence = Presence(store)
        self._noting: set[asyncio.Task[None]] = set()

    # ── starting and repeating ───────────────────────────────────────────────

    async def open(
        self, exchange: HttpExchange, wish: AnswerWish, body: bytes, produce: Produce
    ) -> FollowedAnswer:
        """Return the answer to a request: a new one, or the one that the request repeats.

        Raise `IdempotencyConflict` if its key was used with another request.
        """
        owner = owner_of(exchange.caller)
        claim = Claim(exchange.id, wish.request, self._presence.id)
        # The lease comes first: a claim without one is taken for that of a dead process.
        await self._presence.begin()
        try:
            found = await self._earlier(owner, wish, claim)
            # Nothing may wait here: a claim of this process must lead to a live answer.
            return found or self._begin(exchange, claim, wish, body, produce)
        finally:
            self._presence.end()

    async def _earlier(self, owner: str, wish: AnswerWish, claim: Claim) -> FollowedAnswer | None:
        """Return the answer that a request repeats; None for a new one."""
        if wish.key:
            repeated = partial(self._repeated, owner=owner, wish=wish)
            return await self._claims.claim(owner, wish.key, claim, repeated, seconds=wish.keep)
        return await self._left_answer(owner, wish) if wish.retries else None

    def _begin(
        self,
        exchange: HttpExchange,
        claim: Claim,
        wish: AnswerWish,
        body: bytes,
        produce: Produce,
    ) -> FollowedAnswer:
        owner = owner_of(exchange.caller)
        log = AnswerLog(self._place(owner, claim.work, wish))
        # What a client has seen of an answer that it may continue can be found after a crash.
        log.holds_back = wish.ids or bool(wish.grace)
        produced = ProducedExchange(exchange, body, log, wish.api)
        produced.stall = wish.grace
        live = _LiveAnswer(log, owner, wish, claim, produced)
        self._live[claim.work] = live
        live.task = asyncio.create_task(self._make(live, produce), name=claim.work)
        return FollowedAnswer(claim.work, self._follow_live(live))

    async def _make(self, live: _LiveAnswer, produce: Produce) -> None:
        """Make the answer, and keep it or free its key."""
        wish, id = live.wish, live.claim.work
        live.exchange.on_first = partial(self._name, live)
        try:
            await self._presence.begin()
            process = live.claim.process.encode()
            await self._store.put(f"answer_process/{live.owner}", id, process, seconds=wish.keep)
            await produce(live.exchange)
        finally:
            await asyncio.shield(self._end(live))

    async def _end(self, live: _LiveAnswer) -> None:
        """Store the end of an answer; free its key if it cannot be repeated."""
        log, wish, id = live.log, live.wish, live.claim.work
        if not log.ended:
            await log.finish(AnswerEnd())
        if wish.key and not live.is_good:
            await self._claims.free(live.owner, wish.key, live.claim, seconds=wish.keep)
        self._live.pop(id, None)
        self._presence.end()

    async def _name(self, live: _LiveAnswer, event: bytes) -> None:
        """Let the answer be found by the id of its response, in the Responses API."""
        if live.wish.api == "openai_responses" and (id := _response_id(event)):
            scope, found = f"answer_responses/{live.owner}", live.claim.work.encode()
            await self._store.put(scope, id, found, seconds=live.wish.keep)

    async def _repeated(self, held: Claim, owner: str, wish: AnswerWish) -> FollowedAnswer | None:
        """Return the answer of a claim; None if a repeat must be answered anew."""
        live = self._live.get(held.work)
        if live is not None and not live.log.is_cut and (not live.log.ended or live.is_good):
            return FollowedAnswer(held.work, self._follow_live(live), repeats=True)
        if live is not None:
            return None
        process = "" if held.process == self._presence.id else held.process
        alive = bool(process) and await self._presence.is_alive(process)
        good = await self._is_good(owner, held.work, wish)
        if good is False or (good is None and not alive):
            return None
        batches = self._follow_stored(owner, held.work, wish, process if alive else "")
        return FollowedAnswer(held.work, batches, repeats=True)

    async def _is_good(self, owner: str, id: str, wish: AnswerWish) -> bool | None:
        """Return whether a stored answer is complete; None if it has not ended."""
        status = 0
        async with aclosing(self._follow_stored(owner, id, wish)) as batches:
            async for batch in batches:
                if batch[0].kind == "head":
                    status = head_of(batch[0]).status
                if batch[-1].kind == "end":
                    end = end_of(batch[-1])
                    return end.finished and not end.cut and status == 200
        return None

    async def _left_answer(self, owner: str, wish: AnswerWish) -> FollowedAnswer | None:
        """Return the answer to the same request whose client has left; one retry gets it."""
        scope = f"answer_prints/{owner}"
        noted = await self._store.get(scope, wish.print)
        if noted is None:
            return None
        held = msgspec.msgpack.decode(noted, type=Claim)
        taken = msgspec.msgpack.encode(Claim())
        if not held.work or not await self._store.replace(
            scope, wish.print, noted, taken, seconds=1.0
        ):
            return None
        return await self._repeated(held, owner, wish)

    # ── following ────────────────────────────────────────────────────────────

    async def follow(self, id: str, caller: str, wish: AnswerWish) -> FollowedAnswer:
        """Return an answer of this caller, running or past; raise `UnknownAnswer`."""
        owner = owner_of(caller)
        live = self._live.get(id)
        if live is not None and live.owner == owner:
            return FollowedAnswer(id, self._follow_live(live), repeats=True)
        noted = await self._store.get(f"answer_process/{owner}", id)
        process = (noted or b"").decode()
        if process == self._presence.id or not await self._presence.is_alive(process):
            process = ""
        # An answer that is noted and has no events belongs to a process that was killed at its start.
        if noted is None and not await self._store.read(f"answers/{owner}", id, 0):
            raise UnknownAnswer(
                f"there is no answer {id[:64]!r} for this caller; it may have expired. Send the "
                "request without Last-Event-ID",
                where="Last-Event-ID",
            )
        batches = self._follow_stored(owner, id, wish, process)
        return FollowedAnswer(id, batches, repeats=True)

    async def answer_of(self, response: str, caller: str) -> str:
        """Return the id of the answer that has this response of the Responses API; empty for none."""
        found = await self._store.get(f"answer_responses/{owner_of(caller)}", response)
        return (found or b"").decode()

    async def _follow_live(self, live: _LiveAnswer) -> EntryBatches:
        if live.timer is not None:
            live.timer.cancel()
            live.timer = None
        try:
            with live.log.follow() as reader:
                async with aclosing(reader.batches()) as batches:
                    async for batch in batches:
                        yield [entry for _, entry in batch]
        finally:
            self._leave(live)

    async def _follow_stored(
        self, owner: str, id: str, wish: AnswerWish, process: str = ""
    ) -> EntryBatches:
        """Follow the answer in the store; while `process` is alive, wait for further entries."""
        place = self._place(owner, id, wish)
        alive = partial(self._presence.is_alive, process) if process else None
        form = AnswerForm(self._store.redactor)
        async with aclosing(stored_items(place, form, 0, alive)) as batches:
            async for batch in batches:
                yield [entry for _, entry in batch]
                if batch[-1][1].kind == "end":
                    return

    # ── ending ───────────────────────────────────────────────────────────────

    def _leave(self, live: _LiveAnswer) -> None:
        """End an answer without readers, or read it on for a while."""
        if live.log.readers or live.log.ended or live.timer is not None:
            return
        if not live.wish.grace:
            self._stop(live)
            return
        loop = asyncio.get_running_loop()
        live.timer = loop.call_later(live.wish.grace, self._stop, live)
        if live.wish.print:
            noting = loop.create_task(self._note_left(live))
            self._noting.add(noting)
            noting.add_done_callback(self._noting.discard)

    async def _note_left(self, live: _LiveAnswer) -> None:
        """Let a retry of the same request find the answer."""
        noted = msgspec.msgpack.encode(live.claim)
        scope = f"answer_prints/{live.owner}"
        await self._store.put(scope, live.wish.print, noted, seconds=live.wish.grace)

    def _stop(self, live: _LiveAnswer) -> None:
        if live.task is not None and not live.log.ended:
            live.exchange.client_left = True
            live.task.cancel()

    async def close(self) -> None:
        """End all answers."""
        tasks = [live.task for live in self._live.values() if live.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, *self._noting, return_exceptions=True)
        await self._presence.close()

    def _place(self, owner: str, id: str, wish: AnswerWish) -> LogPlace:
        return LogPlace(self._store, f"answers/{owner}", id, wish.keep, wish.most, _DELAY)


def _response_id(event: bytes) -> str:
    """Return the id of the response that an event of the Responses API announces."""
    data = event.partition(b"data:")[2].strip()
    response = (maybe_object(data) or {}).get("response")
    id = response.get("id") if isinstance(response, dict) else None
    return id if isinstance(id, str) else ""
