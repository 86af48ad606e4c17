"""Finds the call that each tool result belongs to.

The other passes use these links instead of ids: some servers number their calls from zero in every
answer, so an id can occur several times in one conversation.
"""

from collections import deque
from collections.abc import Sequence
from typing import TypeAlias

import msgspec

from toolbridge.core.messages import Call, Result, Turn
from toolbridge.history.ids import fresh_id

PartIndex: TypeAlias = tuple[int, int]
"""The index of a turn in the client's request, and of a part in that turn."""


class CallLinks(msgspec.Struct, frozen=True):
    """The calls and results of some turns, and which belong together."""

    numbers: range
    """The indexes of the turns."""
    calls: dict[PartIndex, Call] = msgspec.field(default_factory=dict)
    results: dict[PartIndex, Result] = msgspec.field(default_factory=dict)
    """Results that belong to a call."""
    result_of: dict[PartIndex, PartIndex] = msgspec.field(default_factory=dict)
    """The result of each answered call."""
    call_of: dict[PartIndex, PartIndex] = msgspec.field(default_factory=dict)
    """The call of each result; a result without a call is missing here."""
    ids: dict[PartIndex, str] = msgspec.field(default_factory=dict)
    """New ids for calls whose id is empty or was used before."""


def link(
    turns: Sequence[Turn], numbers: range | None = None, seen: dict[str, int] | None = None
) -> CallLinks:
    """Return the links between calls and results of all turns, or of those with these `numbers`.

    Where an id occurs in several answers, a result belongs to the latest answer that has an
    unanswered call with that id, and there to the first such call. An answer is a group of
    consecutive turns of the same role. `seen` is how often each id occurred in the turns before, and
    is counted on.
    """
    links = CallLinks(range(len(turns)) if numbers is None else numbers)
    seen = {} if seen is None else seen
    waiting: dict[str, list[tuple[int, deque[PartIndex]]]] = {}
    answer, role = 0, ""
    for number in links.numbers:
        turn = turns[number]
        if turn.role != role:
            answer, role = number, turn.role
        for index, part in enumerate(turn.content):
            if isinstance(part, Call):
                position = number, index
                links.calls[position] = part
                count = seen[part.id] = seen.get(part.id, 0) + 1
                if count > 1 or not part.id:
                    links.ids[position] = fresh_id(part.id, count)
                _wait(waiting.setdefault(part.id, []), answer, position)
            elif isinstance(part, Result) and (groups := waiting.get(part.call_id)):
                position = number, index
                call = _take_first(groups)
                links.results[position] = part
                links.result_of[call] = position
                links.call_of[position] = call
    return links


def _wait(groups: list[tuple[int, deque[PartIndex]]], answer: int, position: PartIndex) -> None:
    if groups and groups[-1][0] == answer:
        groups[-1][1].append(position)
    else:
        groups.append((answer, deque((position,))))


def _take_first(groups: list[tuple[int, deque[PartIndex]]]) -> PartIndex:
    _, positions = groups[-1]
    first = positions.popleft()
    if not positions:
        groups.pop()
    return first
