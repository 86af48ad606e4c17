"""The HTTP client session that every outgoing request uses.

Requests to providers, to a chain's RPC server, to the hosts of nodes and of the conformance suite
all go through `open_session`, so that these rules are in one place: no cookies, because a cookie
would carry one caller's state to the next; one user agent; and a limit on time only where the
caller sets one.
"""

import aiohttp
from aiohttp.abc import AbstractResolver


def open_session(
    *,
    wait: float | None = None,
    keep_connections: bool = True,
    resolver: AbstractResolver | None = None,
    proxy: str | None = None,
) -> aiohttp.ClientSession:
    """Return a new session; `wait` is the limit in seconds for a whole request, None for no limit.

    The number of connections is not limited: agents open one stream each, and waiting for a free
    connection is hard to distinguish from waiting for a slow model.
    """
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(
            limit=0, ttl_dns_cache=60, resolver=resolver, force_close=not keep_connections
        ),
        cookie_jar=aiohttp.DummyCookieJar(),
        headers={"user-agent": "toolbridge", "accept-encoding": "gzip, deflate"},
        timeout=aiohttp.ClientTimeout(total=wait),
        # Only a configured proxy is used: one from the environment would resolve names unchecked.
        proxy=proxy,
    )
