"""From a request of ours to the events that the client is told.

Until the client has been told anything of the content, a failure is ours to mend: the same request
is sent again, after the wait that the provider asks for. From the first word on, a second answer
would not match the first, and a failure is told.
"""

import asyncio
import random
import re
from collections.abc import AsyncGenerator
from contextlib import aclosing

import msgspec

from toolbridge import demo
from toolbridge.config import ProviderConfig
from toolbridge.core import events as ev
from toolbridge.core.errors import ToolbridgeError, Truncated, error_of
from toolbridge.core.fold import without_cut_calls
from toolbridge.core.ids import Ids
from toolbridge.core.json import dump_bytes
from toolbridge.core.messages import Message, Problem, Request
from toolbridge.core.stage import Passage, Stage
from toolbridge.policy.retry import may_retry, wait
from toolbridge.server.refusals import check_status, rejection
from toolbridge.server.roster import Route
from toolbridge.translate import Plan, answer_stages
from toolbridge.upstream.http import Incoming, Upstream

Batch = list[ev.Event]
_PRELUDE = (ev.Started, ev.UsageReported)


class Answering:
    """One answer to one request, over as many attempts as it takes."""

    def __init__(
        self, upstream: Upstream, route: Route, request: Request, plan: Plan, *, heal: int = 2
    ) -> None:
        self._upstream = upstream
        self._route = route
        self._request = request
        self._plan = plan
        self._heal = heal
        self._seed = random.randbytes(16)  # noqa: S311  ids need to differ, not to be secret
        self.attempts = 0

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
                if spoke or not self._again(error.problem):
                    raise
                await self._wait(error.problem)

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
                if not self._again(error.problem):
                    raise
                await self._wait(error.problem)

    async def _wait(self, problem: Problem) -> None:
        await asyncio.sleep(wait(problem, self.attempts, random.random()))  # noqa: S311  jitter

    def _again(self, problem: Problem) -> bool:
        if self.attempts > self._route.place.retries:
            return False
        return may_retry(problem, attempt=self.attempts, content_sent=False)

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
