"""From a request of ours to the events that the client is told.

Until the client has been told anything of the content, a failure is ours to mend: the same request
is sent again, after the wait that the provider asks for, or at once without what it refused. From
the first word on, a second answer would not match the first, and a failure is told.
"""

import asyncio
import random
from collections.abc import AsyncGenerator, Callable
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
from toolbridge.switchboard.sources import Batch, Source, Sources
from toolbridge.translate import AnswerStages, Plan, Wishes, answer_stages, plan

__all__ = ["Answering", "Batch", "Tell", "quiet"]

Tell: TypeAlias = Callable[[tuple[Loss, ...]], None]
_PRELUDE = (ev.Started, ev.UsageReported, ev.LogprobsReported, ev.Lost)


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
            attempt = self._attempt()
            try:
                try:
                    while batch := await attempt.read():
                        yield batch
                finally:
                    await attempt.close()
                return
            except ToolbridgeError as error:
                if attempt.spoke or not await self._again(error.problem):
                    raise

    async def message(self) -> Message:
        """Return the whole answer. The client hears nothing before, so any failure is ours."""
        while True:
            attempt = self._attempt()
            last: ev.Event | None = None
            try:
                try:
                    while batch := await attempt.read():
                        last = batch[-1]
                finally:
                    await attempt.close()
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

    def _attempt(self) -> "_Attempt":
        self.attempts += 1
        source = self._sources.source(self._route, self._plan, Ids(self._seed))
        # A model that says nothing at all is asked once more.
        return _Attempt(source, self._stages(), bare=self.attempts > 1 or not self._route.retries)

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


class _Attempt:
    """One attempt's events, nothing before there is content.

    Raises a failure that comes before any content; tells one that comes later.
    """

    def __init__(self, source: Source, stages: AnswerStages, *, bare: bool) -> None:
        self._source = source
        self._stages = stages
        self._bare = bare
        """Whether an answer without any content is taken for one."""
        self._held: Batch = []
        self._over = False
        self.spoke = False

    async def read(self) -> Batch:
        """Return what is to be told next, nothing at the end."""
        while not self._over:
            try:
                piece = await self._source.read()
                batch = self._stages.feed_all(piece)
            except ToolbridgeError as error:
                if not self.spoke:
                    raise
                self._over = True
                return self._stages.feed(ev.Failed(error.problem, Message()))
            if not piece:
                self._over = True
                return self._held + self._stages.close()
            self._over = self._stages.done
            if batch := batch if self.spoke else self._worth_telling(batch):
                return batch
        return []

    async def close(self) -> None:
        """Hang up, unless all was read: a provider would go on writing for nobody."""
        await self._source.close()

    def _worth_telling(self, batch: Batch) -> Batch:
        """Return all so far once it holds anything that cannot be taken back by asking again."""
        self._held += batch
        if not self._speaks(self._held):
            return []
        self.spoke = True
        held, self._held = self._held, []
        return held

    def _speaks(self, batch: Batch) -> bool:
        for event in batch:
            if isinstance(event, ev.Failed):
                raise error_of(event.problem)
            if isinstance(event, ev.Finished):
                if not (self._bare or event.message.content) and event.reason == "end":
                    raise _EmptyAnswer
                return True
            if not isinstance(event, _PRELUDE):
                return True
        return False


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
