"""An answer in which the gateway runs server tools.

It has the methods of `AnswerAttempts`, so a chain of models treats it in the same way: a failure of
the first pass before any content goes on to the next model. `policy.server_tool_loop` decides what
is passed on and what runs; this module waits.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import Protocol, TypeAlias

from toolbridge.core import events as ev
from toolbridge.core.errors import ToolbridgeError, Truncated, error_of
from toolbridge.core.fold import Fold, without_cut_calls
from toolbridge.core.messages import Message, Request
from toolbridge.core.server_tools import (
    ServerCall,
    ServerTool,
    ServerToolError,
    ServerToolOutcome,
)
from toolbridge.core.usage import Usage
from toolbridge.policy.direct_search import DirectSearch
from toolbridge.policy.server_tool_loop import ServerToolLoop
from toolbridge.routing.attempts import AnswerAttempts, Batch
from toolbridge.routing.exchange_trace import ExchangeTrace
from toolbridge.routing.opened_answer import GeneratedAnswer

RunServerTool: TypeAlias = Callable[[ServerCall, ServerTool], Awaitable[ServerToolOutcome]]
OpenPass: TypeAlias = Callable[[Request], AnswerAttempts]


class PassCharges(Protocol):
    """Charges the caller for the passes of an answer; raises if its key has too little left."""

    async def next_pass(self, usage: Usage, request: Request) -> None:
        """Charge for a pass, and reserve for the one that follows its tools.

        `request` is the pass that has ended; the next one is longer.
        """

    async def refit(self, request: Request) -> None:
        """Reserve for the next pass, whose request is now known."""


class DirectAnswer(GeneratedAnswer):
    """The answer to an agent's search request, which needs no model."""

    aborts = False
    maker = ""
    needs_other_api = False
    has_next = False
    opens_at = 0.0

    def __init__(
        self, search: DirectSearch, run: RunServerTool, trace: ExchangeTrace, seconds: float
    ) -> None:
        self._search = search
        self._running = _Running(run, trace, seconds)

    async def events(self) -> AsyncGenerator[Batch, None]:
        yield self._search.begin()
        yield self._search.end(await self._running.run(self._search.call, self._search.tool))

    async def message(self) -> Message:
        fold = Fold()
        async for batch in self.events():
            fold.feed_all(batch)
        return fold.message


class _Running:
    """Runs tools within the time that one answer has for them."""

    def __init__(self, run: RunServerTool, trace: ExchangeTrace, seconds: float) -> None:
        self._run = run
        self._trace = trace
        self._seconds = seconds
        self._deadline = 0.0

    @property
    def over(self) -> bool:
        return asyncio.get_running_loop().time() >= self._deadline

    async def run(self, call: ServerCall, tool: ServerTool) -> ServerToolOutcome:
        """Run a call; the time begins with the first one."""
        self._deadline = self._deadline or asyncio.get_running_loop().time() + self._seconds
        noted = self._trace.ran(call.name, call.server, call.arguments)
        try:
            async with asyncio.timeout_at(self._deadline) as limit:
                outcome = await self._run(call, tool)
        except TimeoutError:
            if limit.expired():  # uvloop's timers may fire a millisecond early
                self._deadline = asyncio.get_running_loop().time()
            outcome = ServerToolError("unavailable", f"no result within {self._seconds:g} s")
        noted.ended(self._trace.elapsed, outcome)
        return outcome


class ServerToolAnswer(GeneratedAnswer):
    """One answer over several passes of a model, with tools in between."""

    def __init__(
        self,
        loop: ServerToolLoop,
        open_pass: OpenPass,
        run: RunServerTool,
        *,
        charges: PassCharges,
        trace: ExchangeTrace,
        seconds: float,
    ) -> None:
        self._loop = loop
        self._open_pass = open_pass
        self._charges = charges
        self._running = _Running(run, trace, seconds)
        self._attempts = open_pass(loop.request)

    @property
    def needs_other_api(self) -> bool:
        return self._attempts.needs_other_api

    @property
    def maker(self) -> str:
        return self._attempts.maker

    @property
    def aborts(self) -> bool:
        return self._attempts.aborts

    @property
    def has_next(self) -> bool:
        return self._attempts.has_next

    @has_next.setter
    def has_next(self, value: bool) -> None:
        self._attempts.has_next = value

    @property
    def opens_at(self) -> float:
        return self._attempts.opens_at

    @opens_at.setter
    def opens_at(self, value: float) -> None:
        self._attempts.opens_at = value

    async def events(self) -> AsyncGenerator[Batch, None]:
        """Yield the events of the answer, as `AnswerAttempts.events` does."""
        loop = self._loop
        while True:
            if loop.waiting:
                if announced := loop.announce():
                    yield announced
                try:
                    await self._charge_pass()
                except ToolbridgeError as error:
                    yield loop.refuse(str(error))
                    raise
                yield loop.answer(await self._run())
                if loop.done:
                    return
                await self._next_pass()
            async with aclosing(self._attempts.events()) as batches:
                async for batch in batches:
                    if passed := loop.feed_all(batch):
                        yield passed
            if loop.done:
                return
            if not loop.waiting:
                raise Truncated("the model's answer did not end; send the request again")

    async def message(self) -> Message:
        """Return the whole answer; a pass that fails is retried as a whole answer is."""
        loop, fold = self._loop, Fold()
        while True:
            if loop.waiting:
                fold.feed_all(loop.announce())
                await self._charge_pass()
                fold.feed_all(loop.answer(await self._run()))
                if loop.done:
                    break
                await self._next_pass()
            said = await self._attempts.message()
            fold.feed_all(loop.feed_all(events_of(said)))
            if loop.done:
                break
        message = fold.message
        if message.problem is not None:
            raise error_of(message.problem)
        return without_cut_calls(message)

    async def _charge_pass(self) -> None:
        """Charge for the pass that has ended; no tool runs if the key has too little left."""
        if (usage := self._loop.pass_usage) is not None:
            await self._charges.next_pass(usage, self._loop.request)

    async def _next_pass(self) -> None:
        await self._charges.refit(self._loop.request)
        self._attempts = self._open_pass(self._loop.request)

    async def _run(self) -> dict[str, ServerToolOutcome]:
        """Run the waiting calls at the same time; return their outcomes by the ids of the calls."""
        runs = self._loop.runs()
        found = await asyncio.gather(*(self._running.run(call, one.tool) for call, one in runs))
        if runs and self._running.over:
            self._loop.stop()
        return {call.id: outcome for (call, _), outcome in zip(runs, found, strict=True)}


def events_of(message: Message) -> Batch:
    """Return the events of an answer that arrived whole."""
    events: Batch = [ev.Started(message.id, message.model, message.envelope)]
    for index, part in enumerate(message.content):
        events += ev.whole_block(index, part)
    events += [ev.Healed(ev.NO_BLOCK, report) for report in message.healed]
    events += [ev.Lost(loss) for loss in message.losses]
    if message.logprobs:
        events.append(ev.LogprobsReported(message.logprobs))
    events.append(ev.UsageReported(message.usage))
    return [
        *events,
        ev.Finished(message.stop or "end", message.stop_sequence, message.stop_details),
    ]
