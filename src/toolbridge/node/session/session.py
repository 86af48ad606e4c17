"""A session with one host at a time: a queue of requests, a connection, and recovery.

A node silently drops every message that it receives during a stream, so requests run one at a time,
in the order in which they came. Before a request has returned content, a lost key, session or host
is replaced once and the prompt is sent again; afterwards a failure is the last event. An answer
that is closed early is cancelled on the node and read to its end before the next request begins.
"""

import asyncio
import logging
import secrets
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from toolbridge.core import events as ev
from toolbridge.core.errors import Aborted, Overloaded, TimedOut, ToolbridgeError, UpstreamError
from toolbridge.core.messages import Problem
from toolbridge.node.chain.address import address_of
from toolbridge.node.funding.jobs import Funding, Job
from toolbridge.node.hosts.access import HostAccess
from toolbridge.node.hosts.records import HostRecords
from toolbridge.node.protocol.delivered import Tolerance
from toolbridge.node.protocol.encryption import Secret
from toolbridge.node.session.breaker import Breaker
from toolbridge.node.session.connection import (
    ConnectionLost,
    Handshake,
    HostConnection,
    HostUnreachable,
    Timeouts,
)
from toolbridge.node.session.exchange import (
    AnswerRules,
    Batch,
    NodeExchange,
    Prompt,
    SessionForgotten,
)
from toolbridge.node.session.queue_turn import QueueTurn

Memory: TypeAlias = Literal["fresh", "reset", "keep"]
"""How the history that a node keeps per session id (since 8.22.5) is treated.

`fresh` uses a new session id per request, `reset` deletes the history before each request, and
`keep` leaves it, which repeats a conversation that the client sends whole each time."""

_ROLL_OVER = 0.9
"""The used part of a deposit at which a new session is paid; a host gets no more than the deposit."""

_log = logging.getLogger("toolbridge.node")


@dataclass(frozen=True)
class SessionSettings:
    """How a session behaves; `failures` and `rest` are those of the circuit breaker."""

    waits: Timeouts = field(default_factory=Timeouts)
    memory: Memory = "fresh"
    failures: int = 2
    rest: float = 60.0
    tolerance: Tolerance = field(default_factory=Tolerance)
    old_nodes: bool = False
    access: HostAccess = field(default_factory=HostAccess)

    @property
    def rules(self) -> AnswerRules:
        keeps = self.memory == "keep"
        return AnswerRules(self.waits, self.tolerance, self.old_nodes, keeps)


