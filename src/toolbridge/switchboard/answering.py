"""From a request of ours to the events that the client is told.

Until the client has been told anything of the content, a failure is ours to mend: the same request
is sent again, after the wait that the provider asks for, or at once without what it refused. From
the first word on, a second answer would not match the first, and a failure is told.
"""

import asyncio
import random
import re
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import TypeAlias

import msgspec

from toolbridge import demo
from toolbridge.config import ProviderConfig
from toolbridge.core import events as ev
from toolbridge.core.errors import ToolbridgeError, Truncated, error_of
from toolbridge.core.fold import without_cut_calls
from toolbridge.core.ids import Ids
from toolbridge.core.json import dump_bytes, dumps
from toolbridge.core.messages import Loss, Message, Problem, Request, Text
from toolbridge.core.stage import Passage, Stage
from toolbridge.policy.mending import Lack, lacking, without_thoughts
from toolbridge.policy.retry import may_retry, wait
from toolbridge.switchboard.refusals import check_status, rejection
from toolbridge.switchboard.roster import Route
from toolbridge.translate import Plan, Wishes, answer_stages, plan
from toolbridge.upstream.http import Incoming, Upstream

Batch: TypeAlias = list[ev.Event]
Tell: TypeAlias = Callable[[tuple[Loss, ...]], None]
_PRELUDE = (ev.Started, ev.UsageReported)


def quiet(_: tuple[Loss, ...]) -> None:
    """Do nothing with what gets lost."""


class Answering:
    """One answer to one request, over as many attempts as it takes."""

    def __init__(
        self,
        upstream: Upstream,
        route: Route,
        request: Request,
        wishes: Wishes,
        *,
        heal: int = 2,
        tell: Tell = quiet,
    ) -> None:
        self._upstream = upstream
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
        if self.attempts > self._route.place.retries:
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
            async with aclosing(self._pieces()) as pieces:
                async for piece in pieces:
                    batch = [said for event in piece for said in stages.feed(event)]
                    if not spoke:
                        held += batch
                        spoke = self._worth_telling(held)
                        batch, held = (held, []) if spoke else ([], held)
                    if batch:
                        yield batch
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
                if empty and self.attempts == 1 <= self._route.place.retries:
                    raise _EmptyAnswer
                return True
            if not isinstance(event, _PRELUDE):
                return True
        return False

    async def _pieces(self) -> AsyncGenerator[Batch, None]:
        if self._route.is_demo:
            async for batch in _demo_pieces(self._plan.request, Ids(self._seed)):
                yield batch
            return
        decoder = self._route.codec.stream_decoder(Ids(self._seed))
        incoming = await self._open()
        try:
            while piece := await incoming.read():
                if batch := decoder.feed(piece):
                    yield batch
            yield decoder.close()
        finally:
            await incoming.release()

    async def _open(self) -> Incoming:
        outgoing = self._plan.outgoing
        incoming = await send(
            self._upstream,
            self._route,
            outgoing.path,
            dump_bytes(outgoing.body),
            outgoing.headers,
        )
        if incoming.status < 400:
            return incoming
        try:
            raise await rejection(incoming, self._route)
        finally:
            await incoming.release()

    def _stages(self) -> Stage[ev.Event, ev.Event]:
        if self._route.is_demo:
            return Passage()
        return answer_stages(
            self._request,
            self._plan,
            model=self._route.target.model,
            dialect=self._route.settings.dialect,
            heal=self._heal,
            seed=self._seed,
        )


def _planned(request: Request, route: Route, wishes: Wishes) -> Plan:
    codec = None if route.is_demo else route.codec
    ready = plan(request, codec, route.target, wishes)
    if request.output is None or not _schema_lost(ready.losses):
        return ready
    return plan(_told(request), codec, route.target, wishes)


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


async def send(
    upstream: Upstream, route: Route, path: str, body: bytes, headers: dict[str, str]
) -> Incoming:
    """Send a request; return an answer or a rejection, and raise for what is neither."""
    place = route.place
    incoming = await upstream.ask(
        "POST",
        base_url(place) + path,
        provider=route.provider,
        body=body,
        headers={
            "content-type": "application/json",
            **place.headers,
            **(route.codec.authorize(route.key) if route.key else {}),
            **headers,
        },
        waits=_waits(place),
    )
    try:
        check_status(incoming, route.provider)
    except ToolbridgeError:
        await incoming.release()
        raise
    return incoming


def base_url(place: ProviderConfig) -> str:
    """Return where paths of the place's API begin, however its URL was given.

    OpenAI's paths begin behind `/v1`, those of the others in front of their version.
    """
    url = place.url.rstrip("/")
    if place.api.startswith("openai"):
        bare = url.count("/") == 2
        return f"{url}/v1" if bare else url
    return re.sub(r"/v1(beta)?$", "", url) if place.api != "ollama" else url


def _waits(place: ProviderConfig) -> tuple[float, float]:
    return place.connect_timeout, place.idle_timeout


async def _demo_pieces(request: Request, ids: Ids) -> AsyncGenerator[Batch, None]:
    """Yield the demo model's answer as a network would deliver it: a few words at a time."""
    events = demo.answer(request, ids)
    for start in range(0, len(events), 8):
        yield events[start : start + 8]
        await asyncio.sleep(0)  # let others in, and let a client that left be noticed
