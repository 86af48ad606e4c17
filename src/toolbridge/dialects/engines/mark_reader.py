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
from toolbridge.wire.tags import SPACE, JsonWalk, Marks, Wait

FENCE = "```"
_DATA = {"{": '"', "[": "{"}
"""The first character of JSON, and the character that must follow it."""


class CallReader(Protocol):
    """Parses calls that begin with a mark."""

    @property
    def closing(self) -> tuple[str, ...]:
        """The marks that may follow a call."""
        ...

    def __call__(self, scribe: EventWriter, mark: str, /) -> Wait[None]:
        """Read calls from `mark` on; raise `NotACall` if the text is not a call."""
        ...


class ReadFrames(Protocol):
    """Reads an answer that is divided into messages (frames.py)."""

    def __call__(self, scribe: EventWriter, *, thinking: bool = False) -> Wait[None]:
        """Read the rest of the answer."""
        ...


class Span(NamedTuple):
    """The marks around reasoning."""

    open: str
    close: str
    spoken: bool = False
    """Whether the opening mark is a sentence that belongs to the reasoning."""


THINK = (Span("<think>", "</think>"), Span("<thinking>", "</thinking>"))


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
    """Remains of calls, removed from the text if the request has tools."""
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
    def spoken(self) -> frozenset[str]:
        return frozenset(span.open for span in self.thoughts if span.spoken)

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
    def _marks(self) -> Marks:
        return Marks([*self._plain.all, *self.opens, *self.closers])

    def __call__(self, scribe: EventWriter, *, thinking: bool = False) -> Wait[None]:
        """Read the whole stream; `thinking` is True if the prompt opened reasoning."""
        session = _Session(self, scribe)
        if thinking and scribe.thoughts and self.thoughts:
            yield from session.think(self.closers)
        marks = self._marks if scribe.thoughts else self._plain
        while mark := (yield from _until_mark(scribe, marks)):
            if mark in self.frames and not scribe.said_anything:
                scribe.cursor.push_back(mark)
                yield from self.frames[mark](scribe)
                return
            yield from session.meet(mark)


def _until_mark(scribe: EventWriter, marks: Marks) -> Wait[str]:
    """Write text up to the next mark, and return the mark."""
    scribe.running_text = marks
    mark = yield from until(scribe, marks, scribe.text)
    scribe.running_text = None
    return mark


