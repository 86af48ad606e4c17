"""Finds file names in text, and makes them absolute."""

import re

import msgspec


class NamedPath(msgspec.Struct, frozen=True):
    """A path and its position in the text."""

    path: str
    start: int
    end: int


_TOKEN = re.compile(r"`([^`\n]{1,300})`|\"([^\"\n]{1,300})\"|'([^'\n]{1,300})'|([^\s`\"',;()<>]+)")
_WITH_EXTENSION = re.compile(r"[\w@+~./\\-]{0,300}\w\.[A-Za-z][A-Za-z0-9]{0,9}")
_ROOTED = re.compile(r"(?:/|\./|\.\./|~/|[A-Za-z]:[\\/])\S{1,300}")
_DOTFILE = re.compile(r"\.[A-Za-z][\w.-]{0,100}")
_PLAIN_NAMES = {"makefile", "dockerfile", "readme", "license", "changelog", "justfile"}
_NOT_PATHS = {"e.g", "i.e", "etc.", "and/or", "node.js", "vue.js", "next.js"}
_DOMAINS = ("com", "org", "net", "io", "ai")
_LONGEST = 4000
_STOP = {
    "in", "with", "that", "which", "saying", "containing", "named", "called", "at", "to", "for",
    "from", "and", "on", "it", "is", "as", "of", "here", "please", "system", "file", "files",
}  # fmt: skip


def is_path(token: str) -> bool:
    """Whether `token` is clearly the name of a file."""
    if token.lower() in _NOT_PATHS or "://" in token:
        return False
    if _ROOTED.fullmatch(token) or token.lower() in _PLAIN_NAMES or _DOTFILE.fullmatch(token):
        return True
    if not _WITH_EXTENSION.fullmatch(token):
        return False
    return token.rpartition(".")[2].lower() not in _DOMAINS


def find_path(text: str) -> NamedPath | None:
    """Return the first file that `text` names: by its form, else by the word before it."""
    by_word: NamedPath | None = None
    previous = ""
    for match in _TOKEN.finditer(text[:_LONGEST]):
        quoted = match[1] or match[2] or match[3]
        bare = quoted or _bare(match[4])
        end = match.end() if quoted else match.start() + len(bare)
        named = NamedPath(bare, match.start(), end)
        if previous in {"called", "named"} and bare and bare.lower() not in _STOP:
            return named
        if is_path(bare) and " " not in bare:
            return by_word or named
        if previous == "file" and by_word is None and bare and bare.lower() not in _STOP:
            by_word = named
        previous = bare.lower()
    return by_word


def _bare(token: str) -> str:
    return token.rstrip(".,!?:") or token


def unquote(text: str) -> str:
    """Return `text` without quotes around all of it."""
    text = text.strip()
    for mark in ('"', "'", "`"):
        inside = text[1:-1]
        if len(text) >= 2 and text[0] == text[-1] == mark and mark not in inside:
            return inside
    if text[:1] == "\u201c" and text[-1:] == "\u201d":
        return text[1:-1]
    return text


def absolute(path: str, cwd: str) -> str:
    """Return `path` as an absolute path, if the working directory is known."""
    if not cwd or (_ROOTED.match(path) and not path.startswith(".")):
        return path
    separator = "\\" if "\\" in cwd else "/"
    steps = path.removeprefix("./")
    return cwd.rstrip("/\\") if steps in {"", "."} else cwd.rstrip("/\\") + separator + steps
