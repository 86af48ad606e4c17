"""Attempts: a request is sent until it is answered or no retry is allowed.

While the client has received no content, a failed attempt is repeated: after the delay that the
provider asks for, or at once without the feature that the provider rejected. After the first
content a second answer would not match the first, so the failure becomes the last event.

Translated requests and passthrough share this module: they differ in what is sent and in what is
kept of the answer, not in when a request is repeated.
"""

import asyncio
import random
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import suppress
from typing import Protocol, TypeAlias

import msgspec

from toolbridge.core import events as ev
from toolbridge.core.errors import TimedOut, ToolbridgeError, Truncated, error_of, name_provider
from toolbridge.core.fold import Fold, collect, without_cut_calls
from toolbridge.core.messages import Message, Problem
from toolbridge.policy.answer_stages import AnswerStages
from toolbridge.policy.rescue import is_unparsed
from toolbridge.policy.retry import hides_status, may_retry, wait
from toolbridge.routing.exchange_trace import ExchangeTrace
from toolbridge.routing.opened_answer import batches_of
from toolbridge.routing.route import Route
from toolbridge.routing.sources import Batch, HttpSource, Source

__all__ = ["AnswerAttempts", "Batch", "SendableRequest"]

Pause: TypeAlias = Callable[[float], Awaitable[None]]
"""Waits before a retry; a replay does not wait."""
BatchSink: TypeAlias = Callable[[Batch], bool]
"""Sends events to the client; returns False if the client is slow, after which its reader waits."""
_ENDS = frozenset({ev.Finished, ev.Failed})
_UNNAMED = frozenset({"truncated", "broken_wire"})
"""Failures that a decoder finds; the others are reported by the provider, in its own words."""
_PRELUDE = frozenset({ev.Started, ev.UsageReported, ev.LogprobsReported, ev.Lost})


class SendableRequest(Protocol):
    """A request that can be sent any number of times."""

    route: Route
    retries_empty: bool
    """Whether the request is repeated once after an answer without any content."""
    needs_other_api: bool
    """Whether the provider has rejected the request because of its API."""

    @property
    def streams(self) -> bool:
        """Whether content arrives while it is generated; `first_byte_timeout` applies only then."""
        ...

    def source(self, seed: bytes) -> Source:
        """Return the source of a new answer; the request is sent at its first read."""
        ...

    def stages(self, seed: bytes) -> AnswerStages:
        """Return the stages for the events of that answer."""
        ...

    def rescue(self, problem: Problem, seed: bytes) -> Batch | None:
        """Return the answer that the error contains (`policy/rescue.py`); None without one."""
        ...

    def downgrade(self, problem: Problem) -> bool:
        """Leave out the feature that the provider rejected; return whether there was one."""
        ...


