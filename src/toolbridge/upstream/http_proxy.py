"""Requests through an HTTP proxy, as the variables `HTTPS_PROXY`, `HTTP_PROXY` and `NO_PROXY` name it.

Few gateways are behind a proxy, so aiohttp does this, and it is loaded only then. A proxy is never
used for this machine itself. Each request has a connection of its own: aiohttp gives the bytes that
arrive on an idle connection to the next request, as its response (RFC 9112, 9.2, forbids that).
"""

from collections.abc import Mapping
from errno import ECONNREFUSED
from urllib.parse import urlsplit

import aiohttp
import msgspec
from multidict import CIMultiDictProxy
from yarl import URL

from toolbridge.upstream.hosts import is_loopback
from toolbridge.upstream.session import open_session
from toolbridge.upstream.wire_faults import (
    CLOSED,
    ConnectFailed,
    ConnectionClosed,
    ConnectTimedOut,
    InvalidResponse,
    ProxyFailed,
    reason,
)

_CLOSED = "the connection was closed"


class Proxy(msgspec.Struct, frozen=True):
    """A proxy, and the variable that names it."""

    url: str
    variable: str

    @property
    def shown(self) -> str:
        """The proxy in an error: without its user and password."""
        scheme, _, rest = self.url.partition("://")
        # An unescaped password may have a slash, so the host begins after the last "@".
        host = rest.rpartition("@")[2].partition("/")[0]
        return f"the proxy {scheme}://{host} in `{self.variable}`"

    @property
    def advice(self) -> str:
        return "Check the proxy and the `url`; if the host can be reached directly, add it to `NO_PROXY`."

    def address(self) -> URL:
        """Return the address to connect to; raise `ProxyFailed` if it is not an HTTP proxy's."""
        scheme = self.url.partition("://")[0].lower()
        to_do = f"Set `{self.variable}` to http://HOST:PORT, or unset it."
        if scheme not in {"http", "https"}:
            what = f"`{self.variable}` names a {scheme[:20]} proxy, and only HTTP proxies are supported"
            raise ProxyFailed(what, to_do, permanent=True)
        try:
            found = URL(self.url)
        except ValueError:
            found = URL()
        if not found.host:
            what = f"`{self.variable}` is not the address of a proxy"
            raise ProxyFailed(what, to_do, permanent=True)
        return found

    def failed(self, error: OSError) -> ProxyFailed:
        """Return the error for a proxy that cannot be connected to."""
        if isinstance(error, ConnectionRefusedError) or error.errno == ECONNREFUSED:
            why = "refused the connection"
        else:
            why = f"cannot be reached ({reason(error)})"
        return ProxyFailed(f"{self.shown} {why}", self.advice, permanent=True)

    def rejected(self, status: int) -> ProxyFailed:
        """Return the error for a status with which the proxy itself answered."""
        if status == 407:
            what = f"{self.shown} requires other credentials (status 407)"
            to_do = (
                f"Write them in `{self.variable}` as http://USER:PASSWORD@HOST:PORT, with special "
                "characters percent-encoded."
            )
            return ProxyFailed(what, to_do, permanent=True)
        # A proxy answers 502 to 504 while it cannot reach the server, which may pass.
        what = f"{self.shown} answered with status {status}"
        return ProxyFailed(what, self.advice, permanent=status < 500)


class ProxySession:
    """The connections to proxies."""

    def __init__(self, env: Mapping[str, str]) -> None:
        # As in curl, the variable in lower case is used if there are both.
        names = sorted(name for name in env if name.lower().endswith("_proxy") and env[name])
        self._proxies = {name[:-6].lower(): Proxy(_with_scheme(env[name]), name) for name in names}
        no_proxy = self._proxies.pop("no", None)
        rules = env[no_proxy.variable] if no_proxy else ""
        self._direct = [rule.strip() for rule in rules.lower().split(",")]
        self._session: aiohttp.ClientSession | None = None

    def proxy_of(self, url: str) -> Proxy | None:
        """Return the proxy for a URL; None for none."""
        parts = urlsplit(url)
        host = parts.hostname or ""
        proxy = self._proxies.get(parts.scheme) or self._proxies.get("all")
        direct = is_loopback(host) or any(_covers(rule, host, parts.port) for rule in self._direct)
        return None if direct else proxy

    async def ask(
        self,
        method: str,
        url: str,
        body: bytes | None,
        headers: Mapping[str, str],
        waits: tuple[float, float],
        proxy: Proxy,
    ) -> "ProxiedResponse":
        """Send a request; raise as `ConnectionPool.ask` does, and `ProxyFailed`."""
        address = proxy.address()
        self._session = self._session or open_session(keep_connections=False)
        try:
            response = await self._session.request(
                method,
                url,
                data=body,
                headers=headers,
                allow_redirects=False,
                proxy=address,
                timeout=aiohttp.ClientTimeout(total=None, connect=waits[0], sock_read=waits[1]),
            )
        except aiohttp.ConnectionTimeoutError:
            raise ConnectTimedOut from None
        except aiohttp.ServerTimeoutError:
            raise TimeoutError from None
        except aiohttp.ClientHttpProxyError as error:
            raise proxy.rejected(error.status) from None
        except aiohttp.ClientResponseError as error:
            raise InvalidResponse(error.message) from None
        except (aiohttp.ClientProxyConnectionError, aiohttp.ClientConnectorDNSError) as error:
            raise proxy.failed(error.os_error) from None
        except aiohttp.ClientConnectorError as error:
            raise ConnectFailed(error.os_error) from None
        except aiohttp.ClientError:
            raise ConnectionClosed(_CLOSED) from None
        if _is_of_proxy(response):
            response.close()
            raise proxy.rejected(response.status)
        return ProxiedResponse(response)

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()


def _with_scheme(address: str) -> str:
    """Return the address of a proxy as a URL; as in curl, one without a scheme is that of HTTP."""
    return address if "://" in address else f"http://{address}"


def _is_of_proxy(response: aiohttp.ClientResponse) -> bool:
    """Return whether a response certainly was made by the proxy, not by the server behind it.

    RFC 9110, 15.5.8: only proxies send 407. RFC 9209, 2.1.2: `error` in `Proxy-Status` is set by the
    proxy that made the response. Squid marks its own error pages with `X-Squid-Error`.
    """
    if response.status < 400:
        return False
    headers = response.headers
    made_here = "error=" in headers.get("proxy-status", "") or "x-squid-error" in headers
    return response.status == 407 or made_here


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
