"""Removes empty text.

Anthropic, Messages API: "text content blocks must be non-empty" and "must contain non-whitespace
text". Gemini rejects contents without parts.
"""

from collections.abc import Sequence
from typing import TypeVar

from msgspec.structs import replace

from toolbridge.core.messages import Loss, Part, Result, Text, Turn

P = TypeVar("P", bound=Part)

FULL_STOP = Turn("user", (Text("."),))
ADDED = 'the target requires a user message with content: "." is added'


def without_empty_text(
    turns: Sequence[Turn], system: tuple[Text, ...], losses: list[Loss]
) -> tuple[list[Turn], tuple[Text, ...]]:
    """Return turns and system without text that is empty or white space.

    Turns without other content are removed too. If no turn remains, or if the conversation would
    now end with the assistant, a user turn with a full stop is added.
    """
    kept = [turn for turn in map(_turn, turns) if turn.content]
    ends_with_user = bool(turns) and turns[-1].role != "assistant"
    if (turns and not kept) or (ends_with_user and kept[-1].role == "assistant"):
        losses.append(Loss("turns", ADDED))
        kept.append(FULL_STOP)
    return kept, _without_empty(system)


def _turn(turn: Turn) -> Turn:
    content = tuple(_part(part) for part in _without_empty(turn.content))
    return turn if content == turn.content else replace(turn, content=content)


def _part(part: Part) -> Part:
    if not isinstance(part, Result):
        return part
    content = _without_empty(part.content)
    return part if len(content) == len(part.content) else replace(part, content=content)


def _without_empty(parts: tuple[P, ...]) -> tuple[P, ...]:
    """Return `parts` without empty text; a text that carries an opaque token is kept."""
    return tuple(
        part
        for part in parts
        if not isinstance(part, Text) or part.opaque or (part.text and not part.text.isspace())
    )
