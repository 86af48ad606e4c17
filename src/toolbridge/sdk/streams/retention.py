"""Prompt caching options, translated to each API.

Anthropic caches the prefix up to a `cache_control` mark. OpenAI's two APIs cache by
`prompt_cache_key`, for 24 hours with `prompt_cache_retention`. Other APIs have no option for it.
"""

import msgspec
from msgspec.structs import replace

from toolbridge.core.codec import Target
from toolbridge.core.messages import (
    Cache,
    Call,
    Document,
    Image,
    Part,
    Request,
    Result,
    Text,
    Turn,
)
from toolbridge.sdk.streams.options import Retention

_KEPT: dict[Retention, Cache] = {"short": "5m", "long": "1h"}


class RetainedClients(msgspec.Struct, frozen=True):
    """A request and its target, with cache options."""

    request: Request
    target: Target


def keep(
    request: Request, target: Target, api: str, retention: Retention | None
) -> RetainedClients:
    """Return `request` and `target` with the cache options for `retention`."""
    match api:
        case "anthropic":
            return RetainedClients(_marked(request, retention or "short"), target)
        case "openai_chat" if retention == "long" and not target.quirks.get("prompt_cache_key"):
            # A provider without session caches may reject the field.
            return RetainedClients(request, target)
        case "openai_chat" | "openai_responses" if retention is not None:
            quirks = {**target.quirks, "cache_retention": retention}
            return RetainedClients(request, replace(target, quirks=quirks))
    return RetainedClients(request, target)


def _marked(request: Request, retention: Retention) -> Request:
    """Return `request` with cache marks after the system text and after the last turn.

    The first mark caches the constant part, the second the conversation so far. A request that has
    marks already is not changed.
    """
    cache = _KEPT.get(retention)
    if cache is None or _has_marks(request):
        return request
    *before, last = request.turns
    system = request.system
    if system:
        system = (*system[:-1], replace(system[-1], cache=cache))
    content = last.content
    if content:
        content = (*content[:-1], _mark(content[-1], cache))
    return replace(request, system=system, turns=(*before, Turn(last.role, content)))


def _has_marks(request: Request) -> bool:
    parts: list[Part] = [part for turn in request.turns for part in turn.content]
    return any(getattr(part, "cache", "") for part in (*parts, *request.system, *request.tools))


def _mark(part: Part, cache: Cache) -> Part:
    if isinstance(part, Text | Image | Document | Call | Result):
        return replace(part, cache=cache)
    return part
