"""Plays translation cases: a client of one API, and a gateway whose upstream has another API.

The same process is both ends, so it sees every byte on both sides of the gateway.
"""

import asyncio
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, nullcontext

import msgspec

from toolbridge.conformance import clients
from toolbridge.conformance.cases import Case, CaseBook
from toolbridge.conformance.client_requests import marked
from toolbridge.conformance.http_client import HttpClient
from toolbridge.conformance.judge import Evidence, judge
from toolbridge.conformance.runner import LIMIT, CaseOutcome
from toolbridge.conformance.scripted_upstream import PlayedCase, ScriptedUpstream
from toolbridge.core.json import dump_bytes


class ScoredGateway(msgspec.Struct, frozen=True):
    """The gateway that is scored."""

    url: str
    model: str = "conform"
    key: str = ""
    local_model: str = ""
    """The model whose server tools the gateway runs; empty for a gateway that runs none."""
    passthrough: bool = False
    """Whether it forwards bytes untouched if client and upstream have the same API."""


class TranslationCase(msgspec.Struct, frozen=True):
    """A case, the API of the client that asks, and the gateway that is asked."""

    case: Case
    api: str
    gateway: ScoredGateway


class TranslationPlayer:
    """Plays translation cases with a scripted upstream."""

    def __init__(self, book: CaseBook, script: ScriptedUpstream) -> None:
        self._book = book
        self._script = script

    def rounds(self, _case: TranslationCase) -> Sequence[Sequence[str]]:
        """Return one round of one play: the case itself defines how its answer is cut."""
        return (("",),)

    def admit(self, _case: TranslationCase) -> AbstractAsyncContextManager[None]:
        return nullcontext()

    async def play(self, case: TranslationCase, _way: str) -> Evidence:
        """Return all that the client and the upstream observed."""
        mark, playing = self._script.begin(case.case)
        try:
            return await self._exchange(case, mark, playing)
        finally:
            self._script.end(mark)

    def outcome(self, scored: TranslationCase, rounds: Sequence[Sequence[Evidence]]) -> CaseOutcome:
        ((found,),) = rounds
        case = scored.case
        return CaseOutcome(
            case=case.id,
            family=case.family,
            client=scored.api,
            upstream=case.api,
            passthrough=scored.gateway.passthrough,
            why=case.why,
            faults=tuple(judge(found)),
            took=round(found.reply.after, 2),
        )

    async def _exchange(self, scored: TranslationCase, mark: str, playing: PlayedCase) -> Evidence:
        case, gateway = scored.case, scored.gateway
        client = clients.load(scored.api)
        ask = marked(self._book.asks[case.ask], mark)
        model = gateway.local_model if case.emulated else gateway.model
        sent = client.ask(ask, model, not case.whole)
        headers = sent.headers | (client.authorize(gateway.key) if gateway.key else {})
        leave = asyncio.Event() if case.abort else None
        leaving = asyncio.create_task(_leave(case, playing, leave)) if leave else None
        connection = HttpClient(gateway.url)
        reply = await connection.ask(
            sent.path, headers, dump_bytes(sent.body), limit=LIMIT, leave=leave
        )
        if leaving:
            leaving.cancel()
        hung_up = await _hung_up_after(playing, case.expect.hangs_up_within)
        return Evidence(case, ask, scored.api, client, reply, playing.heard, hung_up)


async def _leave(case: Case, playing: PlayedCase, leave: asyncio.Event) -> None:
    """Set `leave` at the time of the case: after the upstream's request, or after its first text."""
    await playing.asked.wait()
    if case.abort == "speaking":
        await playing.speaking.wait()
    await asyncio.sleep(0.3)
    leave.set()


async def _hung_up_after(playing: PlayedCase, limit: float) -> float | None:
    """Return the seconds until the upstream's connection closed; None if it stayed open."""
    if not limit:
        return None
    loop = asyncio.get_running_loop()
    start = loop.time()
    try:
        await asyncio.wait_for(playing.hung_up.wait(), limit)
    except TimeoutError:
        return None
    return loop.time() - start
