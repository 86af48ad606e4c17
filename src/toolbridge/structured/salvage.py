"""Builds the value of a degraded frame: the model's valid members, completed with minimal values.

Every member that toolbridge had to invent is listed by its path, so that no caller mistakes it for
the model's.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import islice

import msgspec

from toolbridge.core.json import Json, JsonObject, dumps
from toolbridge.healing import heal
from toolbridge.healing.reading import read_text
from toolbridge.structured.minimal import MAX_TRIES, NoMinimal, minimal_values

_MOST_BASES = 8
_MOST_CHECKS = 500
_MOST_PATHS = 64
_LEVEL = 2
_WHOLE = "."


class Salvaged(msgspec.Struct, frozen=True):
    value: Json
    invented: tuple[str, ...] = ()
    """Paths that the model did not write: `city`, `target.id`, `rows[2]`; `.` for the whole."""


def salvage(
    schema: JsonObject, fits: Callable[[Json], bool], drafts: Iterable[Json] = ()
) -> Salvaged:
    """Return a fitting value with as much of one of the `drafts` as possible; raise `NoMinimal`."""
    tried = islice(minimal_values(schema), MAX_TRIES)
    bases = list(islice(filter(fits, tried), _MOST_BASES))
    if not bases:
        raise NoMinimal("no small value fits the schema")
    best, most = Salvaged(bases[0], _all_of(bases[0])), 0
    left = _Budget(_MOST_CHECKS)
    for draft in drafts:
        for base in bases:
            mix = _Mix(fits, left)
            value = mix.merge(draft, base, _as_it_is, "")
            if mix.kept > most and fits(value):
                best, most = Salvaged(value, tuple(mix.invented[:_MOST_PATHS])), mix.kept
    return best


def _as_it_is(value: Json) -> Json:
    return value


def _all_of(value: Json) -> tuple[str, ...]:
    return tuple(value)[:_MOST_PATHS] if isinstance(value, dict) and value else (_WHOLE,)


class _Budget:
    """Counts down how many values may still be checked."""

    def __init__(self, left: int) -> None:
        self._left = left

    def spend(self) -> bool:
        self._left -= 1
        return self._left >= 0


class _Mix:
    """Merges the fitting parts of a draft into a fitting value."""

    def __init__(self, fits: Callable[[Json], bool], budget: _Budget) -> None:
        self._fits = fits
        self._budget = budget
        self.invented: list[str] = []
        self.kept = 0
        """Characters of the draft's JSON that were kept."""

    def merge(self, own: Json, base: Json, embed: Callable[[Json], Json], path: str) -> Json:
        """Return `own` if it fits, else `base` with the fitting parts of `own`.

        `embed` returns the whole value with a given value at this path.
        """
        if self._check(embed(own)):
            self.kept += len(dumps(own))
            return own
        if isinstance(own, dict) and isinstance(base, dict):
            return self._object(own, base, embed, path)
        if isinstance(own, list) and isinstance(base, list):
            return self._array(own, base, embed, path)
        self.invented.append(path or _WHOLE)
        return base

    def _check(self, whole: Json) -> bool:
        return self._budget.spend() and self._fits(whole)

    def _object(
        self, own: JsonObject, base: JsonObject, embed: Callable[[Json], Json], path: str
    ) -> JsonObject:
        node = dict(base)

        def with_member(name: str) -> Callable[[Json], Json]:
            return lambda value: embed({**node, name: value})

        for name, member in own.items():
            if name in base:
                node[name] = self.merge(member, base[name], with_member(name), _member(path, name))
            elif self._check(with_member(name)(member)):
                node[name] = member
                self.kept += len(dumps(member))
        self.invented += [_member(path, name) for name in base if name not in own]
        return node

    def _array(
        self, own: list[Json], base: list[Json], embed: Callable[[Json], Json], path: str
    ) -> list[Json]:
        """Return the items that fit; a list that lost items is listed in `invented`."""
        self.invented.append(path or _WHOLE)
        items: list[Json] = []
        for item in own:
            if self._check(embed([*items, item])):
                items.append(item)
        if not items:
            return base
        self.kept += len(dumps(items))
        return items


def _member(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def drafts_of(texts: Iterable[str], schema: JsonObject) -> Iterator[Json]:
    """Yield the values in the model's texts; from a cut-off text, only complete members."""
    for written in texts:
        text, reading = written, read_text(written)
        if reading.cut or reading.open:
            text = _whole_members(written)
            reading = read_text(text)
        if reading.found and not reading.doubtful:
            yield reading.value
            healing = heal(text, schema, level=_LEVEL)
            if not healing.hopeless and healing.steps:
                yield healing.value


def _whole_members(text: str) -> str:
    """Return `text` up to the last complete member of the outermost value."""
    depth, in_string, escaped, end = 0, False, False, 0
    for at, character in enumerate(text):
        if in_string:
            if escaped:
                escaped = False
            elif character == "\\":
                escaped = True
            elif character == '"':
                in_string = False
        elif character == '"':
            in_string = True
        elif character in "{[":
            depth += 1
            end = at + 1 if depth == 1 else end
        elif character in "}]":
            depth -= 1
        elif character == "," and depth == 1:
            end = at
    return text[:end]
