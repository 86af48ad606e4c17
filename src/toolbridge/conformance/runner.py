"""Plays cases to a gateway, many at once, and keeps what came of each."""

import asyncio
from collections.abc import Callable, Iterable

import msgspec

from toolbridge.conformance import clients
from toolbridge.conformance.cases import Case, CaseBook
from toolbridge.conformance.client_requests import marked
from toolbridge.conformance.http_client import HttpClient
from toolbridge.conformance.judge import Evidence, judge
from toolbridge.conformance.scripted_upstream import PlayedCase, ScriptedUpstream
from toolbridge.core.json import dump_bytes

AT_ONCE = 16
LIMIT = 60.0
"""Seconds that a case may take; a busy machine needs them."""


class ScoredGateway(msgspec.Struct, frozen=True):
    """What is being scored."""

    url: str
    model: str = "conform"
    key: str = ""
    passthrough: bool = False
    """Whether it forwards bytes untouched where client and upstream speak the same API."""


class CaseOutcome(msgspec.Struct, frozen=True):
    case: str
    family: str
    client: str
    upstream: str
    passthrough: bool = False
    faults: tuple[str, ...] = ()
    took: float = 0.0

    @property
    def pair(self) -> str:
        return f"{self.client} → {self.upstream}{' (passthrough)' if self.passthrough else ''}"

    @property
    def passed(self) -> bool:
        return not self.faults


class Runner:
    """Plays the cases of a book."""

    def __init__(self, book: CaseBook, script: ScriptedUpstream, *, at_once: int = AT_ONCE) -> None:
        self._book = book
        self._script = script
        self._turnstile = asyncio.Semaphore(at_once)

    async def run(
        self,
        cases: Iterable[Case],
        api: str,
        gateway: ScoredGateway,
        note: Callable[[CaseOutcome], None] = lambda _: None,
    ) -> list[CaseOutcome]:
        """Return the outcome of each case for a client of `api`."""

        async def one(case: Case) -> CaseOutcome:
            async with self._turnstile:
                outcome = await self._play(case, api, gateway)
            note(outcome)
            return outcome

        return [*await asyncio.gather(*(one(case) for case in cases))]

    async def _play(self, case: Case, api: str, gateway: ScoredGateway) -> CaseOutcome:
        mark, playing = self._script.begin(case)
        try:
            found = await self._exchange(case, api, gateway, mark, playing)
        finally:
            self._script.end(mark)
        return CaseOutcome(
            case=case.id,
            family=case.family,
            client=api,
            upstream=case.api,
            passthrough=gateway.passthrough,
            faults=tuple(judge(found)),
            took=round(found.reply.after, 2),
        )

    async def _exchange(
        self, case: Case, api: str, gateway: ScoredGateway, mark: str, playing: PlayedCase
    ) -> Evidence:
        client = clients.load(api)
        ask = marked(self._book.asks[case.ask], mark)
        sent = client.ask(ask, gateway.model, not case.whole)
        headers = sent.headers | (client.authorize(gateway.key) if gateway.key else {})
        leave = asyncio.Event() if case.abort else None
        leaving = asyncio.create_task(_leave(case, playing, leave)) if leave else None
        line = HttpClient(gateway.url)
        reply = await line.ask(sent.path, headers, dump_bytes(sent.body), limit=LIMIT, leave=leave)
        if leaving:
            leaving.cancel()
        hung_up = await _hung_up_after(playing, case.expect.hangs_up_within)
        return Evidence(case, ask, api, client, reply, playing.heard, hung_up)


async def _leave(case: Case, playing: PlayedCase, leave: asyncio.Event) -> None:
    """Leave when the case says so: as soon as the upstream was asked, or when it speaks."""
    await playing.asked.wait()
    if case.abort == "speaking":
        await playing.speaking.wait()
    await asyncio.sleep(0.3)
    leave.set()


async def _hung_up_after(playing: PlayedCase, limit: float) -> float | None:
    """Return how long the upstream waited for its connection to close; None: in vain."""
    if not limit:
        return None
    loop = asyncio.get_running_loop()
    start = loop.time()
    try:
        await asyncio.wait_for(playing.hung_up.wait(), limit)
    except TimeoutError:
        return None
    return loop.time() - start
