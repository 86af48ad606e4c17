"""Finds calls and reasoning in running text: the loop that most dialects share.

A dialect lists its marks, such as `<tool_call>`. `MarkReader` writes text until one of them occurs and
lets the call readers of that mark parse; if none accepts, the mark was text.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property
from typing import NamedTuple, Protocol

from toolbridge.dialects.engines.event_writer import EventWriter, NotACall
from toolbridge.dialects.engines.partial_marks import STOPS, drop_half, until
from toolbridge.dialects.engines.speech import FENCE, is_token, mentioned, stops_from
from toolbridge.wire.tags import SPACE, JsonWalk, Marks, Wait

_DATA = {"{": '"', "[": "{"}
"""The first character of JSON, and the character that must follow it."""


class CallReader(Protocol):
    """Parses calls that begin with a mark."""

    @property
    def closing(self) -> tuple[str, ...]:
        """The marks that may follow a call."""
        ...

    def __call__(self, writer: EventWriter, mark: str, /) -> Wait[None]:
        """Read calls from `mark` on; raise `NotACall` if the text is not a call."""
        ...


class ReadFrames(Protocol):
    """Reads an answer that is divided into messages (frames.py)."""

    def __call__(self, writer: EventWriter, *, thinking: bool = False) -> Wait[None]:
        """Read the rest of the answer."""
        ...


class Span(NamedTuple):
    """The marks around reasoning."""

    open: str
    close: str
    is_sentence: bool = False
    """Whether the opening mark is a sentence that belongs to the reasoning."""


THINK = (
    Span("<think>", "</think>"),
    Span("<thinking>", "</thinking>"),
    Span("◁think▷", "◁/think▷"),
)
"""The marks of most models; Kimi-VL, Kimi-Dev and Kimi K2 Thinking also write the triangles."""


@dataclass(frozen=True)
class MarkReader:
    """Reads text until a mark, then lets the readers of that mark parse.

    Text that no reader accepts as a call stays text. So does everything in a code fence, because
    the user may have asked for code that documents the format.
    """

    calls: Mapping[str, Sequence[CallReader]]
    _: KW_ONLY
    thoughts: Sequence[Span] = THINK
    first: Iterable[str] = ()
    """Marks that count only at the beginning of the answer."""
    bare: Iterable[str] = ()
    """Marks such as `{` that are a call only if a call follows; ignored inside reasoning."""
    drop: Iterable[str] = ()
    """Marks without meaning, removed from the text."""
    leftovers: Iterable[str] = ()
    """Remains of calls, removed from the text: tokens if there are tools, end tags after a call."""
    drop_closers: bool = False
    """Remove a reasoning end mark without a beginning everywhere, not only at the start."""
    drop_tags: Iterable[str] = ()
    """Beginnings of tags that are removed up to their `>`, inside reasoning too."""
    frames: Mapping[str, ReadFrames] = field(default_factory=dict)
    """Marks that, at the beginning of the answer, select a reader of frames.py."""

    @cached_property
    def loose(self) -> frozenset[str]:
        return frozenset({*self.bare, *self.first, FENCE})

    @cached_property
    def drafts(self) -> tuple[str, ...]:
        """The marks of calls that also count inside reasoning."""
        return tuple(mark for mark in self.calls if mark not in self.loose)

    @cached_property
    def draft_marks(self) -> Marks:
        """The same marks, ready for searching: built once per reader, not per answer."""
        return Marks(self.drafts)

    @cached_property
    def closers(self) -> tuple[str, ...]:
        return tuple({span.close: None for span in self.thoughts})

    @cached_property
    def opens(self) -> dict[str, tuple[str, ...]]:
        return {span.open: (span.close,) for span in self.thoughts}

    @cached_property
    def sentences(self) -> frozenset[str]:
        return frozenset(span.open for span in self.thoughts if span.is_sentence)

    def begun(self, prompt: str) -> str:
        """Return the reasoning mark at the end of a prompt, with the white space after it."""
        written = prompt.rstrip(SPACE)
        for opener in self.opens:
            if written.endswith(opener):
                return opener + prompt[len(written) :]
        return ""

    @cached_property
    def after_data(self) -> Marks:
        """The marks that end invalid JSON."""
        return Marks([*self.drafts, *self.opens])

    @cached_property
    def _in_thought(self) -> dict[tuple[str, ...], Marks]:
        return {}

    def in_thought(self, closers: tuple[str, ...]) -> Marks:
        """Return the marks that count inside reasoning that one of `closers` ends."""
        if closers not in self._in_thought:
            self._in_thought[closers] = Marks([*closers, *self.drop_tags, *self.drafts])
        return self._in_thought[closers]

    @cached_property
    def _plain(self) -> Marks:
        left_out = (*self.drop, *self.leftovers, *self.drop_tags, *STOPS)
        return Marks([*self.calls, *left_out, *self.frames, FENCE])

    @cached_property
    def marks(self) -> Marks:
        """All marks; text without one of them is only text."""
        return Marks([*self._plain.all, *self.opens, *self.closers])

    def begins_as_text(self, _text: str, /) -> bool | None:
        """Return whether an answer that begins so has no header before its first mark.

        None if that depends on more of it.
        """
        return True

    def enters_frames(self, _writer: EventWriter, _mark: str, /) -> Wait[bool]:
        """Whether the rest of the answer is divided into messages, from `_mark` in its midst on."""
        yield from ()
        return False

    def __call__(self, writer: EventWriter, *, thinking: bool = False) -> Wait[None]:
        """Read the whole stream; `thinking` is True if the prompt opened reasoning."""
        session = _Session(self, writer)
        if thinking and writer.thoughts and self.thoughts:
            yield from session.think(self.closers)
        marks = self.marks if writer.thoughts else self._plain
        while mark := (yield from _until_mark(writer, marks)):
            if mark in self.frames and (
                not writer.has_output or (yield from self.enters_frames(writer, mark))
            ):
                writer.cursor.push_back(mark)
                yield from self.frames[mark](writer)
                return
            yield from session.read_mark(mark)


def _until_mark(writer: EventWriter, marks: Marks) -> Wait[str]:
    """Write text up to the next mark, and return the mark."""
    writer.running_text = marks
    mark = yield from until(writer, marks, writer.text)
    writer.running_text = None
    return mark


class _Session:
    """The state of reading one stream."""

    def __init__(self, reader: MarkReader, writer: EventWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._no_closer = False
        """Whether the stream ended without another reasoning end mark."""
        self._first = ""
        """The mark without meaning in running text with which the answer began."""

    def read_mark(self, mark: str) -> Wait[None]:
        reader, writer = self._reader, self._writer
        counts = mark in reader.calls and (mark not in reader.first or self._may_be_first(mark))
        counts = counts and writer.tools.offered
        quoted = writer.quoting.in_call  # also what is in a quoted call, and what follows it
        if not quoted and counts:
            is_tag = mark not in reader.loose
            quoted = yield from writer.quoting.begins(writer.cursor, is_tag=is_tag)
        if quoted:
            writer.text(mark)
        else:
            yield from self._act(mark, counts=counts)

    def _may_be_first(self, mark: str) -> bool:
        """Whether the answer begins here, or goes on with another call like its first one."""
        writer = self._writer
        if not writer.has_output:
            self._first = mark
        return not writer.has_output or (writer.behind_call and mark == self._first == FENCE)

    def _act(self, mark: str, *, counts: bool) -> Wait[None]:
        """Do what a mark means that is not quoted; `counts` if it may begin a call."""
        reader, writer = self._reader, self._writer
        if counts and (yield from attempt(writer, reader.calls[mark], mark)):
            return
        if mark in reader.drop or self._is_left_over(mark):
            writer.text(mark if mark[0] in "<[" and (yield from mentioned(writer)) else "")
            writer.tail = ""
            return
        if mark in reader.drop_tags:
            yield from _pass_over(writer)
            return
        if mark == FENCE and writer.line_start:
            writer.text(mark)
            yield from _fenced(writer)
        elif mark in reader.opens and writer.thoughts and writer.may_think:
            if mark in reader.sentences:
                writer.think(mark + (yield from writer.cursor.skip()))
            yield from self.think(reader.opens[mark])
        elif self._is_stray(mark) and not (yield from mentioned(writer)):
            writer.end_thought()
        elif mark in _DATA and mark in reader.loose:
            yield from self._data(mark)
        elif mark in STOPS or (counts and is_token(mark) and not writer.is_quoting):
            writer.text((yield from stops_from(writer, mark)))  # not text at the end
        else:
            writer.text(mark)

    def _is_left_over(self, mark: str) -> bool:
        writer = self._writer
        if mark not in self._reader.leftovers:
            return False
        return writer.calls > 0 if mark.startswith("</") else writer.tools.offered

    def _data(self, mark: str) -> Wait[None]:
        """Write JSON that is not a call as text, all of it: calls inside data are data."""
        cursor, writer = self._writer.cursor, self._writer
        if not (yield from cursor.follows(_DATA[mark], at_end=False)):
            writer.text(mark)
            return
        cursor.push_back(mark)
        yield from JsonWalk(cursor, writer.text, self._reader.after_data).value()

    def _is_stray(self, mark: str) -> bool:
        """Whether `mark` ends reasoning that never began: the prompt may have opened it."""
        writer = self._writer
        if mark not in self._reader.closers or not writer.thoughts or writer.omits_thoughts:
            return False
        return self._reader.drop_closers or not writer.has_output

    def think(self, closers: tuple[str, ...]) -> Wait[None]:
        """Read reasoning up to one of `closers`.

        A call inside it is a draft if the reasoning is closed later, and a call if the stream ends
        first (vllm#39056, PrimeIntellect-ai/renderers#80), so text after its mark is held back.
        """
        cursor, writer = self._writer.cursor, self._writer
        yield from cursor.skip()
        opens = [span.open for span in self._reader.thoughts if span.close in closers]
        yield from cursor.accept(*opens)  # the model repeats the mark that ends the prompt
        marks = self._reader.in_thought(closers)
        while (mark := (yield from until(writer, marks, writer.think))) in self._reader.drop_tags:
            yield from _pass_over(writer)
        if mark and mark not in closers:
            yield from self._draft(mark, closers)
        else:
            writer.end_thought()

    def _draft(self, mark: str, closers: tuple[str, ...]) -> Wait[None]:
        cursor, writer = self._writer.cursor, self._writer
        held: list[str] = [mark]
        closed = ""
        if not self._no_closer:
            closed = yield from cursor.until(Marks(closers), held.append)
        if closed:
            yield from cursor.skip()
        if closed and (yield from cursor.peek()):
            writer.think("".join(held))
            writer.end_thought()
            return
        self._no_closer = True
        cursor.push_back("".join(held))
        if writer.tools.offered:
            yield from self._until_call()
        else:
            writer.end_thought()

    def _until_call(self) -> Wait[None]:
        """Read reasoning that is never closed, up to the first valid call."""
        cursor, writer = self._writer.cursor, self._writer
        marks = self._reader.draft_marks
        while mark := (yield from cursor.until(marks, writer.think)):
            if (yield from attempt(writer, self._reader.calls[mark], mark)):
                return
            writer.think(mark)
        writer.end_thought()


def _pass_over(writer: EventWriter) -> Wait[None]:
    """Skip the rest of a tag."""
    while (here := (yield from writer.cursor.peek())) and here != ">":
        writer.cursor.take(1)
    writer.cursor.take(1)


def attempt(writer: EventWriter, readers: Sequence[CallReader], mark: str) -> Wait[bool]:
    """Let each reader parse calls after `mark`; return whether one accepted."""
    if not writer.tools.offered:
        return False
    cursor = writer.cursor
    cursor.push_back(mark)
    position = cursor.remember()
    cut = False
    for reader in readers:
        try:
            yield from reader(writer, mark)
        except NotACall:
            cut = cut or writer.ran_out
            cursor.rewind(position)
        else:
            cursor.forget()
            drop_half(cursor, reader.closing)
            writer.tail = ""
            return True
    cursor.forget()
    cursor.take(len(cursor.text) if cut else len(mark))
    return cut


_FENCE_END = Marks(["\n" + FENCE])


def _fenced(writer: EventWriter) -> Wait[None]:
    writer.text((yield from writer.cursor.until(_FENCE_END, writer.text)))
    writer.quoting.reset()
