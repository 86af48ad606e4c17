"""Redacts the events of a response before they leave the process.

A secret may be split over several deltas. So events are held until the text that they carry ends, or
a line of it ends (only private keys span lines), and are redacted together; each stays an event. In
prose, where nothing announces a secret, they are held until the end of a word.
"""

from toolbridge.core.redacted_lines import parse_line, redact_lines, strings_in
from toolbridge.core.redaction import Redactor
from toolbridge.core.secret_patterns import opens_private_key
from toolbridge.store.interface import Numbered

HELD = 131_072
"""The most characters held; only longer lines are redacted in parts."""
_TEXTS = frozenset(
    {"text", "thinking", "partial_json", "content", "reasoning_content", "reasoning", "arguments"}
    | {"delta", "response", "refusal", "signature", "input"}
)
"""Fields whose text continues in the next event, of all APIs."""


class AnswerRedactor:
    """A stage from numbered events to numbered events without secrets."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._held: list[tuple[int, str]] = []
        self._fields: frozenset[str] = frozenset()
        """The fields that the held events carry text of."""
        self._text = ""
        """The text of the held events since the last end of a line or a word."""
        self._size = 0

    def feed(self, n: int, event: bytes) -> list[Numbered]:
        """Return the events that can be redacted now, in their order."""
        shown = event.decode("utf-8", "replace")
        texts = _texts_in(shown)
        fields = frozenset(field for field, _ in texts)
        out = self.close() if fields and self._fields and fields != self._fields else []
        self._held.append((n, shown))
        self._fields = fields or self._fields
        self._text += "".join(text for _, text in texts)
        self._size += len(shown)
        if self._size > HELD or not self._fields:
            return out + self.close()
        return out + self._settle()

    def close(self) -> list[Numbered]:
        """Return all events that were held."""
        out = self._redacted()
        self._held, self._fields, self._text, self._size = [], frozenset(), "", 0
        return out

    def _settle(self) -> list[Numbered]:
        """Return the events up to the last complete line, or to the last word of prose."""
        if opens_private_key(self._text):
            return []
        line = self._text.rfind("\n") + 1
        settled = line + self._redactor.settled(self._text[line:])
        if not settled:
            return []
        tail = self._text[settled:]
        if not tail:
            return self.close()
        # The last event continues the line: it stays, without the secrets before.
        fields = self._fields
        *out, (n, last) = self.close()
        shown = last.decode()
        self._held, self._fields, self._text, self._size = [(n, shown)], fields, tail, len(shown)
        return out

    def _redacted(self) -> list[Numbered]:
        lines: list[str] = []
        counts: list[int] = []
        for _, event in self._held:
            found = _lines(event)
            lines += found
            counts.append(len(found))
        masked = iter(redact_lines(lines, self._redactor))
        return [
            (n, "".join([next(masked) for _ in range(count)]).encode())
            for (n, _), count in zip(self._held, counts, strict=True)
        ]


def _lines(text: str) -> list[str]:
    # str.splitlines also splits at U+2028, which may stand raw inside a JSON string.
    *lines, rest = text.split("\n")
    return [f"{line}\n" for line in lines] + ([rest] if rest else [])


def _texts_in(event: str) -> list[tuple[str, str]]:
    """Return the fields with text that may continue in the next event, and their texts."""
    found: list[tuple[str, str]] = []
    for line in _lines(event):
        parsed = parse_line(line)
        if parsed is not None:
            found += [
                (field, text)
                for field, _, text in strings_in(parsed.value, "", "")
                if text and field.rpartition(".")[2] in _TEXTS
            ]
    return found
