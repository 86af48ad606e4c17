"""Connections to providers: opens them, and keeps those that are free.

The number of connections is not limited: agents open one stream each, and waiting for a free
connection is hard to distinguish from waiting for a slow model.
"""

import asyncio
import os
import socket
import ssl
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import quote, urlsplit

import msgspec

from toolbridge.upstream.http_connection import KEPT, ProviderConnection, WireResponse
from toolbridge.upstream.turn_writes import TurnWrites
from toolbridge.upstream.wire_faults import ConnectFailed, ConnectTimedOut

if TYPE_CHECKING:
    from aiohttp.abc import AbstractResolver

STAGGER = 0.25
"""RFC 8305, 8: seconds after which the next address is tried beside the first."""
_RESOLVED = 60.0
"""Seconds for which the addresses of a name are used again."""
OnFree: TypeAlias = Callable[[ProviderConnection], None]
"""Called with a connection that can carry another request."""
Address: TypeAlias = tuple[int, tuple[str, int] | tuple[str, int, int, int]]
"""The family of a socket, and the address."""


class ServerOrigin(msgspec.Struct, frozen=True):
    """A server: requests to the same origin share connections."""

    scheme: str
    host: str
    port: int


class ConnectionPool:
    """The connections of one gateway or client, the last used first."""

    def __init__(self, resolver: "AbstractResolver | None" = None) -> None:
        self._loop = asyncio.get_running_loop()
        self._writes = TurnWrites()
        self._resolver = resolver
        self._free: dict[ServerOrigin, list[ProviderConnection]] = {}
        self._open: set[ProviderConnection] = set()
        self._opening: set[asyncio.Task[ProviderConnection]] = set()
        """The handshakes that are under way."""
        self._resolved: dict[tuple[str, int], tuple[float, list[Address]]] = {}
        self._tls: ssl.SSLContext | None = None
        self._sweeper: asyncio.TimerHandle | None = None

    async def ask(
        self,
        request: "RequestHead",
        body: bytes | None,
        waits: tuple[float, float],
        *,
        reuse: bool,
    ) -> WireResponse:
        """Send a request and wait for the head of its response; without `reuse` on a new connection."""
        connection = (self._take(request.origin) if reuse else None) or await self._connect(
            request.origin, waits[0], keep=reuse
        )
        bodiless = request.method == "HEAD"
        response = WireResponse(connection, waits[1], bodiless, connection.pieces)
        connection.send(request.encoded(body), body or b"", response)
        try:
            while not response.status:
                await response.progress()
        except BaseException:
            connection.drop(response)
            raise
        return response

    def _take(self, origin: ServerOrigin) -> ProviderConnection | None:
        free = self._free.get(origin)
        while free:
            connection = free.pop()
            if connection.lost:
                continue
            if self._loop.time() < connection.kept_until:
                return connection
            connection.drop()
        return None

    async def _connect(
        self, origin: ServerOrigin, wait: float, *, keep: bool
    ) -> ProviderConnection:
        on_free: OnFree = partial(self._keep, origin) if keep else ProviderConnection.drop
        one: socket.socket | None = None
        try:
            async with asyncio.timeout(wait):
                one = await open_first(await self._addresses(origin))
                return await self._connected(one, origin, on_free)
        except TimeoutError:
            raise ConnectTimedOut(accepted=one is not None) from None
        except OSError as error:
            raise ConnectFailed(error) from None

    async def _connected(
        self, one: socket.socket, origin: ServerOrigin, on_free: OnFree
    ) -> ProviderConnection:
        if origin.scheme != "https":
            return await self._made(one, on_free)
        opening = self._loop.create_task(self._made(one, on_free, self._tls_context(), origin.host))
        self._opening.add(opening)
        opening.add_done_callback(self._opening.discard)
        try:
            # uvloop reports a handshake that is cancelled as a fatal error. If the request is
            # cancelled, its handshake goes on, and the next request uses the connection.
            return await asyncio.shield(opening)
        except asyncio.CancelledError:
            opening.add_done_callback(partial(self._free_unused, on_free))
            raise

    async def _made(
        self,
        one: socket.socket,
        on_free: OnFree,
        tls: ssl.SSLContext | None = None,
        host: str | None = None,
    ) -> ProviderConnection:
        try:
            _, connection = await self._loop.create_connection(
                lambda: ProviderConnection(self._loop, self._writes, on_free, self._open.discard),
                sock=one,
                ssl=tls,
                server_hostname=host,
            )
        except BaseException:
            one.close()
            raise
        self._open.add(connection)
        return connection

    def _free_unused(self, on_free: OnFree, opening: asyncio.Task[ProviderConnection]) -> None:
        if not opening.cancelled() and opening.exception() is None:
            connection = opening.result()
            connection.kept_until = self._loop.time() + KEPT
            on_free(connection)

    async def _addresses(self, origin: ServerOrigin) -> list[Address]:
        name = (origin.host, origin.port)
        ends, known = self._resolved.get(name, (0.0, []))
        if self._loop.time() < ends:
            return known
        found = await self._resolve(*name)
        self._resolved[name] = (self._loop.time() + _RESOLVED, found)
        return found

    async def _resolve(self, host: str, port: int) -> list[Address]:
        if literal := _literal(host):
            return [(literal, (host, port))]
        if self._resolver is not None:
            results = await self._resolver.resolve(host, port, socket.AF_UNSPEC)
            return [(result["family"], (result["host"], port)) for result in results]
        entries = await self._loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        return [(family, address) for family, _, _, _, address in entries]  # type: ignore[misc]

    def _tls_context(self) -> ssl.SSLContext:
        if self._tls is None:
            self._tls = ssl.create_default_context()
            self._tls.set_alpn_protocols(["http/1.1"])
        return self._tls

    def _keep(self, origin: ServerOrigin, connection: ProviderConnection) -> None:
        if (free := self._free.get(origin)) is None:
            free = self._free[origin] = []
        free.append(connection)
        if self._sweeper is None:
            self._sweeper = self._loop.call_later(KEPT, self._sweep)

    def _sweep(self) -> None:
        """Close the connections that were unused for too long."""
        self._sweeper = None
        now = self._loop.time()
        for origin, free in list(self._free.items()):
            for connection in free:
                if connection.kept_until <= now:
                    connection.drop()
            self._free[origin] = [c for c in free if not c.lost and c.kept_until > now]
            if not self._free[origin]:
                del self._free[origin]
        if self._free:
            self._sweeper = self._loop.call_later(KEPT, self._sweep)

    async def close(self) -> None:
        """Close all connections, also those that are in use."""
        if self._sweeper is not None:
            self._sweeper.cancel()
        for opening in self._opening:
            opening.cancel()
        await asyncio.gather(*self._opening, return_exceptions=True)
        self._free.clear()
        for connection in list(self._open):
            connection.drop()
        # A transport is closed in the next step of the loop, one with TLS in the step after it.
        for _ in range(3):
            if self._open:
                await asyncio.sleep(0)


