"""HTTP requests to providers.

There are three time limits: for a connection, for the status, and for the next bytes. Every failure
is raised as one of our errors, which names the provider and the next step. The socket is read only
when the caller reads, so a slow client slows its provider down. Connections are those of
`http_pool`; a request through a proxy goes through `http_proxy`.
"""

import asyncio
import os
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self

from multidict import CIMultiDict, CIMultiDictProxy

from toolbridge.core.errors import BrokenWire, TimedOut, ToolbridgeError, Truncated
from toolbridge.core.messages import Problem
from toolbridge.core.stage import Stage
from toolbridge.upstream.connect_errors import AskedServer, origin
from toolbridge.upstream.http_connection import PushSink, WireResponse
from toolbridge.upstream.http_pool import ConnectionPool, RequestHead, request_head
from toolbridge.upstream.masking import KeyMask, secrets_of
from toolbridge.upstream.wire_faults import (
    CLOSED,
    ConnectFailed,
    ConnectionClosed,
    ConnectTimedOut,
    InvalidResponse,
    ProxyFailed,
    reason,
)

if TYPE_CHECKING:
    from aiohttp.abc import AbstractResolver

    from toolbridge.upstream.http_proxy import Proxy, ProxySession

MAX_WHOLE = 64 * 1024 * 1024
ERROR_WAIT = 5.0
"""Seconds for the body of an error."""
SUSPICION = 5.0
"""Seconds for which idle connections are not reused after one of them was found closed."""


class ByteObserver(Protocol):
    """Gets the bytes of a response while they are read."""

    def received(self, piece: bytes) -> None: ...
    def broke(self, problem: Problem) -> None: ...


class HttpResponse(Protocol):
    """A response whose head has arrived; a replay has its own."""

    status: int

    @property
    def headers(self) -> CIMultiDictProxy[str]: ...
    async def read(self) -> bytes:
        """Return the next bytes of the body, empty at its end."""

    def at_eof(self) -> bool: ...
    def close(self) -> None: ...
    def release(self) -> object: ...
    def abandon(self) -> None:
        """Close the connection; called in any thread."""


_BROKEN = (TimeoutError, InvalidResponse, ConnectionClosed, OSError)


class Incoming:
    """A response whose head has arrived. The keys in `secrets` are masked in its body and headers."""

    _unwrapping: Stage[bytes, bytes] | None = None
    _released = False
    observer: ByteObserver | None = None
    """Gets the bytes that `read` returns."""
    proxy = ""
    """The proxy through which the response came, for errors; empty for none."""

    def __init__(
        self,
        response: HttpResponse,
        provider: str,
        idle: float,
        secrets: Sequence[str] = (),
    ) -> None:
        self._response = response
        self.status = response.status
        self._provider = provider
        self._idle = idle
        self._mask = KeyMask(secrets) if secrets else None

    @property
    def headers(self) -> CIMultiDict[str] | CIMultiDictProxy[str]:
        found = self._response.headers
        if self._mask is None:
            return found
        return CIMultiDict((name, self._mask.text(value)) for name, value in found.items())

    async def read(self) -> bytes:
        """Return the next bytes from the network, empty at the end."""
        if self.observer is None:
            if self._mask is not None or self._unwrapping is not None:
                return await self._read_masked()
            try:
                return await self._response.read()
            except _BROKEN as error:
                raise self._broken(error) from None
        try:
            piece = await self._read_masked()
        except ToolbridgeError as error:
            self.observer.broke(error.problem)
            raise
        self.observer.received(piece)
        return piece

    def read_now(self) -> bytes | None:
        """Return what `read` would return without waiting; None if it may have to wait."""
        response = self._response
        if self._mask is None and self.observer is None and self._unwrapping is None:
            return response.read_now() if isinstance(response, WireResponse) else None
        return None

    async def push(self, sink: PushSink) -> bool:
        """Pass the bytes to `sink` as they arrive, until it returns False or the body ends.

        Return whether that is possible here. What `sink` did not get is read as usual.
        """
        response, mask = self._response, self._mask
        if not isinstance(response, WireResponse) or response.inflating:
            return False
        if self.observer is not None or self._unwrapping is not None:
            return False
        if mask is None:
            await response.push(sink)
        else:
            await response.push(lambda piece: not (shown := mask.feed(piece)) or sink(shown))
        return True

    async def _read_masked(self) -> bytes:
        mask = self._mask
        if mask is None:
            return await self._read_unwrapped()
        while piece := await self._read_unwrapped():
            if shown := mask.feed(piece):
                return shown
        return mask.close()

    def unwrap(self, stage: Stage[bytes, bytes]) -> None:
        """Pass the body through `stage`, before its keys are masked."""
        self._unwrapping = stage

    async def _read_unwrapped(self) -> bytes:
        stage = self._unwrapping
        if stage is None:
            return await self._read()
        while piece := await self._read():
            if shown := b"".join(stage.feed(piece)):
                return shown
        return b"".join(stage.close())

    async def _read(self) -> bytes:
        try:
            return await self._response.read()
        except _BROKEN as error:
            raise self._broken(error) from None

    def _broken(self, error: Exception) -> ToolbridgeError:
        """Return the error of an answer that does not go on."""
        if isinstance(error, TimeoutError):
            return TimedOut(
                f"{self._provider} sent nothing for {self._idle:g} s; raise `idle_timeout` of the "
                "provider if the model needs longer",
                provider=self._provider,
            )
        if isinstance(error, InvalidResponse):
            what = f"did not continue its answer with valid HTTP ({error})"
        else:
            why = reason(error)
            known = "" if why == CLOSED else f" ({why})"
            what = f"closed the connection in the middle of its answer{known}"
        return Truncated(f"{self._provider} {what}", provider=self._provider)

    async def read_whole(self, limit: int = MAX_WHOLE) -> bytes:
        """Return the whole body; raise `BrokenWire` above `limit` bytes."""
        pieces: list[bytes] = []
        size = 0
        while piece := await self.read():
            size += len(piece)
            if size > limit:
                raise BrokenWire(
                    f"{self._provider} answered with more than the limit of {limit} bytes"
                )
            pieces.append(piece)
        return b"".join(pieces)

    async def read_some(self, limit: int) -> bytes:
        """Return the first `limit` bytes of the body of an error, or what arrives of them.

        The status is known: it counts also if the body is cut off, broken or does not come.
        """
        found = b""
        with suppress(TimeoutError, ToolbridgeError):
            async with asyncio.timeout(ERROR_WAIT):
                while len(found) < limit and (piece := await self.read()):
                    found += piece
        return found[:limit]

    def __del__(self) -> None:
        # The answer will not be read to its end, so the provider must stop.
        if not self._released:
            self._response.abandon()

    def abort(self) -> None:
        """Close the connection, so that the provider stops generating."""
        self._released = True
        self._response.close()

    @property
    def has_arrived(self) -> bool:
        """Whether all bytes of the answer have arrived."""
        return self._response.at_eof()

    async def release(self) -> None:
        """Do what `end` does, as a coroutine."""
        self.end()

    def end(self) -> None:
        """Return the connection to the pool if the whole body has arrived, else close it."""
        self._released = True
        if self._response.at_eof():
            self._response.release()
        else:
            self._response.close()


