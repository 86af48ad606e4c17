"""Conversations with one host at a time: a queue, a connection, and what to do when it breaks.

A connection carries one request; the node drops whatever else it hears meanwhile. Requests wait
their turn in the order in which they came. While a client has heard nothing, a lost key or a lost
session is mended once; afterwards a failure is told. Whoever leaves early leaves an answer behind
that is stopped and read to its end before the next request begins.
"""

import asyncio
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from toolbridge.core import events as ev
from toolbridge.core.errors import Aborted, Overloaded, TimedOut, ToolbridgeError, UpstreamError
from toolbridge.core.messages import Problem
from toolbridge.node.funding.jobs import Funding, Job
from toolbridge.node.protocol.encryption import Secret
from toolbridge.node.session.breaker import Breaker
from toolbridge.node.session.connection import (
    ConnectionLost,
    Handshake,
    HostConnection,
    HostUnreachable,
    Timeouts,
)
from toolbridge.node.session.exchange import Batch, NodeExchange, Prompt, SessionForgotten

Memory: TypeAlias = Literal["fresh", "reset", "keep"]
"""What a node should know of earlier requests: nothing, under a new session id or by forgetting;
or all, which doubles a conversation that the client sends whole."""

_NEARLY = 0.9
"""The part of a deposit after which a new session is opened: a host is not paid beyond it."""


@dataclass(frozen=True)
class Settings:
    waits: Timeouts = field(default_factory=Timeouts)
    memory: Memory = "fresh"
    failures: int = 2
    rest: float = 60.0


class NodeSession:
    def __init__(self, funding: Funding, wallet: Secret, settings: Settings | None = None) -> None:
        self._funding = funding
        self._wallet = wallet
        self._settings = settings or Settings()
        self._breaker = Breaker(self._settings.failures, self._settings.rest)
        self._queue = asyncio.Lock()
        self._draining: set[asyncio.Task[None]] = set()
        self._job: Job | None = None
        self._line: HostConnection | None = None
        self._payment: asyncio.Future[Job] | None = None
        self._stopping = False
        self.waiting = 0
        """Requests that are under way or in the queue."""

    def answer(self, prompt: Prompt) -> "NodeAnswer":
        """Return the answer to `prompt`; its first read joins the queue and sends the prompt."""
        return NodeAnswer(self, prompt)

    async def close(self) -> None:
        """Hang up; the host settles and pays back. What is under way ends badly, and at once."""
        self._stopping = True
        if self._line is not None:
            await self._line.hang_up()
        try:
            async with asyncio.timeout(self._settings.waits.grace):
                await self._queue.acquire()
        except TimeoutError:  # somebody holds an answer without reading on
            await self._drop()
        else:
            await self._drop()
            self._queue.release()  # a second stop finds the queue as free as the first
        await self._return_payment()

    async def _return_payment(self) -> None:
        """Give back a job that was being paid for when nobody needed it any more."""
        if self._payment is None:
            return
        done, _ = await asyncio.wait({self._payment}, timeout=self._settings.waits.grace)
        if done and self._payment.exception() is None:
            await self._funding.close(self._payment.result())
        self._payment.cancel()

    # ── the queue ──

    async def enter(self) -> "QueueTurn":
        if not await self._may_move_on():
            self._check()
        self.waiting += 1
        try:
            await self._queue.acquire()
        except BaseException:
            self.waiting -= 1
            raise
        return QueueTurn(self._leave)

    def _check(self) -> None:
        """Raise when nothing may be asked of the node now."""
        if self._stopping:
            raise Aborted("the gateway is stopping")
        if rest := self._breaker.wait(_now()):
            raise Overloaded(
                f"the node failed and is left alone for another {rest:.0f} s", retry_after=rest
            )

    async def _may_move_on(self) -> bool:
        """Whether the node rests and another host can be asked instead."""
        resting = not self._stopping and self._breaker.wait(_now()) > 0
        return resting and await self._has_other()

    async def _has_other(self) -> bool:
        """Whether the purse knows a host besides the one that it has paid."""
        try:
            return self._job is not None and await self._funding.has_other(self._job)
        except UpstreamError:  # without a chain there is no other
            return False

    def _leave(self, exchange: NodeExchange | None) -> None:
        """Let the next request in, as soon as the node has nothing more to say on this one."""
        self.waiting -= 1
        if exchange is None or exchange.decoder.over or not exchange.line.alive:
            self._release(exchange)
            return
        task = asyncio.create_task(self._drain(exchange))
        self._draining.add(task)
        task.add_done_callback(self._draining.discard)

    async def _drain(self, exchange: NodeExchange) -> None:
        try:
            await exchange.drain()
        finally:
            self._release(exchange)

    def _release(self, exchange: NodeExchange | None) -> None:
        if exchange is not None:
            exchange.line.used += exchange.decoder.tokens + exchange.decoder.vlm_tokens
        self._queue.release()

    def note_end(self, last: ev.Event) -> None:
        """Count an answer that ended with `last` for the circuit breaker."""
        if isinstance(last, ev.Failed):
            self._breaker.fail(last.problem, _now())
        else:
            self._breaker.succeed()

    def note_error(self, problem: Problem) -> None:
        """Count a failed read for the circuit breaker, if a host was asked at all.

        Without a job no host was asked: finding or paying one failed.
        """
        if self._job is not None:
            self._breaker.fail(problem, _now())

    # ── asking ──

    async def begin(self, prompt: Prompt, turn: "QueueTurn") -> Batch:
        """Return the first that the client is told; mend once what was lost before."""
        if await self._may_move_on():
            await self._drop(failed=True)
            self._breaker.reset()
        self._check()
        try:
            return await self._ask(prompt, turn)
        except SessionForgotten as error:
            await self._renew(error)
        except HostUnreachable:
            if not await self._has_other():
                raise  # the job stands: the next request tries its host again
            await self._drop(failed=True)
        except ConnectionLost:
            await self._drop(failed=True)
        if self._stopping:
            raise Aborted("the gateway is stopping")
        return await self._ask(prompt, turn)

    async def _ask(self, prompt: Prompt, turn: "QueueTurn") -> Batch:
        line = await self._ready(prompt)
        agreed = await self._agree(line)
        exchange = NodeExchange(line, agreed, prompt, self._settings.waits)
        turn.exchange = exchange  # from here on the node may be writing for us
        await exchange.send()
        return await turn.read()

    async def _agree(self, line: HostConnection) -> Handshake:
        """Return the key for the next prompt: a new one, unless the node should remember."""
        memory = self._settings.memory
        if line.agreed is not None and memory == "keep":
            return line.agreed
        fresh = f"{line.job.id}-{secrets.token_hex(6)}"
        session_id = fresh if memory == "fresh" else line.job.id
        try:
            return await line.handshake(session_id, reset=memory == "reset")
        except TimedOut:
            await self._drop()
            raise

    async def _renew(self, error: SessionForgotten) -> None:
        """Make ready for a second try: the same job with a new key if that still stands."""
        job = self._job
        if error.session_over or job is None or not await self._funding.is_active(job):
            await self._drop()
        elif self._line is not None:
            self._line.agreed = None

    # ── the connection ──

    async def _ready(self, prompt: Prompt) -> HostConnection:
        """Return a line to a host that is paid for: the one there is, or a new one."""
        line = self._line
        if line is not None:
            if line.alive and not _spent(line, prompt):
                return line
            await self._drop()
        self._line = await HostConnection.open(
            await self._paid(), self._wallet, self._settings.waits
        )
        if self._stopping:
            await self._line.hang_up()
            raise Aborted("the gateway is stopping")
        return self._line

    async def _paid(self) -> Job:
        """Return a job to work on. One whose host could not be reached is tried before the next."""
        if self._job is not None and not await self._funding.is_active(self._job):
            self._job = None
        if self._job is None:
            self._job = await self._pay()
        return self._job

    async def _pay(self) -> Job:
        """Pay for a new job. A client that leaves meanwhile leaves it for the next one to use."""
        if self._payment is None:
            self._payment = asyncio.ensure_future(self._funding.open())
        try:
            return await asyncio.shield(self._payment)
        finally:
            if self._payment.done():
                self._payment = None

    async def _drop(self, *, failed: bool = False) -> None:
        """Give up connection and job: the host settles the one when the other ends."""
        line, self._line = self._line, None
        job, self._job = self._job, None
        try:
            if line is not None:
                await line.hang_up()
        finally:
            if job is not None:
                await self._funding.close(job, failed=failed)


