"""The parts that the endpoints of all clouds share: joined URLs, and errors with the next step."""

from collections.abc import Awaitable, Callable

import msgspec

from toolbridge.core.errors import ConfigError
from toolbridge.core.messages import Loss, Problem
from toolbridge.upstream.clouds.betas import BetaFilter


def join_url(base: str, path: str) -> str:
    """Return `path` below `base`, whose query is kept."""
    url, _, query = base.partition("?")
    whole = url.rstrip("/") + path
    return f"{whole}{'&' if '?' in path else '?'}{query}" if query else whole


def with_remedy(problem: Problem, remedy: str) -> Problem:
    """Return `problem` with the next step after its text."""
    return msgspec.structs.replace(problem, text=f"{problem.text} → {remedy}")


async def with_missing(
    error: ConfigError, credentials: Callable[[], Awaitable[object]]
) -> ConfigError:
    """Return the error about an address, with the one about credentials if they are missing too."""
    try:
        await credentials()
    except ConfigError as other:
        return ConfigError(f"{error}. In addition, {other}")
    return error


def lost_betas(betas: BetaFilter, model: str, problem: Problem) -> Loss | None:
    """Return the loss of betas that a rejection was about; they are not sent any more."""
    left_out = betas.learn(model, problem)
    if not left_out:
        return None
    return Loss("betas", f"the provider rejected values of anthropic-beta; left out: {left_out}")
