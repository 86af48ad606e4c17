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


_OPPOSITES = (
    "enable disable", "enabled disabled", "include exclude", "included excluded", "from to",
    "source target", "source destination", "source dest", "src dst", "src dest", "src target",
    "max min", "maximum minimum", "most least", "old new", "start end", "start stop", "begin end",
    "first last", "before after", "since until", "previous next", "prev next", "left right",
    "top bottom", "up down", "in out", "input output", "read write", "open close", "on off",
    "show hide", "allow deny", "allow block", "accept reject", "add remove", "insert delete",
    "create delete", "lock unlock", "true false", "width height", "row column", "lat lon",
    "lat lng", "latitude longitude", "sender receiver", "sender recipient", "parent child",
    "upload download", "import export", "push pull", "send receive", "hours minutes",
    "minutes seconds", "encrypt decrypt", "encode decode", "public private",
)  # fmt: skip
_OPPOSITE = {frozenset(pair.split()) for pair in _OPPOSITES}
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


def contradicts(key: str, name: str) -> bool:
    """Return whether two names have different meanings, so that one cannot stand for the other.

    These are opposites (`enable` and `disable`), names that differ in one of several words (`user_id`
    and `user_ip`), and single letters (`x` and `y`).
    """
    one, other = _words(key), _words(name)
    if any(frozenset((a, b)) in _OPPOSITE for a in one for b in other):
        return True
    if len(one) == len(other) > 1 and len(one & other) == len(one) - 1:
        return True
    return len(key) == 1 and len(name) == 1


def _words(name: str) -> set[str]:
    return {word.casefold() for word in _WORDS.findall(name)}


def heal_key(key: str, free: Iterable[str]) -> str | None:
    """Return the parameter in `free` that `key` means, or None if no or several match."""
    names = list(free)
    short = plain(key)
    found = only(name for name in names if plain(name) == short)
    if found is not None or not short:
        return found
    alike = next((group for group in _SYNONYMS if short in group), None)
    return only(name for name in names if plain(name) in alike) if alike else None
