"""Reads the text of an answer that is one JSON document, while it is written.

`DocumentText` has the interface of `NativeText`. Words in `parts` become text, objects and the result
become frames; each character is read once. Text that is not JSON stays text. A document that begins
with another key than `parts` and `result` is the result itself: a provider that does not constrain
its answers may leave out the wrapper.
"""

import re
from collections.abc import Callable, Sized
from json import loads as loads_loosely

from toolbridge.structured.body import FrameBody
from toolbridge.structured.contract import Contract
from toolbridge.structured.document import PARTS, RESULT, text_key
from toolbridge.structured.native import fresh_id
from toolbridge.structured.pieces import Piece, PlainText, join_pieces
from toolbridge.structured.sentinels import Kind

_OPENING = re.compile(r"\s*(?:```(?:json)?\s*)?\{")
_MAYBE_OPENING = re.compile(r"\s*(?:`{1,2}|```(?:j|js|jso|json)?\s*)?\Z")
_MAX_HELD = 1_000
_IN_STRING = re.compile(r'["\\]')
_NESTED = re.compile(r'["{}\[\]]')
_AFTER_SCALAR = re.compile(r"[,}\]\s]")
# Content of a string with whole escapes; a surrogate pair is one unit.
_UNITS = re.compile(
    r'(?:[^\\"]++|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}'
    r"|\\u(?![dD][89abAB])[0-9a-fA-F]{4}|\\[^u])*+"
)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_PAIR = 12
"""Characters of an escaped surrogate pair, the longest unit."""


class _Span:
    """Finds the end of one JSON value."""

    def __init__(self) -> None:
        self._depth = 0
        self._in_string = self._escaped = self._scalar = False

    def end(self, text: str, at: int) -> int:
        """Return the offset after the value; -1 if it continues after `text`."""
        if self._escaped and at < len(text):
            self._escaped, at = False, at + 1
        while at < len(text):
            if not self._in_string and not self._depth:
                if (over := self._begin(text, at)) is not None:
                    return over
                at += 1
                continue
            found = (_IN_STRING if self._in_string else _NESTED).search(text, at)
            if found is None:
                return -1
            at = found.end()
            if found.group() == "\\":
                self._escaped = at == len(text)
                at += 1
            elif self._step(found.group()):
                return at
        return -1

    def _begin(self, text: str, at: int) -> int | None:
        """Read the first character; return the end of a number or a literal."""
        if self._scalar:
            found = _AFTER_SCALAR.search(text, at)
            return found.start() if found else -1
        self._in_string = text[at] == '"'
        self._depth = int(text[at] in "{[")
        self._scalar = not self._in_string and not self._depth
        return None

    def _step(self, mark: str) -> bool:
        """Read a quote or a bracket; return whether the value is complete."""
        if mark == '"':
            self._in_string = not self._in_string
        else:
            self._depth += 1 if mark in "{[" else -1
        return not self._in_string and not self._depth


