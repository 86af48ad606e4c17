"""The lines of `frames.ndjson`: every event of a run, when it came, without secrets.

The network cuts where it likes, also through a secret. So pieces of one text are held until the
text is whole, or until the end of a line, over which no secret reaches, and are redacted together;
each still becomes a line of its own, with its own time.
"""

from typing import NamedTuple

from toolbridge.core.json import JsonObject, dump_bytes
from toolbridge.core.redaction import Redactor

HELD = 131_072
"""Characters that are held at most: twice a frame, so only endless text is ever cut here."""
_PIECES = {"text.delta": "text", "json.delta": "chunk", "result.delta": "chunk"}
"""Events that carry a piece of a text, and the member that holds it."""


class Frame(NamedTuple):
    ms: float
    """Since the run began."""
    n: int
    event: str
    data: JsonObject


class FrameLines:
    """A stage from events to lines."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._held: list[Frame] = []
        self._texts: list[str] = []
        self._size = 0

    def feed(self, frame: Frame) -> list[bytes]:
        if frame.event not in _PIECES:
            data = self._redactor.value(frame.data)
            return [*self.close(), _line(frame, data if isinstance(data, dict) else {})]
        lines = [] if self._continues(frame) else self.close()
        self._held.append(frame)
        self._texts.append(_text(frame))
        self._size += len(self._texts[-1])
        if self._size > HELD:
            return lines + self.close()
        return lines + self._settle() if frame.event == "text.delta" else lines

    def close(self) -> list[bytes]:
        """Return the lines of all that is held."""
        lines = self._lines(self._redactor.pieces(self._texts))
        self._held, self._texts, self._size = [], [], 0
        return lines

    def _lines(self, texts: list[str]) -> list[bytes]:
        return [
            _line(frame, {**frame.data, _PIECES[frame.event]: text})
            for frame, text in zip(self._held, texts, strict=False)
        ]

    def _continues(self, frame: Frame) -> bool:
        if not self._held:
            return True
        before = self._held[-1]
        return before.event == frame.event and before.data.get("id") == frame.data.get("id")

    def _settle(self) -> list[bytes]:
        """Return the lines of what the end of a line has made certain."""
        frame, text = self._held[-1], self._texts[-1]
        head, newline, tail = text.rpartition("\n")
        if not newline:
            return []
        self._texts[-1] = head + newline
        if not tail:
            return self.close()
        # The last piece goes on: what is certain of it is redacted now, with all that came before.
        *texts, certain = self._redactor.pieces(self._texts)
        lines = self._lines(texts)
        self._held, self._texts, self._size = [frame], [certain + tail], len(certain + tail)
        return lines


def _text(frame: Frame) -> str:
    text = frame.data.get(_PIECES[frame.event])
    return text if isinstance(text, str) else ""


def _line(frame: Frame, data: JsonObject) -> bytes:
    line: JsonObject = {"ms": frame.ms, "n": frame.n, "event": frame.event, "data": data}
    if data.get("status") == "degraded":
        line["degraded"] = True
    return dump_bytes(line) + b"\n"