class AnswerAttempts(msgspec.Struct, eq=False):
    """The answer to one request, over as many attempts as are allowed."""

    _request: SendableRequest
    _trace: ExchangeTrace = msgspec.field(default_factory=ExchangeTrace)
    _pause: Pause = asyncio.sleep
    attempts: int = 0
    has_next: bool = False
    """Whether another provider can answer instead: then the waits are short."""
    opens_at: float = 0.0
    ended: bool = False
    _current: "_Attempt | None" = None

    @property
    def needs_other_api(self) -> bool:
        """Whether the request can be prepared again for another API of the provider."""
        return self._request.needs_other_api

    @property
    def maker(self) -> str:
        """The provider, API and model that sign the answer's opaque tokens."""
        return self._request.route.maker

    @property
    def aborts(self) -> bool:
        """Whether a failure in mid-stream closes the connection instead of sending an error."""
        return self._request.route.provider_config.midstream_failure == "abort"

    def events(self) -> AsyncGenerator[Batch, None]:
        """Yield the events of the answer, one batch per chunk from the network.

        A failure before the first batch is raised; a later one is the last event. A batch is empty
        only in passthrough, where bytes may arrive that no event describes.
        """
        return batches_of(self)

    async def begin(self) -> Batch | None:
        """Return the first batch of `events`. Many answers have no more: then `ended` is set."""
        while True:
            attempt = self._attempt()
            try:
                try:
                    batch = await attempt.read()
                    self.ended = batch is None or attempt.has_ended()
                except BaseException:
                    self.ended = True
                    raise
                finally:
                    if self.ended:
                        await attempt.close()
            except ToolbridgeError as error:
                if rescued := self._request.rescue(error.problem, self._trace.seed):
                    self._trace.failed(error.problem, "the answer was read from the error")
                    return rescued
                if not await self._again(error.problem):
                    raise
            else:
                return batch

    async def read(self) -> Batch | None:
        """Return the next batch of `events`, None at the end."""
        if self.ended or self._current is None:
            return None
        batch = await self._current.read()
        if batch is None or self._current.has_ended():
            await self.close()
        return batch

    async def close(self) -> None:
        """Close the connection of an answer that was not read to its end."""
        if not self.ended and self._current is not None:
            self.ended = True
            await self._current.close()

    def push_to(self, sink: "BatchSink") -> None:
        """Pass the rest of the answer to `sink`, as far as it can be pushed; the rest is yielded.

        Called after the first content, when no other attempt follows.
        """
        if self._current is not None:
            self._current.sink = sink

    async def message(self) -> Message:
        """Return the whole answer; every failure may be retried, as nothing was sent yet."""
        while True:
            attempt = self._attempt()
            fold = Fold()
            try:
                try:
                    while (batch := await attempt.read()) is not None:
                        fold.feed_all(batch)
                        if attempt.has_ended():
                            break
                finally:
                    await attempt.close()
                message = fold.message
                if message.problem is not None:
                    raise error_of(message.problem)
                if message.stop is not None:
                    return without_cut_calls(message)
                raise Truncated(
                    f"{self._request.route.provider} closed the connection before its answer "
                    "ended; send the request again"
                )
            except ToolbridgeError as error:
                if rescued := self._request.rescue(error.problem, self._trace.seed):
                    self._trace.failed(error.problem, "the answer was read from the error")
                    return collect(rescued)
                if not await self._again(error.problem):
                    raise

    async def _again(self, problem: Problem) -> bool:
        """Return whether to send the request again; wait first unless it was downgraded."""
        self._trace.failed(problem)
        if self._request.downgrade(problem):
            self._trace.failed(problem, "sent again without what the provider rejected")
            self.attempts = 0
            return True
        if is_unparsed(problem) or self.attempts > self._request.route.retries:
            return False
        allowed = may_retry(
            problem, attempt=self.attempts, content_sent=False, has_next=self.has_next
        )
        if not allowed:
            return False
        delay = wait(problem, self.attempts, random.random())  # noqa: S311  jitter
        left = self.opens_at - asyncio.get_running_loop().time() if self.opens_at else 0.0
        if hides_status(problem, delay, left):
            return False
        self._trace.failed(problem, f"sent again after {delay:.1f} s")
        await self._pause(delay)
        return True

    def _attempt(self) -> "_Attempt":
        self.attempts += 1
        request = self._request
        again = request.retries_empty and request.route.retries and self.attempts == 1
        seed = self._trace.seed
        source = request.source(seed)
        config = request.route.provider_config
        has_limits = config.first_byte_timeout or config.total_timeout
        limits = AttemptLimits.of(request) if has_limits else None
        stages = request.stages(seed)
        attempt = _Attempt(source, stages, request.route.provider, not again, limits)
        self._current = attempt
        return attempt


class AttemptLimits:
    """The time limits of one attempt: until its first content, and until its end."""

    def __init__(self, provider: str, first: float, total: float) -> None:
        self._provider = provider
        self._first = first
        self._total = total
        self._started = asyncio.get_running_loop().time()

    @classmethod
    def of(cls, request: SendableRequest) -> "AttemptLimits | None":
        """Return the limits that the provider's settings have; None for none."""
        config = request.route.provider_config
        first = config.first_byte_timeout if request.streams else 0.0
        if not first and not config.total_timeout:
            return None
        return cls(request.route.provider, first, config.total_timeout)

    async def read(self, source: Source, *, has_content: bool) -> Batch | None:
        """Read from `source` within the limits; raise `TimedOut`."""
        first = 0.0 if has_content else self._first
        bounds = [seconds for seconds in (first, self._total) if seconds]
        if not bounds:
            return await source.read()
        least = min(bounds)
        try:
            async with asyncio.timeout_at(self._started + least):
                return await source.read()
        except TimeoutError:
            waited = "no content" if least == first else "no complete answer"
            setting = "first_byte_timeout" if least == first else "total_timeout"
            raise TimedOut(
                f"{self._provider} sent {waited} within {least:g} s; raise `{setting}` of the "
                "provider if the model needs longer",
                provider=self._provider,
            ) from None


