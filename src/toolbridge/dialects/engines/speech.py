"""Text inside messages that special tokens divide (frames.py, recipients.py, blocks.py, channels.py).

A special token inside a sentence, a code span or a code fence is text. Tokens that end the turn are
dropped at the end of the stream.
"""

from collections.abc import Iterable

from toolbridge.dialects.engines.event_writer import EventWriter
from toolbridge.dialects.engines.partial_marks import STOPS, until
from toolbridge.wire.tags import Marks, Sink, Wait

FENCE = "```"
_CLOSED = "\n" + FENCE
_FENCE_END = Marks([_CLOSED])
_AFTER = frozenset(" \t\"'`)”’».,;:!?")  # noqa: RUF001 -- typographic quotes
_TOKEN = ("<|", "<｜")  # noqa: RUF001 -- the bar is fullwidth


class Ends:
    """The marks that end the text of a message."""

    def __init__(self, marks: Iterable[str]) -> None:
        self.all = frozenset(marks)
        self.own = Marks(self.all)
        self.marks = Marks([*self.all, *STOPS, FENCE])
        self.plain = Marks([*self.all, *STOPS])
        self.in_fence = Marks([*self.all, _CLOSED])


def speech(writer: EventWriter, ends: Ends, *, keep: bool = False) -> Wait[str]:
    """Write text up to the next mark of `ends`; return the mark, consumed unless `keep`."""
    marks = ends.marks
    while True:
        mark = yield from _part(writer, ends, marks, writer.text, keep=keep)
        if mark != FENCE:
            return mark
        writer.text(mark)
        if writer.fences and (yield from _fenced(writer, ends)):
            marks = ends.plain


def thought(writer: EventWriter, ends: Ends, *, keep: bool = False) -> Wait[str]:
    """Write reasoning up to the next mark of `ends`; return the mark, consumed unless `keep`."""
    return (yield from _part(writer, ends, ends.plain, writer.think, keep=keep))


def _part(writer: EventWriter, ends: Ends, marks: Marks, write: Sink, *, keep: bool) -> Wait[str]:
    cursor = writer.cursor
    while mark := (yield from until(writer, marks, write, keep=True)):
        is_end = mark in ends.all and not (yield from mentioned(writer, len(mark)))
        if is_end and keep:
            return mark
        cursor.take(len(mark))
        if is_end or (mark == FENCE and writer.line_start):
            return mark
        is_stop = mark in STOPS and mark not in ends.all
        write((yield from stops_from(writer, mark)) if is_stop else mark)
    return ""


def _fenced(writer: EventWriter, ends: Ends) -> Wait[bool]:
    """Write a code fence with the marks in it; return True if it is never closed.

    From the first mark on, the text is held until the fence is closed: if the stream ends first,
    the mark was one.
    """
    cursor = writer.cursor
    mark = yield from until(writer, ends.in_fence, writer.text)
    if not mark or mark == _CLOSED:
        writer.text(mark)
        return False
    held = [mark]
    closed = yield from cursor.until(_FENCE_END, held.append)
    if closed:
        writer.text("".join(held) + closed)
        return False
    writer.fences = False
    cursor.push_back("".join(held))
    return True


def stops_from(writer: EventWriter, mark: str) -> Wait[str]:
    """Read the tokens that end a turn, from `mark` on; return them as text if anything follows.

    After text, `</s>` may also end a strike-through, so a closing tag stays text there.
    """
    cursor = writer.cursor
    if mark.startswith("</") and writer.has_text:
        return mark
    run = [mark, (yield from cursor.skip())]
    while stop := (yield from cursor.accept(*STOPS)):
        run += (stop, (yield from cursor.skip()))
    return "".join(run) if (yield from cursor.peek()) else ""


def is_token(mark: str) -> bool:
    """Whether `mark` is a special token, which no sentence ends with."""
    return mark.startswith((*_TOKEN, "[TOOL_CALLS"))


def mentioned(writer: EventWriter, offset: int = 0) -> Wait[bool]:
    """Whether the mark before the cursor is quoted: in a code span, or inside a sentence.

    A mark before another special token or the end of the stream is not.
    """
    cursor = writer.cursor
    in_span = writer.quoting.in_span
    if not writer.is_quoting and not in_span:
        return False
    if not (yield from cursor.need(offset + 1)):
        return False
    after = cursor.text[cursor.at + offset]
    is_word = writer.is_quoting and after in _AFTER
    if not is_word and not (in_span and "`" in {writer.tail, after}):
        return False
    return not (yield from cursor.follows(*_TOKEN, offset=offset))
