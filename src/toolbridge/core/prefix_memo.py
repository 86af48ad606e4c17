"""What a pass has computed from the first turns of a conversation, for the next request of its session.

An agent sends its whole conversation with every request. A decoder that has read its messages before
returns the same turns (`core/byte_memo.py`), so a pass that reads turns in their order need not begin
with the first one: it keeps its state before the last few turns and continues from there. The pass is
the same for the first request of a session, which begins with the empty state.

States are shared between requests, so nothing may change them: a pass copies what it adds to.
"""

from collections.abc import Callable, Hashable, Sequence
from operator import is_
from typing import Generic, TypeVar

from toolbridge.core.messages import Turn

S = TypeVar("S")
C = TypeVar("C", bound=Hashable)

LONG = 8
"""The turns of a conversation from which on a decoder keeps them; a shorter one has no state to find."""
MOST_BYTES = 4 * 1024 * 1024
"""The messages of all conversations whose states one pass keeps: a decoder keeps no more of them."""
_CHANGING = 2
"""The last turns of a request, of which the next one may send other bytes: clients move a cache mark
along the last message."""
_REPEATED = "repeated"


def mark_repeated(turns: Sequence[Turn], size: int) -> None:
    """Mark a conversation whose turns a decoder keeps for the next requests; `size` is in bytes."""
    turns[0].__dict__[_REPEATED] = size


def ends_of(turns: Sequence[Turn], done: int) -> tuple[int, ...]:
    """Return the ends of the rest after `done` turns: where a state is kept, and the last one.

    A state is kept before an answer of the model to a user turn, where the calls before it have
    their results.
    """
    if len(turns) < LONG:
        return (len(turns),)
    for count in range(len(turns) - _CHANGING, done, -1):
        if turns[count].role == "assistant" and turns[count - 1].role == "user":
            return count, len(turns)
    return (len(turns),)


class PrefixMemo(Generic[S]):
    """The states of one pass, one for each conversation and context.

    A conversation is known by its first turn, so that a state replaces the one before it. The
    context is everything else that the state depends on.
    """

    def __init__(self, most: int = MOST_BYTES, size_of: Callable[[S], int] | None = None) -> None:
        """`most` is the limit of all sizes; without `size_of` that of the conversation counts."""
        self._most = most
        self._size_of = size_of
        self._kept: dict[tuple[int, Hashable], tuple[tuple[Turn, ...], S, int]] = {}
        self._size = 0

    def find(self, turns: Sequence[Turn], context: Hashable) -> tuple[int, S] | None:
        """Return the number of turns behind a kept state, and the state; None without one."""
        kept = self._kept.get((id(turns[0]), context)) if len(turns) >= LONG else None
        if kept is None:
            return None
        known, state, _ = kept
        # Equal turns are not enough: 1 equals true, and the JSON of both is not the same.
        if len(known) > len(turns) or not all(map(is_, known, turns)):
            return None
        return len(known), state

    def after(
        self,
        turns: Sequence[Turn],
        context: C,
        start: S,
        advance: Callable[[S, Sequence[Turn], C], S],
    ) -> S:
        """Return the state after all turns; `advance` returns the state after some more turns."""
        if len(turns) < LONG:
            return advance(start, turns, context)
        done, state = self.find(turns, context) or (0, start)
        for end in ends_of(turns, done):
            state = advance(state, turns[done:end], context)
            self.keep(turns, end, context, state)
            done = end
        return state

    def keep(self, turns: Sequence[Turn], count: int, context: Hashable, state: S) -> None:
        """Keep the state after the first `count` turns, unless these are all."""
        if count >= len(turns):
            return
        conversation: int | None = turns[0].__dict__.get(_REPEATED)
        if conversation is None:
            return
        key = id(turns[0]), context
        if (before := self._kept.pop(key, None)) is not None:
            self._size -= before[2]
        size = conversation if self._size_of is None else self._size_of(state)
        self._size += size
        self._kept[key] = tuple(turns[:count]), state, size
        while self._size > self._most:
            self._size -= self._kept.pop(next(iter(self._kept)))[2]
