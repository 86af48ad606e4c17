"""HTTP to providers.

Three waits, each with its own limit: for a connection, for the status, and for the next bytes. Every
failure leaves here as one of our errors that names the provider and what to do. Reading is pulled:
while nobody reads, the socket is not read either, so a slow client slows its upstream down.
"""

import io
import os
import time
from collections.abc import Mapping, Sequence
from errno import ECONNREFUSED
from functools import lru_cache
from types import TracebackType
from typing import Self

import aiohttp
from aiohttp.abc import AbstractResolver
from multidict import CIMultiDict, CIMultiDictProxy

from toolbridge.core.errors import BrokenWire, TimedOut, Truncated, Unreachable
from toolbridge.upstream.masking import KeyMask, secrets_of
from toolbridge.upstream.session import open_session

MAX_WHOLE = 64 * 1024 * 1024
LARGE = 512 * 1024
SUSPICION = 5.0
"""Seconds for which kept connections are not used after one of them was found closed."""


class Incoming:
    """An answer whose head has come. The keys in `secrets` are masked in its body and headers."""

    def __init__(
        self,
        response: aiohttp.ClientResponse,
        provider: str,
        idle: float,
        secrets: Sequence[str] = (),
    ) -> None:
        self._response = response
        self._provider = provider
        self._idle = idle
        self._mask = KeyMask(secrets) if secrets else None

    @property
    def status(self) -> int:
        return self._response.status

    @property
    def headers(self) -> CIMultiDict[str] | CIMultiDictProxy[str]:
        found = self._response.headers
        if self._mask is None:
            return found
        return CIMultiDict((name, self._mask.text(value)) for name, value in found.items())

    async def read(self) -> bytes:
        """Return what the network delivered next, nothing at the end."""
        mask = self._mask
        if mask is None:
            return await self._read()
        while piece := await self._read():
            if shown := mask.feed(piece):
                return shown
        return mask.close()

    async def _read(self) -> bytes:
        try:
            return await self._response.content.readany()
        except TimeoutError:
            raise TimedOut(
                f"{self._provider} was silent for {self._idle:g} s; raise `idle_timeout` if the "
                "model needs longer",
                provider=self._provider,
            ) from None
        except (aiohttp.ClientError, OSError) as error:
            raise Truncated(
                f"{self._provider} broke off in the middle of its answer ({_reason(error)})",
                provider=self._provider,
            ) from None

    async def read_whole(self, limit: int = MAX_WHOLE) -> bytes:
        pieces: list[bytes] = []
        size = 0
        while piece := await self.read():
            size += len(piece)
            if size > limit:
                raise BrokenWire(f"{self._provider} answered with more than {limit} bytes")
            pieces.append(piece)
        return b"".join(pieces)

    async def read_some(self, limit: int) -> bytes:
        """Return the beginning of the answer: enough to know what it says."""
        found = b""
        while len(found) < limit and (piece := await self.read()):
            found += piece
        return found[:limit]

    def abort(self) -> None:
        """Hang up. The provider notices, and stops working for nobody."""
        self._response.close()

    async def release(self) -> None:
        """Give the connection back if the answer was read to its end, else hang up."""
        if self._response.content.at_eof():
            self._response.release()
        else:
            self._response.close()


