"""Calls and their results, side by side.

The results of a turn's calls stand in one user turn directly after it, in the order of the calls,
in front of whatever else the user says there. Real transcripts break this in every way: a user
interrupts, a client compacts, parallel results come in the order in which they were done.
"""

from collections.abc import Sequence
from typing import Literal

from msgspec.structs import replace

from toolbridge.core.messages import Call, Loss, Part, Result, Text, Turn
from toolbridge.history.call_links import CallLinks, Place
from toolbridge.history.past_calls import PastCalls

NO_RESULT = "[no result: the call was interrupted]"


def settle(
    turns: Sequence[Turn],
    links: CallLinks,
    past: PastCalls,
    losses: list[Loss],
    order: Literal["calls", "client", "loose"] = "calls",
) -> list[Turn]:
    """Return `turns` as `past` mended them, with every call named and its result behind it.

    Results that stand in one turn are put in the order of their calls, or are left in the client's;
    `loose` leaves results where they are.
    """
    settling = _Settling(turns, links, past, losses)
    return settling.unpaired() if order == "loose" else settling.paired(order)


class _Settling:
    def __init__(
        self, turns: Sequence[Turn], links: CallLinks, past: PastCalls, losses: list[Loss]
    ) -> None:
        self._turns = turns
        self._links = links
        self._past = past
        self._losses = losses

    def unpaired(self) -> list[Turn]:
        settled: list[Turn] = []
        for number, turn in enumerate(self._turns):
            parts = self._parts(number)
            content = tuple(self._result(at, p) if isinstance(p, Result) else p for at, p in parts)
            if content or not turn.content:
                settled.append(replace(turn, content=content))
        return settled

    def paired(self, order: str) -> list[Turn]:
        settled: list[Turn] = []
        owed: list[Part] = []  # results of calls in the last settled turn
        for number, turn in enumerate(self._turns):
            spoken, results = self._spoken(number), self._owed(number, order)
            if owed and turn.role == "assistant":
                # Two turns that both call wait for their results together: one turn.
                settled[-1] = replace(settled[-1], content=settled[-1].content + spoken)
                owed += results
                continue
            if owed and turn.role == "system":
                settled.append(Turn("user", tuple(owed)))
                owed = []
            content = (*owed, *spoken)
            owed = results
            if content or not turn.content:
                settled.append(replace(turn, content=content))
        if owed:
            settled.append(Turn("user", tuple(owed)))
        return settled

    def _parts(self, number: int) -> list[tuple[Place, Part]]:
        """Return the parts of a turn that are kept, calls with the ids and inputs they now have."""
        kept: list[tuple[Place, Part]] = []
        for index, part in enumerate(self._turns[number].content):
            place = (number, index)
            if place in self._past.dropped:
                continue
            kept.append((place, self._call(place, part) if isinstance(part, Call) else part))
        return kept

    def _spoken(self, number: int) -> tuple[Part, ...]:
        """Return all of a turn but the results of calls, which stand elsewhere."""
        spoken: list[Part] = []
        for place, part in self._parts(number):
            if not isinstance(part, Result):
                spoken.append(part)
            elif place not in self._links.call_of:
                self._lose(place, "a result without its call is told as text")
                spoken += _told(part)
        return tuple(spoken)

    def _owed(self, number: int, order: str) -> list[Part]:
        calls = [(place, part) for place, part in self._parts(number) if isinstance(part, Call)]
        if order == "client":
            # Clients send parallel results as they were done; no API that pairs by id minds.
            last = (len(self._turns), 0)
            calls.sort(key=lambda call: self._links.result_of.get(call[0], last))
        return [self._answer(place, call) for place, call in calls]

    def _answer(self, place: Place, call: Call) -> Result:
        at = self._links.result_of.get(place)
        if at is None:
            self._lose(place, "a call without a result is answered with an error")
            return Result(call.id, (Text(NO_RESULT),), is_error=True, name=call.name)
        return self._result(at, self._links.results[at])

    def _call(self, place: Place, call: Call) -> Call:
        call = self._past.calls.get(place, call)
        id = self._links.ids.get(place, call.id)
        return call if id == call.id else replace(call, id=id)

    def _result(self, place: Place, result: Result) -> Result:
        at = self._links.call_of.get(place)
        if at is None:
            return result
        asked = self._links.calls[at]
        call = self._call(at, asked)
        # A result goes by the name of its call also where healing has put that name right.
        name = result.name if result.name and call.name == asked.name else call.name
        if (call.id, name) == (result.call_id, result.name):
            return result
        return replace(result, call_id=call.id, name=name)

    def _lose(self, place: Place, why: str) -> None:
        self._losses.append(Loss(f"turns.{place[0]}.content.{place[1]}", why))


def _told(result: Result) -> list[Part]:
    """Return an orphan as what a user may say: its text after a heading, its pictures as they are."""
    heading = f"[result of an earlier call {result.call_id}]"
    first, *rest = result.content or (Text(""),)
    if isinstance(first, Text):
        text = f"{heading}\n{first.text}" if first.text else heading
        return [replace(first, text=text), *rest]
    return [Text(heading), first, *rest]
