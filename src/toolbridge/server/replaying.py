"""Runs a recording again through the whole gateway, without a network.

The client's bytes go through the same dispatcher, routes and codecs as those of a real client; the
provider's recorded bytes take the place of its answers. Times of keep-alives, ids and token counts
come from the recording, so that unchanged code writes the same bytes.
"""

import asyncio
from collections.abc import Mapping
from typing import Literal

import msgspec
from multidict import CIMultiDict, CIMultiDictProxy
from typing_extensions import override

from toolbridge import codecs
from toolbridge.config import Config, ModelConfig
from toolbridge.core import events as ev
from toolbridge.core.errors import MalformedRequest, Unreachable, error_of
from toolbridge.core.ids import Ids
from toolbridge.core.json import JsonObject
from toolbridge.explain.recording import RecordedAttempt, RecordedRoute, Recording
from toolbridge.routing.recorded_route import route_from_json
from toolbridge.routing.route import Route
from toolbridge.routing.router import TokenCount
from toolbridge.server.app import App
from toolbridge.server.dispatch import Dispatcher
from toolbridge.server.http import HttpExchange, IncomingRequest
from toolbridge.server.http_head import Head
from toolbridge.server.kept_requests import KeptRequests
from toolbridge.server.request_log import Entry
from toolbridge.server.response_tap import RecordingTap
from toolbridge.upstream.http import Incoming, Upstream

_NEVER = 1_000_000.0
_DROPPED = frozenset({b"host", b"origin", b"content-encoding", b"content-length", b"connection"})


class ReplayChanges(msgspec.Struct, frozen=True):
    """What a replay does in another way than the recorded gateway."""

    dialect: str | None = None
    heal: int | None = None
    to: str = ""
    """The API of the answer, in place of the client's own."""


class ReplayedAnswer(msgspec.Struct, frozen=True):
    """The response that the current code writes."""

    status: int
    pieces: list[tuple[float, bytes, bool]]


async def replay(recording: Recording, changes: ReplayChanges) -> ReplayedAnswer:
    """Return the response of the current code to a recorded request."""
    if recording.truncated:
        raise MalformedRequest("the recording was cut, because the request had too many bytes")
    tap = RecordingTap()
    upstream = RecordedUpstream(recording, tap)
    app = _ReplayApp(recording, upstream)
    _configure(app, recording, changes)
    exchange = HttpExchange(_head(recording), _MemoryChannel(recording.client.body.encode()))
    exchange.tap = tap
    await Dispatcher(app).serve(exchange)
    await app.gateway.close()
    return ReplayedAnswer(tap.status, tap.pieces)


def _configure(app: App, recording: Recording, changes: ReplayChanges) -> None:
    gateway = app.gateway
    gateway.router.pause = _no_pause
    gateway.kept_requests = KeptRequests(0, bytes.fromhex(recording.seed))
    if changes.to:
        gateway.answers_in = codecs.load(changes.to)
    if recording.route:
        last = RecordedRoute(recording.route, recording.estimate)
        recorded = (*recording.failed_routes, last)
        chain = [_route(one.route) for one in recorded]
        gateway.router.pinned_counts = {
            route.address: msgspec.convert(one.estimate, TokenCount)
            for route, one in zip(chain, recorded, strict=True)
            if one.estimate
        }
        _note_seen_id(app, recording, chain[-1])
        changed = [
            msgspec.structs.replace(route, settings=_changed(route.settings, changes))
            for route in chain
        ]
        gateway.model_routes.pin(recording.model, changed)


def _route(recorded: JsonObject) -> Route:
    try:
        route = route_from_json(recorded)
    except msgspec.ValidationError as error:
        raise MalformedRequest(f"the recording has a route of another version ({error})") from None
    if route.is_node:
        raise MalformedRequest("the answers of nodes are not recorded, so there is no replay")
    return route


def _note_seen_id(app: App, recording: Recording, route: Route) -> None:
    """Note the id of the provider's answer as seen, if the client got another one in its place."""
    if recording.api != route.provider_config.api or not recording.attempts:
        return
    data = b"".join(recording.attempts[-1].response.data())
    events = route.codec.stream_decoder(Ids("replay")).feed(data)
    id = next((event.id for event in events if isinstance(event, ev.Started)), "")
    got = b"".join(recording.response.body.data())
    # Quoted, because a short id can be a part of the new one ("c1" in "chatcmpl-a083de7c1f").
    if id and msgspec.json.encode(id) not in got:
        app.gateway.router.sources.seen_ids.is_new(id)


