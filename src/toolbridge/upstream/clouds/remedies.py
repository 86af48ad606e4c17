"""The parts that the endpoints of all clouds share: joined URLs, and errors with the next step."""

import msgspec

from toolbridge.core.messages import Problem


def join_url(base: str, path: str) -> str:
    """Return `path` below `base`, whose query is kept."""
    url, _, query = base.partition("?")
    whole = url.rstrip("/") + path
    return f"{whole}{'&' if '?' in path else '?'}{query}" if query else whole


def with_remedy(problem: Problem, remedy: str) -> Problem:
    """Return `problem` with the next step after its text."""
    return msgspec.structs.replace(problem, text=f"{problem.text} → {remedy}")
