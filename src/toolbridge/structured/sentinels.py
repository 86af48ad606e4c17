"""The six sentinels, as they are written and read.

Only U+27E6 and U+27E7 and single spaces make a sentinel. `⟦BEGIN_OBJECT  id=…` with two spaces, a
kind that is none of the three, or an id with other characters is text like any other.
"""

import re
from typing import Literal, TypeAlias

import msgspec

OPENING = "\u27e6"
CLOSING = "\u27e7"

Kind: TypeAlias = Literal["object", "tool", "result"]

_ID = r"[A-Za-z0-9_.-]{1,64}"
_NAME = r"[A-Za-z0-9_.:/-]{1,128}"
_WORDS: dict[Kind, str] = {"object": "OBJECT", "tool": "TOOL_CALL", "result": "RESULT"}
_KINDS: dict[str, Kind] = {word: kind for kind, word in _WORDS.items()}
_ATTRIBUTES: dict[Kind, str] = {"object": "schema", "tool": "name", "result": "schema"}
_BEGIN = re.compile(
    f"{OPENING}BEGIN_(?:(OBJECT|RESULT) id=({_ID}) schema=|(TOOL_CALL) id=({_ID}) name=)"
    f"({_NAME}){CLOSING}"
)
_END = re.compile(f"{OPENING}END_(OBJECT|TOOL_CALL|RESULT) id=({_ID}){CLOSING}")
_ID_RUN = re.compile(r"[A-Za-z0-9_.-]{0,64}")
_NAME_RUN = re.compile(r"[A-Za-z0-9_.:/-]{0,128}")
_HEADS: tuple[tuple[str, str], ...] = (
    *((f"{OPENING}BEGIN_{_WORDS[kind]} id=", f" {_ATTRIBUTES[kind]}=") for kind in _WORDS),
    *((f"{OPENING}END_{word} id=", "") for word in _KINDS),
)
LONGEST = max(map(len, (head + middle for head, middle in _HEADS))) + 64 + 128 + 1


class Sentinel(msgspec.Struct, frozen=True):
    """The beginning of a frame, or, without a name, the end of one."""

    kind: Kind
    id: str
    name: str = ""
    size: int = 0
    """Characters of the text in which it stood."""

    @property
    def begins(self) -> bool:
        return bool(self.name)


def read_sentinel(text: str, at: int) -> Sentinel | None:
    """Return the sentinel that stands whole at `at`."""
    if found := _BEGIN.match(text, at):
        kind = _KINDS[found[1] or found[3]]
        return Sentinel(kind, found[2] or found[4], found[5], found.end() - at)
    if found := _END.match(text, at):
        return Sentinel(_KINDS[found[1]], found[2], size=found.end() - at)
    return None


def may_begin_sentinel(text: str, at: int) -> bool:
    """Whether all that stands from `at` on may be the beginning of a sentinel."""
    rest = text[at : at + LONGEST + 1]
    return any(_may_go_on(rest, head, middle) for head, middle in _HEADS)


def _may_go_on(rest: str, head: str, middle: str) -> bool:
    if len(rest) <= len(head):
        return head.startswith(rest)
    if not rest.startswith(head):
        return False
    id_end = _run_end(_ID_RUN, rest, len(head))
    after = rest[id_end:]
    if not after:
        return True
    if id_end == len(head):
        return False
    if not middle:  # only the bracket may follow, and then the sentinel is whole
        return False
    if len(after) <= len(middle):
        return middle.startswith(after)
    return after.startswith(middle) and _run_end(_NAME_RUN, after, len(middle)) == len(after)


def _run_end(run: "re.Pattern[str]", text: str, at: int) -> int:
    found = run.match(text, at)
    return found.end() if found else at


def write_begin(kind: Kind, id: str, name: str) -> str:
    return f"{OPENING}BEGIN_{_WORDS[kind]} id={id} {_ATTRIBUTES[kind]}={name}{CLOSING}"


def write_end(kind: Kind, id: str) -> str:
    return f"{OPENING}END_{_WORDS[kind]} id={id}{CLOSING}"


def write_frame(kind: Kind, id: str, name: str, body: str) -> str:
    """Return a whole frame around `body`, which is JSON; brackets in its strings are escaped."""
    return write_begin(kind, id, name) + escape(body) + write_end(kind, id)


def escape(text: str) -> str:
    """Return `text` with the two brackets as escapes, so that no sentinel can stand in it.

    In JSON, where brackets are only legal inside strings, the value stays the same.
    """
    return text.replace(OPENING, r"\u27E6").replace(CLOSING, r"\u27E7")
