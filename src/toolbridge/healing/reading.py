"""Reads a value from text: strict JSON first, then without layers of encoding, then tolerantly.

Layers are a JSON string around JSON, doubled escapes, HTML entities, and copies of a growing text.
"""

from collections.abc import Callable

import msgspec

from toolbridge.core.json import Json, dumps
from toolbridge.core.lazy_pattern import lazy_pattern
from toolbridge.core.messages import Step
from toolbridge.healing import steps, tokens
from toolbridge.healing.syntax import TolerantReader

MAX_LAYERS = 4
_strict = msgspec.json.Decoder()
_encode = msgspec.json.Encoder().encode
_ESCAPED = lazy_pattern(r"\s*(?:\\[nrt]|\s)*+(?:[{\[](?:\\[nrt]|\s)*+)?\\+[\"']")
_ENTITIES = lazy_pattern(r"\s*+[{\[]?\s*+&(?:quot|apos|#34|#39|#x22|#x27);")
_FAULTS = (ValueError, RecursionError)
_MORE_JSON = frozenset('{["')
_VALUE_FOLLOWS = frozenset(":,[{(=")
_BARE = lazy_pattern(r"\{\s*+[\"'\w]")
_PLAIN_QUOTE = lazy_pattern(r"(?<!\\)\"")
_QUOTED = lazy_pattern(r"\s*+[\"'`]\s*+\\*[{\[]")


class InvalidJson:
    """The type of `BROKEN`, the result for text that is not strict JSON."""


BROKEN = InvalidJson()


class TolerantReading:
    """The value in a text, and the changes that were needed to read it."""

    __slots__ = ("cut", "doubtful", "found", "guessed", "notes", "open", "value")

    def __init__(self) -> None:
        self.value: Json = None
        self.found = False
        """Whether the text contains a value."""
        self.notes: list[tuple[str, int, str]] = []
        """The changes: step name, level, and the original text."""
        self.cut = False
        self.open = False
        self.doubtful = False
        self.guessed = False
        """Whether a quote was interpreted as text or added, so that another reading is possible."""

    def add(self, what: str, before: str, level: int = 1) -> None:
        self.notes.append((what, level, before))

    @property
    def steps(self) -> list[Step]:
        if not self.notes:
            return []
        after = brief(self.value) if self.found else ""
        return [Step(what, level, clip(before), after) for what, level, before in self.notes]


def clip(text: str, size: int = 60) -> str:
    return text if len(text) <= size else text[: size - 1] + "\u2026"


def read_text(text: str, names: Callable[[], frozenset[str]] = frozenset) -> TolerantReading:
    """Read arguments from text; `names` returns the parameter names when they are needed."""
    return read_decoded(decode(text), text, names)


def decode(text: str) -> "Json | InvalidJson":
    """Return the value of strict JSON, or BROKEN."""
    try:
        value: Json = _strict.decode(text)
    except _FAULTS:
        return BROKEN
    return value


def read_decoded(
    value: "Json | InvalidJson", text: str, names: Callable[[], frozenset[str]]
) -> TolerantReading:
    """Read `text`; `value` is the result of `decode(text)`."""
    reading = TolerantReading()
    for _ in range(MAX_LAYERS):
        if isinstance(value, InvalidJson):
            inner = _peel(text, reading)
            if inner is None:
                _read_tolerantly(text, names, reading)
        else:
            inner = _take_value(value, text, reading)
        if inner is None:
            break
        text = inner
        value = decode(text)
    return reading


def _take_value(value: Json, text: str, reading: TolerantReading) -> str | None:
    """Store a value; return the text of a string that contains more JSON."""
    reading.value, reading.found = value, True
    if isinstance(value, str) and value.lstrip()[:1] in _MORE_JSON:
        reading.add(steps.STRING_DECODED, text)
        reading.found = False
        return value
    return None


