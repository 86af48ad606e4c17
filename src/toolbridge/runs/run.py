"""One structured stream as it runs: asks the model, runs tools, repairs, and writes events.

The conversation decides; this only waits: for the model, for tools, for readers, and never longer
than was agreed. Time in which the reader is the slow one is not counted against the model.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, replace

import msgspec

from toolbridge.core import events as ev
from toolbridge.core.errors import ToolbridgeError, name_provider, status_of
from toolbridge.core.messages import Problem, Text
from toolbridge.core.redaction import Redactor
from toolbridge.routing import Router
from toolbridge.routing.attempts import Batch
from toolbridge.routing.models import Route
from toolbridge.runs.log import EventLog
from toolbridge.runs.recording import Recorder
from toolbridge.runs.request import StreamRequest
from toolbridge.runs.usage import CallTokens, Spending
from toolbridge.store.notices import report_fault
from toolbridge.structured.contract import Contract
from toolbridge.structured.conversation import AskRepair, Out, RunTool, StructuredConversation
from toolbridge.structured.events import Event, RunDone, RunToolCall
from toolbridge.tools.context import ToolContext
from toolbridge.tools.registry import Registry, ToolAttempt, ToolOutcome

COUNT_WAIT = 0.3
"""Seconds that the end of a stream waits for the count of its last answer."""
COUNT_WORDS = 200
"""Characters that an answer may go on before it is not waited for any more."""


@dataclass(frozen=True)
class RunContext:
    """What a run works with."""

    router: Router
    route: Route
    tools: Registry
    context: ToolContext


class StreamRun:
    def __init__(
        self,
        order: StreamRequest,
        contract: Contract,
        means: RunContext,
        log: EventLog,
        recorder: Recorder,
    ) -> None:
        self.log = log
        self._order = order
        self._means = means
        self._recorder = recorder
        self._conversation = StructuredConversation(contract)
        self._limits = contract.limits
        self._awaited: dict[str, asyncio.Future[ToolOutcome]] = {}
        self._budget: asyncio.Timeout | None = None
        self._why = ("abandoned", "the server was stopped")
        self._ending = False
        self._unsaid: list[Event] = []
        self._spending = Spending()
        self._counting = False
        """Whether an answer is open whose count may still come; `RunDone` waits for that."""
        self._frame = ""
        self._frame_until = 0.0

    async def drive(self) -> None:
        """Run to `RunDone`, whatever happens."""
        self._recorder.begin(self._order)
        try:
            await self._deliver(await self._to_the_end())
        except asyncio.CancelledError:
            self.log.unbind()
            await self._deliver(self._conversation.abort(*self._why))
        except Exception as error:  # noqa: BLE001  a fault of ours must not leave readers waiting
            store = self._means.context.store
            report_fault(error, Redactor() if store is None else store.redactor)
            text = f"toolbridge failed: {type(error).__name__}"
            await self._deliver(self._conversation.abort("internal", text))
        self._recorder.end(self._conversation)

    async def _to_the_end(self) -> list[Out]:
        """Converse; return what is left to say."""
        try:
            async with asyncio.timeout(self._order.request_timeout_ms / 1000) as self._budget:
                await self._converse()
        except TimeoutError:
            text = f"the stream took longer than {self._order.request_timeout_ms} ms"
            return self._conversation.abort("request_timeout", text)
        except ToolbridgeError as error:
            return self._conversation.feed(self._failed(error.problem))
        finally:
            self._budget = None
        return []

    def _failed(self, problem: Problem) -> ev.Failed:
        """Return the failure of an answer, with the provider's name where the answer is at fault."""
        if status_of(problem) >= 500:
            problem = name_provider(problem, self._means.route.provider)
        return ev.Failed(problem)

    def end(self, why: str, text: str) -> bool:
        """Note why the run is being ended; return whether that is news, and its task to cancel."""
        if self._ending or self.log.ended:
            return False
        self._ending = True
        self._why = (why, text)
        return True

    def answer_tool(self, id: str, outcome: ToolOutcome) -> bool:
        """Take what the caller's own tool gave; return whether anybody waits for that."""
        waiting = self._awaited.get(id)
        if waiting is None or waiting.done():
            return False
        waiting.set_result(outcome)
        return True

    # ── the model ────────────────────────────────────────────────────────────

    async def _converse(self) -> None:
        while (request := self._conversation.request()) is not None:
            self._recorder.ask(request)
            router, route = self._means.router, self._means.route
            counted = router.admit(request, route)
            lose = self._recorder.lose
            attempts = router.structured_attempts(request, route, counted.tokens, lose)
            count = self._spending.begin(counted.tokens)
            async with aclosing(attempts.events()) as batches:
                whole = await self._hear(batches, count)
            if whole:
                await self._deliver(self._conversation.close())
                await self._fulfil()
                continue
            if not count.final:
                self._recorder.cut(counted.tokens)
            await self._deliver([])

    async def _hear(self, batches: AsyncGenerator[Batch, None], count: CallTokens) -> bool:
        """Take an answer, and its count; return whether it came to its own end."""
        self._counting = True
        try:
            whole = await self._listen(batches, count)
            if not whole and not count.final:
                await self._count_rest(batches, count)
        finally:
            self._counting = False
        return whole

    def _count(self, event: ev.Event, count: CallTokens) -> None:
        count.feed(event)
        self._recorder.usage(event)

    async def _count_rest(self, batches: AsyncGenerator[Batch, None], count: CallTokens) -> None:
        """Wait a moment for the count of an answer that is not read on; most end there anyway."""
        left = COUNT_WORDS
        with contextlib.suppress(TimeoutError, ToolbridgeError):
            async with asyncio.timeout(COUNT_WAIT):
                async for batch in batches:
                    for event in batch:
                        self._count(event, count)
                        left -= len(event.text) if isinstance(event, ev.TextDelta) else 0
                    if left < 0 or count.final:  # it writes on, and is not counted soon
                        return

    async def _listen(self, batches: AsyncGenerator[Batch, None], count: CallTokens) -> bool:
        """Take an answer; return whether it came to its own end."""
        while True:
            batch = await self._next(batches)
            if batch is None:
                return self._conversation.listening
            for at, event in enumerate(batch, 1):
                self._count(event, count)
                told = self._failed(event.problem) if isinstance(event, ev.Failed) else event
                await self._deliver(self._conversation.feed(told))
                await self._fulfil()
                if not self._conversation.listening:
                    for unread in batch[at:]:
                        self._count(unread, count)
                    return False

    async def _next(self, batches: AsyncGenerator[Batch, None]) -> Batch | None:
        """Return the next delivery; none at the end, or when the answer is given up."""
        coming = asyncio.ensure_future(anext(batches, None))
        expired = False
        try:
            while not coming.done():
                wait = self._order.frame_timeout_ms / 1000 if expired else self._frame_left()
                await asyncio.wait({coming}, timeout=wait)
                if coming.done():
                    break
                if expired:
                    return None  # it fell silent in a frame, and stays silent
                if self._frame_left() == 0:
                    expired = True
                    await self._deliver(self._conversation.expire_frame())
                    await self._fulfil()
                    if not self._conversation.listening:
                        return None
            return coming.result()
        finally:
            if not coming.done():
                coming.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await coming

    def _frame_left(self) -> float | None:
        """Return the seconds that the open frame still has; None when there is none."""
        now = self._now()
        if self._conversation.open_frame != self._frame:
            self._frame = self._conversation.open_frame
            self._frame_until = now + self._order.frame_timeout_ms / 1000
        return max(0.0, self._frame_until - now) if self._frame else None

    # ── what the conversation wants ──────────────────────────────────────────

    async def _fulfil(self) -> None:
        while (want := self._conversation.wants) is not None:
            if isinstance(want, RunTool):
                outs = await self._run_tool(want)
            else:
                outs = self._conversation.repaired(await self._repair(want))
            await self._deliver(outs)

    async def _repair(self, want: AskRepair) -> str:
        """Return what the model writes instead; nothing if it cannot or takes too long."""
        self._recorder.ask(want.request)
        router, route = self._means.router, self._means.route
        count = self._spending.begin(router.count(want.request, route.address).tokens)
        attempts = router.attempts(want.request, route)
        try:
            async with asyncio.timeout(self._order.frame_timeout_ms / 1000):
                message = await attempts.message()
        except (ToolbridgeError, TimeoutError) as error:
            self._recorder.complain(f"a repair came to nothing: {str(error) or 'it took too long'}")
            return ""
        self._recorder.add_answer(message.usage, message.losses)
        count.feed(ev.UsageReported(message.usage))
        count.feed(ev.Finished("end"))
        return "".join(part.text for part in message.content if isinstance(part, Text))

    async def _run_tool(self, want: RunTool) -> list[Out]:
        await self.log.flush()  # whoever comes back after a crash learns what was under way
        outcome = await (self._ask_caller(want) if want.client else self._call(want))
        self._recorder.tool(want, outcome)
        if outcome.code:
            return self._conversation.tool_failed(want.id, outcome.code, outcome.message)
        return self._conversation.tool_done(want.id, outcome.result, cached=outcome.cached)

    async def _call(self, want: RunTool) -> ToolOutcome:
        return await self._means.tools.call(
            want.name,
            want.args,
            replace(self._means.context, call=want.id),
            timeout=self._order.tool_timeout_ms / 1000,
            retries=self._order.tool_retries,
            most=self._limits.result,
        )

    async def _ask_caller(self, want: RunTool) -> ToolOutcome:
        """Wait for the caller's own tool."""
        started = self._now()
        answer = self._awaited[want.id]
        wait = self._order.tool_timeout_ms
        await asyncio.wait({answer}, timeout=wait / 1000)
        took = (ToolAttempt(round((self._now() - started) * 1000, 3)),)
        if not answer.done():
            text = f"{want.name} was not answered within {wait} ms"
            return ToolOutcome(None, "tool_timeout", text, tries=took)
        return msgspec.structs.replace(answer.result(), tries=took)

    # ── what is said ─────────────────────────────────────────────────────────

    async def _deliver(self, outs: list[Out]) -> None:
        """Say these, after what a cancelled delivery has left unsaid."""
        self._unsaid += [out for out in outs if not isinstance(out, RunTool | AskRepair)]
        while self._unsaid:
            await self._wait_for_readers()
            event = self._unsaid[0]
            if isinstance(event, RunDone):
                if self._counting:
                    return
                event = RunDone(await self._spending.total(self._means.route))
            self._unsaid.pop(0)
            self._say(event)
            await self.log.settle()

    async def _wait_for_readers(self) -> None:
        began = self._now()
        until = None if self._budget is None else self._budget.when()
        if self._budget is not None:
            self._budget.reschedule(None)
        await self.log.room()
        waited = self._now() - began
        self._frame_until += waited
        if self._budget is not None and until is not None:
            self._budget.reschedule(until + waited)

    def _say(self, event: Event) -> None:
        if isinstance(event, RunToolCall) and event.client:
            # Asked for before the caller can answer.
            self._awaited[event.id] = asyncio.get_running_loop().create_future()
        self._recorder.say(self.log.add(event), event)

    def _now(self) -> float:
        return asyncio.get_running_loop().time()