def _changed(settings: ModelConfig, changes: ReplayChanges) -> ModelConfig:
    if changes.dialect is not None:
        settings = msgspec.structs.replace(settings, dialect=changes.dialect)
    if changes.heal is not None:
        settings = msgspec.structs.replace(settings, heal=changes.heal)
    return settings


async def _no_pause(_: float) -> None:
    """A replay does not wait before a retry."""


class _ReplaySettings(msgspec.Struct, frozen=True):
    thinking: Literal["auto", "drop", "reject"] = "auto"
    heal: int = 2


class _ReplayApp(App):
    """A gateway with the settings, the id and the time of a recording, and without state."""

    def __init__(self, recording: Recording, upstream: Upstream) -> None:
        found = msgspec.convert(recording.settings, _ReplaySettings)
        config = Config(
            thinking=found.thinking,
            heal=found.heal,
            log="off",
            first_byte=_NEVER,
            keep_alive=_NEVER,
            explain_bytes=0,
        )
        super().__init__(config, {}, upstream)
        self._recording = recording
        self.request_id = lambda: recording.id

    @override
    def open_entry(self, exchange: IncomingRequest) -> Entry:
        entry = super().open_entry(exchange)
        entry.at = self._recording.time
        return entry


def _head(recording: Recording) -> Head:
    client = recording.client
    headers = {name.encode(): value.encode() for name, value in client.headers.items()}
    kept = {name: value for name, value in headers.items() if name not in _DROPPED}
    body = client.body.encode()
    return Head(client.method, client.path, client.query.encode(), kept, length=len(body))


class _MemoryChannel:
    """A connection that has the whole body and drops what is written; the tap keeps it."""

    paused = False

    def __init__(self, body: bytes) -> None:
        self._body = body

    def keeps_after(self, _: HttpExchange) -> bool:
        return False

    def defaults(self) -> bytes:
        return b""

    def write(self, data: bytes) -> None:
        pass

    push = write

    def bound_unread(self) -> None:
        pass

    async def drained(self, *, bounded: bool = False) -> None:
        pass

    def whole_body(self) -> bytes:
        return self._body

    async def read_body(self, _: HttpExchange, limit: int) -> bytes:
        return self._body[:limit]

    def answered(self, exchange: HttpExchange) -> None:
        pass


# ── the provider ─────────────────────────────────────────────────────────────


class RecordedUpstream(Upstream):
    """Answers every request with the next recorded response."""

    def __init__(self, recording: Recording, tap: RecordingTap) -> None:
        super().__init__()
        self._attempts = list(recording.attempts)
        pieces = recording.response.body.pieces
        self._beats = [piece.at for piece in pieces if piece.keep_alive]
        self._tap = tap

    @override
    async def ask(
        self,
        method: str,
        url: str,
        *,
        provider: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        waits: tuple[float, float] = (10.0, 300.0),
    ) -> Incoming:
        if method != "POST" or not self._attempts:
            raise Unreachable(
                "the recording has no further answer of the provider",
                provider=provider,
                permanent=True,
            )
        attempt = self._attempts.pop(0)
        if attempt.status == 0:
            if attempt.broken is not None:
                raise error_of(attempt.broken)
            raise Unreachable("the recording has no answer", provider=provider, permanent=True)
        await self.beat(attempt.answered_at)
        return Incoming(_RecordedHttp(attempt, self), provider, waits[1])

    async def beat(self, at: float) -> None:
        """Send the keep-alives that were sent before the time `at`."""
        while self._beats and self._beats[0] <= at:
            self._beats.pop(0)
            await asyncio.sleep(0)
            if self._tap.beat is not None:
                await self._tap.beat()

    async def beat_to_the_end(self) -> None:
        """Send the remaining keep-alives, if this is the last recorded answer."""
        if not self._attempts:
            await self.beat(_NEVER)


class _RecordedHttp:
    """A recorded response."""

    def __init__(self, attempt: RecordedAttempt, upstream: RecordedUpstream) -> None:
        self.status = attempt.status
        self.headers = CIMultiDictProxy(CIMultiDict(attempt.response_headers))
        self._attempt = attempt
        self._upstream = upstream
        self._data = list(
            zip(
                [piece.at for piece in attempt.response.pieces],
                attempt.response.data(),
                strict=True,
            )
        )

    async def read(self) -> bytes:
        if self._data:
            at, data = self._data.pop(0)
            await self._upstream.beat(at)
            return data or await self.read()
        await self._upstream.beat_to_the_end()
        if self._attempt.broken is not None:
            raise error_of(self._attempt.broken)
        return b""

    def at_eof(self) -> bool:
        return not self._data

    def close(self) -> None:
        self._data = []

    def release(self) -> None:
        self._data = []

    def abandon(self) -> None:
        self._data = []
