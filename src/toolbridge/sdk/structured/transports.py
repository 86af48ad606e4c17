"""The transports of structured streams: a server over HTTP, or this process."""

import os
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack
from typing import Protocol

import msgspec

from toolbridge.config import Config, secrets_of
from toolbridge.core.errors import ToolbridgeError, UpstreamError
from toolbridge.core.json import Json, JsonObject, dump_bytes
from toolbridge.core.redaction import Redactor
from toolbridge.routing import Router
from toolbridge.runs.folders import runs_root
from toolbridge.runs.kept_events import Record
from toolbridge.runs.service import StreamService
from toolbridge.sdk.structured.errors import broken, failure_of, lost, refusal_of
from toolbridge.sdk.structured.fold import ReceivedEvent
from toolbridge.store.sqlite import SqliteStore
from toolbridge.tools.registry import ToolOutcome
from toolbridge.upstream.connect_errors import GATEWAY
from toolbridge.upstream.http import Incoming, Upstream
from toolbridge.wire.sse import SseReader

IDLE = 45.0
"""Seconds of silence: three missed pings."""
_CONNECT = 10.0
_REFUSAL = 65_536
_PATH = "/v1/stream"


class ToolReplySent(msgspec.Struct, frozen=True):
    """The result of a client-side tool."""

    id: str
    result: Json = None
    error: str = ""

    def body(self) -> JsonObject:
        return {"id": self.id, "error": self.error} if self.error else self._result()

    def _result(self) -> JsonObject:
        return {"id": self.id, "result": self.result}


class ClientConnection(Protocol):
    @property
    def run(self) -> str:
        """The id of the run; empty if only its events have it."""

    async def read(self) -> list[ReceivedEvent]:
        """Return the next events; empty at the end."""

    async def close(self) -> None: ...


class Transport(Protocol):
    @property
    def repeatable(self) -> bool:
        """Whether a request whose response was lost may be sent again."""

    async def open(self, run: str, last_event_id: str) -> ClientConnection:
        """Start a run, or resume one."""

    async def answer(self, run: str, answer: ToolReplySent) -> None: ...

    async def abort(self, run: str) -> None: ...

    async def close(self) -> None: ...


# A server.


