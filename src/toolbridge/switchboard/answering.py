"""From a request of ours to the events that the client is told.

Until the client has been told anything of the content, a failure is ours to mend: the same request
is sent again, after the wait that the provider asks for, or at once without what it refused. From
the first word on, a second answer would not match the first, and a failure is told.
"""

import asyncio
import random
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import TypeAlias

import msgspec

from toolbridge.core import events as ev
from toolbridge.core.errors import ToolbridgeError, Truncated, error_of
from toolbridge.core.fold import without_cut_calls
from toolbridge.core.ids import Ids
from toolbridge.core.json import dumps
from toolbridge.core.messages import Loss, Message, Problem, Request, Text
from toolbridge.core.stage import Passage
from toolbridge.policy.mending import Lack, lacking, without_thoughts
from toolbridge.policy.retry import may_retry, wait
from toolbridge.switchboard.roster import Route
from toolbridge.switchboard.sources import Batch, Sources
from toolbridge.translate import AnswerStages, Plan, Wishes, answer_stages, plan

__all__ = ["Answering", "Batch", "Tell", "quiet"]

Tell: TypeAlias = Callable[[tuple[Loss, ...]], None]
_PRELUDE = (ev.Started, ev.UsageReported)


def quiet(_: tuple[Loss, ...]) -> None:
    """Do nothing with what gets lost."""


class Answering:
    """One answer to one request, over as many attempts as it takes."""

    def __init__(
        self,
        sources: Sources,
        route: Route,
        request: Request,
        wishes: Wishes,
        *,
        heal: int = 2,
        tell: Tell = quiet,
    ) -> None:
        self._sources = sources
        self._route = route
        self._request = request
        self._wishes = wishes
        self._heal = heal
        self._tell = tell
        self._seed = random.randbytes(16)  # noqa: S311  ids need to differ, not to be secret
        self._mended: dict[Lack, tuple[Loss, ...]] = {}
        self.attempts = 0
        self._plan = self._prepare()

    def _prepare(self) -> Plan:
        ready = _planned(self._request, self._route, self._wishes)
        mended = [loss for losses in self._mended.values() for loss in losses]
        self._tell((*mended, *ready.losses))
        return ready

    @property
    def aborts(self) -> bool:
        """Whether a failure in mid-stream is told by hanging up alone."""
        return self._route.place.midstream_failure == "abort"

    async def events(self) -> AsyncGenerator[Batch, None]:
        """Yield what the model does, one batch per delivery of the network.

        Raise while nothing was yielded; afterwards a failure is the last event.
        """
        while True:
            self.attempts += 1
            spoke = False
            try:
                # A generator that is dropped half-way closes when the collector finds it; the
                # provider would go on writing until then.
                async with aclosing(self._attempt()) as batches:
                    async for batch in batches:
                        spoke = True
                        yield batch
                return
            except ToolbridgeError as error:
                if spoke or not await self._again(error.problem):
                    raise

    async def message(self) -> Message:
        """Return the whole answer. The client hears nothing before, so any failure is ours."""
        while True:
            self.attempts += 1
            try:
                async with aclosing(self._attempt()) as batches:
                    async for batch in batches:
                        last = batch[-1]
                if isinstance(last, ev.Finished):
                    return without_cut_calls(last.message)
                if isinstance(last, ev.Failed):
                    raise error_of(last.problem)
                raise Truncated(f"{self._route.provider} ended without an end")
            except ToolbridgeError as error:
                if not await self._again(error.problem):
                    raise

    async def _again(self, problem: Problem) -> bool:
        """Whether to ask again: at once without what was refused, or after a wait."""
        if self._mend(problem):
            return True
        if self.attempts > self._route.retries:
            return False
        if not may_retry(problem, attempt=self.attempts, content_sent=False):
            return False
        await asyncio.sleep(wait(problem, self.attempts, random.random()))  # noqa: S311  jitter
        return True

    def _mend(self, problem: Problem) -> bool:
        """Leave out what the provider refused, once; return whether there was such a thing."""
        lack = lacking(problem)
        if lack is None or lack in self._mended:
            return False
        self._mended[lack] = ()
        if lack == "history":
            self._request, self._mended[lack] = without_thoughts(self._request)
        else:
            self._route = _without(self._route, lack)
        self._plan = self._prepare()
        self.attempts = 0
        return True

    async def _attempt(self) -> AsyncGenerator[Batch, None]:
        """Yield one attempt's events, nothing before there is content.

        Raise a failure that comes before any content; tell one that comes later.
        """
        stages = self._stages()
        held: Batch = []
        spoke = False
        try:
            async with aclosing(
                self._sources.pieces(self._route, self._plan, Ids(self._seed))
            ) as pieces:
                async for piece in pieces:
                    batch = [said for event in piece for said in stages.feed(event)]
                    if not spoke:
                        held += batch
                        spoke = self._worth_telling(held)
                        batch, held = (held, []) if spoke else ([], held)
                    if batch:
                        yield batch
                    if stages.done:
                        return
        except ToolbridgeError as error:
            if not spoke:
                raise
            yield stages.feed(ev.Failed(error.problem, Message()))
            return
        if last := held + stages.close():
            yield last

    def _worth_telling(self, batch: Batch) -> bool:
        """Whether `batch` holds anything that cannot be taken back by asking again."""
        for event in batch:
            if isinstance(event, ev.Failed):
                raise error_of(event.problem)
            if isinstance(event, ev.Finished):
                empty = not event.message.content and event.reason == "end"
                if empty and self.attempts == 1 <= self._route.retries:
                    raise _EmptyAnswer
                return True
            if not isinstance(event, _PRELUDE):
                return True
        return False

    def _stages(self) -> AnswerStages:
        if self._route.is_demo:
            return AnswerStages(Passage(), self._plan.stops)
        return answer_stages(
            self._request,
            self._plan,
            model=self._route.target.model,
            dialect=self._route.settings.dialect,
            heal=self._heal,
            seed=self._seed,
        )


def _planned(request: Request, route: Route, wishes: Wishes) -> Plan:
    ready = plan(request, route.wording, route.target, wishes)
    if request.output is None or not _schema_lost(ready.losses):
        return ready
    return plan(_told(request), route.wording, route.target, wishes)


def _schema_lost(losses: tuple[Loss, ...]) -> bool:
    return any(loss.what in {"output", "output.schema"} for loss in losses)


def _told(request: Request) -> Request:
    """Return `request` with its format in words, for a place that cannot be held to one."""
    schema = request.output.schema if request.output else None
    shape = f", of the shape of this JSON Schema:\n{dumps(schema)}" if schema else "."
    system = (*request.system, Text(f"Answer with JSON only{shape}"))
    return msgspec.structs.replace(request, system=system)


def _without(route: Route, lack: Lack) -> Route:
    """Return `route` to a model that is now known to lack something."""
    target = route.target
    can = target.capabilities
    known = frozenset({"tools", "thinking", "vision"}) if can is None else can
    lesser = msgspec.structs.replace(target, capabilities=known - {lack})
    return msgspec.structs.replace(route, target=lesser)


class _EmptyAnswer(ToolbridgeError):
    """The model said nothing at all; asked once more, it mostly does."""

    kind = "overloaded"

    def __init__(self) -> None:
        super().__init__("the model gave an empty answer")
        self.problem = msgspec.structs.replace(self.problem, retry_after=0.0)