def _literal(host: str) -> int:
    """Return the family of a host that is written as an address; 0 for a name."""
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            socket.inet_pton(family, host.partition("%")[0])
        except OSError:
            continue
        return family
    return 0


# ── RFC 8305: the addresses of a name are tried beside one another ───────────


async def open_first(addresses: Sequence[Address]) -> socket.socket:
    """Return a connected socket to the first address that accepts; raise `OSError`."""
    waiting = _alternated(addresses)
    if len(waiting) == 1:
        return await _open(waiting[0])
    trying: set[asyncio.Task[socket.socket]] = set()
    failure = OSError("the name has no address")
    try:
        while waiting or trying:
            if waiting:
                trying.add(asyncio.create_task(_open(waiting.pop(0))))
            wait = STAGGER if waiting else None
            done, _ = await asyncio.wait(trying, timeout=wait, return_when="FIRST_COMPLETED")
            for task in done:
                if (error := task.exception()) is None:
                    trying.discard(task)
                    return task.result()
                trying.discard(task)
                failure = error if isinstance(error, OSError) else failure
        raise failure
    finally:
        await _abandon(trying)


def _alternated(addresses: Sequence[Address]) -> list[Address]:
    """Return the addresses with their families in turn, so that one broken family costs little."""
    first = addresses[0][0] if addresses else 0
    same = [address for address in addresses if address[0] == first]
    other = [address for address in addresses if address[0] != first]
    mixed = [one for pair in zip(same, other, strict=False) for one in pair]
    rest = min(len(same), len(other))
    return mixed + same[rest:] + other[rest:]