class HttpTransport:
    """Uses a server over HTTP with SSE."""

    def __init__(
        self,
        url: str,
        body: JsonObject,
        headers: Mapping[str, str],
        *,
        key: str,
        idle: float = IDLE,
    ) -> None:
        root = url.rstrip("/")
        self._url = root if root.endswith(_PATH) else f"{root.removesuffix('/v1')}{_PATH}"
        self._body = body
        self._headers = {**headers, "accept": "text/event-stream"}
        self._key = key
        self._waits = (_CONNECT, idle)
        self._stack = AsyncExitStack()
        self._upstream: Upstream | None = None
        self.repeatable = bool(key)

    async def open(self, run: str, last_event_id: str) -> ClientConnection:
        if run:
            resumed = {"last-event-id": last_event_id} if last_event_id else {}
            incoming = await self._ask("GET", f"{self._url}/{run}", headers=resumed)
        else:
            beside = {"idempotency-key": self._key} if self._key else {}
            incoming = await self._ask("POST", self._url, self._body, beside)
        if "text/event-stream" not in incoming.headers.get("content-type", ""):
            await incoming.release()
            raise broken("the server's response is not an event stream")
        return _ServerConnection(incoming)

    async def answer(self, run: str, answer: ToolReplySent) -> None:
        incoming = await self._ask("POST", f"{self._url}/{run}/results", answer.body())
        await incoming.release()

    async def abort(self, run: str) -> None:
        incoming = await self._ask("DELETE", f"{self._url}/{run}")
        await incoming.release()

    async def close(self) -> None:
        await self._stack.aclose()

    async def _ask(
        self,
        method: str,
        url: str,
        body: JsonObject | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Incoming:
        if self._upstream is None:
            self._upstream = await self._stack.enter_async_context(Upstream())
        kind = {} if body is None else {"content-type": "application/json"}
        try:
            incoming = await self._upstream.ask(
                method,
                url,
                provider=GATEWAY,
                body=None if body is None else dump_bytes(body),
                headers={**self._headers, **kind, **(headers or {})},
                waits=self._waits,
            )
            if incoming.status < 300:
                return incoming
            refusal = await incoming.read_some(_REFUSAL)
        except UpstreamError as error:
            raise lost(str(error)) from None
        await incoming.release()
        raise refusal_of(incoming.status, refusal, incoming.headers.get("retry-after", ""))


class _ServerConnection:
    def __init__(self, incoming: Incoming) -> None:
        self._incoming = incoming
        self._reader = SseReader()
        self.run = incoming.headers.get("x-toolbridge-run", "")

    async def read(self) -> list[ReceivedEvent]:
        while True:
            try:
                piece = await self._incoming.read()
                frames = self._reader.feed(piece)
            except UpstreamError as error:
                raise lost(str(error)) from None
            if frames or not piece:
                # An event without its empty line is incomplete; it is sent again after a reconnect.
                return [ReceivedEvent(frame.event, frame.data, frame.id) for frame in frames]

    async def close(self) -> None:
        await self._incoming.release()


# This process.


class LocalTransport:
    """Runs the stream in this process, by the same rules as a server."""

    repeatable = False

    def __init__(
        self,
        config: Config,
        body: JsonObject,
        *,
        key: str = "",
        keep: bool = True,
        env: Mapping[str, str] = os.environ,
    ) -> None:
        self._config = config
        self._body = body
        self._key = key
        self._root = runs_root(env) if keep else None
        self._env = env
        self._stack = AsyncExitStack()
        self._service: StreamService | None = None

    async def open(self, run: str, last_event_id: str) -> ClientConnection:
        try:
            service = self._service or await self._open_service()
            if run:
                after = int(last_event_id.rpartition(":")[2] or 0)
                followed = await service.streams.follow(run, "", after)
            else:
                followed = await service.open(self._body, "", self._key)
        except ToolbridgeError as error:
            raise failure_of(error) from None
        return _LocalConnection(followed.run, followed.batches)

    async def _open_service(self) -> StreamService:
        upstream = await self._stack.enter_async_context(Upstream())
        router = Router(self._config, upstream, self._env)
        self._stack.push_async_callback(router.close)
        await router.model_routes.discover()
        state = None if self._root is None else self._root.parent
        provider_configs = router.model_routes.provider_configs.values()
        store = SqliteStore(
            None if state is None else state / "toolbridge.sqlite",
            redactor=Redactor(secrets_of(self._config, provider_configs, self._env)),
            size=self._config.store_bytes,
        )
        self._stack.push_async_callback(store.close)
        self._service = StreamService(router, store, self._config.stream, state, self._env)
        self._stack.push_async_callback(self._service.close)
        return self._service

    async def answer(self, run: str, answer: ToolReplySent) -> None:
        if self._service is not None:
            code = "tool_failed" if answer.error else ""
            outcome = ToolOutcome(answer.result, code, answer.error)
            await self._service.streams.answer_tool(run, "", answer.id, outcome)

    async def abort(self, run: str) -> None:
        if self._service is not None:
            await self._service.streams.abort(run, "")

    async def close(self) -> None:
        await self._stack.aclose()


class _LocalConnection:
    def __init__(self, run: str, batches: AsyncGenerator[list[Record], None]) -> None:
        self.run = run
        self._batches = batches

    async def read(self) -> list[ReceivedEvent]:
        records: list[Record] = await anext(self._batches, [])
        return [ReceivedEvent(r.name, r.data, f"{self.run}:{r.n}") for r in records]

    async def close(self) -> None:
        await self._batches.aclose()
