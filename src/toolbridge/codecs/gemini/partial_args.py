"""Arguments of a call that come in pieces, each with the path of its value.

Vertex AI, streamFunctionCallArguments: `partialArgs` holds pieces with a `jsonPath` (RFC 9535);
strings of one path are appended. The Gemini API itself sends whole calls.
"""

import re
from itertools import pairwise

from toolbridge.codecs.gemini.shapes import PartialArg
from toolbridge.core.errors import BrokenWire
from toolbridge.core.json import Json, JsonObject

_STEP = re.compile(
    r"""\.([^.\[\]]+)|\[(\d{1,5})\]|\['((?:[^'\\]|\\.)*)'\]|\["((?:[^"\\]|\\.)*)"\]"""
)
_ESCAPE = re.compile(r"\\(.)")


class PartialArgs:
    """Collects pieces into arguments. Strings of one path are joined once, at the end."""

    def __init__(self) -> None:
        self._values: dict[str, Json] = {}
        self._texts: dict[str, list[str]] = {}

    def add(self, piece: PartialArg) -> None:
        path = piece.json_path
        if piece.string_value is not None:
            self._values.setdefault(path)
            self._texts.setdefault(path, []).append(piece.string_value)
        elif piece.number_value is not None:
            number = piece.number_value
            self._values[path] = int(number) if number.is_integer() else number
        else:
            self._values[path] = piece.bool_value

    def whole(self) -> JsonObject:
        root: JsonObject = {}
        for path, value in self._values.items():
            text = self._texts.get(path)
            _put(root, _steps(path), value if text is None else "".join(text))
        return root


def _steps(path: str) -> list[str | int]:
    """Return the names and indices in a path such as `$.rooms[0].name`."""
    steps: list[str | int] = []
    at = 1
    while path.startswith("$") and at < len(path):
        found = _STEP.match(path, at)
        if found is None:
            break
        at = found.end()
        plain, index, *quoted = found.groups()
        name = next((word for word in quoted if word is not None), None)
        if index is not None:
            steps.append(int(index))
        else:
            steps.append(_ESCAPE.sub(r"\1", name) if name is not None else plain)
    if not steps or at < len(path) or not isinstance(steps[0], str):
        raise BrokenWire(
            f"the upstream sent a piece of an argument with an invalid path: {path[:200]!r}"
        )
    return steps


def _put(root: JsonObject, steps: list[str | int], value: Json) -> None:
    holder: Json = root
    for step, after in pairwise((*steps, None)):
        inner: Json = value if after is None else [] if isinstance(after, int) else {}
        holder = _member(holder, step, inner)


def _member(holder: Json, step: str | int | None, inner: Json) -> Json:
    """Return the member `step` of `holder`, which is set to `inner` if it is missing."""
    if isinstance(holder, dict) and isinstance(step, str):
        if holder.get(step) is None:
            holder[step] = inner
        return holder[step]
    if isinstance(holder, list) and isinstance(step, int):
        holder.extend([None] * (step + 1 - len(holder)))
        if holder[step] is None:
            holder[step] = inner
        return holder[step]
    raise BrokenWire("the upstream sent pieces of arguments with paths that contradict one another")
