"""Puts tool results directly after their calls.

Anthropic: "`tool_use` ids were found without `tool_result` blocks immediately after"; all results in
one user message, before its other content. OpenAI chat: "An assistant message with 'tool_calls' must
be followed by tool messages responding to each 'tool_call_id'". Gemini: a function response follows
its call. Clients break this when a user interrupts, when they compact, and when parallel results
arrive in another order (anthropics/claude-code#14173, #8484).
"""

from collections.abc import Sequence
from operator import is_
from typing import Literal

from msgspec.structs import replace

from toolbridge.core.messages import Call, Loss, Part, Result, Text, Turn
from toolbridge.history.call_links import CallLinks, PartIndex
from toolbridge.history.past_calls import PastCalls

NO_RESULT = "[no result: the call was interrupted]"


def settle(
    turns: Sequence[Turn],
    links: CallLinks,
    past: PastCalls,
    losses: list[Loss],
    order: Literal["calls", "client", "loose"] = "calls",
) -> list[Turn]:
    """Return the linked turns with the corrections of `past` and each result after its call.

    `order` sorts the results of one turn: as their calls, or as the client sent them; `loose` does
    not move results at all.
    """
    settling = _Settling(turns, links, past, losses)
    return settling.unpaired() if order == "loose" else settling.paired(order)


class _Settling:
    """Rebuilds the turns of one conversation; calls without a result get an error as result."""

    def __init__(
        self, turns: Sequence[Turn], links: CallLinks, past: PastCalls, losses: list[Loss]
    ) -> None:
        self._turns = turns
        self._links = links
        self._past = past
        self._losses = losses

    def unpaired(self) -> list[Turn]:
        settled: list[Turn] = []
        for number in self._links.numbers:
            turn = self._turns[number]
            parts = self._parts(number)
            content = tuple(self._result(at, p) if isinstance(p, Result) else p for at, p in parts)
            if content or not turn.content:
                settled.append(_with_content(turn, content))
        return settled

    def paired(self, order: str) -> list[Turn]:
        settled: list[Turn] = []
        pending: list[Part] = []  # results of calls in the last settled turn
        for number in self._links.numbers:
            turn = self._turns[number]
            others, calls = self._split(number)
            results = self._results_of(calls, order) if calls else []
            if pending and turn.role == "assistant":
                # Consecutive assistant turns with calls become one turn, followed by all results.
                settled[-1] = replace(settled[-1], content=settled[-1].content + others)
                pending += results
                continue
            if pending and turn.role == "system":
                settled.append(Turn("user", tuple(pending)))
                pending = []
            content = (*pending, *others) if pending else others
            pending = results
            if content or not turn.content:
                settled.append(_with_content(turn, content))
        if pending:
            settled.append(Turn("user", tuple(pending)))
        return settled

    def _parts(self, number: int) -> list[tuple[PartIndex, Part]]:
        """Return the parts of a turn that are kept, calls with their new ids and arguments."""
        kept: list[tuple[PartIndex, Part]] = []
        for index, part in enumerate(self._turns[number].content):
            position = (number, index)
            if position in self._past.dropped:
                continue
            kept.append((position, self._call(position, part) if isinstance(part, Call) else part))
        return kept

    def _split(self, number: int) -> tuple[tuple[Part, ...], list[tuple[PartIndex, Call]]]:
        """Return the content of a turn without results, and its calls.

        A result without a call becomes text.
        """
        others: list[Part] = []
        calls: list[tuple[PartIndex, Call]] = []
        for index, part in enumerate(self._turns[number].content):
            position = number, index
            if position in self._past.dropped:
                continue
            if isinstance(part, Call):
                call = self._call(position, part)
                calls.append((position, call))
                others.append(call)
            elif not isinstance(part, Result):
                others.append(part)
            elif position not in self._links.call_of:
                self._lose(position, "a result without its call is sent as text")
                others += _as_user_content(part)
        return tuple(others), calls

    def _results_of(self, calls: list[tuple[PartIndex, Call]], order: str) -> list[Part]:
        if order == "client":
            # Clients send parallel results as they finish; APIs that pair by id accept any order.
            last = (len(self._turns), 0)
            calls.sort(key=lambda call: self._links.result_of.get(call[0], last))
        return [self._answer(position, call) for position, call in calls]

    def _answer(self, position: PartIndex, call: Call) -> Result:
        at = self._links.result_of.get(position)
        if at is None:
            self._lose(position, "a call without a result is answered with an error")
            return Result(call.id, (Text(NO_RESULT),), is_error=True, name=call.name)
        return self._result(at, self._links.results[at])

    def _call(self, position: PartIndex, call: Call) -> Call:
        call = self._past.calls.get(position, call)
        id = self._links.ids.get(position, call.id)
        return call if id == call.id else replace(call, id=id)

    def _result(self, position: PartIndex, result: Result) -> Result:
        at = self._links.call_of.get(position)
        if at is None:
            return result
        original = self._links.calls[at]
        call = self._call(at, original)
        # The result's tool name follows the call's, also where healing corrected that name.
        name = result.name if result.name and call.name == original.name else call.name
        if (call.id, name) == (result.call_id, result.name):
            return result
        return replace(result, call_id=call.id, name=name)

    def _lose(self, position: PartIndex, why: str) -> None:
        self._losses.append(Loss(f"turns.{position[0]}.content.{position[1]}", why))


def _with_content(turn: Turn, content: tuple[Part, ...]) -> Turn:
    same = len(content) == len(turn.content) and all(map(is_, content, turn.content))
    return turn if same else replace(turn, content=content)


def _as_user_content(result: Result) -> list[Part]:
    """Return the content of a result without a call as user content, with a heading."""
    heading = f"[result of an earlier call {result.call_id}]"
    first, *rest = result.content or (Text(""),)
    if isinstance(first, Text):
        text = f"{heading}\n{first.text}" if first.text else heading
        return [replace(first, text=text), *rest]
    return [Text(heading), first, *rest]
