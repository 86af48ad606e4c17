"""Texts for errors in settings: the path of the setting, and the nearest one that exists.

`config.py` converts its tables with msgspec, whose own messages name types instead of settings, and
have no line. A TOML parser that keeps lines would be a further dependency.
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


_HEADER = re.compile(r"\s*\[\[?\s*(.+?)\s*\]\]?\s*(?:#.*)?")
_SETTING = re.compile(
    r"""\s*((?:[\w-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[\w-]+|"[^"]*"|'[^']*'))*)\s*="""
)
_PART = re.compile(r"""[\w-]+|"([^"]*)"|'([^']*)'""")


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