class _Attempt(msgspec.Struct, eq=False):
    """The events of one attempt, held back until there is content.

    A failure before any content is raised; a later one is returned as an event.
    """

    _source: Source
    _stages: AnswerStages
    provider: str
    """The name of the provider in errors."""
    _bare: bool
    """Whether an answer without any content is accepted."""
    _limits: AttemptLimits | None = None
    _held: Batch = []
    _over: bool = False
    _finished: bool = False
    """Whether the provider has sent the end of the answer; its bytes may go on."""
    has_content: bool = False
    sink: BatchSink | None = None
    """Takes the events after the first content, where they can be pushed."""

    async def read(self) -> Batch | None:
        """Return the next events, None at the end."""
        while not (self._over or self._finished):
            try:
                if self.sink is not None and (batch := await self._pushed(self.sink)) is not None:
                    return self._noted_end(batch)
                if self._limits is None:
                    piece = await self._source.read()
                else:
                    piece = await self._limits.read(self._source, has_content=self.has_content)
                batch = [] if piece is None else self._stages.feed_all(piece)
            except ToolbridgeError as error:
                if not self.has_content:
                    raise
                self._over = True
                return self._stages.feed(ev.Failed(error.problem))
            if piece is None:
                self._over = True
                return self._held + self._stages.close() or None
            batch = self._noted_end(batch)
            if self.has_content:
                if batch or self._source.passing:
                    return batch
            elif self._hold(batch):
                held, self._held = self._held, []
                return held
        return None if self._over else await self._read_rest()

    def has_ended(self) -> bool:
        """Return whether nothing follows what was read: most short answers arrive whole."""
        source = self._source
        if self._finished and isinstance(source, HttpSource) and source.has_arrived:
            self._over = self._stages.is_transparent
        return self._over

    def _noted_end(self, batch: Batch) -> Batch:
        """Note whether `batch` ends the answer; return it with the provider's name in a failure."""
        if batch and type(batch[-1]) in _ENDS:
            # A failure ends the answer, even if the provider keeps the connection open.
            self._over = isinstance(batch[-1], ev.Failed)
            self._finished = not self._over
            if self._over:
                batch = _name_provider(batch, self.provider)
        self._over = self._over or self._stages.done
        return batch

    async def _read_rest(self) -> Batch | None:
        """Read what follows the end of the answer: nothing in it makes the answer incomplete."""
        source = self._source
        if isinstance(source, HttpSource):
            if not source.has_arrived:
                await source.finish()
        else:
            with suppress(ToolbridgeError):
                while (piece := await source.read()) is not None:
                    batch = self._stages.feed_all(piece)
                    if batch or source.passing:
                        return batch
        self._over = True
        return self._held + self._stages.close() or None

    async def _pushed(self, sink: "BatchSink") -> Batch | None:
        """Pass events to `sink` as they arrive; return those that the reader has to pass on.

        An empty batch means that the client is slow. None means that the reader has to read.
        """
        source, stages = self._source, self._stages
        if not isinstance(source, HttpSource) or self._limits is not None:
            self.sink = None
            return None
        left: list[Batch] = []
        gate, decode = stages.gate, source.decode

        def take(piece: bytes) -> bool:
            batch = decode(piece)
            if not batch:
                return True
            # Through an open gate nothing changes between the first content and the end.
            if gate is None or not gate.open or type(batch[-1]) in _ENDS:
                batch = stages.feed_all(batch)
                if not batch:
                    self._over = stages.done
                    return not stages.done
                if stages.done or type(batch[-1]) in _ENDS:
                    batch = _name_provider(batch, self.provider)
                    self._over = stages.done or isinstance(batch[-1], ev.Failed)
                    left.append(batch)
                    return False
            if sink(batch):
                return True
            left.append([])
            return False

        if not await source.push(take):
            self.sink = None
        if left:
            return left[0]
        return [] if self._over else None

    def close(self) -> Awaitable[None]:
        """Close the connection unless all was read, so that the provider stops generating."""
        self.sink = None
        return self._source.close()

    def _hold(self, batch: Batch) -> bool:
        """Keep `batch`; return whether there is content now, after which no retry is possible."""
        self._held += batch
        for event in self._held:
            if type(event) in _PRELUDE:
                continue
            if isinstance(event, ev.Failed):
                raise error_of(event.problem)
            if isinstance(event, ev.Finished) and not self._bare and event.reason == "end":
                raise _EmptyAnswer
            self.has_content = True
            return True
        self.has_content = self._source.passing
        return self.has_content


def _name_provider(batch: Batch, provider: str) -> Batch:
    """Return `batch` with the provider in the text of its failure; decoders do not know the name."""
    last = batch[-1]
    if not isinstance(last, ev.Failed) or last.problem.kind not in _UNNAMED:
        return batch
    return [*batch[:-1], ev.Failed(name_provider(last.problem, provider))]


class _EmptyAnswer(ToolbridgeError):
    """Raised for an answer without content; a second attempt mostly has some."""

    kind = "overloaded"

    def __init__(self) -> None:
        super().__init__("the model returned an empty answer; send the request again")
        self.problem = msgspec.structs.replace(self.problem, retry_after=0.0)
