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

_LINKED = (Call, Result)
PartIndex: TypeAlias = tuple[int, int]
"""The index of a turn in the client's request, and of a part in that turn."""


class CallLinks(msgspec.Struct, frozen=True):
    """The calls and results of a conversation, and which belong together."""

    calls: dict[PartIndex, Call]
    results: dict[PartIndex, Result]
    """Results that belong to a call."""
    result_of: dict[PartIndex, PartIndex]
    """The result of each answered call."""
    call_of: dict[PartIndex, PartIndex]
    """The call of each result; a result without a call is missing here."""
    ids: dict[PartIndex, str]
    """New ids for calls whose id is empty or was used before."""


def link(turns: Sequence[Turn]) -> CallLinks:
    """Return the links between calls and results.

    Where an id occurs in several answers, a result belongs to the latest answer that has an
    unanswered call with that id, and there to the first such call.
    """
    links = CallLinks({}, {}, {}, {}, {})
    waiting: dict[str, list[tuple[int, deque[PartIndex]]]] = {}
    seen: dict[str, int] = {}
    for position, answer, part in _calls_and_results(turns):
        if isinstance(part, Call):
            links.calls[position] = part
            seen[part.id] = seen.get(part.id, 0) + 1
            if not part.id or seen[part.id] > 1:
                links.ids[position] = fresh_id(part.id, seen[part.id])
            groups = waiting.setdefault(part.id, [])
            if not groups or groups[-1][0] != answer:
                groups.append((answer, deque()))
            groups[-1][1].append(position)
        elif waiting.get(part.call_id):
            call = _take_first(waiting[part.call_id])
            links.results[position] = part
            links.result_of[call] = position
            links.call_of[position] = call
    return links


def _calls_and_results(turns: Sequence[Turn]) -> list[tuple[PartIndex, int, Call | Result]]:
    """Return each with its index and the number of its group of consecutive same-role turns."""
    found: list[tuple[PartIndex, int, Call | Result]] = []
    group = 0
    for number, turn in enumerate(turns):
        if number and turn.role != turns[number - 1].role:
            group += 1
        for index, part in enumerate(turn.content):
            if isinstance(part, _LINKED):
                found.append(((number, index), group, part))
    return found


def _take_first(groups: list[tuple[int, deque[PartIndex]]]) -> PartIndex:
    _, positions = groups[-1]
    first = positions.popleft()
    if not positions:
        groups.pop()
    return first