class Upstream:
    """The connections of one gateway or client to its providers."""

    def __init__(self, resolver: "AbstractResolver | None" = None) -> None:
        self._resolver = resolver
        self._pool: ConnectionPool | None = None
        self._proxies: ProxySession | None = None
        self._disconnects: dict[str, float] = {}
        """Origin → when an idle connection to it was last found closed."""

    async def __aenter__(self) -> Self:
        self._pool = ConnectionPool(self._resolver)
        # Names that a proxy resolves cannot be checked here.
        if self._resolver is None and any(name.lower().endswith("_proxy") for name in os.environ):
            from toolbridge.upstream.http_proxy import ProxySession

            self._proxies = ProxySession(os.environ)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._pool is not None:
            await self._pool.close()
        if self._proxies is not None:
            await self._proxies.close()
        self._pool = self._proxies = None

    @property
    def waits_for_turns(self) -> bool:
        """Whether all requests are sent with `TurnWrites`; those through a proxy are not."""
        return self._pool is not None and self._proxies is None

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
        """Send a request and wait for the head of its response.

        The keys in `headers` are masked in that response and in every error.
        """
        if self._pool is None:
            raise RuntimeError("the upstream is not open; use it as a context manager")
        headers = headers or {}
        proxy: Proxy | None = None
        response: HttpResponse
        try:
            head, secrets = _known_head(method, url, tuple(headers.items()))
            if self._proxies is not None and (proxy := self._proxies.proxy_of(url)) is not None:
                response = await self._proxies.ask(method, url, body, headers, waits, proxy)
            else:
                reuse = not self._disconnects or self._may_reuse(url)
                response = await self._pool.ask(head, body, waits, reuse=reuse)
        except _UNANSWERED as error:
            if isinstance(error, ConnectionClosed | OSError) and not isinstance(
                error, TimeoutError
            ):
                self._disconnects[origin(url)] = time.monotonic()
            server = AskedServer(provider, url, proxy)
            raise _unanswered(server, error, waits, KeyMask(secrets_of(headers))) from None
        incoming = Incoming(response, provider, waits[1], secrets)
        if proxy is not None:
            incoming.proxy = proxy.shown
        return incoming

    def _may_reuse(self, url: str) -> bool:
        """Return whether to use an idle connection; not if one of them was just found closed.

        A server that restarts or closes idle connections leaves closed ones in the pool, and a retry
        would use the next of them.
        """
        since = self._disconnects.get(origin(url))
        if since is None:
            return True
        if time.monotonic() - since < SUSPICION:
            return False
        del self._disconnects[origin(url)]
        return True


@lru_cache(256)
def _known_head(
    method: str, url: str, headers: tuple[tuple[str, str], ...]
) -> tuple[RequestHead, tuple[str, ...]]:
    """Return the head of a request, and the keys in it; raise `ValueError` as `request_head` does."""
    named = dict(headers)
    return request_head(method, url, named), secrets_of(named)


_UNANSWERED = (
    ConnectTimedOut, ConnectFailed, ConnectionClosed, InvalidResponse, ProxyFailed, OSError,
    ValueError,
)  # fmt: skip


def _unanswered(
    server: AskedServer, error: Exception, waits: tuple[float, float], mask: KeyMask
) -> ToolbridgeError:
    """Return the error of a request without a response, with the next step."""
    if isinstance(error, ConnectTimedOut):
        return server.timed_out(error, waits[0])
    if isinstance(error, TimeoutError):
        return TimedOut(
            f"{server} did not answer within {waits[1]:g} s; raise `idle_timeout` of the provider "
            "if the model needs longer",
            provider=server.provider,
        )
    if isinstance(error, InvalidResponse):
        what = f"{server} did not answer with valid HTTP ({mask.text(str(error))})"
        may_be_tls = server.has_plain_url and "Expected HTTP/" in str(
            error
        )  # llhttp, of TLS's alert
        to_do = f". {server.tls_advice}" if may_be_tls else f"; check {server.setting}"
        return BrokenWire(f"{what}{to_do}", provider=server.provider)
    return server.unreachable(error, mask)
