"""The end of a stream: partial marks and tokens that end a turn are not text.

A stream can end inside `<tool_ca`, and servers that do not strip special tokens leave `<|im_end|>` at
the end of the answer.
"""

# ruff: noqa: RUF001 -- the bars of these marks are fullwidth

from collections.abc import Iterable

from toolbridge.dialects.engines.event_writer import EventWriter
from toolbridge.wire.tags import SPACE, Cursor, Marks, Sink, Wait

STOPS = (
    "<|im_end|>", "<|endoftext|>", "<|end_of_text|>", "<|eot_id|>", "<|eom_id|>", "<|eot|>",
    "<|eom|>", "<|end|>", "<|return|>", "<|end_of_msg|>", "<|END_OF_TURN_TOKEN|>",
    "<｜end▁of▁sentence｜>", "<|end_of_sentence|>", "<end_of_sentence>", "<end_of_turn>", "<turn|>",
    "<start_function_response>", "<eos>", "[EOS]", "<seed:eos>", "[e~[", "<|user|>",
    "<|observation|>", "<|assistant_end|>", "</assistant>", "<|role_end|>", "<|endofresponse|>",
    "<|EOT|>", "<|eos|>", "<｜hy_eos:opensource｜>", "<｜hy_eos｜>", "<|flush|>", "</longcat_s>",
    "<|stop|>", "</s>",
)  # fmt: skip
"""Tokens that end a turn, in the templates of the supported models.

Among them the stop of FunctionGemma (`<start_function_response>`), of MiniMax M1
(`<end_of_sentence>`), Apertus (`<|assistant_end|>`), Laguna (`</assistant>`), Ling (`<|role_end|>`),
dots (`<|endofresponse|>`), Step 3 (`<|EOT|>`), Hunyuan A13B (`<|eos|>`), Hy3 (`<｜hy_eos:opensource｜>`), Solar Open (`<|flush|>`),
ERNIE (`<|end_of_sentence|>`), LongCat (`</longcat_s>`) and Functionary 2 (`<|stop|>`).
"""
_CERTAIN = 8
"""Characters of a mark at the end of the stream that identify it as a mark."""
_CLOSER = 4
"""The same in reasoning, which hardly ends in a tag other than its own."""
_FIRST = frozenset("<[]⟦")
"""First characters of marks; prose does not end in them."""
_TOKEN = ("<|", "<｜")
"""The beginnings of special tokens: any part of one identifies it."""


def until(writer: EventWriter, marks: Marks, write: Sink, *, keep: bool = False) -> Wait[str]:
    """Pass the text before the next mark to `write`; return the mark, consumed unless `keep`.

    A partial mark at the end of the stream is dropped.
    """
    cursor = writer.cursor

    def emit(piece: str) -> None:
        if cursor.ended and cursor.at == len(cursor.text):
            half = piece[len(piece) - marks.held(piece) :]
            if is_certain(half, _CLOSER if write == writer.think else _CERTAIN) or (
                writer.behind_call and half == piece.lstrip(SPACE)
            ):
                piece = piece[: len(piece) - len(half)]
        write(piece)

    return (yield from cursor.until(marks, emit, keep=keep))


def value_until(cursor: Cursor, marks: Marks, write: Sink) -> Wait[str]:
    """Pass a value to `write` up to the next mark; return the mark without consuming it.

    At the end of the stream, a partial end mark is dropped: the value is cut off either way.
    """

    def emit(piece: str) -> None:
        whole = not cursor.ended or cursor.at < len(cursor.text)
        write(piece if whole else piece[: len(piece) - marks.held(piece)])

    return (yield from cursor.until(marks, emit, keep=True))


def is_certain(half: str, size: int = _CERTAIN) -> bool:
    """Whether `half` can only be the beginning of a mark."""
    if half.startswith(_TOKEN) and len(half) > len(_TOKEN[0]):
        return True
    return len(half) >= size and half[0] in _FIRST


def is_half(cursor: Cursor, marks: Iterable[str], offset: int = 0) -> bool:
    """Whether the stream ends inside one of `marks`, `offset` characters from here."""
    rest = cursor.text[cursor.at + offset :].strip(SPACE)
    return cursor.ended and any(mark.startswith(rest) for mark in marks)


def drop_half(cursor: Cursor, marks: Iterable[str]) -> None:
    """Consume the rest of a stream that ends inside one of `marks`."""
    if is_half(cursor, marks):
        cursor.take(len(cursor.text) - cursor.at)