class _Session:
    """The state of reading one stream."""

    def __init__(self, prose: MarkReader, scribe: EventWriter) -> None:
        self._prose = prose
        self._scribe = scribe
        self._no_closer = False
        """Whether the stream ended without another reasoning end mark."""

    def meet(self, mark: str) -> Wait[None]:
        prose, scribe = self._prose, self._scribe
        counts = mark in prose.calls and (mark not in prose.first or not scribe.said_anything)
        if counts and (yield from attempt(scribe, prose.calls[mark], mark)):
            return
        if mark in prose.drop or (mark in prose.leftovers and scribe.tools.offered):
            return
        if mark in prose.drop_tags:
            yield from _pass_over(scribe)
            return
        if mark == FENCE and scribe.line_start:
            scribe.text(mark)
            yield from _fenced(scribe)
        elif mark in prose.opens and scribe.thoughts and scribe.may_think:
            if mark in prose.spoken:
                scribe.think(mark + (yield from scribe.cursor.skip()))
            yield from self.think(prose.opens[mark])
        elif self._is_stray(mark):
            scribe.end_thought()
        elif mark in _DATA and mark in prose.loose:
            yield from self._data(mark)
        elif not self._may_stop(mark) or not (yield from self._is_last()):
            scribe.text(mark)

    def _may_stop(self, mark: str) -> bool:
        """Whether `mark` may end the turn; `</s>` after text may also end a strike-through."""
        return mark in STOPS and (mark != "</s>" or not self._scribe.spoken)

    def _is_last(self) -> Wait[bool]:
        """Whether only tokens that end a turn follow."""
        cursor = self._scribe.cursor
        place = cursor.remember()
        yield from cursor.skip()
        while (yield from cursor.accept(*STOPS)):
            yield from cursor.skip()
        ended = not (yield from cursor.peek())
        cursor.rewind(place)
        cursor.forget()
        return ended

    def _data(self, mark: str) -> Wait[None]:
        """Write JSON that is not a call as text, all of it: calls inside data are data."""
        cursor, scribe = self._scribe.cursor, self._scribe
        if not (yield from cursor.follows(_DATA[mark], at_end=False)):
            scribe.text(mark)
            return
        cursor.push_back(mark)
        yield from JsonWalk(cursor, scribe.text, self._prose.after_data).value()

    def _is_stray(self, mark: str) -> bool:
        """Whether `mark` ends reasoning that never began: the prompt may have opened it."""
        scribe = self._scribe
        if mark not in self._prose.closers or not scribe.thoughts or scribe.silent:
            return False
        return self._prose.drop_closers or not scribe.said_anything

    def think(self, closers: tuple[str, ...]) -> Wait[None]:
        """Read reasoning up to one of `closers`.

        A call inside it is a draft if the reasoning is closed later, and a call if the stream ends
        first (vllm#39056, PrimeIntellect-ai/renderers#80), so text after its mark is held back.
        """
        cursor, scribe = self._scribe.cursor, self._scribe
        yield from cursor.skip()
        opens = [span.open for span in self._prose.thoughts if span.close in closers]
        yield from cursor.accept(*opens)  # the model repeats the mark that ends the prompt
        marks = self._prose.in_thought(closers)
        while (mark := (yield from until(scribe, marks, scribe.think))) in self._prose.drop_tags:
            yield from _pass_over(scribe)
        if mark and mark not in closers:
            yield from self._draft(mark, closers)
        else:
            scribe.end_thought()

    def _draft(self, mark: str, closers: tuple[str, ...]) -> Wait[None]:
        cursor, scribe = self._scribe.cursor, self._scribe
        held: list[str] = [mark]
        closed = ""
        if not self._no_closer:
            closed = yield from cursor.until(Marks(closers), held.append)
        if closed:
            yield from cursor.skip()
        if closed and (yield from cursor.peek()):
            scribe.think("".join(held))
            scribe.end_thought()
            return
        self._no_closer = True
        cursor.push_back("".join(held))
        if scribe.tools.offered:
            yield from self._until_call()
        else:
            scribe.end_thought()

    def _until_call(self) -> Wait[None]:
        """Read reasoning that is never closed, up to the first valid call."""
        cursor, scribe = self._scribe.cursor, self._scribe
        marks = self._prose.draft_marks
        while mark := (yield from cursor.until(marks, scribe.think)):
            if (yield from attempt(scribe, self._prose.calls[mark], mark)):
                return
            scribe.think(mark)
        scribe.end_thought()


def _pass_over(scribe: EventWriter) -> Wait[None]:
    """Skip the rest of a tag."""
    while (here := (yield from scribe.cursor.peek())) and here != ">":
        scribe.cursor.take(1)
    scribe.cursor.take(1)


def attempt(scribe: EventWriter, readers: Sequence[CallReader], mark: str) -> Wait[bool]:
    """Let each reader parse calls after `mark`; return whether one accepted."""
    if not scribe.tools.offered:
        return False
    cursor = scribe.cursor
    cursor.push_back(mark)
    place = cursor.remember()
    cut = False
    for reader in readers:
        try:
            yield from reader(scribe, mark)
        except NotACall:
            cut = cut or scribe.ran_out
            cursor.rewind(place)
        else:
            cursor.forget()
            drop_half(cursor, reader.closing)
            return True
    cursor.forget()
    cursor.take(len(cursor.text) if cut else len(mark))
    return cut


_FENCE_END = Marks(["\n" + FENCE])


def _fenced(scribe: EventWriter) -> Wait[None]:
    scribe.text((yield from scribe.cursor.until(_FENCE_END, scribe.text)))
