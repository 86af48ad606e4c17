"""Converts a tool's result to JSON of bounded size."""

from collections.abc import Iterable

from toolbridge.core.json import Json, JsonObject, dump_bytes, loads

MOST = 65_536
"""The most bytes of a result as JSON."""
DEEPEST = 32
_MARK = 128
"""Bytes reserved for the note that the result was cut."""


def fit(value: object, most: int = MOST) -> tuple[Json, bool]:
    """Return `value` as JSON within `most` bytes, and whether something was cut.

    Raise `TypeError` or `ValueError` for a value that JSON cannot represent.
    """
    try:
        written = dump_bytes(value)
    except RecursionError:
        raise ValueError("is nested too deeply") from None
    shears = _Shears(most - _MARK)
    whole = shears.copy(loads(written))
    if len(written) <= most:
        return whole, shears.cut
    if most < 2 * _MARK:  # no room for a note
        return _Shears(most).trim(whole), True
    note = f"cut: {len(written)} bytes, of which {most} may be shown"
    return _noted(shears.trim(whole), note), True


def _noted(value: Json, note: str) -> Json:
    if isinstance(value, dict):
        return {**value, "truncated": note}
    if isinstance(value, list):
        return [*value, f"… ({note})"]
    return f"{value}… ({note})"


class _Shears:
    """Copies a value, in full or until a budget of bytes is spent."""

    def __init__(self, budget: int) -> None:
        self._left = budget
        self.cut = False

    def copy(self, value: Json, depth: int = 0) -> Json:
        """Return a copy of `value`; raise if it is nested too deeply."""
        if not isinstance(value, dict | list):
            return value
        if depth >= DEEPEST:
            self.cut = True
            return "…"
        if isinstance(value, list):
            return [self.copy(item, depth + 1) for item in value]
        return {key: self.copy(item, depth + 1) for key, item in value.items()}

    def trim(self, value: Json) -> Json:
        """Return the beginning of `value`, with the same type."""
        if isinstance(value, str):
            return self._text(value)
        if not isinstance(value, dict | list):
            self._left -= len(dump_bytes(value))
            return value
        self._left -= 2
        return list(self._items(value)) if isinstance(value, list) else self._members(value)

    def _items(self, items: list[Json]) -> Iterable[Json]:
        for item in items:
            self._left -= 1
            if self._left <= 0:
                return
            yield self.trim(item)

    def _members(self, members: JsonObject) -> JsonObject:
        kept: JsonObject = {}
        for key, item in members.items():
            self._left -= _size(key) + 2
            if self._left <= 0:
                break
            kept[key] = self.trim(item)
        return kept

    def _text(self, text: str) -> str:
        # Reading only what may fit keeps the work independent of the discarded rest.
        text = text[: max(self._left, 0)]
        size = _size(text)
        if size > self._left:
            text = _first(text, self._left - 2)
            size = _size(text)
        self._left -= size
        return text


def _size(text: str) -> int:
    return len(dump_bytes(text))


def _first(text: str, most: int) -> str:
    """Return the longest prefix of `text` that has at most `most` bytes in a JSON string."""
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        if _size(text[:middle]) - 2 <= most:
            low = middle
        else:
            high = middle - 1
    return text[:low]
