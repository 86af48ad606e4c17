"""Downgrades: ask again without a feature that the provider rejected.

A provider may reject thinking, tools or the thinking blocks of earlier turns. If its error text is
known, the request is sent once more without that feature, and the client gets a loss for it.
"""

import re
from typing import Literal, TypeAlias

import msgspec

from toolbridge.core.lazy_pattern import lazy_pattern
from toolbridge.core.messages import Loss, Problem, Request, Thinking, Turn

MissingFeature: TypeAlias = Literal["thinking", "tools", "history"]
"""`history` stands for the thinking blocks of earlier turns."""

# Anthropic: "Invalid `signature` in `thinking` block", "Expected `thinking` …, but found …";
# OpenAI Responses: "encrypted content … could not be verified"; Gemini: `thought_signature`.
_SIGNATURE = lazy_pattern(
    r"signature[`'\"]? in [`'\"]?thinking|bound to a different conversation|must contain thinking"
    r"|thinking\.signature|encrypted content .*(could not|cannot) be (verified|decrypted)"
    r"|thought_?signature|expected [`'\"]?thinking",
    re.IGNORECASE,
)
# Ollama: `"MODEL" does not support tools`; vLLM: `"auto" tool choice requires
# --enable-auto-tool-choice and --tool-call-parser to be set`; OpenRouter, a 404: "No endpoints found
# that support tool use"; Groq: "`tool calling` is not supported with this model"; Gemini: "Function
# calling is not enabled for models/gemma-3".
_NO_TOOLS = lazy_pattern(
    r"does not support tools|tools are not supported|requires --enable-auto-tool-choice"
    r"|no endpoints found that support tool use|unsupported parameter: 'tools'"
    r"|(?:tool|function) (?:calling|use)[`'\"]? is not (?:supported|enabled)",
    re.IGNORECASE,
)
_STATUSES = frozenset({0, 400, 404, 422, 500})
_REFUSED = ("rejected", "unsupported", "malformed_request", "thinking_not_supported")


def missing_feature(problem: Problem) -> MissingFeature | None:
    """Return the feature that the provider rejected; None if leaving one out would not help."""
    if problem.kind not in _REFUSED or problem.status not in _STATUSES:
        return None
    if problem.kind == "thinking_not_supported":
        return "thinking"
    text = problem.text.lower()
    if _NO_TOOLS.search(text):
        return "tools"
    # Ollama: `"MODEL" does not support thinking`.
    if "does not support thinking" in text or "thinking is not supported" in text:
        return "thinking"
    return "history" if _SIGNATURE.search(problem.text) else None


def without_thoughts(request: Request) -> tuple[Request, tuple[Loss, ...]]:
    """Return `request` without the thinking blocks of earlier turns, with the loss."""
    turns = tuple(_without_thinking(turn) for turn in request.turns)
    if turns == request.turns:
        return request, ()
    kept = tuple(turn for turn in turns if turn.content)
    why = (
        "the provider rejected the thinking of earlier turns; the request was sent again without it"
    )
    return msgspec.structs.replace(request, turns=kept), (Loss("turns.thinking", why),)


def _without_thinking(turn: Turn) -> Turn:
    parts = tuple(part for part in turn.content if not isinstance(part, Thinking))
    return turn if len(parts) == len(turn.content) else Turn(turn.role, parts)
