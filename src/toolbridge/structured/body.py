"""The JSON inside one frame, read within its limits.

`FrameBody` tracks strings, escapes and nesting, and returns pieces for the client: the frame's text
up to its limit, and how it ended. Sentinel mode and native mode both use it. It does not read
sentinels: the caller decides where the text of a frame ends.
"""

import re

from toolbridge.structured.limits import Limits
from toolbridge.structured.pieces import (
    FrameClosed,
    FrameFault,
    FrameOpened,
    FrameText,
    Piece,
    Trouble,
)
from toolbridge.structured.sentinels import Kind

_OUTSIDE = re.compile(r'["{}\[\]]')
_INSIDE = re.compile(r'["\\]')


class FrameBody:
    """A frame being read: the state of its JSON, and the pieces emitted so far."""

    def __init__(self, kind: Kind, id: str, name: str, limits: Limits) -> None:
        self.kind: Kind = kind
        self.id = id
        self.name = name
        self._limits = limits
        self._most = min(limits.arguments, limits.frame) if kind == "tool" else limits.frame
        self._size = 0
        self._depth = 0
        self._seen = False
        """Whether it contains anything but white space."""
        self._strays = False
        self._chunks: list[str] = []
        self._out: list[Piece] = []
        self.in_string = False
        self.escaped = False
        """Whether the last character was a backslash that escapes the next one."""
        self.muted = False
        """Whether the frame was closed early and the rest of its text is skipped."""

    @property
    def opened(self) -> FrameOpened:
        return FrameOpened(self.kind, self.id, self.name)

    @property
    def whole(self) -> bool:
        """Whether every bracket and quote is closed."""
        return self._seen and self._depth <= 0 and not self.in_string

    @property
    def pure(self) -> bool:
        """Whether it is whole, with only white space outside its brackets and quotes."""
        return self.whole and not self._strays

    @property
    def nested(self) -> bool:
        """Whether the current position is inside an object or an array."""
        return self._depth > 0

    def feed(self, text: str, /) -> list[Piece]:
        start = at = 0
        if self.escaped and text:
            self.escaped, at = False, 1
        while found := (_INSIDE if self.in_string else _OUTSIDE).search(text, at):
            self._note_strays(text, at, found.start())
            at = found.end()
            if found.group() == "\\":
                self.escaped = at == len(text)
                at += 1
            elif self._is_too_deep(found.group()):
                self._emit(text[start : found.start()])
                start = found.start()
                self._stop("frame_too_deep", f"is nested more than {self._limits.depth} deep")
                self._step(found.group())
            else:
                self._step(found.group())
        self._note_strays(text, at, len(text))
        self._emit(text[start:] if start else text)
        return self._take()

    def finish(self, *, ended: bool, nested: bool = False) -> list[Piece]:
        """Close the frame; `ended` if the model wrote its end sentinel."""
        if self.muted:
            return []
        if not ended and nested and not self.whole:
            self._fault("nested_frame", "another frame began inside this one")
        elif not ended:
            self._fault("unclosed_frame", "the frame has no end")
        self._close(ended=ended, whole=self.whole)
        return self._take()

    def expire(self) -> list[Piece]:
        """Close the frame at its timeout; the rest of its text is skipped."""
        if not self.muted:
            self._stop("frame_timeout", "was not finished in time")
        return self._take()

    # The state of the JSON.

    def _note_strays(self, text: str, start: int, end: int) -> None:
        if self._depth <= 0 and not self.in_string and not self._strays:
            self._strays = bool(text[start:end].strip())

    def _is_too_deep(self, mark: str) -> bool:
        return mark in "{[" and self._depth == self._limits.depth and not self.muted

    def _step(self, mark: str) -> None:
        if mark == '"':
            self.in_string = not self.in_string
        else:
            self._depth += 1 if mark in "{[" else -1

    # The pieces for the client.

    def _emit(self, chunk: str) -> None:
        if self.muted or not chunk:
            return
        self._seen = self._seen or not chunk.isspace()
        size = len(chunk) if chunk.isascii() else len(chunk.encode("utf-8", "surrogatepass"))
        if self._size + size <= self._most:
            self._size += size
            self._emit_within(chunk)
            return
        self._emit_within(_first_bytes(chunk, self._most - self._size))
        code: Trouble = "frame_too_large"
        if self.kind == "tool" and self._limits.arguments <= self._limits.frame:
            code = "arguments_too_large"
        self._stop(code, f"is longer than {self._most} bytes")

    def _emit_within(self, chunk: str) -> None:
        if chunk:
            self._chunks.append(chunk)
            self._out.append(FrameText(self.id, chunk))

    def _stop(self, code: Trouble, why: str) -> None:
        """Close the frame before its end."""
        self._fault(code, f"the frame {why}")
        self._close(ended=False, whole=False, trouble=code)

    def _fault(self, code: str, message: str) -> None:
        self._out.append(FrameFault(code, message, self.id))

    def _close(self, *, ended: bool, whole: bool, trouble: Trouble = "") -> None:
        text = "".join(self._chunks)
        self._out.append(FrameClosed(self.kind, self.id, self.name, text, ended, whole, trouble))
        self._chunks = []
        self.muted = True

    def _take(self) -> list[Piece]:
        out, self._out = self._out, []
        return out


def _first_bytes(text: str, most: int) -> str:
    """Return the longest prefix of `text` that has at most `most` bytes of UTF-8."""
    encoded = text[: most + 1].encode("utf-8", "surrogatepass")
    while most < len(encoded) and encoded[most] & 0xC0 == 0x80:  # in the middle of a character
        most -= 1
    return encoded[:most].decode("utf-8", "surrogatepass")
