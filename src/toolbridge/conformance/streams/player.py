"""Plays the cases of structured streams: each several times, with the model's text cut differently.

`run_own` scores this toolbridge, `run_other` a gateway at a URL.
"""

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext

import aiohttp
import msgspec

from toolbridge.conformance import self_gateway
from toolbridge.conformance.runner import LIMIT, CaseOutcome, Runner
from toolbridge.conformance.streams import model
from toolbridge.conformance.streams.cases import ScriptedAnswer, StreamCase, StreamExpectation
from toolbridge.conformance.streams.connections import BrokenStream, GatewayAddress
from toolbridge.conformance.streams.grammar import joined
from toolbridge.conformance.streams.judge import judge
from toolbridge.conformance.streams.play import Play, PlayResult
from toolbridge.upstream.session import open_session

AT_ONCE = 8
_SOCKET_CUTTING = "3"
"""The cutting whose events are read over a WebSocket, unless the case names a transport."""
_CHECK = "check"
_CHECK_CUTTING = "7"
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


class JudgedPlay(msgspec.Struct, frozen=True):
    """One play: what the client read, and the faults in it."""

    result: PlayResult
    faults: tuple[str, ...] = ()


class StreamPlayer:
    """Plays cases on `gateways`, which are named as the cases name them."""

    def __init__(
        self, played: model.ScriptedModel, gateways: dict[str, str], session: aiohttp.ClientSession
    ) -> None:
        self._model = played
        self._gateways = gateways
        self._session = session
        self._alone = asyncio.Lock()

    def rounds(self, case: StreamCase) -> Sequence[Sequence[str]]:
        """Return every cutting; after a security case, also a check that the gateway still serves."""
        return (case.cuttings, *(((_CHECK,),) if case.category == "security" else ()))

    def admit(self, case: StreamCase) -> AbstractAsyncContextManager[None]:
        # The gateway `few` serves one stream at a time.
        return self._alone if case.gateway == "few" else nullcontext()

    async def play(self, case: StreamCase, way: str) -> JudgedPlay:
        """Play a case with the cutting `way` of the model's text."""
        if way == _CHECK:
            return await self._play(_alive_at(case), _CHECK_CUTTING)
        return await self._play(case, way)

    def outcome(self, case: StreamCase, rounds: Sequence[Sequence[JudgedPlay]]) -> CaseOutcome:
        plays, *checks = rounds
        faults = [fault for play in plays for fault in play.faults]
        faults += _differing(case, [play.result for play in plays])
        faults += [f"afterwards: {fault}" for (play,) in checks for fault in play.faults]
        return CaseOutcome(
            case=case.id,
            family=case.category,
            client="stream",
            why=case.proves,
            plays=len(plays),
            faults=tuple(faults),
        )

    async def _play(self, case: StreamCase, cutting: str) -> JudgedPlay:
        transport = case.client.transport or ("ws" if cutting == _SOCKET_CUTTING else "sse")
        if case.expect.rejected is not None and not case.client.transport:
            transport = "sse"
        name, playing = self._model.begin(case, cutting)
        headers = {"x-api-key": case.client.credential} if case.client.credential else {}
        gateway = GatewayAddress(self._gateways[case.gateway], self._session, headers)
        play = Play(case, gateway, playing, f"{self_gateway.STREAM_PROVIDER}/{name}", transport)
        try:
            async with asyncio.timeout(LIMIT):
                await play.go()
            found = judge(case, play.played)
        except (TimeoutError, BrokenStream, aiohttp.ClientError) as error:
            found = [str(error) or f"no end within {LIMIT:g} s"]
        finally:
            self._model.end(name)
        faults = tuple(f"[{cutting}, {transport}] {fault}" for fault in found)
        return JudgedPlay(play.played, faults)


def _differing(case: StreamCase, plays: list[PlayResult]) -> Iterable[str]:
    """Yield a fault for each cutting whose events differ from those of the first."""
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
        gateway=case.gateway,
        client=msgspec.structs.replace(
            _ALIVE.client, credential=self_gateway.STREAM_KEY if case.gateway == "keyed" else ""
        ),
    )


async def run_own(cases: list[StreamCase]) -> list[CaseOutcome]:
    """Score this toolbridge."""
    names: set[str] = {"", *(case.gateway for case in cases)}
    async with model.serve() as played:
        configs = {name: self_gateway.stream_config(name, played.url) for name in sorted(names)}
        async with (
            self_gateway.gateways(configs) as urls,
            open_session(keep_connections=False) as session,
        ):
            return await _run(StreamPlayer(played, urls, session), cases)


async def run_other(cases: list[StreamCase], url: str, port: int) -> list[CaseOutcome]:
    """Score the gateway at `url`, whose provider `conform` is the scripted model at `port`."""
    async with model.serve(port) as played, open_session(keep_connections=False) as session:
        chosen = [case for case in cases if not case.gateway]
        return await _run(StreamPlayer(played, {"": url.rstrip("/")}, session), chosen)


async def _run(player: StreamPlayer, cases: list[StreamCase]) -> list[CaseOutcome]:
    return await Runner(player, at_once=AT_ONCE).run(cases)
