"""Text that says nothing, left out where a target refuses it."""

from collections.abc import Sequence
from typing import TypeVar

from msgspec.structs import replace

from toolbridge.core.messages import Part, Result, Text, Turn

P = TypeVar("P", bound=Part)


def without_empty_text(
    turns: Sequence[Turn], system: tuple[Text, ...]
) -> tuple[list[Turn], tuple[Text, ...]]:
    """Return turns and system without text that is empty or white space.

    A turn that says nothing else goes too. Only where the conversation would then be empty, or
    would end with the assistant though it did not before, the user says a full stop.
    """
    kept = [turn for turn in map(_turn, turns) if turn.content]
    ends_with_user = bool(turns) and turns[-1].role != "assistant"
    if (turns and not kept) or (ends_with_user and kept[-1].role == "assistant"):
        kept.append(Turn("user", (Text("."),)))
    return kept, _said(system)


def _turn(turn: Turn) -> Turn:
    content = tuple(_part(part) for part in _said(turn.content))
    return turn if content == turn.content else replace(turn, content=content)


def _part(part: Part) -> Part:
    if not isinstance(part, Result):
        return part
    content = _said(part.content)
    return part if len(content) == len(part.content) else replace(part, content=content)


def _said(parts: tuple[P, ...]) -> tuple[P, ...]:
    """Return all parts but empty text. An opaque token may hang on a text that has no words."""
    return tuple(
        part
        for part in parts
        if not isinstance(part, Text) or part.opaque or (part.text and not part.text.isspace())
    )
