"""Tools at a URL.

The arguments are posted with the key of the call, so that the server can recognise a repeat. Only
allowed hosts are contacted, and private addresses only if that is allowed too. The address is checked
when the connection is made, so a name cannot resolve differently in between (DNS rebinding). No
redirect is followed.
"""

from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

from toolbridge.core.errors import BrokenWire, MalformedRequest, ToolbridgeError
from toolbridge.core.json import Json, JsonObject, dump_bytes, loads
from toolbridge.tools.context import ToolContext, ToolRefused
from toolbridge.tools.registry import TIMEOUT, RegisteredTool
from toolbridge.upstream.address_guard import AddressGuard
from toolbridge.upstream.http import Incoming, Upstream

MOST = 1024 * 1024
_CONNECT = 5.0
_PORTS = {"http": 80, "https": 443}
_PASSING = frozenset({408, 425, 429})
"""Statuses after which a retry may succeed."""
_SHOWN = 300


class HttpTools:
    """Makes tools from URLs. Use it as a context manager, which holds the connections.

    A host is written as `example.com`, `example.com:8443` or `*.example.com`; without a port it means
    80 and 443. A host written as a loopback or private address, or as `localhost`, may have that
    address; any other name may resolve to such an address only with `private`.
    """

    def __init__(self, hosts: Iterable[str], *, private: bool = False) -> None:
        self._hosts = tuple(host.lower() for host in hosts)
        named = {_without_port(host) for host in self._hosts}
        self._guard = AddressGuard(private=private, local=frozenset({"localhost"} & named))
        self._upstream = Upstream(self._guard)

    async def __aenter__(self) -> Self:
        await self._upstream.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._upstream.__aexit__(kind, error, trace)
        await self._guard.close()

    def tool(
        self,
        name: str,
        url: str,
        *,
        description: str = "",
        parameters: JsonObject | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> RegisteredTool:
        """Return the tool at `url`; raise `MalformedRequest` if the URL is not allowed."""
        self.check(url)
        given = dict(headers or {})

        async def run(arguments: JsonObject, context: ToolContext) -> Json:
            return await self._post(name, url, arguments, context, given)

        return RegisteredTool(
            name, description, parameters or {"type": "object"}, run,
            timeout=timeout,
            idempotent=True,  # the server gets the key
        )  # fmt: skip

    def check(self, url: str) -> None:
        """Raise `MalformedRequest` for a URL that is not allowed."""
        try:
            parts = urlsplit(url)
            host, port = parts.hostname or "", parts.port or _PORTS.get(parts.scheme, 0)
        except ValueError:
            raise MalformedRequest(f"is not a URL: {url[:_SHOWN]!r}", where="url") from None
        if parts.scheme not in _PORTS or not host or "@" in parts.netloc:
            text = "must be http:// or https:// and a host, without a name or password"
            raise MalformedRequest(text, where="url")
        if not any(_fits(allowed, host, port) for allowed in self._hosts):
            text = f"{host}:{port} is not in the setting `stream.tool_hosts`"
            raise MalformedRequest(text, where="url")

    async def _post(
        self,
        name: str,
        url: str,
        arguments: JsonObject,
        context: ToolContext,
        headers: Mapping[str, str],
    ) -> Json:
        body = dump_bytes({"name": name, "arguments": arguments})
        sent = {
            "content-type": "application/json",
            "accept": "application/json",
            "idempotency-key": context.key,
            "x-toolbridge-run": context.run,
            **headers,
        }
        incoming = await self._upstream.ask(
            "POST", url, provider=name, body=body, headers=sent, waits=(_CONNECT, TIMEOUT * 10)
        )
        try:
            return await _read(incoming, name)
        finally:
            await incoming.release()


async def _read(incoming: Incoming, name: str) -> Json:
    status = incoming.status
    if 300 <= status < 400:
        text = f"{name} answered with a redirect ({status}); redirects are not followed"
        raise ToolRefused("redirected", text)
    if status >= 400:
        shown = (await incoming.read_some(_SHOWN)).decode("utf-8", "replace")
        text = f"{name} answered with status {status}: {shown}"
        if status >= 500 or status in _PASSING:
            raise ToolbridgeError(text)
        raise ToolRefused("rejected", text)
    try:
        body = await incoming.read_whole(MOST)
    except BrokenWire as error:
        raise ToolRefused("too_large", str(error)) from None
    return _value(body, incoming.headers.get("content-type", ""), name)


def _value(body: bytes, kind: str, name: str) -> Json:
    """Return the JSON of a response, or its plain text."""
    if kind.startswith("text/plain"):
        return body.decode("utf-8", "replace")
    try:
        return loads(body) if body.strip() else None
    except ValueError as error:
        raise ToolRefused("broken_wire", f"{name} did not answer with JSON: {error}") from None


def _fits(allowed: str, host: str, port: int) -> bool:
    name = _without_port(allowed)
    ports = {int(allowed[len(name) + 1 :])} if allowed != name else set(_PORTS.values())
    if port not in ports:
        return False
    name = name.strip("[]")
    return host.endswith(name[1:]) if name.startswith("*.") else host == name


def _without_port(host: str) -> str:
    """Return `host` without its port; an IPv6 address with a port is in brackets."""
    name, colon, port = host.rpartition(":")
    return name if colon and port.isdigit() and not name.endswith(":") else host
