"""Reads and writes the six sentinels.

A sentinel consists of U+27E6, U+27E7 and single spaces as documented in docs/reference/stream.md.
Anything else, such as two spaces, an unknown kind or other characters in the id, is text.
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
    """A begin sentinel or, without a name, an end sentinel."""

    kind: Kind
    id: str
    name: str = ""
    size: int = 0
    """Its length in characters."""

    @property
    def begins(self) -> bool:
        return bool(self.name)


def read_sentinel(text: str, at: int) -> Sentinel | None:
    """Return the complete sentinel at position `at`, or None."""
    if found := _BEGIN.match(text, at):
        kind = _KINDS[found[1] or found[3]]
        return Sentinel(kind, found[2] or found[4], found[5], found.end() - at)
    if found := _END.match(text, at):
        return Sentinel(_KINDS[found[1]], found[2], size=found.end() - at)
    return None


def may_begin_sentinel(text: str, at: int) -> bool:
    """Whether the text from position `at` may be the start of a sentinel."""
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
    if not middle:  # only the closing bracket may follow, which completes the sentinel
        return False
    if len(after) < len(middle):
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
    """Return a frame around the JSON `body`, with the brackets in its strings escaped."""
    return write_begin(kind, id, name) + escape(body) + write_end(kind, id)


def escape(text: str) -> str:
    """Return `text` with the two brackets escaped, so that it contains no sentinel.

    The value of JSON stays the same: there the brackets are legal only inside strings.
    """
    return text.replace(OPENING, r"\u27E6").replace(CLOSING, r"\u27E7")