class Upstream:
    """The connections of one server, kept alive between requests."""

    def __init__(self, resolver: AbstractResolver | None = None) -> None:
        self._resolver = resolver
        self._session: aiohttp.ClientSession | None = None
        self._fresh: aiohttp.ClientSession | None = None
        """Opens a connection for each request, and keeps none."""
        self._hang_ups: dict[str, float] = {}
        """Origin → when a connection to it was last found closed."""

    async def __aenter__(self) -> Self:
        self._session = open_session(resolver=self._resolver)
        self._fresh = open_session(keep_connections=False, resolver=self._resolver)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for session in (self._session, self._fresh):
            if session is not None:
                await session.close()
        self._session = self._fresh = None

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
        """Send a request and wait for the head of its answer.

        The keys that `headers` carry are masked in that answer and in every error.
        """
        session = self._session_for(url)
        connect, idle = waits
        secrets = secrets_of(headers or {})
        try:
            response = await session.request(
                method,
                url,
                data=_payload(body),
                headers=headers,
                allow_redirects=False,
                # `connect` also covers the TLS handshake, which a plain port never answers.
                timeout=_timeout(connect, idle),
            )
        except aiohttp.ServerTimeoutError as error:
            if isinstance(error, aiohttp.ConnectionTimeoutError):
                text = f"{provider} at {_place(url)} accepted no connection within {connect:g} s."
                raise Unreachable(f"{text} {_DOCTOR}", provider=provider) from None
            raise TimedOut(
                f"{provider} at {_place(url)} did not answer within {idle:g} s", provider=provider
            ) from None
        except aiohttp.ClientResponseError as error:
            reason = KeyMask(secrets).text(_reason(error))
            why = f"{provider} at {_place(url)} sent no HTTP that can be read ({reason})"
            raise BrokenWire(why, provider=provider) from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            if _is_hang_up(error):
                self._hang_ups[_place(url)] = time.monotonic()
            raise _unreachable(provider, url, error, KeyMask(secrets)) from None
        return Incoming(response, provider, idle, secrets)

    def _session_for(self, url: str) -> aiohttp.ClientSession:
        """Return the session to use: connections that are kept, unless one was just found closed.

        A server that restarts or closes idle connections leaves a pool of dead ones, and a retry
        would meet the next of them.
        """
        if self._session is None or self._fresh is None:
            raise RuntimeError("the upstream is not open")
        since = self._hang_ups.get(_place(url)) if self._hang_ups else None
        if since is None:
            return self._session
        if time.monotonic() - since < SUSPICION:
            return self._fresh
        del self._hang_ups[_place(url)]
        return self._session


@lru_cache(256)
def _timeout(connect: float, idle: float) -> aiohttp.ClientTimeout:
    return aiohttp.ClientTimeout(total=None, connect=connect, sock_read=idle)


def _payload(body: bytes | None) -> bytes | io.BytesIO | None:
    """Return `body` for sending: a long one in pieces, so that the loop goes on meanwhile."""
    return io.BytesIO(body) if body is not None and len(body) > LARGE else body


_DOCTOR = (
    "Check that it runs and that its `url` is right; `toolbridge doctor` checks every provider."
)
_OLLAMA = "Start it with `ollama serve`, or set `OLLAMA_HOST`."


def _unreachable(provider: str, url: str, error: BaseException, mask: KeyMask) -> Unreachable:
    """Return the error of a provider without a connection, with the next step.

    Nobody listening, no route and no such host stay so until somebody acts, so clients are told
    not to ask again: Claude Code would repeat a plain 502 for three minutes, in silence. A server
    that hung up may be back at once.
    """
    local = provider == "ollama"
    where = f"{'Ollama' if local else provider} at {_place(url)}"
    if local:
        where = where.replace("http://", "")
    if isinstance(error, aiohttp.ClientConnectorError) and error.os_error.errno == ECONNREFUSED:
        said = f"{where} refused the connection."
    else:
        said = f"{where} cannot be reached ({mask.text(_reason(error))})."
    return Unreachable(
        f"{said} {_OLLAMA if local else _DOCTOR}",
        provider=provider,
        permanent=isinstance(error, aiohttp.ClientConnectorError),
    )


def _place(url: str) -> str:
    """Return the part of `url` that may be shown: no path, no query, no password."""
    scheme, _, rest = url.partition("://")
    return f"{scheme}://{rest.partition('/')[0].rpartition('@')[2]}"


def _is_hang_up(error: BaseException) -> bool:
    return isinstance(error, aiohttp.ServerDisconnectedError | ConnectionResetError) or (
        isinstance(error, aiohttp.ClientOSError)
        and not isinstance(error, aiohttp.ClientConnectorError)
    )


def _reason(error: BaseException) -> str:
    if isinstance(error, aiohttp.ClientConnectorError):
        cause = error.os_error
        number = cause.errno or 0
        # Only the system's own numbers have words; those of a resolver are below zero.
        return os.strerror(number) if number > 0 else cause.strerror or str(cause)
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return "it hung up"
    if isinstance(error, aiohttp.ClientResponseError):
        return error.message
    return str(error) or type(error).__name__
