"""From a request to the events that the client is told, over as many attempts as it takes.

Until the client has been told anything of the content, a failure is ours to mend: the same request
is sent again, after the wait that the provider asks for, or at once without what it refused. From
the first word on, a second answer would not match the first, and a failure is told.

Translated requests and passthrough share this: they differ in what is sent and in what is kept of
the answer, not in when to ask again.
"""

import asyncio
import random
from collections.abc import AsyncGenerator
from typing import Protocol

import msgspec

from toolbridge.core import events as ev
from toolbridge.core.errors import ToolbridgeError, Truncated, error_of
from toolbridge.core.fold import Fold, collect, without_cut_calls
from toolbridge.core.ids import Ids
from toolbridge.core.messages import Message, Problem
from toolbridge.history.seals import maker_name
from toolbridge.policy.retry import may_retry, wait
from toolbridge.routing.models import Route
from toolbridge.routing.sources import Batch, Source
from toolbridge.translate import AnswerStages

__all__ = ["AnswerAttempts", "Batch", "KnownAnswer", "SendableRequest"]

_PRELUDE = (ev.Started, ev.UsageReported, ev.LogprobsReported, ev.Lost)


class SendableRequest(Protocol):
    """A request that can be sent any number of times."""

    route: Route
    retries_empty: bool
    """Whether an answer without any content is asked for once more."""

    def source(self, ids: Ids) -> Source:
        """Return a new answer, yet to be asked for."""
        ...

    def stages(self, seed: bytes) -> AnswerStages:
        """Return what the events of that answer pass through."""
        ...

    def downgrade(self, problem: Problem) -> bool:
        """Leave out what the provider refused; return whether there was such a thing."""
        ...


class AnswerAttempts:
    """One answer to one request."""

    def __init__(self, request: SendableRequest) -> None:
        self._request = request
        self._seed = random.randbytes(16)  # noqa: S311  ids need to differ, not to be secret
        self.attempts = 0

    @property
    def maker(self) -> str:
        """Whose signatures the answer bears: the provider, API and model that are asked."""
        route = self._request.route
        return maker_name(route.provider_config.api, route.provider, route.target.model)

    @property
    def aborts(self) -> bool:
        """Whether a failure in mid-stream is told by hanging up alone."""
        return self._request.route.provider_config.midstream_failure == "abort"

    async def events(self) -> AsyncGenerator[Batch, None]:
        """Yield what the model does, one batch per delivery of the network.

        Raise while nothing was yielded; afterwards a failure is the last event. A batch is empty
        only in passthrough, where bytes may arrive that no event describes.
        """
        while True:
            attempt = self._attempt()
            try:
                try:
                    while (batch := await attempt.read()) is not None:
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
            fold = Fold()
            try:
                try:
                    while (batch := await attempt.read()) is not None:
                        fold.feed_all(batch)
                finally:
                    await attempt.close()
                message = fold.message
                if message.problem is not None:
                    raise error_of(message.problem)
                if message.stop is not None:
                    return without_cut_calls(message)
                raise Truncated(f"{self._request.route.provider} ended without an end")
            except ToolbridgeError as error:
                if not await self._again(error.problem):
                    raise

    async def _again(self, problem: Problem) -> bool:
        """Whether to ask again: at once without what was refused, or after a wait."""
        if self._request.downgrade(problem):
            self.attempts = 0
            return True
        if self.attempts > self._request.route.retries:
            return False
        if not may_retry(problem, attempt=self.attempts, content_sent=False):
            return False
        await asyncio.sleep(wait(problem, self.attempts, random.random()))  # noqa: S311  jitter
        return True

    def _attempt(self) -> "_Attempt":
        self.attempts += 1
        request = self._request
        again = request.retries_empty and request.route.retries and self.attempts == 1
        source = request.source(Ids(self._seed))
        return _Attempt(source, request.stages(self._seed), bare=not again)


class KnownAnswer:
    """An answer that is known without asking a model, told like any other."""

    aborts = False
    maker = ""

    def __init__(self, events: Batch) -> None:
        self._events = events

    async def events(self) -> AsyncGenerator[Batch, None]:
        yield self._events

    async def message(self) -> Message:
        return collect(self._events)


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

    async def read(self) -> Batch | None:
        """Return what is to be told next, None at the end."""
        while not self._over:
            try:
                piece = await self._source.read()
                batch = [] if piece is None else self._stages.feed_all(piece)
            except ToolbridgeError as error:
                if not self.spoke:
                    raise
                self._over = True
                return self._stages.feed(ev.Failed(error.problem))
            if piece is None:
                self._over = True
                return self._held + self._stages.close() or None
            # After a failure there is nothing more to read, whether or not the provider hangs up.
            self._over = self._stages.done or (bool(batch) and isinstance(batch[-1], ev.Failed))
            if self.spoke:
                if batch or self._source.passing:
                    return batch
            elif self._is_worth_telling(batch):
                held, self._held = self._held, []
                return held
        return None

    async def close(self) -> None:
        """Hang up, unless all was read: a provider would go on writing for nobody."""
        await self._source.close()

    def _is_worth_telling(self, batch: Batch) -> bool:
        """Whether all so far holds anything that cannot be taken back by asking again."""
        self._held += batch
        self.spoke = self._speaks(self._held) or self._source.passing
        return self.spoke

    def _speaks(self, batch: Batch) -> bool:
        for event in batch:
            if isinstance(event, ev.Failed):
                raise error_of(event.problem)
            if isinstance(event, ev.Finished):
                if not self._bare and event.reason == "end":
                    raise _EmptyAnswer
                return True
            if not isinstance(event, _PRELUDE):
                return True
        return False


class _EmptyAnswer(ToolbridgeError):
    """The model said nothing at all; asked once more, it mostly does."""

    kind = "overloaded"

    def __init__(self) -> None:
        super().__init__("the model gave an empty answer")
        self.problem = msgspec.structs.replace(self.problem, retry_after=0.0)
