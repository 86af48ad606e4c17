"""One structured stream as it runs: asks the model, runs tools, repairs, and writes events.

`StructuredConversation` decides what happens next; `StreamRun` waits for the model, the tools and the
readers, within the timeouts of the request. Time spent waiting for a slow reader is not counted.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace

from toolbridge.core import events as ev
from toolbridge.core.errors import ToolbridgeError, name_provider, status_of
from toolbridge.core.messages import Loss, Problem, Request, Text
from toolbridge.core.redaction import Redactor
from toolbridge.policy.failover import TriedAddress, chain_loss
from toolbridge.routing import Router
from toolbridge.routing.attempts import AnswerAttempts, Batch
from toolbridge.routing.charge import RequestSize
from toolbridge.routing.failover import AnswerChain
from toolbridge.routing.route import Route
from toolbridge.routing.translated import ClientSide
from toolbridge.runs.client_calls import ClientCalls
from toolbridge.runs.first_tries import FirstTryCounts
from toolbridge.runs.kept_events import Record
from toolbridge.runs.log import EventLog
from toolbridge.runs.metering import Meter, metered
from toolbridge.runs.recording import Recorder
from toolbridge.runs.request import StreamRequest
from toolbridge.runs.usage import CallTokens, Spending
from toolbridge.store.notices import report_fault
from toolbridge.structured.contract import Contract
from toolbridge.structured.conversation import (
    AskRepair,
    Out,
    RunTool,
    RunTools,
    StructuredConversation,
)
from toolbridge.structured.events import Event, RunDone, RunToolCall
from toolbridge.tools.context import ToolContext
from toolbridge.tools.registry import Registry, ToolOutcome

COUNT_WAIT = 0.3
"""Seconds that the end of a stream waits for the usage of its last answer."""
MORE_CALLS_WAIT = 1.0
"""Seconds that a call in a frame waits for a further call or the end of the answer."""
COUNT_WORDS = 200
"""Characters that an answer may still send before its usage is estimated instead."""
TOGETHER = 32
"""Events that are sent together at most, so that a large delivery does not delay other streams."""
_EFFECTS = (RunTools, AskRepair)


@dataclass(frozen=True)
class RunContext:
    """What a run uses: the router, the route of its model, its tools, and the counts of first tries."""

    router: Router
    route: Route
    tools: Registry
    context: ToolContext
    first_tries: FirstTryCounts
    meter: Meter | None = None
    """Charges the calls of the model to the caller's key."""