class DocumentText:
    """A stage from text to pieces. While `calls` are not run yet, JSON is text."""

    def __init__(self, contract: Contract, used: set[str], calls: Sized) -> None:
        self._contract = contract
        self._used = used
        self._calls = calls
        self._words_key = text_key(contract.objects)
        self._begin()

    def _begin(self) -> None:
        self._held = ""
        """The beginning of the text, until it is decided what it is; then an unfinished token."""
        self._state: Callable[[str, int], int] | None = None
        self._is_text = False
        self._in_part = False
        self._key = ""
        self._span = _Span()
        self._frame: FrameBody | None = None
        self._head: str | None = ""
        """The document up to its first key; None after it."""
        self._out: list[Piece] = []

    @property
    def open_id(self) -> str:
        frame = self._frame
        return frame.id if frame is not None and not frame.muted else ""

    def feed(self, text: str, /) -> list[Piece]:
        if self._is_text:
            return [PlainText(text)] if text else []
        at = 0
        if self._state is None:
            text = self._held + text
            at = self._decide(text)
        while self._state is not None and at < len(text):
            at = self._state(text, at)
        return self._take()

    def end_text(self) -> list[Piece]:
        """Close a text block that the model completed."""
        return self._finish(ended=True)

    def close(self) -> list[Piece]:
        """Close the answer; a frame that is still open was cut off."""
        return self._finish(ended=False)

    def expire(self) -> list[Piece]:
        return [] if self._frame is None else self._frame.expire()

    def _finish(self, *, ended: bool) -> list[Piece]:
        if self._state is None and self._held:
            self._out.append(PlainText(self._held))
        if self._frame is not None:
            self._out += self._frame.finish(ended=ended)
        pieces = self._take()
        self._begin()
        return pieces

    def _take(self) -> list[Piece]:
        out, self._out = self._out, []
        return join_pieces(out)

    # The beginning.

    def _decide(self, text: str) -> int:
        """Decide whether the text is a document; return the offset after its first bracket."""
        found = None if self._calls else _OPENING.match(text)
        if found is not None:
            self._held, self._head = "", "{"
            self._state = self._read_key
            return found.end()
        if not self._calls and _MAYBE_OPENING.match(text) and len(text) < _MAX_HELD:
            self._held = text
            return len(text)
        self._held, self._is_text = "", True
        self._out += [PlainText(text)] if text else []
        return len(text)

    # States: each reads from an offset and returns the offset after what it read.

    def _read_key(self, text: str, at: int) -> int:
        """Read up to the next key of the document or of a part, or to its end."""
        here = text[at]
        if self._head is not None:
            self._head += here
        if here == '"':
            self._held, self._state = '"', self._read_key_text
        elif here == "}":
            self._state = self._read_item if self._in_part else self._skip
            self._in_part = False
        return at + 1

    def _read_key_text(self, text: str, at: int) -> int:
        units = _UNITS.match(self._held + text[at:], 1)
        end = at + (units.end() if units else 1) - len(self._held)
        if not at <= end < len(text) or text[end] != '"':
            self._note(text[at:])
            if len(self._held) > _MAX_HELD:
                self._state = self._skip
            return len(text)
        self._note(text[at : end + 1])
        self._key, self._held = _unescaped(self._held[1:-1]), ""
        if self._head is not None and self._key not in {PARTS, RESULT}:
            self._open("result", self._contract.result)
            self._write(self._head)
            self._state = self._read_whole
        else:
            self._state = self._read_value
        self._head = None
        return end + 1

    def _note(self, text: str) -> None:
        self._held += text
        if self._head is not None:
            self._head += text

    def _read_whole(self, text: str, at: int) -> int:
        """Read a result without the wrapper: all text is its JSON."""
        self._write(text[at:])
        return len(text)

    def _read_value(self, text: str, at: int) -> int:
        """Read up to the value of a key, and begin it."""
        here = text[at]
        if here == ":" or here.isspace():
            return at + 1
        self._span = _Span()
        self._state = self._read_span
        if self._in_part and self._key == self._words_key and here == '"':
            self._held, self._state = "", self._read_words
            return at + 1
        if not self._in_part and self._key == PARTS and here == "[":
            self._state = self._read_item
            return at + 1
        if self._in_part:
            self._open("object", self._key)
        elif self._key == RESULT:
            self._open("result", self._contract.result)
        return at

    def _read_span(self, text: str, at: int) -> int:
        """Read the JSON of a frame, or skip the value of an unknown key."""
        end = self._span.end(text, at)
        self._write(text[at:] if end < 0 else text[at:end])
        if end < 0:
            return len(text)
        if self._frame is not None:
            self._out += self._frame.finish(ended=True)
            self._frame = None
        self._state = self._read_key
        return end

    def _read_item(self, text: str, at: int) -> int:
        """Read up to the next part, or to the end of the parts."""
        if text[at] == "{":
            self._in_part, self._state = True, self._read_key
        elif text[at] == "]":
            self._state = self._read_key
        return at + 1

    def _read_words(self, text: str, at: int) -> int:
        """Read the text of a part, up to an unfinished escape."""
        rest, self._held = self._held + text[at:], ""
        while True:
            units = _UNITS.match(rest)
            end = units.end() if units else 0
            said = _unescaped(rest[:end])
            self._out += [PlainText(said)] if said else []
            rest = rest[end:]
            if rest.startswith('"'):
                self._state = self._read_key
                return len(text) - len(rest) + 1
            if len(rest) < _PAIR and '"' not in rest:
                self._held = rest
                return len(text)
            # Half of a surrogate pair, or an escape that JSON does not have.
            self._out.append(PlainText("\ufffd"))
            rest = rest[min(6, rest.find('"')) if '"' in rest else 6 :]

    def _skip(self, text: str, at: int) -> int:  # noqa: ARG002  a state
        """Skip what follows the document."""
        return len(text)

    # Frames.

    def _open(self, kind: Kind, name: str) -> None:
        id = fresh_id("R" if kind == "result" else "O", self._used)
        self._used.add(id)
        self._frame = FrameBody(kind, id, name, self._contract.limits)
        self._out.append(self._frame.opened)

    def _write(self, text: str) -> None:
        if self._frame is not None:
            self._out += self._frame.feed(text)


def _unescaped(raw: str) -> str:
    """Return the content of a JSON string; of an escape that JSON does not have, the character."""
    known = _ESCAPE.sub(lambda found: found[0] if found[1] in '"\\/bfnrtu' else found[1], raw)
    return str(loads_loosely(f'"{known}"', strict=False))
