"""Matches misspelled names: keys of arguments, enum values, tool names.

Models change case and separators (`filePath`), add namespaces (`functions.Read`) and use synonyms that
other agents taught them (`cmd` for `command`). A name is replaced only if exactly one candidate
matches, and never by edit distance, which runs another tool (hermes-agent#62701, #100807).
"""

import re
from collections.abc import Collection, Iterable

_SEPARATORS = str.maketrans("", "", " \t\n\r-_.\u00a0\ufeff\u200b\u200c\u200d\u2060")
_NOISE = re.compile(
    r"^(?:functions?|tools?|default_api|tool_call|api|namespace)\s*[.:/]+\s*", re.IGNORECASE
)
_TAIL = re.compile(r"(?:\(\s*\)|:\d{1,6}|<\|.*)\s*$")


def plain(name: str) -> str:
    """Return `name` without case, blanks and separators."""
    return name.translate(_SEPARATORS).casefold()


def only(found: Iterable[str]) -> str | None:
    """Return the only element of `found`, or None if it has no or several elements."""
    seen = set(found)
    return seen.pop() if len(seen) == 1 else None


def heal_name(name: str, tools: Collection[str]) -> str | None:
    """Return the tool that `name` means, or None if no tool or several match."""
    if name in tools:
        return name
    bare = name.strip().strip("`\"'").strip()
    stripped = _TAIL.sub("", bare)
    stripped = _NOISE.sub("", stripped)
    for spelling in dict.fromkeys((bare, stripped)):
        if spelling in tools:
            return spelling
        found = only(tool for tool in tools if plain(tool) == plain(spelling) and plain(spelling))
        if found is not None:
            return found
    return _without_namespace(stripped, tools)


def _without_namespace(name: str, tools: Collection[str]) -> str | None:
    """Match names of which one has a namespace: `list` and `mcp__files__list`."""
    short = plain(_last(name))
    if not short:
        return None
    if _last(name) == name:
        return only(tool for tool in tools if _last(tool) != tool and plain(_last(tool)) == short)
    return only(tool for tool in tools if _last(tool) == tool and plain(tool) == short)


def _last(name: str) -> str:
    """Return a name without its namespaces."""
    for mark in ("__", ".", ":", "/"):
        head, found, tail = name.rpartition(mark)
        if found and head and tail:
            name = tail
    return name


def heal_choice(written: str, choices: Iterable[object]) -> str | None:
    """Return the enum value that equals `written` without case, white space and quotes."""
    texts = [choice for choice in choices if isinstance(choice, str)]
    bare = written.strip().strip("\"'`").strip()
    if bare in texts:
        return bare
    folded = bare.casefold()
    found = only(choice for choice in texts if choice.casefold() == folded)
    return found or only(choice for choice in texts if plain(choice) == plain(bare))


_SYNONYMS = (
    {"path", "filepath", "file", "filename", "targetfile"},
    {"command", "cmd", "shellcommand", "bashcommand", "script"},
    {"content", "contents", "text", "filecontent", "filetext", "body"},
    {"query", "q", "search", "searchquery", "searchterm"},
    {"pattern", "regex", "regexp", "glob"},
    {"oldstring", "oldstr", "oldtext", "oldcontent"},
    {"newstring", "newstr", "newtext", "newcontent"},
    {"url", "uri", "link", "href"},
    {"directory", "dir", "folder", "cwd"},
)


def heal_key(key: str, free: Iterable[str]) -> str | None:
    """Return the parameter in `free` that `key` means, or None if no or several match."""
    names = list(free)
    short = plain(key)
    found = only(name for name in names if plain(name) == short)
    if found is not None or not short:
        return found
    alike = next((group for group in _SYNONYMS if short in group), None)
    return only(name for name in names if plain(name) in alike) if alike else None
