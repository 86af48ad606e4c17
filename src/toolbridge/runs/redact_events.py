"""Redacts the events of a run before they are kept: in `frames.ndjson` and in the store.

A secret may be split over several deltas. So the deltas of one text are held until the text ends or
a line ends (only private keys span lines), and are redacted together; each stays a separate event.
"""

from typing import Generic, NamedTuple, TypeVar

from toolbridge.core.json import JsonObject
from toolbridge.core.redaction import Redactor
from toolbridge.core.secret_patterns import opens_private_key

T = TypeVar("T")

HELD = 131_072
"""The most characters held: twice a frame, so only very long lines are redacted in parts."""
_PIECES = {"text.delta": "text", "json.delta": "chunk", "result.delta": "chunk"}
"""Delta events, and the member that holds their text."""


class _Held(NamedTuple, Generic[T]):
    item: T
    event: str
    data: JsonObject


class EventRedactor(Generic[T]):
    """A stage from events to redacted events; `item` is the caller's data for each event."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._held: list[_Held[T]] = []
        self._texts: list[str] = []
        self._size = 0

    def feed(self, item: T, event: str, data: JsonObject) -> list[tuple[T, JsonObject]]:
        """Return the events that can be redacted now, in their order."""
        if event not in _PIECES:
            redacted = self._redactor.value(data)
            return [*self.close(), (item, redacted if isinstance(redacted, dict) else {})]
        out = [] if self._continues(event, data) else self.close()
        self._held.append(_Held(item, event, data))
        self._texts.append(_text(event, data))
        self._size += len(self._texts[-1])
        if self._size > HELD:
            return out + self.close()
        return out + self._settle() if event == "text.delta" else out

    def close(self) -> list[tuple[T, JsonObject]]:
        """Return all events that were held."""
        if not self._held:
            return []
        is_text = self._held[0].event == "text.delta"
        redact = self._redactor.pieces if is_text else self._redactor.json_pieces
        out = self._redacted(redact(self._texts))
        self._held, self._texts, self._size = [], [], 0
        return out

    def _redacted(self, texts: list[str]) -> list[tuple[T, JsonObject]]:
        return [
            (held.item, {**held.data, _PIECES[held.event]: text})
            for held, text in zip(self._held, texts, strict=False)
        ]

    def _continues(self, event: str, data: JsonObject) -> bool:
        if not self._held:
            return True
        before = self._held[-1]
        return before.event == event and before.data.get("id") == data.get("id")

    def _settle(self) -> list[tuple[T, JsonObject]]:
        """Return the events up to the last complete line."""
        head, newline, tail = self._texts[-1].rpartition("\n")
        if not newline or opens_private_key("".join(self._texts)):
            return []
        self._texts[-1] = head + newline
        if not tail:
            return self.close()
        # The last delta continues the line: its part up to the line end is redacted now.
        last = self._held[-1]
        *texts, certain = self._redactor.pieces(self._texts)
        out = self._redacted(texts)
        self._held, self._texts, self._size = [last], [certain + tail], len(certain + tail)
        return out


def _text(event: str, data: JsonObject) -> str:
    text = data.get(_PIECES[event])
    return text if isinstance(text, str) else ""
