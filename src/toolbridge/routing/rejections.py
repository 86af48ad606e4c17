"""Responses that are not answers: rejections, redirects and web pages.

A rejection in the provider's API is decoded by its codec. Redirects and web pages mostly mean a
wrong `url` in the configuration, so their errors name that setting.
"""

import re
import time
from collections.abc import Mapping
from contextlib import suppress

import msgspec

from toolbridge.core.errors import BrokenWire, ConfigError, ToolbridgeError, error_of, mentions
from toolbridge.core.json import Json, maybe_object
from toolbridge.core.lazy_pattern import lazy_pattern
from toolbridge.core.retry_after import read_wait
from toolbridge.routing.route import Route
from toolbridge.upstream.http import Incoming

KNOWN_STATUSES = frozenset(range(200, 300)) - {204} | frozenset(range(400, 600))
"""The statuses of answers and of rejections."""
MOST = 1024 * 1024
LONGEST_TEXT = 4000
_BEGINNING = 20_000
"""Bytes that are read of a response without an answer, to show how it begins."""
_PAGE = re.compile(rb"\s*<(!doctype|html|head|body|\?xml|h1|center)\b", re.IGNORECASE)
# nginx: "The plain HTTP request was sent to HTTPS port"; Go, net/http: "Client sent an HTTP request to
# an HTTPS server."; Apache: "You're speaking plain HTTP to an SSL-enabled server port."
_NEEDS_TLS = lazy_pattern(
    rb"plain HTTP request was sent to HTTPS port|sent an HTTP request to an HTTPS server"
    rb"|plain HTTP to an SSL-enabled"
)
_HIDDEN = re.compile(r"<(script|style)\b.*?</\1\s*>", re.IGNORECASE | re.DOTALL)
_TAG = re.compile(r"<[^<>]*>")
_RESETS = ("anthropic-ratelimit-unified-reset", "x-ratelimit-reset")
"""Headers with the time at which a limit ends: Claude subscriptions (seconds), OpenRouter (ms)."""


async def unknown_status(incoming: Incoming, provider: str) -> ToolbridgeError:
    """Return the error for a redirect, and for any other status that is not in `KNOWN_STATUSES`."""
    status = incoming.status
    to = incoming.headers.get("location", "")[:200]
    if to and 300 <= status < 400:
        return ConfigError(f"{provider} redirects to {to}; set its `url` to the final address")
    # After 101 the connection is no longer one of HTTP, and its bytes have no end.
    body = await incoming.read_some(_BEGINNING) if status >= 300 else b""
    return _no_answer(status, body, provider)


def empty_body(incoming: Incoming, provider: str) -> BrokenWire:
    """Return the error for a response that has the status of an answer and no content."""
    return _no_answer(incoming.status, b"", provider)


def _no_answer(status: int, body: bytes, provider: str) -> BrokenWire:
    words = _words(body)
    content = f": {words}" if words else " and an empty body"
    return BrokenWire(
        f"{provider} answered with status {status}{content}; check its `url`", provider=provider
    )


def is_html(headers: Mapping[str, str]) -> bool:
    """Return whether the content type is that of a web page."""
    return "html" in headers.get("content-type", "").lower()


async def web_page(incoming: Incoming, provider: str) -> ToolbridgeError:
    """Read the web page and return the error about it."""
    return page_error(await incoming.read_some(_BEGINNING), incoming.status, provider)


def page_error(page: bytes, status: int, provider: str) -> BrokenWire:
    """Return the error for a body that is a web page, whatever its content type is."""
    return BrokenWire(
        f"{provider} answered {status} with a web page: {_words(page)}; check its `url`",
        provider=provider,
    )


def is_page(body: bytes) -> bool:
    """Return whether `body` is a web page: from a proxy, or from another server at that URL."""
    return _PAGE.match(body) is not None


async def rejection(incoming: Incoming, route: Route) -> ToolbridgeError:
    """Read the provider's rejection and return it as an error that names the provider."""
    return rejected(incoming, await incoming.read_some(MOST), route)


def rejected(incoming: Incoming, body: bytes, route: Route) -> ToolbridgeError:
    """Return the rejection in `body` as an error that names the provider."""
    provider, status = route.provider, incoming.status
    if status == 400 and _NEEDS_TLS.search(body):
        return ConfigError(
            f"{provider} has TLS at this address. Write `https://` in its `url`, or the port where "
            "it has no TLS."
        )
    if is_page(body):
        text = f"{provider} answered {status} with a web page: {_words(body)}"
        if status in {404, 405}:
            return ConfigError(f"{text}; check its `url`")
        body = text.encode()
    headers = _headers({**_headers_behind(body), **incoming.headers})
    problem = route.codec.decode_rejection(status, headers, body)
    if problem.retry_after is None and problem.kind == "rate_limited":
        problem = msgspec.structs.replace(problem, retry_after=read_wait(problem.text))
    if route.endpoint is not None:
        problem = route.endpoint.explain(problem, status, headers, body)
    text = problem.text[:LONGEST_TEXT]
    if problem.kind != "context_overflow" and not mentions(text, provider):
        text = f"{provider}: {text}"
    if incoming.proxy and maybe_object(body) is None:
        text = f"{text} (through {incoming.proxy}, which may have answered itself)"
    return error_of(msgspec.structs.replace(problem, provider=provider, text=text))


def _headers_behind(body: bytes) -> dict[str, str]:
    """Return the headers that OpenRouter writes into an error, such as `X-RateLimit-Reset`."""
    found: Json = maybe_object(body)
    for name in ("error", "metadata", "headers"):
        found = found.get(name) if isinstance(found, dict) else None
    if not isinstance(found, dict):
        return {}
    return {name: value for name, value in found.items() if isinstance(value, str)}


def _epoch(value: str) -> float:
    """Return the time in a header, in seconds or milliseconds since 1970; 0 for any other value."""
    if not value.isdecimal() or len(value) not in {10, 13}:
        return 0.0
    return int(value) / (1000 if len(value) == 13 else 1)


def _words(page: bytes) -> str:
    """Return the first visible text of a web page."""
    text = _TAG.sub(" ", _HIDDEN.sub(" ", page[:_BEGINNING].decode("utf-8", "replace")))
    return " ".join(text.split())[:120]


def _headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Return `headers` with `retry-after` in seconds (RFC 9110 also allows a date)."""
    shown = {name.lower(): value for name, value in headers.items()}
    if "retry-after" not in shown and "retry-after-ms" not in shown:
        for name in _RESETS:
            if reset := _epoch(shown.get(name, "")):
                shown["retry-after"] = str(max(0, round(reset - time.time())))
                return shown
    if (value := shown.get("retry-after", "")) and not value.isdecimal():
        from email.utils import parsedate_to_datetime  # 1 MB for a rare form

        with suppress(ValueError):
            then = parsedate_to_datetime(value)
            shown["retry-after"] = str(max(0, round(then.timestamp() - time.time())))
    return shown
