"""Texts for errors in settings: the path of the setting, and the nearest one that exists.

`config.py` converts its tables with msgspec, whose own messages name types instead of settings.
"""

import difflib
import re
from collections.abc import Mapping

import msgspec

from toolbridge.core.allowed_values import with_allowed


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
    holder = inner_shapes.get(inner) or shape
    return f"{path}: there is no setting `{unknown[1]}`{_hint(unknown[1], holder, tables)}"


def _hint(
    word: str, holder: type[msgspec.Struct], tables: Mapping[type[msgspec.Struct], str]
) -> str:
    known = holder.__struct_fields__
    if near := difflib.get_close_matches(word, known, 1):
        return f"; did you mean `{near[0]}`?"
    found = (table for struct, table in tables.items() if word in struct.__struct_fields__)
    table = next(found, "")
    return f"; it belongs to {table}" if table else ""
