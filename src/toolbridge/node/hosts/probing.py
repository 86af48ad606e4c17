"""Probe a host over HTTP before a deposit is sent to it.

The address of the host is checked when the connection is made, as it is for the WebSocket, and no
redirect is followed.
"""

import asyncio
import time
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

import aiohttp

from toolbridge.core.json import maybe_object
from toolbridge.node.hosts.access import HostAccess
from toolbridge.upstream.address_guard import AddressGuard
from toolbridge.upstream.addresses import PrivateAddress
from toolbridge.upstream.session import open_session

_MAX_BODY = 64 * 1024


class HostSilent(Exception):
    """A host does not answer, or reports that it is unhealthy."""


class HostProber:
    """Requests `/health` of hosts and measures the latency."""

    def __init__(self, access: HostAccess, wait: float = 5.0) -> None:
        self._access = access
        self._wait = wait
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        guard = AddressGuard(private=self._access.private, local=self._access.named)
        self._session = open_session(wait=self._wait, resolver=guard)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def latency(self, url: str) -> float:
        """Return the seconds until a host answers; raise `HostSilent` if it is not usable.

        Any status counts as an answer, because the path differs between node versions.
        """
        if self._session is None:
            raise RuntimeError("the prober is not open")
        if why := self._access.objection(url):
            raise HostSilent(why)
        before = time.monotonic()
        try:
            async with self._session.get(health_url(url), allow_redirects=False) as response:
                passed = time.monotonic() - before
                health = maybe_object(await response.content.read(_MAX_BODY))
        except TimeoutError:
            raise HostSilent(f"it did not answer within {self._wait:g} s") from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            if isinstance(error.__cause__, PrivateAddress):
                raise HostSilent(str(error.__cause__)) from None
            raise HostSilent(f"it cannot be reached ({type(error).__name__})") from None
        if health is not None and health.get("status") == "unhealthy":
            raise HostSilent("it reports that it is unhealthy")
        return passed

    async def latencies(self, urls: list[str]) -> list[float | HostSilent]:
        """Return the latency of each host, or its failure; all hosts are probed at once."""
        found = await asyncio.gather(*(self.latency(url) for url in urls), return_exceptions=True)
        return [_known(one) for one in found]


def _known(found: float | BaseException) -> float | HostSilent:
    if isinstance(found, float | HostSilent):
        return found
    raise found


def health_url(url: str) -> str:
    """Return the health URL of a host, from an `http` or a `ws` URL."""
    parts = urlsplit(url)
    scheme = {"ws": "http", "wss": "https"}.get(parts.scheme)
    if scheme:
        return f"{scheme}://{parts.netloc}/health"
    return f"{url.rstrip('/')}/health"
