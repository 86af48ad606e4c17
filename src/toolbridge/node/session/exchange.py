"""One prompt and its answer on a connection: timeouts, cancellation and lost connections.

`NodeSession` makes one `NodeExchange` per request and reads batches of events from it.
"""

import asyncio
import math
import secrets
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TypeAlias

from toolbridge.core import events as ev
from toolbridge.core.errors import BrokenWire, Rejected, TimedOut, ToolbridgeError, Truncated
from toolbridge.core.ids import Ids
from toolbridge.core.json import JsonObject
from toolbridge.core.messages import Problem
from toolbridge.node.hosts.records import HostFault
from toolbridge.node.protocol.decode_answer import AnswerDecoder, SentPrompt
from toolbridge.node.protocol.delivered import Tolerance
from toolbridge.node.protocol.markers import JOINER
from toolbridge.node.protocol.messages import (
    KEY_LOST,
    SESSION_LOST,
    NodeFault,
    NodeMessage,
    encode_cancel,
    problem_of,
)
from toolbridge.node.session.connection import (
    MAX_INCOMING,
    ConnectionLost,
    Handshake,
    HostConnection,
    Timeouts,
    TooMuchSent,
)

Batch: TypeAlias = list[ev.Event]

_PER_TOKEN = 2048
"""Characters of messages per token; a chunk has about 400, and twice the bytes of its text."""


@dataclass(frozen=True)
class Prompt:
    """A request to a node: the body of `encode_request`, and stop sequences, which we cut."""

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

    def sent(self, id: str, limit: int, rules: "AnswerRules") -> SentPrompt:
        """Return what the decoder of the answer needs."""
        images, text = self.body.get("images"), str(self.body.get("prompt", ""))
        return SentPrompt(
            id,
            self.model,
            self.stops,
            limit,
            images=len(images) if isinstance(images, list) else 0,
            size=0 if rules.keeps_history else len(text.encode()),
            escaped=JOINER in text,
            tolerance=rules.tolerance,
            old_nodes=rules.old_nodes,
        )


@dataclass(frozen=True)
class AnswerRules:
    """What a host must keep to in its answers."""

    waits: Timeouts = field(default_factory=Timeouts)
    tolerance: Tolerance = field(default_factory=Tolerance)
    old_nodes: bool = False
    keeps_history: bool = False
    """Whether the node adds earlier prompts to a prompt."""


class SessionForgotten(Rejected):
    """The node has lost our key or session and reported that before any content."""

    def __init__(self, fault: NodeFault) -> None:
        problem = problem_of(fault)
        super().__init__(problem.text)
        self.problem = problem
        self.session_over = fault.code in SESSION_LOST


