"""One prompt and its answer on a connection: timeouts, cancellation and lost connections.

`NodeSession` makes one `NodeExchange` per request and reads batches of events from it.
"""

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
        self, connection: HostConnection, handshake: Handshake, prompt: Prompt, waits: Timeouts
    ) -> None:
        self.connection = connection
        self._handshake = handshake
        self._waits = waits
        self._id = f"prompt-{secrets.token_hex(8)}"
        limit = _within_deposit(connection, prompt.max_tokens)
        self._body = prompt.body | ({"max_tokens": limit} if limit else {})
        sent = SentPrompt(self._id, prompt.model, prompt.stops, limit)
        self.decoder = AnswerDecoder(handshake.decryptor, sent, prompt.ids)
        self._emitted = False
        self._cancelled = False
        self._wait = 0.0
        self._deadline = 0.0

    async def send(self) -> None:
        await self.connection.send(self._handshake.prompt(self._body, self._id))
        self._set_deadline(self._waits.first)

    async def read(self) -> Batch:
        """Return the next events.

        Raise `ConnectionLost` or `SessionForgotten` before any event was returned, when the prompt
        may be sent again; every other failure is returned as the last event.
        """
        while True:
            try:
                message = await self.connection.receive(self._deadline)
            except TimeoutError:
                return self._timed_out()
            except ConnectionLost as error:
                return self._cut_off(error)
            except BrokenWire as error:
                return self.decoder.fail(error.problem)
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
                self.decoder.feed(await self.connection.receive(self._deadline))
        except (TimeoutError, ToolbridgeError):
            if not self.decoder.idle:
                await self.connection.close()

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
        return self.decoder.fail(TimedOut(f"the node sent nothing for {self._wait:g} s").problem)

    def _cut_off(self, error: ConnectionLost) -> Batch:
        if self.decoder.awaits_end:
            return self.decoder.close()
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