def _now() -> float:
    return asyncio.get_running_loop().time()


def _spent(line: HostConnection, prompt: Prompt) -> bool:
    """Whether the deposit may not pay for this answer as well."""
    most = line.job.max_tokens
    if not most or not line.used:
        return False
    return line.used >= _NEARLY * most or line.used + prompt.max_tokens > most


class QueueTurn:
    """A request at the head of a session's queue; it leaves the queue once."""

    def __init__(self, leave: Callable[[NodeExchange | None], None]) -> None:
        self._leave = leave
        self._left = False
        self.exchange: NodeExchange | None = None

    @property
    def ended(self) -> bool:
        return self.exchange is not None and self.exchange.decoder.ended

    async def read(self) -> Batch:
        return await self.exchange.read() if self.exchange is not None else []

    def leave(self) -> None:
        if not self._left:
            self._left = True
            self._leave(self.exchange)


class NodeAnswer:
    """The answer to one prompt: `read` returns a batch per message of the node, None at the end.

    `read` raises until it has returned a batch; afterwards a failure is the last event. The queue
    is left once: with the last event, with a read that fails or is cancelled, or by `close`. When
    the answer is not whole by then, the session cancels it on the node.
    """

    def __init__(self, session: NodeSession, prompt: Prompt) -> None:
        self._session = session
        self._prompt = prompt
        self._turn: QueueTurn | None = None
        self._ended = False

    async def read(self) -> Batch | None:
        if self._ended:
            return None
        try:
            return await self._read()
        except BaseException as error:
            if isinstance(error, ToolbridgeError) and self._turn is not None:
                self._session.note_error(error.problem)
            self._end()
            raise

    async def _read(self) -> Batch:
        turn = self._turn
        if turn is None:
            turn = self._turn = await self._session.enter()
            batch = await self._session.begin(self._prompt, turn)
        else:
            batch = await turn.read()
        if turn.ended:
            self._session.note_end(batch[-1])
            self._end()  # the next request need not wait until a slow client has read this batch
        return batch

    def _end(self) -> None:
        self._ended = True
        if self._turn is not None:
            self._turn.leave()

    async def close(self) -> None:
        """Leave the queue. May be called at any time, and again, but not during `read`."""
        self._end()
