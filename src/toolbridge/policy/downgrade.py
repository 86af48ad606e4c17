"""Rejections that another wording of the same request mends, once.

A server may refuse thinking, tools or the thoughts of an earlier turn in words that are known. What
it refused is then taken away or told otherwise, and the request is sent again; the client learns of
it as of every loss.
"""

import re
from typing import Literal, TypeAlias

import msgspec

from toolbridge.core.messages import Loss, Problem, Request, Thinking, Turn

MissingFeature: TypeAlias = Literal["thinking", "tools", "history"]

_SIGNATURE = re.compile(
    r"signature[`'\"]? in [`'\"]?thinking|bound to a different conversation|must contain thinking"
    r"|thinking\.signature|encrypted content .*(could not|cannot) be (verified|decrypted)"
    r"|thought_?signature|expected [`'\"]?thinking",
    re.IGNORECASE,
)
_REFUSED = ("rejected", "unsupported", "malformed_request", "thinking_not_supported")


def missing_feature(problem: Problem) -> MissingFeature | None:
    """Return what the server refused, where asking without it would help."""
    if problem.kind not in _REFUSED or problem.status not in {0, 400, 422, 500}:
        return None
    if problem.kind == "thinking_not_supported":
        return "thinking"
    text = problem.text.lower()
    if "does not support tools" in text or "tools are not supported" in text:
        return "tools"
    if "does not support thinking" in text or "thinking is not supported" in text:
        return "thinking"
    return "history" if _SIGNATURE.search(problem.text) else None


def without_thoughts(request: Request) -> tuple[Request, tuple[Loss, ...]]:
    """Return `request` without the thoughts of earlier turns, which their maker does not accept."""
    turns = tuple(_silent(turn) for turn in request.turns)
    if turns == request.turns:
        return request, ()
    kept = tuple(turn for turn in turns if turn.content)
    why = "the provider did not accept the thoughts of earlier turns; asked again without them"
    return msgspec.structs.replace(request, turns=kept), (Loss("turns.thinking", why),)


def _silent(turn: Turn) -> Turn:
    parts = tuple(part for part in turn.content if not isinstance(part, Thinking))
    return turn if len(parts) == len(turn.content) else Turn(turn.role, parts)