class StreamRun:
    """One run: drives the conversation and writes its events to the log."""

    def __init__(
        self,
        stream_request: StreamRequest,
        contract: Contract,
        context: RunContext,
        log: EventLog,
        recorder: Recorder,
    ) -> None:
        self.log = log
        self._request = stream_request
        self._context = context
        self._recorder = recorder
        self._conversation = StructuredConversation(contract)
        self._limits = contract.limits
        self._mode = contract.mode
        self._client_calls = ClientCalls({tool.name: tool.returns for tool in contract.tools})
        self.answer_tool = self._client_calls.answer
        self._budget: asyncio.Timeout | None = None
        self._reason = ("abandoned", "the server was stopped")
        self._ending = False
        self._unsent: deque[Event] = deque()
        self._sent: list[tuple[Record, Event]] = []
        """Events that were sent and are not recorded yet."""
        self._spending = Spending()
        self._route = context.route
        """The route that answers now; another one of the chain after a failure."""
        self._prompt_tokens = 0
        self._counting = False
        """Whether the usage of an answer is still expected; `RunDone` waits for it."""
        self._frame = ""
        self._frame_until = 0.0

    async def drive(self) -> None:
        """Run until `RunDone` is sent, also after errors and cancellation."""
        self._recorder.begin(self._request)
        try:
            await self._deliver(await self._run())
        except asyncio.CancelledError:
            self.log.unbind()
            await self._deliver(self._conversation.abort(*self._reason))
        except Exception as error:  # noqa: BLE001  an internal error must not leave readers waiting
            store = self._context.context.store
            report_fault(error, Redactor() if store is None else store.redactor)
            text = f"toolbridge failed: {type(error).__name__}"
            await self._deliver(self._conversation.abort("internal", text))
        self._recorder.end(self._conversation, self._mode)
        if (valid := self._conversation.first_try) is not None:
            counts, address = self._context.first_tries, self._route.address
            await counts.add(address, self._mode, valid=valid)

    async def _run(self) -> list[Out]:
        """Converse until the end; return the events of a failure or a timeout."""
        try:
            async with asyncio.timeout(self._request.request_timeout_ms / 1000) as self._budget:
                await self._converse()
        except TimeoutError:
            text = f"the stream took longer than {self._request.request_timeout_ms} ms"
            return self._conversation.abort("request_timeout", text)
        except ToolbridgeError as error:
            return self._conversation.feed(self._failed(error.problem))
        finally:
            self._budget = None
        return []

    def _failed(self, problem: Problem) -> ev.Failed:
        """Return the failure event; it names the provider if the provider is at fault."""
        if status_of(problem) >= 500:
            problem = name_provider(problem, self._route.provider)
        return ev.Failed(problem)

    def end(self, why: str, text: str) -> bool:
        """Set the reason for ending; return True if the caller should cancel the task now."""
        if self._ending or self.log.ended:
            return False
        self._ending = True
        self._reason = (why, text)
        return True

    # ── the model ────────────────────────────────────────────────────────────

    async def _converse(self) -> None:
        while (request := self._conversation.request()) is not None:
            self._recorder.requested(request)
            attempts = self._chain(request, structured=True)
            await attempts.prepare()
            count = self._spending.begin(self._prompt_tokens, attempts)
            asked = RequestSize(self._prompt_tokens, request.max_tokens)
            async with (
                metered(self._context.meter, attempts, asked, count),
                aclosing(attempts.events()) as batches,
            ):
                whole = await self._read_answer(batches, count)
            if whole:
                await self._deliver(self._conversation.close())
                await self._fulfil()
                continue
            if not count.final:
                self._recorder.left_early(self._prompt_tokens)
            await self._deliver()

    def _chain(self, request: Request, *, structured: bool) -> AnswerChain:
        """Return the answer of the first model of the chain that gives one."""
        router = self._context.router

        described = None if self._context.meter is None else self._context.meter.descriptions

        async def open_attempts(route: Route, tried: Sequence[TriedAddress]) -> AnswerAttempts:
            self._route = route
            self._recorder.serve_by(route)
            lost = (chain_loss(tried, route.address),) if tried else ()
            self._recorder.lost(lost)
            if not structured:
                return router.attempts(request, route, client=ClientSide(descriptions=described))
            self._prompt_tokens = router.admit(request, route).tokens

            def note_losses(losses: tuple[Loss, ...]) -> None:
                self._recorder.lost((*lost, *losses))

            client = ClientSide(losses=note_losses, descriptions=described)
            return router.structured_attempts(request, route, self._prompt_tokens, client)

        caller = self._context.context.caller
        return router.chain(self._request.model, open_attempts, caller, self._addresses)

    async def _addresses(self) -> Sequence[str]:
        """Return the addresses of the model that the caller's key may use."""
        meter = self._context.meter
        key = "" if meter is None else meter.key_name
        found = await self._context.router.rules.addresses(Request(model=self._request.model), key)
        return found if meter is None else meter.allowed(found)

    async def _read_answer(self, batches: AsyncGenerator[Batch, None], count: CallTokens) -> bool:
        """Read an answer and its usage; return whether it ended by itself."""
        self._counting = True
        try:
            whole = await self._read_events(batches, count)
            if not whole and not count.final:
                await self._count_rest(batches, count)
        finally:
            self._counting = False
        return whole

    def _count(self, event: ev.Event, count: CallTokens) -> None:
        count.feed(event)
        self._recorder.usage(event)

    async def _count_rest(self, batches: AsyncGenerator[Batch, None], count: CallTokens) -> None:
        """Wait briefly for the usage of an answer that is left early; most end there anyway."""
        left = COUNT_WORDS
        with contextlib.suppress(TimeoutError, ToolbridgeError):
            async with asyncio.timeout(COUNT_WAIT):
                async for batch in batches:
                    for event in batch:
                        self._count(event, count)
                        left -= len(event.text) if isinstance(event, ev.TextDelta) else 0
                    if left < 0 or count.final:  # the answer continues, so its usage is not near
                        return

    async def _read_events(self, batches: AsyncGenerator[Batch, None], count: CallTokens) -> bool:
        """Feed an answer to the conversation; return whether it ended by itself."""
        while True:
            try:
                batch = await self._next(batches)
            except ToolbridgeError as error:
                if not self._conversation.collecting:
                    raise
                batch = [ev.Failed(error.problem)]  # the calls so far are run all the same
            if batch is None:
                return self._conversation.listening
            for at, event in enumerate(batch, 1):
                self._count(event, count)
                known = self._failed(event.problem) if isinstance(event, ev.Failed) else event
                self._queue(self._conversation.feed(known))
                if self._conversation.effect is None and self._conversation.listening:
                    if len(self._unsent) >= TOGETHER:
                        await self._deliver()
                    continue
                await self._deliver()
                await self._fulfil()
                if not self._conversation.listening:
                    for unread in batch[at:]:
                        self._count(unread, count)
                    return False
            await self._deliver()

    async def _next(self, batches: AsyncGenerator[Batch, None]) -> Batch | None:
        """Return the next batch; None at the end, or when the answer is abandoned."""
        coming = asyncio.ensure_future(anext(batches, None))
        expired = False
        try:
            while not coming.done():
                wait = self._request.frame_timeout_ms / 1000 if expired else self._frame_left()
                if self._conversation.collecting:
                    wait = MORE_CALLS_WAIT
                await asyncio.wait({coming}, timeout=wait)
                if coming.done():
                    break
                if self._conversation.collecting:
                    await self._deliver(self._conversation.end_calls())
                    await self._fulfil()
                    return None
                if expired:
                    return None  # silent inside a frame, for as long as the frame may take
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
        """Return the seconds left for the open frame; None if no frame is open."""
        now = self._now()
        if self._conversation.open_frame != self._frame:
            self._frame = self._conversation.open_frame
            self._frame_until = now + self._request.frame_timeout_ms / 1000
        return max(0.0, self._frame_until - now) if self._frame else None

    # ── effects: tools and repairs ───────────────────────────────────────────

    async def _fulfil(self) -> None:
        while (effect := self._conversation.effect) is not None:
            if isinstance(effect, RunTools):
                await self._run_tools(effect)
            else:
                await self._deliver(self._conversation.repaired(await self._repair(effect)))

    async def _repair(self, effect: AskRepair) -> str:
        """Return the model's repaired text; an empty string if it fails or takes too long."""
        self._recorder.requested(effect.request)
        attempts = self._chain(effect.request, structured=False)
        try:
            async with asyncio.timeout(self._request.frame_timeout_ms / 1000):
                await attempts.prepare()
                tokens = self._context.router.count(effect.request, attempts.route.address).tokens
                count = self._spending.begin(tokens, attempts)
                asked = RequestSize(tokens, effect.request.max_tokens)
                async with metered(self._context.meter, attempts, asked, count):
                    message = await attempts.message()
                    count.feed(ev.UsageReported(message.usage))
                    count.feed(ev.Finished("end"))
        except (ToolbridgeError, TimeoutError) as error:
            self._recorder.warn(f"a repair failed: {str(error) or 'it took too long'}")
            return ""
        self._recorder.add_answer(message.usage, message.losses)
        return "".join(part.text for part in message.content if isinstance(part, Text))

    async def _run_tools(self, effect: RunTools) -> None:
        """Run the tools of one answer at the same time; report them in the order of the calls."""
        await self.log.flush()  # after a crash, a replay shows the calls that were running
        running = [asyncio.create_task(self._run_tool(call)) for call in effect.calls]
        try:
            for call, task in zip(effect.calls, running, strict=True):
                outcome = await task
                self._recorder.tool(call, outcome)
                await self._deliver(self._outcome(call, outcome))
        finally:
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)

    def _outcome(self, call: RunTool, outcome: ToolOutcome) -> list[Out]:
        if outcome.code:
            return self._conversation.tool_failed(call.id, outcome.code, outcome.message)
        return self._conversation.tool_done(call.id, outcome.result, cached=outcome.cached)

    async def _run_tool(self, call: RunTool) -> ToolOutcome:
        if call.client:
            return await self._client_calls.outcome(call, self._request.tool_timeout_ms)
        return await self._call(call)

    async def _call(self, effect: RunTool) -> ToolOutcome:
        return await self._context.tools.call(
            effect.name,
            effect.args,
            replace(self._context.context, call=effect.id),
            timeout=self._request.tool_timeout_ms / 1000,
            retries=self._request.tool_retries,
            most=self._limits.result,
        )

    # ── events to the readers ────────────────────────────────────────────────

    def _queue(self, outs: Iterable[Out]) -> None:
        self._unsent += [out for out in outs if not isinstance(out, _EFFECTS)]

    async def _deliver(self, outs: Sequence[Out] = ()) -> None:
        """Send the queued events, among them those that a cancelled delivery left, and these."""
        self._queue(outs)
        try:
            while self._unsent:
                if self.log.is_full:
                    self._record_sent()
                    await self._wait_for_readers()
                event = self._unsent[0]
                if isinstance(event, RunDone):
                    if self._counting:
                        break
                    event = RunDone(await self._spending.total())
                self._unsent.popleft()
                self._send(event)
                if self.log.is_due:
                    await self.log.settle()
        finally:
            self._record_sent()
        await self.log.settle()

    def _record_sent(self) -> None:
        if self._sent:
            sent, self._sent = self._sent, []
            self._recorder.sent(sent)

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

    def _send(self, event: Event) -> None:
        if isinstance(event, RunToolCall) and event.client:
            self._client_calls.expect(event.id, event.name)  # before its event is sent
        self._sent.append((self.log.add(event), event))

    def _now(self) -> float:
        return asyncio.get_running_loop().time()
