"""The clients of the cluster: what they send, and what became of it."""

import asyncio
import re
import time
from collections import Counter
from collections.abc import AsyncIterator

import aiohttp
from tests.cluster.upstream import kind_of, text_of

AT_ONCE = 16
TRIES = 8
"""Times that a client sends a request whose answer it has to get."""
STOPPED = b"the answer is incomplete"
"""In the error that closes the answer of a killed gateway."""

ENDED = {"whole", "stopped", "never stored"}
"""Outcomes of a resumed stream that a further try does not change."""


class Load:
    """All clients; each of them sends one request after the other."""

    def __init__(self, url: str, keys: dict[str, str], count: int) -> None:
        self._path = f"{url}/v1/chat/completions"
        self._keys = keys
        self._marks = iter(range(count))
        self.outcomes: dict[str, Counter[str]] = {
            kind: Counter() for kind in ("plain", "limited", "keyed", "resumed")
        }
        self.wrong: list[str] = []
        self.whole: set[int] = set()
        """Marks whose answer a client has got to its end."""
        self.unsure: Counter[int] = Counter()
        """Requests of a mark that may have a row without a request to the model: refused or lost."""
        self.broken: set[int] = set()
        """Marks of which an answer broke off."""
        self.resumed: list[float] = []
        """Seconds from the request that resumes a stream to its first event."""
        self.ordinary: list[float] = []
        """Seconds from any other request to the first bytes of its answer, on this busy machine."""

    async def run(self) -> None:
        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(connector=connector) as session:
            await asyncio.gather(*(self._client(session) for _ in range(AT_ONCE)))

    async def _client(self, session: aiohttp.ClientSession) -> None:
        for mark in self._marks:
            kind = kind_of(mark)
            if kind == "keyed":
                outcome = await self._repeat(session, mark)
            elif kind == "resumed":
                outcome = await self._resume(session, mark)
            else:
                kind = "limited" if mark % 2 else "plain"
                outcome, _ = await self._ask(session, mark, kind)
            self.outcomes[kind][outcome] += 1

    def _post(self, session: aiohttp.ClientSession, mark: int, key: str = "plain", **headers: str):
        body = {
            "model": "m", "stream": True, "max_tokens": 20,
            "messages": [{"role": "user", "content": f"mark {mark} please"}],
        }  # fmt: skip
        sent = {"authorization": f"Bearer {self._keys[key]}", "session-id": f"mark-{mark}"}
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        return session.post(self._path, json=body, headers=sent)

    async def _ask(
        self, session: aiohttp.ClientSession, mark: int, key: str = "plain", **headers: str
    ) -> tuple[str, bytes]:
        """Send a request once; return how it ended, and the bytes of its answer."""
        data, began = b"", time.monotonic()
        try:
            async with self._post(session, mark, key, **headers) as answer:
                self.ordinary.append(time.monotonic() - began)
                data = await answer.read()
        except aiohttp.ClientError:
            self.unsure[mark] += 1
            return "lost", data
        if answer.status != 200:
            self.unsure[mark] += 1
            return str(answer.status), data
        if b"[DONE]" not in data or b'"error"' in data:
            self.broken.add(mark)
            return "broken", data
        self._check(mark, data)
        return "whole", data

    def _check(self, mark: int, data: bytes) -> None:
        """Compare the text of a whole answer."""
        found = "".join(re.findall(r'"content":"(.*?)"', data.decode()))
        if found != text_of(mark):
            self.wrong.append(f"{mark}: {found}")
        self.whole.add(mark)

    # ── the same Idempotency-Key ─────────────────────────────────────────────

    async def _repeat(self, session: aiohttp.ClientSession, mark: int) -> str:
        """Send a request twice at once, and again until it is answered, always with one key."""
        bodies: set[bytes] = set()

        async def one() -> str:
            for n in range(TRIES):
                outcome, data = await self._ask(session, mark, idempotency_key=f"key-{mark}")
                if outcome == "whole":
                    bodies.add(data)
                    return "whole" if n == 0 else "whole after a repeat"
                await asyncio.sleep(0.2)
            return outcome

        outcomes = await asyncio.gather(one(), one())
        outcomes.append(await one())  # a repeat after the end
        if len(bodies) > 1:
            self.wrong.append(f"{mark}: repeats got {len(bodies)} different answers")
        return max(outcomes)

    # ── resumed streams ──────────────────────────────────────────────────────

    async def _resume(self, session: aiohttp.ClientSession, mark: int) -> str:
        """Leave in mid-stream, and continue after the last event that arrived."""
        for _ in range(TRIES):
            outcome, read = await self._read(session, mark, mark % 7 + 1, x_toolbridge_resume="30")
            if read:
                break
        else:
            return outcome
        resumed = b"".join(read)
        answer = _last_id(resumed).partition(":")[0]
        for _ in range(TRIES):
            last = _last_id(resumed)
            outcome, read = await self._read(session, mark, 0, last_event_id=last)
            resumed += b"".join(read)
            if outcome in ENDED:
                break
            await asyncio.sleep(0.05)
        for _ in range(TRIES):
            ended, again = await self._read(session, mark, 0, last_event_id=f"{answer}:0")
            replayed = b"".join(again)
            if ended in ENDED:
                break
            await asyncio.sleep(0.05)
        if outcome == "whole":
            self._check(mark, resumed)
            if resumed != replayed:
                self.wrong.append(f"{mark}: resumed {resumed[-99:]!r}, stored {replayed[-99:]!r}")
        elif outcome == "stopped" and not _agree(resumed, replayed):
            self.wrong.append(f"{mark}: got {resumed!r}, stored {replayed!r}")
        return outcome

    async def _read(
        self, session: aiohttp.ClientSession, mark: int, most: int, **headers: str
    ) -> tuple[str, list[bytes]]:
        """Read at most so many events of an answer; 0 reads it to its end."""
        events: list[bytes] = []
        began = time.monotonic()
        try:
            async with self._post(session, mark, **headers) as answer:
                if answer.status != 200:
                    self.unsure[mark] += 1
                    # The gateway was killed before anything of the answer was stored.
                    never = b"ended before it began" in await answer.read()
                    return ("never stored" if never else str(answer.status)), events
                async for event in _events(answer):
                    if "last_event_id" in headers and not events:
                        self.resumed.append(time.monotonic() - began)
                    events.append(event)
                    if len(events) == most:
                        answer.close()
                        return "left", events
        except aiohttp.ClientError:
            self.unsure[mark] += 1
            self.broken.add(mark)
            # The answer of a killed gateway is closed with an error, and without a clean end.
            return ("stopped" if events and STOPPED in events[-1] else "lost"), events
        if not events:  # all events had arrived, and only the end of the answer was missing
            return "whole" if "last_event_id" in headers else "lost", events
        return ("whole" if b"[DONE]" in events[-1] else "lost"), events


async def _events(answer: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    """Yield whole events."""
    held = b""
    async for data in answer.content.iter_any():
        *whole, held = (held + data).split(b"\n\n")
        for event in whole:
            yield event + b"\n\n"


def _last_id(data: bytes) -> str:
    return re.findall(rb"^id: (\S+)", data, re.MULTILINE)[-1].decode()


def _agree(got: bytes, stored: bytes) -> bool:
    """Return whether one begins with the other, apart from the error at the end.

    A killed gateway has sent events that were not stored yet.
    """
    got, stored = (b"".join(re.split(rb"(?<=\n\n)", one)[:-2]) for one in (got, stored))
    return got.startswith(stored) or stored.startswith(got)
