"""The caller's own login, for providers with `key = "caller"`.

The headers with which the caller's program logs in are forwarded as they came, to that provider only
and with that request only; they are not stored, logged or used for another request. A value that is
the gateway's own key is never forwarded.
"""

import hmac

from toolbridge.config import ProviderConfig
from toolbridge.environment import CALLER
from toolbridge.server.auth import bearer
from toolbridge.server.carried_headers import headers_of_client
from toolbridge.server.http import HttpExchange
from toolbridge.store.keys import PREFIX

_LOGIN = ("authorization", "x-api-key", "x-goog-api-key")
# Claude Code and Codex describe themselves with these headers. A vendor may accept a subscription's
# login only from its own program, so they are forwarded beside the login.
_PROGRAM = (
    b"anthropic-", b"openai-", b"chatgpt-", b"x-stainless-", b"x-codex-", b"x-goog-", b"user-agent",
    b"x-app", b"originator", b"session_id", b"session-id", b"conversation_id", b"version",
)  # fmt: skip


class ClientHeaders:
    """The headers of clients that are sent to providers."""

    def __init__(self, gateway_key: str) -> None:
        self._gateway_key = gateway_key

    def of(
        self, exchange: HttpExchange, provider_config: ProviderConfig, api: str
    ) -> dict[str, str]:
        """Return the headers of a client of `api` for a provider, with a login if it takes that."""
        headers = headers_of_client(exchange, api) if provider_config.api == api else {}
        if provider_config.key == CALLER:
            headers |= login_of_caller(exchange, self._gateway_key)
        return headers


def login_of_caller(exchange: HttpExchange, gateway_key: str) -> dict[str, str]:
    """Return the headers of the caller's login and program; nothing if there is no login."""
    login = {
        name: value
        for name in _LOGIN
        if (value := exchange.header(name)) and not _is_own(value, gateway_key)
    }
    if not login:
        return {}
    program = exchange.headers_like(_PROGRAM)
    return {name: value for name, value in program.items() if name not in _LOGIN} | login


def _is_own(value: str, gateway_key: str) -> bool:
    """Return whether a header contains the gateway's own key."""
    keys = [value.strip(), bearer(value), value.rpartition(" ")[2]]
    if any(key.startswith(PREFIX) for key in keys):  # a created key, of this gateway or another
        return True
    if not gateway_key:
        return False
    own = gateway_key.encode()
    return any(hmac.compare_digest(key.encode("latin-1", "replace"), own) for key in keys)
