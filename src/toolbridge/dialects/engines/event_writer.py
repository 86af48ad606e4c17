"""Writes events for parsed text, reasoning and calls.

Readers of dialects call it instead of creating events: it opens and closes blocks, and it decides
which white space belongs to the markup.
"""

import re

from toolbridge.core import events as ev
from toolbridge.core.draft import Draft
from toolbridge.core.json import dumps, replace_lone_surrogates
from toolbridge.dialects.engines.quoting import Quoting
from toolbridge.dialects.engines.toolbox import Toolbox
from toolbridge.wire.tags import SPACE, Cursor, Marks

_WORD = 40
_QUOTING = frozenset(" \t\"'`(“‘«")  # noqa: RUF001 -- typographic quotes
_ENDED = re.compile(r"[>})\]]|\S\s")


class NotACall(Exception):
    """Raised when the text is not a tool call; nothing has been emitted."""


class EventWriter:
    """Writes text, reasoning and calls of one answer as events.

    White space is held until something follows it: between two calls, and between reasoning and a
    call, it belongs to the markup and is dropped.
    """

    def __init__(self, draft: Draft, tools: Toolbox, *, thoughts: bool | None = True) -> None:
        self.cursor = Cursor()
        self.tools = tools
        self.thoughts = thoughts is not False
        """Whether reasoning is separated from the text; else it stays there with its marks."""
        self.omits_thoughts = thoughts is None
        """Whether reasoning is omitted."""
        self.events: list[ev.Event] = []
        self._draft = draft
        self._space: list[str] = []
        self.has_text = False
        """Whether text was written since the last call or reasoning."""
        self._calls = 0
        self.behind_call = False
        """Whether only white space has followed a call."""
        self._written = False
        self._thinking = False
        self._after_thought = False
        self.line_start = True
        self.after_tick = False
        """Whether the last character was a backtick: the next mark is quoted."""
        self.tail = ""
        """The last character of text or reasoning; empty after a mark."""
        self.quoting = Quoting()
        """The quotations that are open in the text since the last call or reasoning."""
        self.fences = True
        """Whether code fences count; False after a fence that is never closed."""
        self.thought_before = False
        """Whether the answer already contained reasoning."""
        self.has_output = False
        self.in_call = False
        self.running_text: Marks | None = None
        """The marks that end running text, while the reader waits for more of it."""
        self.cut_short = False
        """Whether the stream was cut off, so that an open call is not complete."""

    @property
    def calls(self) -> int:
        return self._calls

    def text(self, piece: str) -> None:
        if self._thinking:
            self.end_thought()
        _, newline, tail = piece.rpartition("\n")
        self.line_start = (bool(newline) or self.line_start) and not tail.strip(" \t")
        self.after_tick = piece.endswith("`") or (self.after_tick and not piece)
        self.tail = piece[-1:] or self.tail
        self.quoting.add(piece)
        if self._after_thought:
            piece = piece.lstrip(SPACE)
        body = piece.rstrip(SPACE)
        if not body:
            self._space.append(piece)
            return
        self.events += self._draft.text("".join(self._space) + body)
        self._space = [piece[len(body) :]]
        self.has_text = self.has_output = True
        self._after_thought = self.behind_call = False

    @property
    def is_quoting(self) -> bool:
        """Whether the last character is a blank or a quote: the next mark may be quoted."""
        return self.tail in _QUOTING

    @property
    def may_think(self) -> bool:
        """Whether reasoning may begin here: inside a line, a text only mentions the mark.

        After earlier reasoning in the same answer it may begin anywhere.
        """
        return not self.after_tick and (self.line_start or self.thought_before)

    def think(self, piece: str) -> None:
        if not self._thinking:
            self._flush_space()
            self._thinking = True
            self.behind_call = False
        self.tail = piece[-1:] or self.tail
        if self.omits_thoughts:
            return
        if not self.has_text:
            piece = piece.lstrip(SPACE)
        body = piece.rstrip(SPACE)
        if not body:
            self._space.append(piece)
            return
        self.events += self._draft.think("".join(self._space) + body)
        self._space = [piece[len(body) :]]
        self.has_text = True

    def end_thought(self) -> None:
        """End the reasoning; white space around its end mark is dropped."""
        if not self._thinking:
            self._flush_space()
        self._thinking = False
        self.thought_before = True
        self._space.clear()
        self.has_text = False
        self._after_thought = True
        self.line_start = True
        self.after_tick = False
        self.quoting.reset()
        self.tail = ""

    def _flush_space(self) -> None:
        if self.has_text and not self._thinking:
            self.events += self._draft.text("".join(self._space))
        self._space.clear()
        self.has_text = False

    @property
    def ran_out(self) -> bool:
        """Whether the stream ended after a call, inside the beginning of another one.

        At most one unfinished word or mark is unread.
        """
        cursor = self.cursor
        rest = cursor.text[cursor.at : cursor.at + _WORD]
        short = len(rest) < _WORD and not _ENDED.search(rest)
        return self.behind_call and cursor.ended and short

    def back(self, position: int) -> None:
        """Rewind the cursor, or drop the rest if it is the beginning of a call that was cut off."""
        if self.ran_out:
            self.cursor.take(_WORD)
        else:
            self.cursor.rewind(position)

    def resolve(self, name: str, *, forward: bool = False) -> str:
        """Return the declared tool name; raise `NotACall` for an unknown one unless `forward`."""
        found = self.tools.resolve(name) or (name if forward else "")
        if not found:
            raise NotACall(name)
        return found

    def call(self, name: str, id: str = "") -> None:
        """Start a call; its text can no longer be written as text."""
        self.cursor.forget()
        if self._thinking:
            self.end_thought()
        self._flush_space()
        self._calls += 1
        self._written = False
        self.has_output = self.in_call = self.behind_call = True
        self.events += self._draft.call(self._calls, name=name, id=id)

    def arguments(self, piece: str) -> None:
        self._written = self._written or bool(piece.strip())
        self.events += self._draft.arguments(self._calls, piece)

    def end_call(self) -> None:
        if not self._written:
            self.arguments("{}")
        self.events += self._draft.end(self._calls)
        self.line_start = True
        self.after_tick = self.in_call = False
        self.quoting.reset()
        self.tail = ""

    def cut_call(self) -> None:
        """End a call that was cut off; its arguments stay invalid JSON, so it is not run."""
        if not self._written:
            self.arguments("{")
        self.events += self._draft.end(self._calls)
        self.in_call = False

    def end_or_cut(self) -> None:
        """End a call whose end mark is missing; cut it if the stream was cut off."""
        if self.cut_short:
            self.cut_call()
        else:
            self.end_call()

    def whole_call(self, name: str, arguments: str, id: str = "") -> None:
        self.call(name, id)
        self.arguments(arguments)
        self.end_call()

    def finish(self) -> None:
        if not self._thinking and (self.has_text or not self._calls):
            self.events += self._draft.text("".join(self._space))
        self._space.clear()

    def drain(self) -> list[ev.Event]:
        events, self.events = self.events, []
        return events


def escaped(piece: str) -> str:
    """Return `piece` escaped for a JSON string."""
    return dumps(replace_lone_surrogates(piece))[1:-1]
