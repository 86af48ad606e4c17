"""The allowed values in msgspec's error for a value that is not in a closed list."""

import re
from collections.abc import Iterator
from typing import Any

_ERROR = re.compile(r"(?P<text>Invalid enum value .*?)(?P<at> - at `\$(?P<path>[^`]*)`)?", re.DOTALL)
_STEP = re.compile(r"\.(?P<name>[^.\[\]]+)|\[(?:\.\.\.|\d+)\]")


def with_allowed(text: str, shape: Any) -> str:
    """Return the error `text` of a conversion into `shape`; an enum error gets the allowed values."""
    found = _ERROR.fullmatch(text)
    if found is None:
        return text
    values = sorted(set(_values(shape, found["path"] or "")))
    if not values:
        return text
    hint = f"use one of {', '.join(values)}" if len(values) > 1 else f"use {values[0]}"
    return f"{found['text']}; {hint}{found['at'] or ''}"


def _values(shape: Any, path: str) -> Iterator[str]:
    """Yield the values of the closed lists at `path` inside `shape`; an empty value is left out."""
    from msgspec import inspect  # only errors need it

    reached = [inspect.type_info(shape)]
    for step in _STEP.finditer(path):
        reached = [
            inner for kind in _alternatives(reached) for inner in _inside(kind, step["name"])
        ]
    for kind in _alternatives(reached):
        if isinstance(kind, inspect.LiteralType):
            yield from (str(value) for value in kind.values if value != "")
        elif isinstance(kind, inspect.EnumType):
            yield from (str(member.value) for member in kind.cls)


def _alternatives(kinds: list[Any]) -> Iterator[Any]:
    """Yield the types, with every member of a union on its own."""
    from msgspec import inspect

    for kind in kinds:
        if isinstance(kind, inspect.Metadata):
            yield from _alternatives([kind.type])
        elif isinstance(kind, inspect.UnionType):
            yield from _alternatives(list(kind.types))
        else:
            yield kind


def _inside(kind: Any, name: str | None) -> Iterator[Any]:
    """Yield the types of the field `name`, or of the items if there is no name."""
    for field in getattr(kind, "fields", ()):
        if name == field.encode_name:
            yield field.type
    if name is None:
        yield from getattr(kind, "item_types", ())
        items = (getattr(kind, at, None) for at in ("item_type", "value_type"))
        yield from (item for item in items if item is not None)
