"""Finds objects and lists that belong to the name of a secret, in JSON inside a text.

In `{"credentials": {"user": "x"}}` the name stands outside the object that contains the secret.
Such a container inside a text, also as an escaped string in other JSON, is parsed, passed to
`redact` and written again in the same form. `core.redaction` uses it.
"""

import json
from collections.abc import Callable, Iterator

from toolbridge.core.json import Json, dumps
from toolbridge.core.lazy_pattern import lazy_pattern
from toolbridge.core.secret_patterns import NAMES, Edit, find_names, lowered

_LONGEST = 8192
"""The longest container, in characters; nested ones are parsed once per level."""
_ESCAPED = 3
"""How deep JSON may be nested in JSON strings."""
_OPENING = lazy_pattern(rf"(?i)(?:{NAMES})(?P<escape>\\{{0,7}})\"\s{{0,4}}:\s{{0,20}}(?=[\[{{])")
_END_OF_STRING = lazy_pattern(r'(?<!\\)"')
_decoder = json.JSONDecoder()


def find_containers(text: str, redact: Callable[[Json], Json], *, lines: bool) -> Iterator[Edit]:
    """Yield an edit for every container that `redact` changes; with `lines`, within one line only."""
    done = 0
    for match in find_names(text, _OPENING, lowered(text)):
        start = match.end()
        if start < done:
            continue
        written = text[start : start + _LONGEST]
        if lines:
            written = written.partition("\n")[0]
        found = _read(written, 0 if not match["escape"] else _ESCAPED)
        if found is None:
            continue
        value, length, level = found
        done = start + length
        if (redacted := redact(value)) != value:
            yield start, done, _escape(dumps(redacted), level)


def _read(written: str, levels: int) -> tuple[Json, int, int] | None:
    """Return the value at the start of `written`, its length and how often it is escaped."""
    try:
        value, length = _decoder.raw_decode(written)
    except (ValueError, RecursionError):
        pass
    else:
        return value, length, 0
    if not levels:
        return None
    inside = _END_OF_STRING.split(written, maxsplit=1)[0].rstrip("\\")
    try:
        unescaped = json.loads(f'"{inside}"')
    except ValueError:
        return None
    found = _read(unescaped, levels - 1)
    if found is None:
        return None
    value, length, level = found
    # The container must be escaped as `json.dumps` does it; otherwise it stays as it is.
    for ascii_only in (False, True):
        escaped = json.dumps(unescaped[:length], ensure_ascii=ascii_only)[1:-1]
        if inside.startswith(escaped):
            return value, len(escaped), level + 1
    return None


def _escape(text: str, level: int) -> str:
    for _ in range(level):
        text = dumps(text)[1:-1]
    return text
