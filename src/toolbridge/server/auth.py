"""Access control: keys, hosts and origins.

A client sends the key of the configuration (`key`), which may do everything, or a key that
`toolbridge key create` has created, which may have limits. Without a key the server listens on loopback only. Even there web pages must not call it: a DNS name
that was pointed at loopback (DNS rebinding) is rejected by its Host field, a page by its Origin.
"""

import hmac
import time

from toolbridge.config import Config
from toolbridge.core.errors import ConfigError, NotAllowed, Unauthenticated
from toolbridge.policy.key_scopes import check_route
from toolbridge.server.created_keys import CreatedKeys
from toolbridge.server.http import IncomingRequest
from toolbridge.store.keys import PREFIX
from toolbridge.upstream.hosts import host_of, host_of_origin, is_loopback

OWN_KEY = "x-toolbridge-key"
"""The header for the gateway's own key, for clients that send a login for the provider as well."""
_WRONG = (
    "the key is wrong; send the key that the gateway was started with (as x-toolbridge-key, if the "
    "request carries a login for the provider)"
)

_NOT_CREATED = (
    "the key is wrong: it does not begin with `tbk_`. Send a key that `toolbridge key create NAME` has "
    "printed (in a terminal: as TOOLBRIDGE_KEY, for Claude Code as ANTHROPIC_AUTH_TOKEN)"
)
_UNKNOWN = (
    "this key is unknown or revoked: the gateway has no such key now. Ask the operator of the gateway for "
    "a new one, who creates it with `toolbridge key create NAME`"
)


class Guard:
    """Checks the host, origin and key of every request."""

    def __init__(self, config: Config, key: str, created: CreatedKeys) -> None:
        if config.key and not key:
            raise ConfigError(
                f"the variable {config.key} is not set; set it, or remove `key` to require none",
                where="key",
            )
        hosts = {"host": config.host}
        if config.tls.cert and config.tls.host:
            hosts["tls.host"] = config.tls.host
        for where, host in hosts.items():
            if not key and not created.required and not is_loopback(host):
                raise ConfigError(
                    f"the gateway does not listen on {host} without a key; set `key` (or "
                    "TOOLBRIDGE_KEY), create one with `toolbridge key create NAME`, or listen on "
                    "127.0.0.1",
                    where=where,
                )
        self._key = key.encode()
        self.created = created
        self._cors = config.cors
        self._local = all(map(is_loopback, hosts.values()))
        self._good_host = b""
        """The Host field that was found to be loopback last: clients send the same again."""

    async def check(self, request: IncomingRequest) -> None:
        """Raise `NotAllowed` or `Unauthenticated` if the request is not permitted."""
        if not self.is_fresh:
            await self.refresh()
        self.check_now(request)

    async def refresh(self) -> None:
        """Read the created keys again."""
        await self.created.refresh()

    @property
    def is_fresh(self) -> bool:
        """Whether the created keys were read recently enough for `check_now`."""
        return time.monotonic() < self.created.fresh_until

    def check_now(self, request: IncomingRequest) -> None:
        """Like `check`, with the created keys as they were read last."""
        created = self.created
        needs_key = bool(self._key) or created.required
        headers = request.head.headers
        if b"origin" in headers or (not needs_key and headers.get(b"host") != self._good_host):
            self._check_origin(request, needs_key=needs_key)
        if not needs_key:
            return
        shown = shown_keys(request)
        if not shown:
            raise Unauthenticated(
                "a key is required: send it as x-api-key, Authorization: Bearer or x-goog-api-key, or "
                f"as {OWN_KEY} beside a login for the provider"
            )
        if self._key and any(hmac.compare_digest(key.encode(), self._key) for key in shown):
            request.caller = self._key.decode()
            return
        record = created.find(shown)
        if record is None:
            is_created = any(key.startswith(PREFIX) for key in shown)
            raise NotAllowed(_UNKNOWN if is_created else _WRONG if self._key else _NOT_CREATED)
        check_route(record.name, record.scopes, request.path)
        request.caller, request.access = f"key:{record.id}", record

    @property
    def needs_key(self) -> bool:
        """Whether every request needs a key."""
        return bool(self._key) or self.created.required

    def _check_origin(self, request: IncomingRequest, *, needs_key: bool) -> None:
        headers = request.head.headers
        origin = request.header("origin") if b"origin" in headers else ""
        if origin and not self.allowed_origin(origin):
            raise NotAllowed(f"the origin {origin!r} is not allowed; add it to `cors`")
        if not self._local or needs_key:
            return
        host = headers.get(b"host", b"")
        if not host:
            return
        given = host.decode("latin-1")
        if not is_loopback(host_of(given)):
            raise NotAllowed(f"the host {given!r} is not loopback; set `key` to allow other hosts")
        self._good_host = host

    def allowed_origin(self, origin: str) -> str:
        """Return the value of `access-control-allow-origin`; empty if `origin` is not allowed."""
        if "*" in self._cors or self.needs_key:
            return "*"
        if origin in self._cors or is_loopback(host_of_origin(origin)):
            return origin
        return ""


def shown_keys(request: IncomingRequest) -> list[str]:
    """Return the keys in a request; with `OWN_KEY`, only that one is the gateway's."""
    if own := request.header(OWN_KEY):
        return [_decoded(own)]
    found = [
        request.header("x-api-key"),
        bearer(request.header("authorization")),
        request.header("x-goog-api-key"),
    ]
    return [_decoded(key) for key in found if key] or list(filter(None, [request.query("key")]))


def bearer(header: str) -> str:
    """Return the token of an `Authorization` header; empty for another scheme."""
    scheme, _, token = header.partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def _decoded(key: str) -> str:
    # `header` decodes bytes as Latin-1; clients send a key that is not ASCII as UTF-8.
    return key.encode("latin-1").decode("utf-8", "replace")
