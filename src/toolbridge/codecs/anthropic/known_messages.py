"""The first messages of a conversation, known by the bytes of the request before.

Nearly all bytes of an agent's request are messages of the request before. They are compared with
those, which is many times faster than parsing them, and a mark takes their place in the body that is
decoded. The mark is then the first message, or the bytes were not the beginning of the conversation.
"""

import re
from collections.abc import Sequence

import msgspec

from toolbridge.core.messages import Turn
from toolbridge.core.prefix_memo import ends_of

MARK = b'{"known messages":0}'
LARGE = 64 * 1024
"""Bytes of a body from which on its messages are compared."""
_MOST_BYTES = 4 * 1024 * 1024
"""The messages that are kept."""
_MOST_ALIKE = 8
"""The conversations that are kept of those that begin alike, as all of one project may do."""
_HEAD = 256
_FIELD = re.compile(rb'"messages"\s*:\s*\[\s*')
_COMMA = re.compile(rb"\s*,\s*")


class KnownMessages(msgspec.Struct, frozen=True):
    """The first messages of a conversation: their bytes in the body, and their turns."""

    json: bytes = b""
    turns: tuple[Turn, ...] = ()


NONE_KNOWN = KnownMessages()


class MessageMemo:
    """The beginnings of conversations, by their first bytes."""

    def __init__(self, most: int = _MOST_BYTES) -> None:
        self._most = most
        self._kept: dict[bytes, tuple[KnownMessages, ...]] = {}
        self._size = 0

    def find(self, body: bytes, start: int) -> KnownMessages:
        """Return what is known of the messages that begin at `start`."""
        alike = self._kept.get(body[start : start + _HEAD], ())
        return next((one for one in alike if body.startswith(one.json, start)), NONE_KNOWN)

    def keep(self, known: KnownMessages, before: KnownMessages) -> None:
        """Keep `known` in the place of a shorter beginning of the same conversation."""
        head = known.json[:_HEAD]
        alike = self._kept.pop(head, ())
        others = [one for one in alike if one is not before][: _MOST_ALIKE - 1]
        self._kept[head] = (known, *others)
        self._size += _size(self._kept[head]) - _size(alike)
        while self._size > self._most:
            self._size -= _size(self._kept.pop(next(iter(self._kept))))


def _size(kept: Sequence[KnownMessages]) -> int:
    return sum(len(one.json) for one in kept)


memo = MessageMemo()


def messages_start(body: bytes) -> int:
    """Return where the first message of a body seems to begin; 0 if that is not known."""
    at = body.find(b'"messages"')
    found = _FIELD.match(body, at) if at >= 0 else None
    return found.end() if found else 0


def marked(body: bytes, start: int, known: KnownMessages) -> bytes:
    """Return the body with the mark in the place of known messages."""
    return b"%b%b%b" % (body[:start], MARK, body[start + len(known.json) :])


def keep_messages(
    body: bytes, start: int, known: KnownMessages, rest: Sequence[msgspec.Raw], turns: list[Turn]
) -> None:
    """Keep the messages that the next request repeats; `rest` are those that were not known."""
    count, *_ = ends = ends_of(turns, len(known.turns))
    if len(ends) < 2:
        return
    end = start + len(known.json)
    for number, raw in enumerate(rest[: count - len(known.turns)], len(known.turns)):
        comma = _COMMA.match(body, end) if number else None
        end = comma.end() if comma else end
        if not body.startswith(bytes(raw), end):
            return
        end += len(bytes(raw))
    memo.keep(KnownMessages(body[start:end], tuple(turns[:count])), known)
