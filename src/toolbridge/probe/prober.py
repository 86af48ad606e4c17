"""Sends the tasks of a probe to a model, one after the other, and judges the answers.

Requests go the way of every other request (`routing.Router`), with the tool mode of the route
replaced by the one that is probed. A request that cannot be sent in that mode is an attempt that
failed: a result of another mode is never booked under this one. The events of the provider are also read before any stage has
changed them: their text shows which dialect the model wrote.
"""

import time
from collections.abc import Callable, Sequence
from contextlib import aclosing

from msgspec.structs import replace

from toolbridge import dialects
from toolbridge.core import events as ev
from toolbridge.core.errors import ToolbridgeError
from toolbridge.core.fold import Fold
from toolbridge.core.json import JsonObject
from toolbridge.core.messages import Call, Message, Problem
from toolbridge.dialects.reader import read_text
from toolbridge.policy.tool_modes import DEFAULT_DIALECT, ToolMode
from toolbridge.probe.card import Attempt, Card, Speed
from toolbridge.probe.judge import judge
from toolbridge.probe.tasks import Task
from toolbridge.routing import Router
from toolbridge.routing.route import Route
from toolbridge.routing.translated import ClientSide

MAX_TOKENS = 600
"""The limit of one answer; the longest right answer has about half as many tokens."""
_FATAL = frozenset({"unreachable", "unauthenticated", "not_allowed", "config", "unknown_model"})
"""Kinds of problems that every further request would have as well."""
_FATAL_STATUSES = frozenset({401, 402, 403, 429})
"""The same, for statuses of rejections. A 429 that a later request may not get is `rate_limited`."""


class Prober:
    """Probes one model."""

    def __init__(self, router: Router, route: Route, *, max_tokens: int = MAX_TOKENS) -> None:
        self._router = router
        self._route = route
        self._max_tokens = max_tokens
        self._answered = False
        """Whether the provider has given an answer."""

    async def probe(
        self,
        tasks: Sequence[Task],
        modes: Sequence[ToolMode],
        progress: Callable[[int, Task, ToolMode], None],
    ) -> Card:
        """Return the card of the model; raise if it cannot be used at all.

        A problem that every further request would have as well stops the probe.
        """
        attempts: list[Attempt] = []
        stopped = ""
        try:
            for mode in modes:
                for task in tasks:
                    progress(len(attempts), task, mode)
                    attempts.append(await self._attempt(task, mode))
        except ToolbridgeError as error:
            if not attempts:
                raise
            stopped = str(error)
        target = self._route.target
        return Card(
            model=self._route.address,
            api=self._route.provider_config.api,
            window=target.window,
            attempts=tuple(attempts),
            stopped=stopped,
        )

    async def _attempt(self, task: Task, mode: ToolMode) -> Attempt:
        recorder = _Recorder()
        try:
            await self._record(task, mode, recorder)
            message = recorder.answer.message
        except ToolbridgeError as error:
            if self._is_fatal(error.problem):
                raise
            message = replace(recorder.answer.message, problem=error.problem)
        self._answered = self._answered or message.stop is not None
        verdict = judge(task, message)
        steps = tuple(step.what for report in message.healed for step in report.steps)
        return Attempt(
            task=task.id,
            kind=task.kind,
            mode=mode,
            right=verdict.right,
            valid=verdict.valid,
            first_try=verdict.valid and not steps,
            dialect=self._dialect(task, recorder.raw.message, message),
            healed=steps,
            leak=verdict.leak,
            thinking=bool(message.thinking),
            why=verdict.why,
            speed=recorder.speed(),
        )

    def _is_fatal(self, problem: Problem) -> bool:
        """Return whether every further request would have this problem as well.

        Bytes that are not an answer may be an accident, unless the provider has given no answer yet:
        then its `url` is wrong.
        """
        if problem.kind == "rejected":
            return problem.status in _FATAL_STATUSES
        return problem.kind in _FATAL or (problem.kind == "broken_wire" and not self._answered)

    async def _record(self, task: Task, mode: ToolMode, recorder: "_Recorder") -> None:
        settings = replace(self._route.settings, tool_mode=mode)
        route = replace(self._route, settings=settings)
        request = task.request(route.address, mode, self._max_tokens)
        counted = self._router.admit(request, route)
        client = ClientSide(raw=recorder.raw.feed_all, keeps_mode=True)
        attempts = self._router.attempts(request, route, counted.tokens, client=client)
        recorder.start()
        async with aclosing(attempts.events()) as batches:
            async for batch in batches:
                recorder.feed(batch)

    def _dialect(self, task: Task, raw: Message, message: Message) -> str:
        """Return the dialect of calls that the provider sent as text; empty if it sent none so."""
        calls = _pairs(message.calls)
        if not calls or raw.calls:
            return ""
        own = dialects.for_model(self._route.target.model) or DEFAULT_DIALECT
        for name in dict.fromkeys([own, DEFAULT_DIALECT, *dialects.names()]):
            found = read_text(raw.text, list(task.tools), dialect=name)
            if _pairs(found.calls) == calls and not found.content.strip():
                return name
        return "mixed"


class _Recorder:
    """The events of one answer, before and after the stages, and when they came."""

    def __init__(self) -> None:
        self.raw = Fold()
        self.answer = Fold()
        self._began = self._first = self._last = 0.0

    def start(self) -> None:
        self._began = time.monotonic()

    def feed(self, batch: list[ev.Event]) -> None:
        self._last = time.monotonic()
        if not self._first and any(isinstance(event, ev.DELTAS) for event in batch):
            self._first = self._last
        self.answer.feed_all(batch)

    def speed(self) -> Speed:
        usage = self.answer.message.usage
        return Speed(
            first_token=self._first - self._began if self._first else 0.0,
            seconds=max(0.0, self._last - self._began),
            output_tokens=usage.output,
            input_tokens=usage.input_total,
            cached_tokens=usage.cache_read,
        )


def _pairs(calls: Sequence[Call]) -> list[tuple[str, JsonObject]]:
    return [(call.name, call.arguments) for call in calls]
