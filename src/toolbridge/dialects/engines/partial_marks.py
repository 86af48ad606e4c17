"""How a stream ends: half a mark is no text, and neither is a token that ends a turn."""

# ruff: noqa: RUF001 -- the bars of these marks are fullwidth

from collections.abc import Iterable

from toolbridge.dialects.engines.event_writer import EventWriter
from toolbridge.wire.tags import SPACE, Cursor, Marks, Sink, Wait

STOPS = (
    "<|im_end|>", "<|endoftext|>", "<|end_of_text|>", "<|eot_id|>", "<|eom_id|>", "<|eot|>",
    "<|end|>", "<|return|>", "<|end_of_msg|>", "<|END_OF_TURN_TOKEN|>", "<｜end▁of▁sentence｜>",
    "<end_of_turn>", "<turn|>", "<eos>", "<seed:eos>", "[e~[", "<|user|>", "<|observation|>",
    "</s>",
)  # fmt: skip
"""The tokens that end a turn: a server that shows them left them at the end of the answer."""
_CERTAIN = 8
"""How much of a mark must stand at the end before it is taken for one, and not for text."""
_FIRST = frozenset("<[]⟦")
"""What the marks begin with that no prose ends in."""
_TOKEN = ("<|", "<｜")
"""What a mark begins with that is one token of the model: the least of it is certain."""


def until(scribe: EventWriter, marks: Marks, write: Sink, *, keep: bool = False) -> Wait[str]:
    """Hand the text before the next mark to `write`; return the mark, taken unless `keep`.

    The beginning of a mark in which the stream ends is left out.
    """
    cursor = scribe.cursor

    def say(piece: str) -> None:
        if cursor.ended and cursor.at == len(cursor.text):
            half = piece[len(piece) - marks.held(piece) :]
            if _is_certain(half) or (scribe.behind_call and half == piece.lstrip(SPACE)):
                piece = piece[: len(piece) - len(half)]
        write(piece)

    return (yield from cursor.until(marks, say, keep=keep))


def value_until(cursor: Cursor, marks: Marks, write: Sink) -> Wait[str]:
    """Hand a value to `write` up to the next mark, which is returned and not taken.

    Where the stream ends, the value is cut in any case, and the beginning of its end mark with it.
    """

    def say(piece: str) -> None:
        whole = not cursor.ended or cursor.at < len(cursor.text)
        write(piece if whole else piece[: len(piece) - marks.held(piece)])

    return (yield from cursor.until(marks, say, keep=True))


def _is_certain(half: str) -> bool:
    """Tell whether the beginning of a mark can be nothing else."""
    if half.startswith(_TOKEN) and len(half) > len(_TOKEN[0]):
        return True
    return len(half) >= _CERTAIN and half[0] in _FIRST


def is_half(cursor: Cursor, marks: Iterable[str], offset: int = 0) -> bool:
    """Tell whether the stream ends, at `offset` from here, inside of one of `marks`."""
    rest = cursor.text[cursor.at + offset :].strip(SPACE)
    return cursor.ended and any(mark.startswith(rest) for mark in marks)


def drop_half(cursor: Cursor, marks: Iterable[str]) -> None:
    """Take what is left of a stream that ends inside of one of `marks`."""
    if is_half(cursor, marks):
        cursor.take(len(cursor.text) - cursor.at)