def _peel(text: str, reading: TolerantReading) -> str | None:
    """Return the text inside one layer of encoding, or None without such a layer."""
    if _BARE.match(text) and (text.find(text[:8], 8) < 0 or not _last_emission(text)):
        return None
    if _ENTITIES.match(text):
        reading.add(steps.ENTITIES, text)
        from html import unescape  # its table is large, and entities are rare

        return unescape(text)
    if _ESCAPED.match(text) and not _PLAIN_QUOTE.search(text):
        reading.add(steps.DOUBLE_ESCAPES, text)
        return tokens.unescape_layer(text)
    if _QUOTED.match(text):
        stripped = text.strip()
        closed = len(stripped) > 1 and stripped[-1] == stripped[0]
        reading.add(steps.STRING_DECODED, text)
        reading.cut |= not closed
        return tokens.unescape_layer(stripped[1 : -1 if closed else None])
    again = _last_emission(text)
    if again:
        reading.add(steps.COPIES, text)
        return text[again:]
    return None


def _last_emission(text: str) -> int:
    """Return the index of the last copy in a text that consists of growing copies of itself.

    Servers that send the text so far instead of the next piece produce `P1 P2 P3`, where each begins
    with the whole of its predecessor. The comparisons add up to the length of the text.
    """
    start = 0
    head = text[:8]
    if len(head) < 8 or head[0] != "{":
        return 0
    while (at := text.find(head, start + 8)) >= 0:
        # After a colon or a comma an object is a value, not a copy.
        if text[at - 16 : at].rstrip()[-1:] in _VALUE_FOLLOWS or not text.startswith(
            text[start:at], at
        ):
            break
        start = at
    return start


def _read_tolerantly(
    text: str, names: Callable[[], frozenset[str]], reading: TolerantReading
) -> None:
    reader = TolerantReader(text, names)
    reading.found = reader.read()
    if reading.found:
        take_reader(reader, reading)


def take_reader(reader: TolerantReader, reading: TolerantReading) -> None:
    """Copy the result of `reader`."""
    reading.cut |= reader.cut
    reading.open = reader.open
    reading.doubtful = reader.doubtful
    text, notes = reader.text, reader.notes
    reading.guessed = steps.INNER_QUOTES in notes or steps.CLOSING_QUOTE in notes
    reading.notes += [
        (what, 1, text[at - 12 if at > 12 else 0 : at + 48]) for what, at in notes.items()
    ]
    docs = reader.docs
    reading.value = docs[0] if len(docs) == 1 else _one(docs, reading)


def _one(docs: list[Json], reading: TolerantReading) -> Json:
    """Return one value for several in a row: the longest copy, or the merged objects.

    They are parsed, not joined as text: replacing `}{` corrupts strings (ihub-apps#1802).
    """
    full = [doc for doc in docs if doc not in ({}, [])]
    if not full:
        return docs[0] if docs else None
    reading.add(steps.MERGED, show(docs), 2)
    merged = full[0]
    for doc in full[1:]:
        if grows(merged, doc):
            merged = doc
        elif (
            not isinstance(merged, dict) or not isinstance(doc, dict) or merged.keys() & doc.keys()
        ):
            break
        else:
            merged = {**merged, **doc}
    return merged


def grows(old: Json, new: Json) -> bool:
    """Whether `new` extends `old`: equal, a longer text, or an object with more members."""
    if isinstance(old, dict) and isinstance(new, dict):
        return all(key in new and grows(value, new[key]) for key, value in old.items())
    if isinstance(old, str) and isinstance(new, str):
        return new.startswith(old)
    return old == new


def finite(value: Json) -> Json:
    """Return `value` with null for NaN and Infinity; done last, as a null may be removed."""
    if isinstance(value, dict):
        return {key: finite(member) for key, member in value.items()}
    if isinstance(value, list):
        return [finite(element) for element in value]
    return None if isinstance(value, float) and value != value else value  # noqa: PLR0124


def show(value: object) -> str:
    try:
        return dumps(value)
    except (RecursionError, UnicodeEncodeError, ValueError):
        return ""


def brief(value: Json) -> str:
    """Return the first 60 characters of `value` as JSON, for a step."""
    if isinstance(value, str) and len(value) > 60:
        value = value[:60]
    try:
        text = _encode(value).decode()
    except (RecursionError, ValueError):
        text = show(value)
    return text if len(text) <= 60 else clip(text)
