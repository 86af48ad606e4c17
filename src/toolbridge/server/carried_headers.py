"""Headers that are forwarded between a client and a provider.

They are chosen by prefix, because vendors add headers without notice. Headers that contain
credentials are never forwarded, in either direction.
"""

from collections.abc import Mapping

from toolbridge.server.http import HttpExchange

UPSTREAM_ID = "x-toolbridge-upstream-request-id"
_SENT: dict[str, tuple[bytes, ...]] = {
    "anthropic": (b"anthropic-",),
    "openai_chat": (b"openai-",),
    "openai_responses": (b"openai-",),
    "gemini": (b"x-goog-",),
}
_SECRET_WORDS = ("key", "auth", "token", "secret", "cookie", "iam")
_BROWSER_ONLY = "anthropic-dangerous-direct-browser-access"
_RETURNED = ("anthropic-", "openai-", "x-ratelimit-", "x-goog-")
_REQUEST_IDS = (
    "request-id", "x-request-id", "x-goog-request-id", "x-amzn-requestid", "apim-request-id",
    "cf-ray",
)  # fmt: skip
_IDS = frozenset(_REQUEST_IDS)


def headers_of_client(exchange: HttpExchange, api: str) -> dict[str, str]:
    """Return the client's headers that are sent to a provider of the same API."""
    prefixes = _SENT.get(api)
    if prefixes is None:
        return {}
    found = exchange.headers_like(prefixes)
    return {
        name: value
        for name, value in found.items()
        if name != _BROWSER_ONLY and not _is_secret(name)
    }


def headers_of_provider(headers: Mapping[str, str], *, same_api: bool) -> dict[str, str]:
    """Return the provider's headers that are sent to the client.

    The provider's request id gets another name, because `request-id` is the gateway's. The names of
    rate limit headers belong to the provider's API, so only a client of that API gets them.
    """
    if not same_api and _IDS.isdisjoint(map(str.lower, headers)):
        return {}
    found = {name.lower(): value for name, value in headers.items()}
    id = next((found[name] for name in _REQUEST_IDS if name in found), "")
    shown = {UPSTREAM_ID: id} if id else {}
    if same_api:
        shown |= {
            name: value
            for name, value in found.items()
            if name.startswith(_RETURNED) and not _is_secret(name)
        }
    return shown


def _is_secret(name: str) -> bool:
    # "tokens" occurs in the names of rate limits, "token" in those of credentials.
    words = name.replace("tokens", "").lower()
    return any(word in words for word in _SECRET_WORDS)
