"""Which result answers which call."""

from collections import deque
from collections.abc import Iterator, Sequence
from typing import TypeAlias

import msgspec

from toolbridge.core.messages import Call, Part, Result, Turn
from toolbridge.history.ids import fresh_id

Place: TypeAlias = tuple[int, int]
"""The number of a turn and the number of a part in it, as the client sent them."""


class CallLinks(msgspec.Struct, frozen=True):
    calls: dict[Place, Call]
    results: dict[Place, Result]
    """Those that answer a call."""
    result_of: dict[Place, Place]
    """From a call to its result."""
    call_of: dict[Place, Place]
    """From a result to its call; a result that is not here is an orphan."""
    ids: dict[Place, str]
    """New ids for calls whose own is empty or was used before."""


def link(turns: Sequence[Turn]) -> CallLinks:
    """Find the call of every result.

    Ids may repeat, since some servers count from zero in every answer: a result belongs to the
    latest answer that still waits for that id, and there to its first such call.
    """
    links = CallLinks({}, {}, {}, {}, {})
    waiting: dict[str, list[tuple[int, deque[Place]]]] = {}
    seen: dict[str, int] = {}
    for place, answer, part in _walk(turns):
        if isinstance(part, Call):
            links.calls[place] = part
            seen[part.id] = seen.get(part.id, 0) + 1
            if not part.id or seen[part.id] > 1:
                links.ids[place] = fresh_id(part.id, seen[part.id])
            groups = waiting.setdefault(part.id, [])
            if not groups or groups[-1][0] != answer:
                groups.append((answer, deque()))
            groups[-1][1].append(place)
        elif isinstance(part, Result) and waiting.get(part.call_id):
            call = _take(waiting[part.call_id])
            links.results[place] = part
            links.result_of[call] = place
            links.call_of[place] = call
    return links


def _walk(turns: Sequence[Turn]) -> Iterator[tuple[Place, int, Part]]:
    """Return every part with its place and the number of the run of same-role turns it is in."""
    run = 0
    for number, turn in enumerate(turns):
        if number and turn.role != turns[number - 1].role:
            run += 1
        for index, part in enumerate(turn.content):
            yield (number, index), run, part


def _take(groups: list[tuple[int, deque[Place]]]) -> Place:
    _, places = groups[-1]
    first = places.popleft()
    if not places:
        groups.pop()
    return first