class NodeSession:
    """Requests to one host after another, on jobs that `funding` pays for."""

    def __init__(
        self,
        funding: Funding,
        wallet: Secret,
        settings: SessionSettings | None = None,
        records: HostRecords | None = None,
    ) -> None:
        self._funding = funding
        self._wallet = wallet
        self._records = records
        self._settings = settings or SessionSettings()
        self._breaker = Breaker(self._settings.failures, self._settings.rest)
        self._queue = asyncio.Lock()
        self._draining: set[asyncio.Task[None]] = set()
        self._job: Job | None = None
        self._connection: HostConnection | None = None
        self._payment: asyncio.Future[Job] | None = None
        self._stopping = False
        self.waiting = 0
        """Requests that are running or queued."""

    def answer(self, prompt: Prompt) -> "NodeAnswer":
        """Return the answer to `prompt`; its first read joins the queue and sends the prompt."""
        return NodeAnswer(self, prompt)

    async def close(self) -> None:
        """Close the connection; the host settles the job. A running request fails at once."""
        self._stopping = True
        if self._connection is not None:
            await self._connection.close()
        try:
            async with asyncio.timeout(self._settings.waits.grace):
                await self._queue.acquire()
        except TimeoutError:  # an answer is held open and not read
            await self._drop()
        else:
            await self._drop()
            self._queue.release()  # so that `close` may be called twice
        await self._return_payment()

    async def _return_payment(self) -> None:
        """Close a job whose payment was in progress and that no request waits for."""
        if self._payment is None:
            return
        done, _ = await asyncio.wait({self._payment}, timeout=self._settings.waits.grace)
        if done and self._payment.exception() is None:
            await self._funding.close(self._payment.result())
        self._payment.cancel()

    # ── the queue ──

    async def enter(self) -> QueueTurn:
        """Wait for the head of the queue; raise at once if no request may be sent now."""
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
        """Raise if the gateway is stopping or the circuit breaker is open."""
        if self._stopping:
            raise _stopping()
        if rest := self._breaker.wait(_now()):
            raise Overloaded(
                f"the node failed repeatedly; it gets no requests for another {rest:.0f} s",
                retry_after=rest,
            )

    async def _may_move_on(self) -> bool:
        """Whether the circuit breaker is open and another host can be used instead."""
        resting = not self._stopping and self._breaker.wait(_now()) > 0
        return resting and await self._has_other()

    async def _has_other(self) -> bool:
        """Whether the funding has another host than that of the current job."""
        try:
            return self._job is not None and await self._funding.has_other(self._job)
        except UpstreamError:  # the chain cannot be read
            return False

    def _leave(self, exchange: NodeExchange | None) -> None:
        """Start the next request once the node sends nothing more about this one."""
        self.waiting -= 1
        if exchange is not None and exchange.decoder.unsealed and self._settings.old_nodes:
            job = exchange.connection.job
            _log.warning("job %s: the end is not confirmed, which `old_nodes` allows", job.id)
        if exchange is None or (_is_over(exchange) and exchange.fault() is None):
            self._count(exchange)
            self._queue.release()
            return
        task = asyncio.create_task(self._drain(exchange))
        self._draining.add(task)
        task.add_done_callback(self._draining.discard)

    async def _drain(self, exchange: NodeExchange) -> None:
        try:
            if not _is_over(exchange):
                await exchange.drain()
            self._count(exchange)  # before a fault closes the job
            await self._note_fault(exchange)
        finally:
            self._queue.release()

    async def _note_fault(self, exchange: NodeExchange) -> None:
        """Record what the host did wrong; after a count that is not credible, leave the host."""
        fault = exchange.fault()
        if fault is None:
            return
        kind, text = fault
        job = exchange.connection.job
        host = address_of(job.host.public)
        _log.warning("host %s, job %s: %s: %s", host, job.id, kind, text)
        if self._records is not None:
            await self._records.note(host, kind, text)
        if kind == "overclaim":
            if not await self._has_other():
                self._breaker.trip(_now())
            await self._drop(failed=True)

    def _count(self, exchange: NodeExchange | None) -> None:
        """Charge the tokens of an answer to its job, whether the answer is whole or not."""
        if exchange is not None:
            tokens = exchange.decoder.tokens + exchange.decoder.vlm_tokens
            exchange.connection.used += tokens
            self._funding.delivered(exchange.connection.job, tokens)

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

    # ── sending ──

    async def begin(self, prompt: Prompt, turn: QueueTurn) -> Batch:
        """Send the prompt and return its first batch; recover once from a lost key, job or host."""
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
                raise  # the job stays paid: the next request tries its host again
            await self._drop(failed=True)
        except ConnectionLost:
            if turn.exchange is not None:
                self._count(turn.exchange)
                await self._note_fault(turn.exchange)
                turn.exchange = None
            await self._drop(failed=True)
        if self._stopping:
            raise _stopping()
        return await self._ask(prompt, turn)

    async def _ask(self, prompt: Prompt, turn: QueueTurn) -> Batch:
        connection = await self._connect(prompt)
        handshake = await self._handshake(connection)
        exchange = NodeExchange(connection, handshake, prompt, self._settings.rules)
        turn.exchange = exchange  # from here on the node may generate an answer
        await exchange.send()
        return await turn.read()

    async def _handshake(self, connection: HostConnection) -> Handshake:
        """Return the handshake for the next prompt: a new one, unless `memory` is `keep`."""
        memory = self._settings.memory
        if connection.last_handshake is not None and memory == "keep":
            return connection.last_handshake
        fresh = f"{connection.job.id}-{secrets.token_hex(6)}"
        session_id = fresh if memory == "fresh" else connection.job.id
        try:
            return await connection.handshake(session_id, reset=memory == "reset")
        except TimedOut:
            await self._drop()
            raise

    async def _renew(self, error: SessionForgotten) -> None:
        """Prepare a second attempt: with a new key if the job is still active, else a new job."""
        job = self._job
        if error.session_over or job is None or not await self._funding.is_active(job):
            await self._drop()
        elif self._connection is not None:
            self._connection.last_handshake = None

    # ── the connection ──

    async def _connect(self, prompt: Prompt) -> HostConnection:
        """Return the open connection, or a new one if it is closed or its deposit is nearly used."""
        connection = self._connection
        if connection is not None:
            usable = connection.alive and not self._funding.lost(connection.job)
            if usable and not _deposit_spent(connection, prompt):
                return connection
            await self._drop()
        self._connection = await HostConnection.open(
            await self._paid_job(), self._wallet, self._settings.waits, self._settings.access
        )
        if self._stopping:
            await self._connection.close()
            raise _stopping()
        return self._connection

    async def _paid_job(self) -> Job:
        """Return the current job if it is still active, else pay for a new one."""
        if self._job is not None and not await self._funding.is_active(self._job):
            self._job = None
        if self._job is None:
            self._job = await self._pay()
        return self._job

    async def _pay(self) -> Job:
        """Pay for a new job. A cancelled request leaves the payment to the next request."""
        if self._payment is None:
            self._payment = asyncio.ensure_future(self._funding.open())
        try:
            return await asyncio.shield(self._payment)
        finally:
            if self._payment.done():
                self._payment = None

    async def _drop(self, *, failed: bool = False) -> None:
        """Close the connection and give up the job; the host settles it."""
        connection, self._connection = self._connection, None
        job, self._job = self._job, None
        try:
            if connection is not None:
                await connection.close()
        finally:
            if job is not None:
                await self._funding.close(job, failed=failed)


def _stopping() -> Aborted:
    return Aborted("the gateway is stopping; send the request again when it has started")


def _now() -> float:
    return asyncio.get_running_loop().time()


def _is_over(exchange: NodeExchange) -> bool:
    """Whether the node sends nothing more about a prompt."""
    return exchange.decoder.over or not exchange.connection.alive


def _deposit_spent(connection: HostConnection, prompt: Prompt) -> bool:
    """Whether the rest of the deposit may not pay for this answer."""
    most = connection.job.max_tokens
    if not most or not connection.used:
        return False
    return connection.used >= _ROLL_OVER * most or connection.used + prompt.max_tokens > most


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
