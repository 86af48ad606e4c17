"""Access control: keys, hosts and origins.

Without a key the server listens on loopback only. Even there web pages must not call it: a DNS name
that was pointed at loopback (DNS rebinding) is rejected by its Host field, a page by its Origin.
"""

import hmac

from toolbridge.config import Config
from toolbridge.core.errors import ConfigError, NotAllowed, Unauthenticated
from toolbridge.server.http import IncomingRequest
from toolbridge.upstream.hosts import host_of, host_of_origin, is_loopback


class Guard:
    """Checks the host, origin and key of every request."""

    def __init__(self, config: Config, key: str) -> None:
        if config.key and not key:
            raise ConfigError(
                f"the variable {config.key} is not set; set it, or remove `key` to require none",
                where="key",
            )
        if not key and not is_loopback(config.host):
            raise ConfigError(
                f"the gateway does not listen on {config.host} without a key; set `key` (or "
                "TOOLBRIDGE_KEY), or listen on 127.0.0.1",
                where="host",
            )
        self._key = key.encode()
        self._cors = config.cors
        self._local = is_loopback(config.host)

    def check(self, request: IncomingRequest) -> None:
        """Raise `NotAllowed` or `Unauthenticated` if the request is not permitted."""
        self._check_origin(request)
        if not self._key:
            return
        shown = _shown_key(request)
        if not shown:
            raise Unauthenticated(
                "a key is required: send it as x-api-key, Authorization: Bearer or x-goog-api-key"
            )
        if not hmac.compare_digest(shown.encode(), self._key):
            raise NotAllowed("the key is wrong; send the key that the gateway was started with")
        request.caller = shown

    def _check_origin(self, request: IncomingRequest) -> None:
        origin = request.header("origin")
        if origin and not self.allowed_origin(origin):
            raise NotAllowed(f"the origin {origin!r} is not allowed; add it to `cors`")
        given = request.header("host")
        if self._local and not self._key and given and not is_loopback(host_of(given)):
            raise NotAllowed(f"the host {given!r} is not loopback; set `key` to allow other hosts")

    def allowed_origin(self, origin: str) -> str:
        """Return the value of `access-control-allow-origin`; empty if `origin` is not allowed."""
        if "*" in self._cors or self._key:
            return "*"
        if origin in self._cors or is_loopback(host_of_origin(origin)):
            return origin
        return ""


def _shown_key(request: IncomingRequest) -> str:
    bearer = request.header("authorization")
    scheme, _, token = bearer.partition(" ")
    shown = (
        request.header("x-api-key")
        or (token.strip() if scheme.lower() == "bearer" else "")
        or request.header("x-goog-api-key")
    )
    # `header` decodes bytes as Latin-1; clients send a key that is not ASCII as UTF-8.
    return shown.encode("latin-1").decode("utf-8", "replace") or request.query("key")
