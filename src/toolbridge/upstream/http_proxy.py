"""Requests through an HTTP proxy, as the variables `HTTPS_PROXY`, `HTTP_PROXY` and `NO_PROXY` name it.

Few gateways are behind a proxy, so aiohttp does this, and it is loaded only then. A proxy is never
used for this machine itself.
"""

from collections.abc import Mapping
from urllib.parse import urlsplit

import aiohttp
from multidict import CIMultiDictProxy

from toolbridge.upstream.hosts import is_loopback
from toolbridge.upstream.http_pool import ConnectFailed, ConnectTimedOut
from toolbridge.upstream.session import open_session
from toolbridge.upstream.wire_faults import CLOSED, ConnectionClosed, InvalidResponse


class ProxySession:
    """The connections to proxies."""

    def __init__(self, env: Mapping[str, str]) -> None:
        found = ((name.lower(), value) for name, value in env.items() if value)
        self._proxies = {name[:-6]: value for name, value in found if name.endswith("_proxy")}
        self._direct = [rule.strip() for rule in self._proxies.get("no", "").lower().split(",")]
        self._session: aiohttp.ClientSession | None = None

    def proxy_of(self, url: str) -> str:
        """Return the proxy for a URL; empty for none."""
        parts = urlsplit(url)
        host = parts.hostname or ""
        proxy = self._proxies.get(parts.scheme) or self._proxies.get("all", "")
        direct = is_loopback(host) or any(_covers(rule, host, parts.port) for rule in self._direct)
        return "" if direct else proxy

    async def ask(
        self,
        method: str,
        url: str,
        body: bytes | None,
        headers: Mapping[str, str],
        waits: tuple[float, float],
        proxy: str,
    ) -> "ProxiedResponse":
        """Send a request; raise as `ConnectionPool.ask` does."""
        self._session = self._session or open_session()
        try:
            response = await self._session.request(
                method,
                url,
                data=body,
                headers=headers,
                allow_redirects=False,
                proxy=proxy,
                timeout=aiohttp.ClientTimeout(total=None, connect=waits[0], sock_read=waits[1]),
            )
        except aiohttp.ConnectionTimeoutError:
            raise ConnectTimedOut from None
        except aiohttp.ServerTimeoutError:
            raise TimeoutError from None
        except aiohttp.ClientHttpProxyError as error:
            why = OSError(None, f"the proxy answered with status {error.status}")
            raise ConnectFailed(why) from None
        except aiohttp.ClientResponseError as error:
            raise InvalidResponse(error.message) from None
        except aiohttp.ClientConnectorError as error:
            raise ConnectFailed(error.os_error) from None
        except aiohttp.ClientError as error:
            raise ConnectionClosed(str(error) or CLOSED) from None
        return ProxiedResponse(response)

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()


def _covers(rule: str, host: str, port: int | None) -> bool:
    """Return whether an entry of `NO_PROXY` covers a host: `*`, a domain, or a host with its port."""
    name, colon, of_port = rule.partition(":")
    if colon and of_port != str(port):
        return False
    name = name.removeprefix("*").removeprefix(".")
    return rule == "*" or (bool(name) and (host == name or host.endswith(f".{name}")))


class ProxiedResponse:
    """A response of aiohttp, with the errors of `http_connection`."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response
        self.status = response.status

    @property
    def headers(self) -> CIMultiDictProxy[str]:
        return self._response.headers

    async def read(self) -> bytes:
        try:
            return await self._response.content.readany()
        except aiohttp.ServerTimeoutError:
            raise TimeoutError from None
        except aiohttp.ClientError as error:
            raise ConnectionClosed(str(error) or CLOSED) from None

    def at_eof(self) -> bool:
        return self._response.content.at_eof()

    def close(self) -> None:
        self._response.close()

    def release(self) -> None:
        self._response.release()

    def abandon(self) -> None:
        """Do nothing: aiohttp closes the connection of a response that is garbage-collected."""