async def _open(address: Address) -> socket.socket:
    one = socket.socket(address[0], socket.SOCK_STREAM)
    try:
        one.setblocking(False)
        await _connect_to(one, address[1])
    except BaseException:
        one.close()
        raise
    return one


async def _connect_to(one: socket.socket, address: tuple[str | int, ...]) -> None:
    """Connect a socket to a numeric address; raise `OSError`."""
    loop = asyncio.get_running_loop()
    if sys.platform == "win32":  # its event loop cannot wait for a socket alone
        await loop.sock_connect(one, address)
        return
    # uvloop's `sock_connect` would resolve the address in a thread first: 30 us of CPU.
    with suppress(BlockingIOError, InterruptedError):
        one.connect(address)
        return
    connected: asyncio.Future[None] = loop.create_future()
    loop.add_writer(one.fileno(), _set_done, connected)
    try:
        await connected
    finally:
        loop.remove_writer(one.fileno())
    if error := one.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
        raise OSError(error, os.strerror(error))


def _set_done(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)


async def _abandon(trying: set["asyncio.Task[socket.socket]"]) -> None:
    """Cancel the other attempts; one that has connected meanwhile is closed."""
    for task in trying:
        task.cancel()
    for result in await asyncio.gather(*trying, return_exceptions=True):
        if isinstance(result, socket.socket):
            result.close()


# ── the head of a request ────────────────────────────────────────────────────


class RequestHead(msgspec.Struct, frozen=True):
    """The method, target and headers of a request, encoded up to its length."""

    origin: ServerOrigin
    method: str
    lines: bytes

    def encoded(self, body: bytes | None) -> bytes:
        if body is None and self.method in {"GET", "HEAD"}:
            return self.lines + b"\r\n"
        return b"%bcontent-length: %d\r\n\r\n" % (self.lines, len(body or b""))


def request_head(method: str, url: str, headers: Mapping[str, str]) -> RequestHead:
    """Return the head of a request; raise `ValueError` for a URL or a header that is not valid."""
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError("its `url` must begin with http:// or https:// and a host")
    host = parts.hostname if parts.hostname.isascii() else parts.hostname.encode("idna").decode()
    port = parts.port or (443 if parts.scheme == "https" else 80)
    named = f"[{host}]" if ":" in host else host
    sent = {
        "host": named if parts.port is None else f"{named}:{port}",
        "user-agent": "toolbridge",
        "accept": "*/*",
        "accept-encoding": "gzip, deflate",
        **({"authorization": _basic(parts.username, parts.password)} if parts.username else {}),
        **{name.lower(): value for name, value in headers.items()},
    }
    target = quote(_without_dots(parts.path or "/"), _LEGAL) + (
        f"?{quote(parts.query, _LEGAL)}" if parts.query else ""
    )
    lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in sent.items())]
    if any(_FORBIDDEN.intersection(line) for line in lines):
        raise ValueError("a header contains a line break")
    encoded = "\r\n".join([*lines, ""]).encode("utf-8", "surrogateescape")
    return RequestHead(ServerOrigin(parts.scheme, host, port), method, encoded)


_LEGAL = "/%:@!$&'()*+,;=~?[]"
"""RFC 3986: the characters of a path and a query besides letters and digits; `%` is kept."""
_FORBIDDEN = frozenset("\r\n\0")


def _without_dots(path: str) -> str:
    """Return `path` with `.` and `..` resolved: an engine's own routes are beside its `/v1`."""
    if "/." not in path:
        return path
    kept: list[str] = []
    for part in path.split("/")[1:]:
        if part == "..":
            kept = kept[:-1]
        elif part != ".":
            kept.append(part)
    return "/" + "/".join(kept)


def _basic(name: str, password: str | None) -> str:
    from base64 import b64encode
    from urllib.parse import unquote

    login = f"{unquote(name)}:{unquote(password or '')}"
    return f"Basic {b64encode(login.encode()).decode()}"
