"""Adds up the tokens and the cost of all model calls of one structured stream.

A provider reports usage when an answer ends. A stream may leave an answer before that, at a tool
call or at the result; then the tokens of the prompt and of the text read so far are estimated, and
the sum has `"estimated": true`.
"""

import time

import msgspec

from toolbridge.core import events as ev
from toolbridge.core.json import JsonObject
from toolbridge.core.messages import Message, Problem
from toolbridge.core.usage import Cost, Usage
from toolbridge.routing.failover import AnswerChain
from toolbridge.routing.pricing import pricing

_CHARACTERS_PER_TOKEN = 4
_ALWAYS = frozenset({"input_tokens", "output_tokens"})


class CallTokens:
    """The tokens of one model call: as the provider reports them, or else an estimate."""

    def __init__(self, prompt: int) -> None:
        self._prompt = prompt
        self._reported = Usage()
        self._read = 0
        self.began = False
        """Whether the provider has answered anything."""
        self.final = False
        """Whether the provider has reported the usage of the whole answer."""
        self.problem: Problem | None = None
        """Why the answer broke off, if it did."""

    def feed(self, event: ev.Event, /) -> None:
        self.began = self.began or not isinstance(event, ev.Failed)
        match event:
            case ev.TextDelta(_, text) | ev.ThinkingDelta(_, text):
                self._read += len(text)
            case ev.CallDelta(_, json):
                self._read += len(json)
            case ev.UsageReported(usage):
                self._reported = usage
            case ev.Finished():
                self.final = bool(self._reported.total)
            case ev.Failed(problem):
                self.problem = problem
            case _:
                pass

    @property
    def answer(self) -> Message | None:
        """The answer without its contents, for the ledger; None if there was none."""
        if self.problem is not None:
            usage = self.usage if self.began else Usage()
            return Message(usage=usage, stop="error", problem=self.problem)
        if not self.began:
            return None
        return Message(usage=self.usage, stop="end" if self.final else "aborted")

    @property
    def usage(self) -> Usage:
        known = self._reported
        if self.final:
            return known
        output = -(-self._read // _CHARACTERS_PER_TOKEN)
        return msgspec.structs.replace(
            known,
            input=known.input if known.input_total else self._prompt,
            output=max(known.output, output),
        )


class Spending:
    """All model calls of a stream; a repair may run while an answer is still being read."""

    def __init__(self) -> None:
        self._calls: list[CallTokens] = []
        self._answers: list[AnswerChain] = []
        """The answer to each call, whose route has the price."""

    def begin(self, tokens: int, answer: AnswerChain) -> CallTokens:
        """Return the counter of a new call whose prompt has about `tokens` tokens."""
        count = CallTokens(tokens)
        self._calls.append(count)
        self._answers.append(answer)
        return count

    async def total(self) -> JsonObject | None:
        """Return the `usage` of `done`; None if no provider reported any usage."""
        if not any(call.final for call in self._calls):
            return None
        routes = [answer.route for answer in self._answers]
        stages = {route.address: await pricing(route, time.time()) for route in routes}
        priced = [
            event.usage
            for call, route in zip(self._calls, routes, strict=True)
            for event in stages[route.address].feed(ev.UsageReported(call.usage))
            if isinstance(event, ev.UsageReported)
        ]
        return {
            **{name: count for name, count in _counts(priced).items() if count or name in _ALWAYS},
            "calls": len(priced),
            **_cost(priced),
            **({} if all(call.final for call in self._calls) else {"estimated": True}),
        }


def _counts(usages: list[Usage]) -> dict[str, int]:
    return {
        "input_tokens": sum(usage.input_total for usage in usages),
        "output_tokens": sum(usage.output for usage in usages),
        "cache_read_tokens": sum(usage.cache_read for usage in usages),
        "cache_write_tokens": sum(usage.cache_write for usage in usages),
        "reasoning_tokens": sum(usage.reasoning for usage in usages),
    }


def _cost(usages: list[Usage]) -> JsonObject:
    """Return the cost of all calls; empty if the cost of any call is unknown."""
    costs = [usage.cost for usage in usages if usage.cost is not None]
    if len(costs) < len(usages):
        return {}
    names = Cost.__struct_fields__
    return {"cost": {name: sum(getattr(cost, name) for cost in costs) for name in names}}
