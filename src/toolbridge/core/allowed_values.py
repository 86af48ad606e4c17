"""The allowed values in msgspec's error for a value that is not in a closed list.

`msgspec.inspect` is imported when an error needs it.
"""

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from toolbridge.core.close_names import did_you_mean

if TYPE_CHECKING:
    from msgspec import inspect

_ERROR = re.compile(
    r"(?P<text>Invalid enum value (?:'(?P<value>[^']*)')?.*?)(?P<at> - at `\$(?P<path>[^`]*)`)?",
    re.DOTALL,
)
_STEP = re.compile(r"\.(?P<name>[^.\[\]]+)|\[(?:\.\.\.|\d+)\]")


def with_allowed(text: str, shape: object) -> str:
    """Return the error `text` of a conversion into `shape`; an enum error gets the allowed values."""
    found = _ERROR.fullmatch(text)
    if found is None:
        return text
    values = sorted(set(_values(shape, found["path"] or "")))
    if not values:
        return text
    hint = f"use one of {', '.join(values)}" if len(values) > 1 else f"use {values[0]}"
    meant = did_you_mean(found["value"], values) if found["value"] and len(values) > 1 else ""
    return f"{found['text']}; {hint}{meant}{found['at'] or ''}"


def _values(shape: object, path: str) -> Iterator[str]:
    """Yield the values of the closed lists at `path` inside `shape`; an empty value is left out."""
    from msgspec import inspect

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


def _alternatives(kinds: "Iterable[inspect.Type]") -> "Iterator[inspect.Type]":
    """Yield the types, with every member of a union by itself."""
    from msgspec import inspect

    for kind in kinds:
        if isinstance(kind, inspect.Metadata):
            yield from _alternatives([kind.type])
        elif isinstance(kind, inspect.UnionType):
            yield from _alternatives(kind.types)
        else:
            yield kind


def _inside(kind: "inspect.Type", name: str | None) -> "Iterator[inspect.Type]":
    """Yield the types of the field `name`, or those of the items if there is no name."""
    from msgspec import inspect

    match kind:
        case inspect.StructType():
            yield from (field.type for field in kind.fields if field.encode_name == name)
        case inspect.DictType() if name is None:
            yield kind.value_type
        case inspect.ListType() | inspect.VarTupleType() if name is None:
            yield kind.item_type
        case inspect.TupleType() if name is None:
            yield from kind.item_types
