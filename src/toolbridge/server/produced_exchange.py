"""The exchange of a kept answer: the response goes to a log, and the clients read that."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from typing_extensions import override

from toolbridge.core.errors import Aborted
from toolbridge.server.answer_log import AnswerEnd, AnswerHead, AnswerLog
from toolbridge.server.http import HttpExchange

_OF_CONNECTION = frozenset({"connection", "content-length", "transfer-encoding", "date"})
"""Headers of one connection, which the log does not have."""


class ProducedExchange(HttpExchange):
    """A request whose response is written to a log instead of a connection."""

    may_push = False  # the log may wait for its store

    def __init__(self, first: HttpExchange, body: bytes, log: AnswerLog, api: str) -> None:
        """Continue the request of `first`, whose body was read."""
        super().__init__(first.head, first.channel)
        self.path, self.method, self.id = first.path, first.method, first.id
        self.caller, self.access = first.caller, first.access
        self._body = body
        self._log = log
        self._api = api
        self.on_first: Callable[[bytes], Awaitable[None]] | None = None
        """Called once, with the first event of a stream."""
        self.stall = 0.0
        """Seconds after which a reader that takes nothing no longer delays the answer; 0 for none."""

    @override
    def whole_body(self, limit: int) -> bytes:
        return self._body

    @override
    async def body(self, limit: int) -> bytes:
        return self._body

    @override
    async def start(self, status: int, headers: Mapping[str, str]) -> None:
        self._open(status, headers, whole=False)
        await self._log.settle()

    def _open(self, status: int, headers: Mapping[str, str], *, whole: bool) -> None:
        self.status = status
        every = {**headers, **self.extra_headers}
        if self.tap is not None:
            self.tap.begin(status, every)
        shown = {name: value for name, value in every.items() if name not in _OF_CONNECTION}
        model = every.get("x-toolbridge-model", "").partition("/")[2]
        self._log.begin(AnswerHead(status, shown, whole, self.path, self._api, model))

    @override
    async def write(self, piece: bytes) -> None:
        if self._log.is_cut and not self._log.readers:
            raise Aborted("the answer has more than `resume_bytes`, and no client reads it")
        self.sent += len(piece)
        if self.tap is not None:
            self.tap.add(piece)
        if self.finished:
            return
        self._log.write(piece)
        if self.on_first is not None and self._log.first:
            called, self.on_first = self.on_first, None
            await called(self._log.first)
        if self._log.holds_back:
            await self._log.flush()
        await self._log.settle()
        await self._wait_for_readers()

    async def _wait_for_readers(self) -> None:
        """Wait while the readers are behind; without readers nothing waits."""
        if not self._log.is_full or not self._log.readers:
            return
        try:
            async with asyncio.timeout(self.stall or None):
                await self._log.room()
        except TimeoutError:
            self._log.unbind()

    @override
    async def finish(self, last: bytes = b"") -> None:
        if self.finished:
            return
        self.finished = True
        self.sent += len(last)
        if self.tap is not None:
            self.tap.add(last)
        self._log.write(last)
        await self._log.finish(AnswerEnd(finished=True))

    @override
    async def reply(
        self, status: int, body: bytes, headers: Mapping[str, str] | None = None
    ) -> None:
        every = {"content-type": "application/json", "content-length": str(len(body))}
        self._open(status, {**every, **(headers or {})}, whole=True)
        await self.finish(body)
