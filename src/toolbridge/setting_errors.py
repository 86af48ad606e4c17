"""Texts for errors in settings: the path of the setting, and the nearest one that exists.

`config.py` and the settings of nodes convert their tables with msgspec, whose own messages name types
instead of settings, and have no line. A TOML parser that keeps lines would be a further dependency.
`explain_setting` is for tables with inner tables; `explain_value` is for one table, and also states
the value and what is valid.
"""

import math
import re
from collections.abc import Mapping
from decimal import Decimal
from typing import TYPE_CHECKING

import msgspec

from toolbridge.core.allowed_values import with_allowed
from toolbridge.core.close_names import close_names
from toolbridge.core.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from msgspec.inspect import Type

_LONGEST = 60
"""The most characters of a value in a message."""


def explain_setting(
    text: str,
    where: str,
    shape: type,
    inner_shapes: Mapping[str, type[msgspec.Struct]],
    tables: Mapping[type[msgspec.Struct], str],
) -> str:
    """Return the error `text` of msgspec with the names of the configuration file.

    `shape` is the struct of the table at `where`; `inner_shapes` has the structs of tables inside it
    by name, and `tables` the description of every table.
    """
    text, _, at = with_allowed(text, shape).partition(" - at `")
    inner = at.removesuffix("`").removeprefix("$").strip(".")
    path = ".".join(part for part in (where, inner) if part) or "the top level"
    unknown = re.fullmatch(r"Object contains unknown field `(.+)`", text)
    if unknown is None:
        return f"{path}: {text[:1].lower()}{text[1:]}"
    holder = inner_shapes.get(inner.rpartition(".")[2]) or shape
    return f"{path}: there is no setting `{unknown[1]}`{_hint(unknown[1], holder, tables)}"


def _hint(
    word: str, holder: type[msgspec.Struct], tables: Mapping[type[msgspec.Struct], str]
) -> str:
    known = holder.__struct_fields__
    if near := close_names(word, known, 1):
        return f"; did you mean `{near[0]}`?"
    found = (table for struct, table in tables.items() if word in struct.__struct_fields__)
    table = next(found, "")
    return f"; it belongs to {table}" if table else ""


_HEADER = lazy_pattern(r"\s*\[\[?\s*(.+?)\s*\]\]?\s*(?:#.*)?")
_SETTING = lazy_pattern(
    r"""\s*((?:[\w-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[\w-]+|"[^"]*"|'[^']*'))*)\s*="""
)
_PART = lazy_pattern(r"""[\w-]+|"([^"]*)"|'([^']*)'""")


def line_of(content: bytes, text: str) -> int:
    """Return the line of the setting that an error `text` begins with; 0 if the file does not have it.

    It is the line of the longest part of the setting's path that the file has: an inline table has
    one line for all its settings.
    """
    path, _, rest = text.partition(": ")
    wanted = "" if path == "the top level" else path
    if unknown := re.match(r"there is no setting `(.+?)`", rest):
        wanted = f"{wanted}.{unknown[1]}" if wanted else unknown[1]
    found, longest = 0, 0
    for number, here in _paths(content.decode("utf-8", "replace")):
        fits = wanted == here or wanted.startswith(f"{here}.")
        if fits and len(here) > longest:
            found, longest = number, len(here)
    return found


def _paths(text: str) -> list[tuple[int, str]]:
    """Return each line that begins a table or a setting, with the path of that."""
    found: list[tuple[int, str]] = []
    table = ""
    for number, line in enumerate(text.split("\n"), 1):
        if header := _HEADER.fullmatch(line.rstrip("\r")):
            table = _joined(header[1])
            found.append((number, table))
        elif setting := _SETTING.match(line):
            name = _joined(setting[1])
            found.append((number, f"{table}.{name}" if table else name))
    return found


def _joined(name: str) -> str:
    parts = _PART.finditer(name)
    return ".".join(part[1] or part[2] or part[0] for part in parts)


def explain_value(text: str, table: Mapping[str, object], shape: type[msgspec.Struct]) -> str:
    """Return the error `text` of msgspec for `table`: the setting, what is valid, and its value."""
    from msgspec import inspect

    text, _, at = text.partition(" - at `$.")
    if unknown := re.fullmatch(r"Object contains unknown field `(.+)`", text):
        return f"there is no setting `{unknown[1]}`{_hint(unknown[1], shape, {})}"
    found = re.match(r"\w+", at)
    fields = {field.name: field for field in msgspec.structs.fields(shape)}
    if found is None or found[0] not in fields:
        return f"must be a table with settings: {text[:1].lower()}{text[1:]}"
    name, value = found[0], table.get(found[0])
    kind = inspect.type_info(fields[name].type)
    return f"`{name}` must be {_valid(kind)}, not {shorten(value)}{_quoted(kind, name, value)}"


def shorten(value: object) -> str:
    """Return a value for a message; the middle of a long one is left out."""
    try:
        shown = repr(value) if not isinstance(value, bool) else str(value).lower()
    except ValueError:  # Python writes no number of more than 4300 digits
        return "a number of thousands of digits"
    half = _LONGEST // 2
    return shown if len(shown) <= _LONGEST else f"{shown[:half]}…{shown[-half:]}"


def _valid(kind: "Type") -> str:
    """Return the values that a type accepts, as text for an error."""
    from msgspec import inspect

    if isinstance(kind, inspect.UnionType):
        return _valid(next(one for one in kind.types if not isinstance(one, inspect.NoneType)))
    if isinstance(kind, inspect.LiteralType):
        *rest, last = (f'"{value}"' for value in kind.values)
        return f"{', '.join(rest)} or {last}"
    if isinstance(kind, inspect.IntType | inspect.FloatType):
        name = "a whole number" if isinstance(kind, inspect.IntType) else "a number"
        return name + _range(kind.ge, kind.le)
    if isinstance(kind, inspect.VarTupleType):
        return 'a list of texts, such as ["a", "b"]'
    return "true or false" if isinstance(kind, inspect.BoolType) else "a text in quotes"


def _range(least: float | None, most: float | None) -> str:
    if least is None and most is None:
        return ""
    if most is None:
        return f" of at least {least}"
    return f" of at most {most}" if least is None else f" from {least} to {most}"


def _quoted(kind: "Type", name: str, value: object) -> str:
    """Return how to write a number that must be in quotes; empty for every other fault."""
    from msgspec import inspect

    if not isinstance(kind, inspect.StrType) or isinstance(value, bool):
        return ""
    if isinstance(value, float) and math.isfinite(value):
        return f'; write {name} = "{Decimal(str(value)):f}"'
    small = isinstance(value, int) and abs(value) < 10**_LONGEST
    return f'; write {name} = "{value}"' if small else ""