class NodeExchange:
    """A prompt on a connection, and the reading of its answer."""

    def __init__(
        self, connection: HostConnection, handshake: Handshake, prompt: Prompt, rules: AnswerRules
    ) -> None:
        self.connection = connection
        self._handshake = handshake
        self._rules = rules
        self._waits = rules.waits
        self._id = f"prompt-{secrets.token_hex(8)}"
        limit = _within_deposit(connection, prompt.max_tokens)
        self._body = prompt.body | ({"max_tokens": limit} if limit else {})
        sent = prompt.sent(self._id, limit, rules)
        self._most = connection.received + MAX_INCOMING + limit * _PER_TOKEN
        self.decoder = AnswerDecoder(handshake.decryptor, sent, prompt.ids)
        self._emitted = False
        self._cancelled = False
        self._wait = 0.0
        self._deadline = 0.0
        self._until = math.inf
        self._lost = ""
        """How the host closed the connection during the answer."""
        self._flood = ""
        """How much more the host sent than an answer can have."""

    def fault(self) -> tuple[HostFault, str] | None:
        """Return what the host did wrong, and a sentence about it; None if nothing."""
        decoder, limit = self.decoder, self._body.get("max_tokens")
        if decoder.refusal:
            return "overclaim", decoder.refusal
        if self._lost:
            return "hangup", self._lost
        if self._flood or decoder.overrun:
            return "overrun", self._flood or f"it sent more than `max_tokens` ({limit})"
        if decoder.unsealed and not self._rules.old_nodes:
            return "unsealed", "it did not confirm the end of an answer"
        return None

    async def send(self) -> None:
        await self.connection.send(self._handshake.prompt(self._body, self._id))
        self._set_deadline(self._waits.first)
        self._until = asyncio.get_running_loop().time() + self._waits.total

    async def read(self) -> Batch:
        """Return the next events.

        Raise `ConnectionLost` or `SessionForgotten` before any event was returned, when the prompt
        may be sent again; every other failure is returned as the last event.
        """
        while True:
            try:
                message = await self._receive()
            except TimeoutError:
                return self._timed_out()
            except ConnectionLost as error:
                return self._cut_off(error)
            except BrokenWire as error:
                return self._broken(error)
            if batch := await self._feed(message):
                self._emitted = True
                return batch

    async def drain(self) -> None:
        """Cancel the answer and read until the node confirms; close the connection if it does not."""
        self.decoder.fail(Problem(kind="aborted", text="the client disconnected"))
        self._set_deadline(self._waits.grace)
        try:
            await self._maybe_cancel()
            while not self.decoder.over:
                self.decoder.feed(await self._receive())
        except (TimeoutError, ToolbridgeError):
            if not self.decoder.idle:
                await self.connection.close()

    async def _receive(self) -> NodeMessage:
        message = await self.connection.receive(min(self._deadline, self._until))
        if self.connection.received > self._most:
            await self.connection.close()
            raise TooMuchSent(
                f"the node sent more than {self._most >> 20} MiB for an answer of at most "
                f"{self._body.get('max_tokens')} tokens; the connection is closed"
            )
        return message

    def _broken(self, error: BrokenWire) -> Batch:
        """Return the end of an answer with a message that cannot be read."""
        if isinstance(error, TooMuchSent):
            self._flood = str(error)
            if self.decoder.awaits_end:  # the answer was cut, and the host goes on
                return self.decoder.close()
        elif self.decoder.sealed:  # only the counts are outstanding
            self.decoder.refuse("the host sent counts that cannot be read; ours are shown")
            return self.decoder.close()
        return self.decoder.fail(error.problem)

    async def _feed(self, message: NodeMessage) -> Batch:
        if (
            isinstance(message, NodeFault)
            and not self._emitted
            and _is_forgotten(message, self._id)
        ):
            self.decoder.feed(message)
            raise SessionForgotten(message)
        before, waited = self.decoder.progress, self.decoder.awaits_end
        batch = self.decoder.feed(message)
        if self.decoder.awaits_end and not waited:
            self._set_deadline(self._waits.grace)
        elif self.decoder.progress > before and not waited:
            self._set_deadline(self._waits.next)
        if not self.decoder.ended:
            await self._maybe_cancel()
        return batch

    async def _maybe_cancel(self) -> None:
        if self.decoder.enough and not self._cancelled:
            self._cancelled = True
            with suppress(ConnectionLost):  # the next `receive` reports it
                await self.connection.send(encode_cancel(self._handshake.session_id))

    def _set_deadline(self, wait: float) -> None:
        self._wait = wait
        self._deadline = asyncio.get_running_loop().time() + wait

    def _timed_out(self) -> Batch:
        """Return the end of an answer whose next message did not arrive in time."""
        if self.decoder.awaits_end:
            return self.decoder.close()
        if asyncio.get_running_loop().time() >= self._until:
            text = (
                f"the answer of the node took longer than {self._waits.total:g} s (`waits.total`)"
            )
            return self.decoder.fail(TimedOut(text).problem)
        return self.decoder.fail(TimedOut(f"the node sent nothing for {self._wait:g} s").problem)

    def _cut_off(self, error: ConnectionLost) -> Batch:
        if self.decoder.awaits_end:
            return self.decoder.close()
        self._lost = f"{error} during an answer" if self.connection.hung_up else ""
        if not self._emitted:
            raise error
        return self.decoder.fail(Truncated(f"{error} in the middle of its answer").problem)


def _is_forgotten(fault: NodeFault, id: str) -> bool:
    return fault.code in KEY_LOST | SESSION_LOST and fault.id in {id, None}


def _within_deposit(connection: HostConnection, asked: int) -> int:
    """Return the token limit of a request: at most what the rest of the deposit pays for."""
    if not connection.job.max_tokens:
        return asked
    left = max(1, connection.job.max_tokens - connection.used)
    return min(asked, left) if asked else left
