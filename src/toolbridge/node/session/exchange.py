"""One prompt and its answer: when to wait, when to stop the node, and when to give up."""

import asyncio
import secrets
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TypeAlias

from toolbridge.core import events as ev
from toolbridge.core.errors import BrokenWire, Rejected, TimedOut, ToolbridgeError, Truncated
from toolbridge.core.ids import Ids
from toolbridge.core.json import JsonObject
from toolbridge.core.messages import Problem
from toolbridge.node.protocol.decode_answer import AnswerDecoder, SentPrompt
from toolbridge.node.protocol.messages import (
    KEY_LOST,
    SESSION_LOST,
    NodeFault,
    NodeMessage,
    encode_cancel,
    problem_of,
)
from toolbridge.node.session.connection import ConnectionLost, Handshake, HostConnection, Timeouts

Batch: TypeAlias = list[ev.Event]


@dataclass(frozen=True)
class Prompt:
    """What is asked of a node: the body of `request.encode_request`, and what we do ourselves."""

    body: JsonObject
    stops: tuple[str, ...] = ()
    ids: Ids = field(default_factory=Ids)

    @property
    def max_tokens(self) -> int:
        limit = self.body.get("max_tokens")
        return limit if isinstance(limit, int) else 0

    @property
    def model(self) -> str:
        return str(self.body.get("model", ""))


class SessionForgotten(Rejected):
    """The node no longer knows our key or our session, and said so before any answer."""

    def __init__(self, fault: NodeFault) -> None:
        problem = problem_of(fault)
        super().__init__(problem.text)
        self.problem = problem
        self.session_over = fault.code in SESSION_LOST


class NodeExchange:
    def __init__(
        self, line: HostConnection, agreed: Handshake, prompt: Prompt, waits: Timeouts
    ) -> None:
        self.line = line
        self._agreed = agreed
        self._waits = waits
        self._id = f"prompt-{secrets.token_hex(8)}"
        limit = _within_deposit(line, prompt.max_tokens)
        self._body = prompt.body | ({"max_tokens": limit} if limit else {})
        sent = SentPrompt(self._id, prompt.model, prompt.stops, limit)
        self.decoder = AnswerDecoder(agreed.opener, sent, prompt.ids)
        self._told = False
        self._cancelled = False
        self._wait = 0.0
        self._until = 0.0

    async def send(self) -> None:
        await self.line.send(self._agreed.prompt(self._body, self._id))
        self._expect(self._waits.first)

    async def read(self) -> Batch:
        """Return what is told next.

        Raise `ConnectionLost` or `SessionForgotten` while nothing was told and the prompt may be sent again; every
        other failure is the last event.
        """
        while True:
            try:
                message = await self.line.receive(self._until)
            except TimeoutError:
                return self._late()
            except ConnectionLost as error:
                return self._cut_off(error)
            except BrokenWire as error:
                return self.decoder.fail(error.problem)
            if batch := await self._hear(message):
                self._told = True
                return batch

    async def drain(self) -> None:
        """Stop the node and read on until it has said so; hang up if it goes on."""
        self.decoder.fail(Problem(kind="aborted", text="the client left"))
        self._expect(self._waits.grace)
        try:
            await self._maybe_cancel()
            while not self.decoder.over:
                self.decoder.feed(await self.line.receive(self._until))
        except (TimeoutError, ToolbridgeError):
            if not self.decoder.idle:
                await self.line.hang_up()

    async def _hear(self, message: NodeMessage) -> Batch:
        if isinstance(message, NodeFault) and not self._told and _is_forgotten(message, self._id):
            self.decoder.feed(message)
            raise SessionForgotten(message)
        before, waited = self.decoder.progress, self.decoder.awaits_end
        batch = self.decoder.feed(message)
        if self.decoder.awaits_end and not waited:
            self._expect(self._waits.grace)
        elif self.decoder.progress > before and not waited:
            self._expect(self._waits.next)
        if not self.decoder.ended:
            await self._maybe_cancel()
        return batch

    async def _maybe_cancel(self) -> None:
        if self.decoder.enough and not self._cancelled:
            self._cancelled = True
            with suppress(ConnectionLost):  # the next reading tells
                await self.line.send(encode_cancel(self._agreed.session_id))

    def _expect(self, wait: float) -> None:
        self._wait = wait
        self._until = asyncio.get_running_loop().time() + wait

    def _late(self) -> Batch:
        """Return the end of an answer that is overdue."""
        if self.decoder.awaits_end:
            return self.decoder.close()
        return self.decoder.fail(TimedOut(f"the node was silent for {self._wait:g} s").problem)

    def _cut_off(self, error: ConnectionLost) -> Batch:
        if self.decoder.awaits_end:
            return self.decoder.close()
        if not self._told:
            raise error
        return self.decoder.fail(Truncated(f"{error} in the middle of its answer").problem)


def _is_forgotten(fault: NodeFault, id: str) -> bool:
    return fault.code in KEY_LOST | SESSION_LOST and fault.id in {id, None}


def _within_deposit(line: HostConnection, asked: int) -> int:
    """Return how many tokens to ask for: no more than what the deposit still pays for."""
    if not line.job.max_tokens:
        return asked
    left = max(1, line.job.max_tokens - line.used)
    return min(asked, left) if asked else left
