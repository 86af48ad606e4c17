"""Plays cases, many at once, each in every way of cutting, and keeps what came of them."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

import aiohttp
import msgspec

from toolbridge.conformance.streams import model, self_gateway
from toolbridge.conformance.streams.cases import ScriptedAnswer, StreamCase, StreamExpectation
from toolbridge.conformance.streams.connections import BrokenStream, GatewayAddress
from toolbridge.conformance.streams.grammar import joined
from toolbridge.conformance.streams.judge import judge
from toolbridge.conformance.streams.play import Play, PlayResult
from toolbridge.upstream.session import open_session

AT_ONCE = 8
LIMIT = 60.0
"""Seconds that a play may take; a busy machine needs them."""
_SOCKET_CUTTING = "3"
"""The cutting that is read over a WebSocket where a case leaves it open."""
_ALIVE = StreamCase(
    name="alive",
    proves="the gateway still serves",
    says=(
        ScriptedAnswer(
            '\u27e6BEGIN_RESULT id=R1 schema=AssistantReply\u27e7{"answer":"here","citations":[]}'
            "\u27e6END_RESULT id=R1\u27e7"
        ),
    ),
    expect=StreamExpectation(events="result done"),
    category="alive",
)


class StreamOutcome(msgspec.Struct, frozen=True):
    """What came of a case."""

    case: str
    category: str
    proves: str
    plays: int
    faults: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        return not self.faults


class StreamRunner:
    def __init__(
        self, played: model.ScriptedModel, gateways: dict[str, str], session: aiohttp.ClientSession
    ) -> None:
        """Play on `gateways`, by the names that the cases have for them."""
        self._model = played
        self._gateways = gateways
        self._session = session
        self._turnstile = asyncio.Semaphore(AT_ONCE)
        self._alone = asyncio.Lock()

    async def run(self, cases: Iterable[StreamCase]) -> list[StreamOutcome]:
        return [*await asyncio.gather(*(self._case(case) for case in cases))]

    async def _case(self, case: StreamCase) -> StreamOutcome:
        plays = [self._play(case, cutting) for cutting in case.cuttings]
        if case.house == "few":  # it bears one stream at a time
            async with self._alone:
                done = [await play for play in plays]
        else:
            done = await asyncio.gather(*plays)
        faults = [fault for found, _ in done for fault in found]
        faults += _differing(case, [played for _, played in done])
        if case.category == "security":
            async with self._alone if case.house == "few" else _free():
                found, _ = await self._play(_alive_at(case), "7")
            faults += [f"afterwards: {fault}" for fault in found]
        return StreamOutcome(case.name, case.category, case.proves, len(done), tuple(faults))

    async def _play(self, case: StreamCase, cutting: str) -> tuple[list[str], PlayResult]:
        """Return what is wrong with a play, and what came of it."""
        transport = case.client.transport or ("ws" if cutting == _SOCKET_CUTTING else "sse")
        if case.expect.rejected is not None and not case.client.transport:
            transport = "sse"
        async with self._turnstile:
            name, playing = self._model.begin(case, cutting)
            headers = {"x-api-key": case.client.credential} if case.client.credential else {}
            gateway = GatewayAddress(self._gateways[case.house], self._session, headers)
            play = Play(case, gateway, playing, f"{self_gateway.PROVIDER}/{name}", transport)
            try:
                async with asyncio.timeout(LIMIT):
                    await play.go()
                found = judge(case, play.played)
            except (TimeoutError, BrokenStream, aiohttp.ClientError) as error:
                found = [str(error) or f"no end within {LIMIT:g} s"]
            finally:
                self._model.end(name)
        return [f"[{cutting}, {transport}] {fault}" for fault in found], play.played


def _differing(case: StreamCase, plays: list[PlayResult]) -> Iterable[str]:
    """Yield that the cutting of the model's text makes a difference, if it does."""
    if not case.steady or not plays:
        return
    first = joined(plays[0].events)
    for cutting, played in zip(case.cuttings[1:], plays[1:], strict=True):
        came = joined(played.events)
        if came != first:
            pairs = zip([*first, ("", "")], [*came, ("", "")], strict=False)
            one, other = next(pair for pair in pairs if pair[0] != pair[1])
            yield f"cut as {cutting}, another event comes: {other}, not {one}"


def _alive_at(case: StreamCase) -> StreamCase:
    return msgspec.structs.replace(
        _ALIVE,
        house=case.house,
        client=msgspec.structs.replace(
            _ALIVE.client, credential=self_gateway.KEY if case.house == "keyed" else ""
        ),
    )


@asynccontextmanager
async def _free() -> AsyncIterator[None]:
    yield


async def run_own(cases: list[StreamCase]) -> list[StreamOutcome]:
    """Score this toolbridge."""
    async with (
        model.serve() as played,
        self_gateway.gateways({"", *(case.house for case in cases)}, played.url) as urls,
        open_session(keep_connections=False) as session,
    ):
        return await StreamRunner(played, urls, session).run(cases)


async def run_other(cases: list[StreamCase], url: str, port: int) -> list[StreamOutcome]:
    """Score the gateway at `url`, whose provider `conform` is our model at `port`."""
    async with model.serve(port) as played, open_session(keep_connections=False) as session:
        chosen = [case for case in cases if not case.house]
        return await StreamRunner(played, {"": url.rstrip("/")}, session).run(chosen)
