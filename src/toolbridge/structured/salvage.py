"""What is left of a frame that is past repair: its valid members, and the least that completes them.

A degraded value keeps every member of the model's that fits. What had to be made up is listed by its
path, so that no caller takes it for the model's word.
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
    """Paths of what is not the model's: `city`, `target.id`, `rows[2]`; `.` for the whole."""


def salvage(
    schema: JsonObject, fits: Callable[[Json], bool], drafts: Iterable[Json] = ()
) -> Salvaged:
    """Return a value that fits, with as much of one of the `drafts` as does; raise `NoMinimal`."""
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
    """How many values may still be checked."""

    def __init__(self, left: int) -> None:
        self._left = left

    def spend(self) -> bool:
        self._left -= 1
        return self._left >= 0


class _Mix:
    """Puts what fits of a draft into a value that fits."""

    def __init__(self, fits: Callable[[Json], bool], budget: _Budget) -> None:
        self._fits = fits
        self._budget = budget
        self.invented: list[str] = []
        self.kept = 0
        """How much of the draft was kept, in characters of its JSON."""

    def merge(self, own: Json, base: Json, place: Callable[[Json], Json], path: str) -> Json:
        """Return `own` where it fits, else `base` with the parts of `own` that do.

        `place` returns the whole value with another one in this place.
        """
        if self._check(place(own)):
            self.kept += len(dumps(own))
            return own
        if isinstance(own, dict) and isinstance(base, dict):
            return self._object(own, base, place, path)
        if isinstance(own, list) and isinstance(base, list):
            return self._array(own, base, place, path)
        self.invented.append(path or _WHOLE)
        return base

    def _check(self, whole: Json) -> bool:
        return self._budget.spend() and self._fits(whole)

    def _object(
        self, own: JsonObject, base: JsonObject, place: Callable[[Json], Json], path: str
    ) -> JsonObject:
        node = dict(base)

        def with_member(name: str) -> Callable[[Json], Json]:
            return lambda value: place({**node, name: value})

        for name, member in own.items():
            if name in base:
                node[name] = self.merge(member, base[name], with_member(name), _member(path, name))
            elif self._check(with_member(name)(member)):
                node[name] = member
                self.kept += len(dumps(member))
        self.invented += [_member(path, name) for name in base if name not in own]
        return node

    def _array(
        self, own: list[Json], base: list[Json], place: Callable[[Json], Json], path: str
    ) -> list[Json]:
        """Return the items that fit; the list is not the model's any more, and said to be none."""
        self.invented.append(path or _WHOLE)
        items: list[Json] = []
        for item in own:
            if self._check(place([*items, item])):
                items.append(item)
        if not items:
            return base
        self.kept += len(dumps(items))
        return items


def _member(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def drafts_of(texts: Iterable[str], schema: JsonObject) -> Iterator[Json]:
    """Yield the values in what a model wrote; of a text that breaks off, only whole members."""
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
    """Return `text` up to the last member of the outermost value that is whole."""
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
