"""Redacts the lines of a stream: SSE or NDJSON, of any API.

A secret may be split between the same field of several events. So the texts of each field are
redacted together; each event keeps its own part.
"""

from collections.abc import Sequence
from typing import NamedTuple

from toolbridge.core.json import Json, dumps, loads
from toolbridge.core.redaction import Redactor

_INDEXES = ("index", "output_index", "content_index", "summary_index", "item_id", "id")


class StreamLine(NamedTuple):
    """A line of a stream: the text around its JSON, and the JSON."""

    before: str
    value: Json
    after: str


def redact_lines(lines: Sequence[str], redactor: Redactor) -> list[str]:
    """Return the lines of a stream without secrets, also those that several events share."""
    parsed = [parse_line(line) for line in lines]
    values = [None if one is None else one.value for one in parsed]
    joined = _redact_split(values, redactor)
    shown: list[str] = []
    for line, one, was, value in zip(lines, parsed, values, joined, strict=True):
        if one is None:
            shown.append(redactor.text(line))
            continue
        masked = redactor.value(value)
        if masked == was and redactor.text(line) == line:
            shown.append(line)
        else:
            shown.append(f"{one.before}{dumps(masked)}{one.after}")
    return shown


def parse_line(line: str) -> StreamLine | None:
    """Return the JSON in a line of SSE or NDJSON; None for another line."""
    body = line.rstrip("\r\n")
    before = body[: len(body) - len(body.removeprefix("data:").lstrip())]
    text = body[len(before) :]
    if text[:1] not in {"{", "["}:
        return None
    try:
        return StreamLine(before, loads(text), line[len(body) :])
    except ValueError:
        return None


def _redact_split(values: Sequence[Json], redactor: Redactor) -> list[Json]:
    """Return the events without secrets that are split between the same fields of several events."""
    groups: dict[str, list[tuple[int, str]]] = {}
    texts: dict[str, list[str]] = {}
    for number, value in enumerate(values):
        for group, path, text in strings_in(value, "", ""):
            groups.setdefault(group, []).append((number, path))
            texts.setdefault(group, []).append(text)
    changed: dict[tuple[int, str], str] = {}
    for group, places in groups.items():
        pieces = texts[group]
        if len(pieces) > 1:
            masked = _redact_group(pieces, redactor)
            changed |= {
                place: new
                for place, old, new in zip(places, pieces, masked, strict=True)
                if old != new
            }
    if not changed:
        return list(values)
    return [_replaced(value, number, "", changed) for number, value in enumerate(values)]


def _redact_group(pieces: list[str], redactor: Redactor) -> list[str]:
    if "".join(pieces).lstrip()[:1] in {"{", "["}:
        return redactor.json_pieces(pieces)
    return redactor.pieces(pieces)


def strings_in(value: Json, group: str, path: str) -> list[tuple[str, str, str]]:
    """Return the group, the path and the text of every string; a group is one field of one block."""
    if isinstance(value, str):
        return [(group, path, value)]
    if isinstance(value, dict):
        which = "".join(f"[{value[name]}]" for name in _INDEXES if _is_index(value.get(name)))
        return [
            found
            for name, item in value.items()
            for found in strings_in(item, f"{group}{which}.{name}", f"{path}.{name}")
        ]
    if isinstance(value, list):
        return [
            found
            for number, item in enumerate(value)
            for found in strings_in(item, f"{group}.{number}", f"{path}.{number}")
        ]
    return []


def _is_index(value: Json) -> bool:
    return isinstance(value, int | str) and not isinstance(value, bool)


def _replaced(value: Json, number: int, path: str, changed: dict[tuple[int, str], str]) -> Json:
    if isinstance(value, str):
        return changed.get((number, path), value)
    if isinstance(value, dict):
        return {
            name: _replaced(item, number, f"{path}.{name}", changed) for name, item in value.items()
        }
    if isinstance(value, list):
        return [_replaced(item, number, f"{path}.{n}", changed) for n, item in enumerate(value)]
    return value
