"""The processes that share a store, and what each shows of its requests to the others.

A process keeps its requests in memory, and no request writes anything for other processes. A process
that has to show a request of another one puts a question into the store. Every process reads
the questions twice a second and answers those about its own requests. While a page is open anywhere, all
processes write the rows of their running and last requests. One process without a shared store has
no `Team`.
"""

import asyncio
import os
import secrets
import socket
from contextlib import suppress
from typing import Protocol

import msgspec

from toolbridge.server.team_records import (
    TeamAnswer,
    TeamMember,
    TeamQuestion,
    TeamRows,
    decode_rows,
    encode_rows,
)
from toolbridge.store.interface import Store
from toolbridge.store.ledger import LedgerRow
from toolbridge.store.notices import report_fault

_TICK = 0.5
"""Seconds between two reads of the questions."""
_POLL = 0.05
"""Seconds between two reads of the answers."""
_MEMBER = 12.0
"""Seconds for which a process counts as running after it was seen last."""
_RENEWALS = 4
_ASKING = 4.0
"""Seconds for which a question waits for its answers; a busy process is late."""
_KEPT = 10.0
"""Seconds for which an answer is kept for the process that asked."""
_WATCHING = 4.0
"""Seconds for which rows are written after they were asked for."""
_AT_ONCE = 2
"""Questions that are answered at the same time; each takes a thread."""
_MEMBERS, _QUESTIONS = "team_members", "team_questions"
_ANSWERS, _ROWS = "team_answers", "team_rows"
_member = msgspec.json.Decoder(TeamMember)
_question = msgspec.json.Decoder(TeamQuestion)
_answer = msgspec.json.Decoder(TeamAnswer)


class TeamShare(Protocol):
    """What a process shows of its requests."""

    async def describe(self, question: TeamQuestion, name: str) -> TeamAnswer: ...
    def running(self) -> list[LedgerRow]: ...
    def ended(self, since: int) -> tuple[list[LedgerRow], int]:
        """Return the last requests, with all after a number, and the number of the last one."""
        ...


class Team:
    """One process among those that share its store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._id = secrets.token_hex(8)
        self.name = f"{socket.gethostname()}:{os.getpid()}"
        """How this process is named to people."""
        self._serving: asyncio.Task[None] | None = None
        self._answering: dict[str, asyncio.Task[None]] = {}
        self._room = asyncio.Semaphore(_AT_ONCE)
        self._asked_rows = float("-inf")
        self._written = 0
        """The number of the last ended request that was written for others."""

    async def open(self, share: TeamShare) -> None:
        """Answer the questions of other processes until `close`."""
        await self._renew()
        self._serving = asyncio.create_task(self._serve(share))

    async def close(self) -> None:
        tasks = [*self._answering.values(), *([self._serving] if self._serving else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for scope in (_MEMBERS, _ROWS):
            await self._store.drop(scope, self._id)

    # ── what others ask ──────────────────────────────────────────────────────

    async def _serve(self, share: TeamShare) -> None:
        loop = asyncio.get_running_loop()
        renewed = loop.time()
        while True:
            await asyncio.sleep(_TICK)
            if loop.time() - renewed >= _MEMBER / _RENEWALS:
                renewed = loop.time()
                await self._renew()
            await self._look(share)

    async def _renew(self) -> None:
        mine = msgspec.json.encode(TeamMember(self._id, self.name))
        await self._store.put(_MEMBERS, self._id, mine, seconds=_MEMBER)

    async def _look(self, share: TeamShare) -> None:
        """Answer new questions of other processes."""
        asked: dict[str, TeamQuestion] = {}
        for value in await self._store.values(_QUESTIONS):
            with suppress(msgspec.MsgspecError):  # of another version
                question = _question.decode(value)
                if question.process != self._id:
                    asked[question.id] = question
        if any(not question.request for question in asked.values()):
            await self._write_rows(share)
        for id in self._answering.keys() - asked.keys():
            if self._answering[id].done():
                del self._answering[id]
        for id, question in asked.items():
            if question.request and id not in self._answering:
                self._answering[id] = asyncio.create_task(self._answer(share, question))
                self._answering[id].add_done_callback(self._report)

    def _report(self, task: "asyncio.Task[None]") -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            report_fault(error, self._store.redactor)

    async def _answer(self, share: TeamShare, question: TeamQuestion) -> None:
        async with self._room:
            found = await share.describe(question, self.name)
        value = msgspec.json.encode(found)
        await self._store.put(_ANSWERS, _answer_key(question, self._id), value, seconds=_KEPT)

    async def _write_rows(self, share: TeamShare) -> None:
        """Write the rows of running requests and of the last ones that have ended."""
        ended, self._written = share.ended(self._written)
        value = encode_rows(TeamRows(self._id, self.name, share.running(), ended))
        await self._store.put(_ROWS, self._id, value, seconds=_WATCHING)

    # ── what this process asks ───────────────────────────────────────────────

    async def rows(self) -> list[TeamRows]:
        """Return the rows that the other processes have written; they go on for some seconds."""
        now = asyncio.get_running_loop().time()
        if now - self._asked_rows >= _WATCHING / _RENEWALS:
            self._asked_rows = now
            wish = msgspec.json.encode(TeamQuestion(self._id, self._id))
            await self._store.put(_QUESTIONS, self._id, wish, seconds=_WATCHING)
        found = [decode_rows(value) for value in await self._store.values(_ROWS)]
        return [rows for rows in found if rows is not None and rows.process != self._id]

    async def all_rows(self) -> list[TeamRows]:
        """Return the rows of all other processes that answer in time."""
        members = {member.id for member in await self._others()}
        loop = asyncio.get_running_loop()
        until = loop.time() + _ASKING
        found = await self.rows()
        while members - {rows.process for rows in found} and loop.time() < until:
            await asyncio.sleep(_POLL)
            found = await self.rows()
        return found

    async def ask(self, request: str, owner: str, *, bodies: bool) -> list[TeamAnswer]:
        """Return what other processes have of a request, or of the last one of `owner`."""
        others = {member.id for member in await self._others()}
        if not others:
            return []
        question = TeamQuestion(secrets.token_hex(8), self._id, request, owner, bodies)
        wish = msgspec.json.encode(question)
        await self._store.put(_QUESTIONS, question.id, wish, seconds=_ASKING)
        loop = asyncio.get_running_loop()
        until = loop.time() + _ASKING
        found: list[TeamAnswer] = []
        while others and loop.time() < until:
            await asyncio.sleep(_POLL)
            for id in list(others):
                if (answer := await self._taken(question, id)) is not None:
                    others.discard(id)
                    found += [answer] if answer.at else []
            if found and request != "last":
                break
        await self._store.drop(_QUESTIONS, question.id)
        return found

    async def _taken(self, question: TeamQuestion, process: str) -> TeamAnswer | None:
        """Return the answer of a process, which is not kept any longer; None before it answers."""
        key = _answer_key(question, process)
        if (value := await self._store.get(_ANSWERS, key)) is None:
            return None
        await self._store.drop(_ANSWERS, key)
        try:
            return _answer.decode(value)
        except msgspec.MsgspecError:  # of another version, or a mask replaced a part of it
            return TeamAnswer(process)

    async def _others(self) -> list[TeamMember]:
        found: list[TeamMember] = []
        for value in await self._store.values(_MEMBERS):
            with suppress(msgspec.MsgspecError):
                found.append(_member.decode(value))
        return [member for member in found if member.id != self._id]


def _answer_key(question: TeamQuestion, process: str) -> str:
    return f"{question.id} {process}"
