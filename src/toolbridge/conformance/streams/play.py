"""One play of a case: the client reads, disconnects, resumes, pauses, answers and repeats."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field

from toolbridge.conformance.json_path import text
from toolbridge.conformance.streams.cases import ClientStep, StreamCase, body_of, expand
from toolbridge.conformance.streams.connections import (
    GatewayAddress,
    SseConnection,
    StreamConnection,
    StreamRejected,
    WebSocketConnection,
    WireEvent,
)
from toolbridge.conformance.streams.model import StreamPlay
from toolbridge.core.json import JsonObject, dump_bytes, maybe_object

PATH = "/v1/stream"
_SLOW_READS = 100
_SOON = 5.0


@dataclass
class PlayResult:
    """The result of one play."""

    events: list[WireEvent] = field(default_factory=list)
    run: str = ""
    refusal: StreamRejected | None = None
    pings: list[WireEvent] = field(default_factory=list)
    hung_up: bool = True
    faults: list[str] = field(default_factory=list)
    anew: list[WireEvent] = field(default_factory=list)
    """The events of a second run of the same request."""
    anew_run: str = ""
    heard: list[JsonObject] = field(default_factory=list)


class Play:
    def __init__(
        self,
        case: StreamCase,
        gateway: GatewayAddress,
        playing: StreamPlay,
        model: str,
        transport: str,
    ) -> None:
        self._case = case
        self._client = case.client
        self._gateway = gateway
        self._playing = playing
        self._body = body_of(case, model)
        self._key = f"{self._client.key}-{model.rpartition('/')[2]}" if self._client.key else ""
        self._by_socket = transport == "ws"
        self._counts: Counter[str] = Counter()
        self._steps = list(self._client.steps)
        self._beside: list[asyncio.Task[list[WireEvent]]] = []
        self.played = PlayResult()

    async def go(self) -> PlayResult:
        played = self.played
        try:
            await self._read(await self._open())
        except StreamRejected as refusal:
            played.refusal = refusal
        if self._steps:
            played.faults.append(f"the client never read what {self._steps[0].on} stands for")
        for task in self._beside:
            self._same(await task, "who joined")
        for what in self._client.after:
            await self._after(what)
        played.hung_up = await self._lines_close()
        played.heard = self._playing.heard
        return played

    # ── opening ──────────────────────────────────────────────────────────────

    async def _open(self) -> StreamConnection:
        if not self._by_socket or isinstance(self._body, bytes):
            return await self._post(self._body)
        key: JsonObject = {"idempotency_key": self._key} if self._key else {}
        return await WebSocketConnection.open(self._gateway, {"type": "start", **key, **self._body})

    async def _post(self, body: bytes | JsonObject, last: str = "") -> SseConnection:
        headers = {"content-type": "application/json"}
        headers |= {"idempotency-key": self._key} if self._key else {}
        headers |= {"last-event-id": last} if last else {}
        written = body if isinstance(body, bytes) else dump_bytes(body)
        line = await SseConnection.open(self._gateway, "POST", PATH, written, headers)
        if self._client.slow:
            line.narrow()
        return line

    async def _get(self, last: str = "") -> SseConnection:
        headers = {"last-event-id": last} if last else {}
        return await SseConnection.open(
            self._gateway, "GET", f"{PATH}/{self.played.run}", headers=headers
        )

    async def _again(self) -> StreamConnection:
        """Resume after the last event that was read."""
        last = self.played.events[-1].id
        match self._client.resume:
            case "ws":
                first: JsonObject = {"type": "resume", "last_event_id": last}
                return await WebSocketConnection.open(self._gateway, first)
            case "post":
                return await self._post(self._body, last)
            case "get":
                return await self._get(last)

    # ── reading ──────────────────────────────────────────────────────────────

    async def _read(self, line: StreamConnection) -> None:
        played = self.played
        reads = 0
        try:
            while (told := await line.next()) is not None:
                played.run = played.run or line.run
                if told.name == "ping":
                    played.pings.append(told)
                    continue
                if told.name == "rejected":
                    continue
                played.events.append(told)
                line = await self._react(line, told)
                reads += 1
                if self._client.slow and reads < _SLOW_READS:
                    await asyncio.sleep(self._client.slow)
        finally:
            await line.close()

    async def _react(self, line: StreamConnection, told: WireEvent) -> StreamConnection:
        self._counts[told.name] += 1
        while self._steps and self._due(self._steps[0], told):
            line = await self._take(self._steps.pop(0), line)
        if told.name == "tool.call" and told.data.get("client"):
            await self._answer(line, text(told.data, "id"))
        return line

    def _due(self, step: ClientStep, told: WireEvent) -> bool:
        name, _, count = step.on.partition(":")
        return told.name == name and self._counts[name] == int(count or 1)

    async def _answer(self, line: StreamConnection, id: str) -> None:
        given = maybe_object(expand(self._client.answers.get(id, "")))
        if given is None:
            return
        if isinstance(line, WebSocketConnection):
            await line.say({"type": "tool.result", "id": id, **given})
            return
        path = f"{PATH}/{self.played.run}/results"
        status, _ = await self._gateway.ask("POST", path, dump_bytes({"id": id, **given}))
        if status != 200:
            self.played.faults.append(f"the answer to {id} got status {status}")

    async def _take(self, step: ClientStep, line: StreamConnection) -> StreamConnection:
        match step.do:
            case "leave":
                await line.close()
                await asyncio.sleep(step.wait)
                return await self._again()
            case "quit":
                await line.close()
                await asyncio.sleep(step.wait)
                await self._delete()
                return await self._again()
            case "pause":
                await self._pause(line, step.wait)
            case "freeze" | "abort":
                await self._abort(line, step)
            case "crowd":
                await self._crowd()
            case "repeat":
                self._beside.append(asyncio.create_task(self._repeat()))
                await asyncio.sleep(step.wait)
            case "join":
                self._beside.append(asyncio.create_task(self._join()))
                await asyncio.sleep(step.wait)
            case "misspeak":
                await self._misspeak()
        return line

    async def _pause(self, line: StreamConnection, seconds: float) -> None:
        if isinstance(line, WebSocketConnection):
            await line.say({"type": "pause"})
        await asyncio.sleep(seconds)
        if isinstance(line, WebSocketConnection):
            await line.say({"type": "resume"})

    async def _abort(self, line: StreamConnection, step: ClientStep) -> None:
        if step.do == "freeze" and isinstance(line, WebSocketConnection):
            await line.say({"type": "pause"})
        await asyncio.sleep(step.wait)
        if isinstance(line, WebSocketConnection):
            await line.say({"type": "abort"})
        else:
            await self._delete()

    async def _delete(self) -> None:
        await self._wants("DELETE", f"{PATH}/{self.played.run}", 200, {"aborted": True})

    async def _misspeak(self) -> None:
        path = f"{PATH}/{self.played.run}/results"
        body: JsonObject = {"id": "nobody", "result": 1}
        status, reply = await self._gateway.ask("POST", path, dump_bytes(body))
        if (status, text(reply, "error.code")) != (400, "malformed_request"):
            self.played.faults.append(f"a result of no call got {status}: {reply}")

    async def _crowd(self) -> None:
        try:
            await (await self._post(self._body)).close()
        except StreamRejected as refusal:
            if (refusal.status, refusal.error.get("code")) == (429, "too_many_runs"):
                return
        self.played.faults.append("one stream too many was not refused with 429")

    async def _repeat(self) -> list[WireEvent]:
        return await (await self._post(self._body)).rest()

    async def _join(self) -> list[WireEvent]:
        return await (await self._get()).rest()

    # ── after the end ────────────────────────────────────────────────────────

    async def _after(self, what: str) -> None:
        run = self.played.run
        checks: dict[str, Callable[[], Awaitable[None]]] = {
            "repeat": self._repeats,
            "anew": self._runs_anew,
            "conflict": self._conflicts,
            "replay": self._replays,
            "suffixes": self._suffixes,
            "unknown": lambda: self._wants("GET", f"{PATH}/run_{'0' * 16}", 404, "unknown_run"),
            "late_abort": lambda: self._wants("DELETE", f"{PATH}/{run}", 200, {"aborted": False}),
            "late_result": lambda: self._wants(
                "POST", f"{PATH}/{run}/results", 404, "unknown_run", b'{"id":"T1","result":1}'
            ),
        }
        await checks[what]()

    async def _repeats(self) -> None:
        self._same(await self._repeat(), "a repeat")

    async def _runs_anew(self) -> None:
        line = await self._post(self._body)
        self.played.anew_run = line.run
        self.played.anew = await line.rest()

    async def _conflicts(self) -> None:
        other: JsonObject = {"prompt": "something else"}
        try:
            await (await self._post(other)).close()
        except StreamRejected as refusal:
            if (refusal.status, refusal.error.get("code")) == (409, "idempotency_conflict"):
                return
        self.played.faults.append("another body under the same key was not refused with 409")

    async def _replays(self) -> None:
        self._same(await self._join(), "a replay")

    async def _suffixes(self) -> None:
        events = self.played.events
        for after in sorted({0, 1, len(events) // 2, len(events) - 1}):
            last = f"{self.played.run}:{after}"
            for line in (await self._post(self._body, last), await self._get(last)):
                self._same(await line.rest(), f"after event {after}", events[after:])

    def _same(self, came: list[WireEvent], who: str, wanted: list[WireEvent] | None = None) -> None:
        if came != (self.played.events if wanted is None else wanted):
            names = " ".join(told.name for told in came)
            self.played.faults.append(f"{who} was told something else: {names[:300]}")

    async def _wants(
        self,
        method: str,
        path: str,
        status: int,
        wanted: str | JsonObject,
        body: bytes | None = None,
    ) -> None:
        """Send a request; record a fault unless it returns the given object or error code."""
        got, reply = await self._gateway.ask(method, path, body)
        right = text(reply, "error.code") == wanted if isinstance(wanted, str) else reply == wanted
        if got != status or not right:
            self.played.faults.append(f"{method} {path} gave {got}: {reply}, not {status}")

    async def _lines_close(self) -> bool:
        """Whether the connections to the model are closed soon after the end."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_SOON if self._case.expect.hung_up else 0.0):
                while self._playing.open:  # noqa: ASYNC110  there is no event to wait for
                    await asyncio.sleep(0.01)
        return not self._playing.open
