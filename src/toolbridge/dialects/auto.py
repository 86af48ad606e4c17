"""Recognises the dialect from the text of an answer.

One reader searches for the marks of all dialects at once. The text after a shared mark selects the
parser; a message header at the beginning selects the reader of that format. Formats without a mark
count only at the beginning of an answer and with the name of a declared tool.
"""

# ruff: noqa: RUF001 -- the bars of these marks are fullwidth

import re
from dataclasses import dataclass
from functools import cache

from typing_extensions import override

from toolbridge.core.lazy_pattern import lazy_pattern
from toolbridge.dialects import load, names
from toolbridge.dialects.dialect import Continues, ReadStream
from toolbridge.dialects.engines.event_writer import EventWriter, NotACall
from toolbridge.dialects.engines.mark_reader import CallReader, MarkReader, Span, attempt
from toolbridge.dialects.engines.partial_marks import STOPS
from toolbridge.dialects.engines.python_calls import PythonCalls
from toolbridge.dialects.engines.shared import BARE_JSON, FENCED_JSON
from toolbridge.dialects.engines.speech import FENCE
from toolbridge.dialects.react import Scaffold
from toolbridge.wire.tags import JsonWalk, Marks, Wait

_FRAMES = (
    ("harmony", "<|channel|>"),
    ("harmony", "<|start|>assistant<|channel|>"),
    ("harmony", "<|start|>assistant to=functions."),
    ("harmony", "<|start|>"),
    ("muse_atem", "<atem:function_calls>"),
    ("kimi_k3", "<|open|>"),
    ("kimi_k3", "<|close|>"),
    ("inkling", "<|message_model|>"),
    ("inkling", "<|content_thinking|>"),
    ("inkling", "<|content_text|>"),
    ("inkling", "<|content_invoke_tool_json|>"),
    ("inkling", "<|content_invoke_tool_text|>"),
)


@dataclass(frozen=True)
class _Started:
    """Reads an answer whose first header names a recipient: with a channel it is Harmony."""

    mark: str = "<|start|>assistant to="

    def __call__(self, writer: EventWriter, *, thinking: bool = False) -> Wait[None]:
        cursor = writer.cursor
        position = cursor.remember()
        cursor.take(len(self.mark))
        name = yield from cursor.match(_TO)
        cursor.take(len(name))
        follows = yield from cursor.stands("<|channel|>")
        cursor.rewind(position)
        cursor.forget()
        reader = load("harmony" if follows else "muse_atem").reader
        yield from reader(writer, thinking=thinking)


@dataclass(frozen=True)
class _Addressed:
    """Reads an answer that begins with its recipient, because the prompt opened the header."""

    @property
    def closing(self) -> tuple[str, ...]:
        return ()

    def __call__(self, writer: EventWriter, _mark: str, /) -> Wait[None]:
        cursor = writer.cursor
        position = cursor.remember()
        head = yield from cursor.match(_HEADER)
        cursor.take(len(head))
        follows = yield from cursor.stands("<|channel|>", "<|message|>")
        if not follows:
            raise NotACall("no header")
        cursor.rewind(position)
        cursor.forget()
        yield from load("harmony" if follows == "<|channel|>" else "muse_atem").reader(writer)


@dataclass(frozen=True)
class Auto(MarkReader):
    """Reads all dialects, including functionary_v32, whose answers begin with a tool name."""

    @override
    def begins_as_text(self, text: str, /) -> bool | None:
        if _TEXT.match(text):
            return True
        if text in _QUOTES:
            return None
        return None if len(text) <= _LONGEST and _RECIPIENT.fullmatch(text) else False

    @override
    def begun(self, prompt: str) -> str:
        others = (*self.frames.values(), load("functionary_v31").reader)
        found = (reader.begun(prompt) for reader in others if isinstance(reader, Continues))
        return super().begun(prompt) or next(filter(None, found), "")

    @override
    def __call__(self, writer: EventWriter, *, thinking: bool = False) -> Wait[None]:
        if not thinking and writer.tools.known and (yield from self._is_addressed(writer)):
            yield from load("functionary_v32").reader(writer)
        else:
            if not thinking and writer.tools.known:
                yield from self._read_quoted(writer)
            yield from super().__call__(writer, thinking=thinking)

    @override
    def enters_frames(self, writer: EventWriter, mark: str) -> Wait[bool]:
        """Whether a Harmony message begins after text; in a sentence, a header is only mentioned."""
        if mark not in _HARMONY or not writer.tools.offered:
            return False
        if (yield from writer.quoting.begins(writer.cursor, is_tag=True)):
            return False
        if writer.is_quoting and not writer.quoting.ends_sentence:
            return False
        cursor = writer.cursor
        position = cursor.remember()
        parts = [mark]
        found = yield from cursor.until(_HEADER_ENDS, parts.append)
        cursor.rewind(position)
        cursor.forget()
        return found == _MESSAGE and _MESSAGE_HEADER.fullmatch("".join(parts)) is not None

    def _is_addressed(self, writer: EventWriter) -> Wait[bool]:
        """Whether the answer begins with `>>>` and a recipient, or with a tool name and JSON."""
        cursor = writer.cursor
        position = cursor.remember()
        mark = yield from cursor.accept(">>>")
        yield from cursor.skip(" \t")
        name = yield from cursor.match(_NAME)
        cursor.take(len(name))
        yield from cursor.skip(" \t")
        found = (name in writer.tools.names or bool(mark and name == "all")) and (
            bool((yield from cursor.accept("\n")))
            and (bool(mark) or (yield from cursor.follows("{", at_end=False)))
        )
        cursor.rewind(position)
        cursor.forget()
        return found

    def _read_quoted(self, writer: EventWriter) -> Wait[None]:
        """Read an answer that is a JSON call between quotation marks, and nothing else."""
        cursor = writer.cursor
        if not (yield from cursor.stands(*(quote + "{" for quote in _QUOTES))):
            return
        position = cursor.remember()
        quote = cursor.take(1)
        yield from JsonWalk(cursor, lambda _: None, Marks(())).value()
        closed = yield from cursor.accept(quote)
        yield from cursor.skip()
        while (yield from cursor.accept(*STOPS)):
            yield from cursor.skip()
        whole = closed and not (yield from cursor.peek())
        cursor.rewind(position)
        cursor.forget()
        if whole:
            cursor.take(2)  # `attempt` puts the bracket back
            if (yield from attempt(writer, BARE_JSON, "{")):
                yield from cursor.accept(quote)
            else:
                writer.text(quote + "{")


_STARTED = _Started()
_QUOTES = ("'", '"')
_LONGEST = 256
"""Characters of a recipient: the limit of `Cursor.match`."""
_RECIPIENT = re.compile(r"[ \t]*+[\w.:-]*+[ \t]*+")
_TEXT = re.compile(r"(?!>|['\"](?:\{|\Z))[ \t]*+(?:[^\w.:\- \t]|[\w.:-]++[ \t]*+[^\n])")
"""The beginning of a text: after a recipient, the line ends."""
_NAME = re.compile(r"[\w.:-]*")
_TO = re.compile(r"[^\s<]*\s*")
_HEADER = re.compile(r"\s*to=[^\s<]*\s*")
_HARMONY = frozenset(mark for name, mark in _FRAMES if name == "harmony")
_MESSAGE = "<|message|>"
_HEADER_ENDS = Marks([_MESSAGE, "<|end|>", "<|call|>", "\n"])
_MESSAGE_HEADER = lazy_pattern(
    r"(?:<\|start\|>assistant)?(?: ?to=functions\.[^\s<]+)? ?<\|channel\|>"
    r"(?:analysis|commentary|final)\b(?: to=functions\.[^\s<]+)? ?(?:(?:<\|constrain\|>)?json ?)?"
)
_BARE: dict[str, tuple[CallReader, ...]] = {
    "{": BARE_JSON,
    "[": (*BARE_JSON, PythonCalls(json=False)),
    FENCE: FENCED_JSON,
    " to=": (_Addressed(),),
    "Thought:": (Scaffold(),),
}


@cache
def auto_reader(dialect: str = "", ignored: frozenset[str] = frozenset()) -> ReadStream:
    """Return a reader of all dialects, with `dialect` preferred.

    Models drift from their own format, so the others stay active. Calls of `ignored` dialects stay
    text.
    """
    own = load(dialect).reader if dialect else MarkReader({})
    if not isinstance(own, MarkReader):
        return own
    found = [name for name in names() if name not in ignored]
    known = [own, *(r for name in found if isinstance(r := load(name).reader, MarkReader))]
    bare = {mark: readers for mark, readers in _BARE.items() if mark not in own.bare}
    tags = [span for source in known for span in source.thoughts if _is_tag(span)]
    drop = {mark for source in known for mark in source.drop if mark[:2] in {"<|", "<｜"}}
    drop.difference_update(STOPS)  # of another dialect: dropped at the end, text inside a sentence
    return Auto(
        calls={**_merged(known), **bare, **{mark: own.calls[mark] for mark in own.bare}},
        thoughts=tuple(dict.fromkeys([*own.thoughts, *sorted(tags, key=_is_rare)])),
        first=bare,
        bare=own.bare,
        drop_closers=own.drop_closers,
        drop_tags=own.drop_tags,
        leftovers={mark for source in known for mark in source.leftovers},
        drop={*own.drop, *drop},
        frames={_STARTED.mark: _STARTED, **{mark: load(name).reader for name, mark in _FRAMES}},
    )


def _merged(known: list[MarkReader]) -> dict[str, list[CallReader]]:
    """Return the call readers by mark; a mark also gets the readers of marks it begins with."""
    calls: dict[str, list[CallReader]] = {}
    for source in known:
        for mark, readers in source.calls.items():
            if mark not in source.loose:
                found = calls.setdefault(mark, [])
                found += [reader for reader in readers if reader not in found]
    for mark, found in calls.items():
        for beginning, others in calls.items():
            if mark != beginning and mark.startswith(beginning):
                found += [reader for reader in others if reader not in found]
    return calls


def _is_rare(span: Span) -> bool:
    return span.open != "<think>"


def _is_tag(span: Span) -> bool:
    return span.open[0] in "<[◁"
