"""The loop of server tools: several answers of a model become one answer for the client.

The model's text and thinking are passed on at once. Calls of server tools are held until the answer
of the model ends; the caller runs them, and their results go back to the model in the next pass, as
the results of functions. For the client the call and its result are parts of the same answer. Calls
of the client's own tools end the loop: the client runs those.

This module never waits: the caller feeds events and outcomes, and sends `request` for each pass.
"""

from collections.abc import Mapping

from msgspec.structs import replace

from toolbridge.core import events as ev
from toolbridge.core.block_order import BlockEvent
from toolbridge.core.fold import OWN_ENDS, Fold, settled_end
from toolbridge.core.ids import Ids
from toolbridge.core.json import JsonObject
from toolbridge.core.messages import Call, Part, Request, ToolChoice, Turn
from toolbridge.core.result_seals import seal
from toolbridge.core.server_tools import (
    FoundTools,
    McpApproval,
    SearchHits,
    ServerCall,
    ServerResult,
    ServerToolError,
    ServerToolOutcome,
)
from toolbridge.core.usage import Usage
from toolbridge.history.server_parts import replay_server_parts, replayed_result
from toolbridge.policy.block_numbers import BlockNumbers
from toolbridge.policy.prior_urls import is_web_address, occurs
from toolbridge.policy.server_tool_budget import LoopLimits, ToolBudget
from toolbridge.policy.server_tool_plan import (
    RunnableTool,
    ServerToolPlan,
    approvals,
    open_calls,
    with_found,
)
from toolbridge.policy.tool_ranking import match_tools, rank_tools


class ServerToolLoop:
    """One answer for the client, over several passes of the model."""

    def __init__(self, plan: ServerToolPlan, ids: Ids, key: bytes, limits: LoopLimits) -> None:
        self._plan = plan
        self._ids = ids
        self._key = key
        self._limits = limits
        self._budget = ToolBudget(limits)
        self._numbers = BlockNumbers()
        self.request = replay_server_parts(plan.request, self._function_name)
        """The request of the next pass."""
        self.waiting: dict[str, ServerCall] = {
            call.id: call for call in open_calls(plan.request) if self._function_name(call)
        }
        """The calls that have no result yet, by their ids."""
        self._functions: dict[str, str] = {
            id: self._function_name(call) for id, call in self.waiting.items()
        }
        self._outcomes: dict[str, ServerToolOutcome] = {}
        self._unsaid: list[Part] = []
        """Calls of an earlier answer that run now, for the history of the next pass."""
        self._needed = False
        """Whether the model is asked only if a call of `begin_with` succeeds."""
        self._pass = _Pass()
        self._passes = 0
        self._shown = False
        """Whether `Started` was passed on."""
        self._listed = list(plan.listed)
        self._announced = bool(self.waiting)
        self._last = False
        """Whether the tools are no longer offered; a call of one is refused and ends the answer."""
        self.usage = Usage()
        """The counts of earlier passes."""
        self.searches = 0
        self.done = False
        for call, approval in approvals(plan.request):
            self._resume(call, approval)

    def begin_with(
        self, offered: RunnableTool, arguments: JsonObject, *, needed: bool = False
    ) -> None:
        """Run a call first; the model then answers by its result, without tools.

        If all calls are `needed` and fail, the answer ends there.
        """
        self._needed = needed
        kind, server = offered.tool.kind, offered.tool.server
        made = ServerCall(self._ids.draw(24), kind, offered.call_name, arguments, server)
        self.waiting[made.id], self._functions[made.id] = made, offered.name
        self._unsaid.append(Call(made.id, offered.name, arguments))
        self.stop()

    def _resume(self, call: ServerCall, approval: McpApproval) -> None:
        """Run a call that the client has approved; one that it declined fails."""
        name = self._function_name(replace(call, needs_approval=False))
        if not name:
            return
        made = replace(call, id=self._ids.draw(24), needs_approval=False, source=None)
        self.waiting[made.id], self._functions[made.id] = made, name
        self._unsaid.append(Call(made.id, name, made.arguments))
        if not approval.approve:
            text = f"the user declined the call. {approval.reason}".rstrip()
            self._outcomes[made.id] = ServerToolError("unavailable", text)

    # ── the model's answer ───────────────────────────────────────────────────

    def feed_all(self, events: list[ev.Event]) -> list[ev.Event]:
        """Feed events of the current pass; return the events for the client."""
        return [out for event in events for out in self._feed(event)]

    def _feed(self, event: ev.Event) -> list[ev.Event]:
        match event:
            case ev.Started():
                first, self._shown = not self._shown, True
                return [event, *self._listings()] if first else []
            case ev.UsageReported(usage):
                self._pass.usage = usage
                return [ev.UsageReported(self._total())]
            case ev.Failed():
                self.done = True
                return [event]
            case ev.Finished():
                return self._end_pass(event)
            case ev.Healed(index, report):
                return [ev.Healed(self._numbers.maybe(index), report)]
            case ev.LogprobsReported() | ev.Lost() | ev.Alternative():
                return [event]
            case _:
                return self._block(event)

    def _block(self, event: BlockEvent) -> list[ev.Event]:
        if not isinstance(event, ev.DELTAS):  # the end of a block carries all of it
            self._pass.fold.feed(event)
        if isinstance(event, ev.CallStart) and event.name in self._plan.offered:
            self._pass.server.append(event.index)
        if event.index in self._pass.server:
            return []
        if isinstance(event, ev.CallStart):
            self._pass.client = True
            if self._pass.server:
                self._pass.held.add(event.index)
        if event.index in self._pass.held:
            self._pass.kept.append(event)
            return []
        return [self._numbers.renumbered(event)]

    def _end_pass(self, end: ev.Finished) -> list[ev.Event]:
        """Finish the answer, or find the calls that have to run first."""
        ended = self._pass
        ended.end = end
        self._passes += 1
        if ended.server and end.reason in OWN_ENDS:
            blocks = ended.fold.message.content
            calls = [p for p in blocks if isinstance(p, Call) and p.name in self._plan.offered]
            for call in calls:
                self._await(call)
            return [] if self.waiting else self._finish()
        return self._finish()

    def _await(self, call: Call) -> None:
        offered = self._plan.offered[call.name]
        made = self._server_call(call, offered)
        self._pass.ids[call.id] = made.id
        if offered.needs_approval:
            self._pass.asked.append(replace(made, needs_approval=True))
            return
        self.waiting[made.id] = made
        self._functions[made.id] = offered.name
        if call.raw:
            text = "the arguments are not valid JSON"
            self._outcomes[made.id] = ServerToolError("invalid_tool_input", text)

    def _server_call(self, call: Call, offered: RunnableTool) -> ServerCall:
        kind, server = offered.tool.kind, offered.tool.server
        # Encoders put the id into one of their API's form that is recognizable as the gateway's.
        id = self._ids.draw(24)
        return ServerCall(id, kind, offered.call_name, call.arguments, server)

    # ── the tools ────────────────────────────────────────────────────────────

    def announce(self) -> list[ev.Event]:
        """Return the calls for the client; the history of a paused answer has them already."""
        events: list[ev.Event] = []
        if not self._shown:
            self._shown = True
            events.append(ev.Started(self._ids.message(), self.request.model))
            events += self._listings()
        if self._announced:
            self._announced = False
            return events
        return [*events, *(self._added(call) for call in self.waiting.values())]

    @property
    def pass_usage(self) -> Usage | None:
        """The counts of the pass that has ended, if another one follows the tools; else None."""
        return self._pass.usage if self._passes and self._goes_on else None

    @property
    def _goes_on(self) -> bool:
        return not (self._pass.client or self._pass.asked or self._last)

    def refuse(self, text: str) -> list[ev.Event]:
        """Return the results of the waiting calls, none of which runs."""
        refused = ServerToolError("too_many_requests", text)
        return self.answer(dict.fromkeys(self.waiting, refused))

    def runs(self) -> list[tuple[ServerCall, RunnableTool]]:
        """Return the calls to run now; the outcomes of the others are known."""
        found: list[tuple[ServerCall, RunnableTool]] = []
        for id, call in self.waiting.items():
            offered = self._plan.offered[self._functions[id]]
            if self._last:
                text = "the limit of this answer is reached"
                self._outcomes[id] = ServerToolError("max_uses_exceeded", text)
            if id in self._outcomes:
                continue
            known = self._refused(call) or self._budget.maybe_known(
                call, offered.name, offered.tool
            )
            if known is None and call.kind == "tool_search":
                known = self._search_tools(call, offered)
            if known is None:
                found.append((call, offered))
            else:
                self._outcomes[id] = known
        return found

    def _refused(self, call: ServerCall) -> ServerToolError | None:
        url = str(call.arguments.get("url", ""))
        if call.kind != "web_fetch" or occurs(url, self.request):
            return None
        if not is_web_address(url):
            text = "the address must begin with http:// or https://"
            return ServerToolError("invalid_tool_input", text)
        text = "only an address that occurred in the conversation can be fetched"
        return ServerToolError("url_not_in_prior_context", text)

    def _search_tools(self, call: ServerCall, offered: RunnableTool) -> ServerToolOutcome:
        """Return the deferred tools that fit; this search needs no network."""
        query, most = str(call.arguments.get("query", "")), self._limits.found_tools
        tools = self._plan.deferred
        if offered.tool.ranking == "bm25":
            return FoundTools(rank_tools(tools, query, most=most))
        found = match_tools(tools, query, most=most)
        return found if isinstance(found, ServerToolError) else FoundTools(found)

    def answer(self, outcomes: Mapping[str, ServerToolOutcome]) -> list[ev.Event]:
        """Take the outcomes of `runs`, by the ids of the calls; return the results.

        Afterwards the answer is done, or `request` is the next pass.
        """
        events: list[ev.Event] = []
        results: list[ServerResult] = []
        for id, call in self.waiting.items():
            outcome = outcomes[id] if id in outcomes else self._outcomes[id]
            self._budget.keep(call, self._functions[id], outcome)
            # A result that is known from the same call before is no further search.
            self.searches += id in outcomes and isinstance(outcome, SearchHits)
            outcome = self._sealed(outcome)
            results.append(ServerResult(id, call.kind, outcome, call.name, call.server))
            events.append(self._added(results[-1]))
        self.waiting = {}
        needed, self._needed = self._needed, False
        useless = needed and all(isinstance(one.outcome, ServerToolError) for one in results)
        if useless or not self._goes_on:
            return events + self._finish()
        self._continue(results)
        return events

    def _sealed(self, outcome: ServerToolOutcome) -> ServerToolOutcome:
        if not isinstance(outcome, SearchHits):
            return outcome
        hits = (replace(hit, sealed=seal(hit.snippet, self._key)) for hit in outcome.hits)
        return SearchHits(tuple(hits))

    def _added(self, part: ServerCall | ServerResult) -> ev.PartAdded:
        return ev.PartAdded(self._numbers.new(), part)

    # ── the next pass ────────────────────────────────────────────────────────

    def _continue(self, results: list[ServerResult]) -> None:
        """Prepare the next pass: the answer so far, then the results."""
        answers = tuple(replayed_result(one, self._functions[one.call_id]) for one in results)
        turns = (*self.request.turns, *self._said(), Turn("user", answers))
        found = [one.outcome.names for one in results if isinstance(one.outcome, FoundTools)]
        names = tuple(name for group in found for name in group)
        choice = self.request.tool_choice
        if choice.mode in {"required", "named"}:  # otherwise the loop would not end
            choice = ToolChoice(parallel=choice.parallel)
        tools = with_found(self.request.tools, self._plan.deferred, names)
        limit = self._remaining()
        self.request = replace(
            self.request, turns=turns, tools=tools, tool_choice=choice, max_tokens=limit
        )
        if self._budget.exhausted or self._passes + 1 >= self._limits.max_passes:
            self._last = True
            self.request = _without(self.request, self._plan.offered)
        self.usage = self.usage.plus(self._pass.usage)
        self._pass = _Pass()
        self._numbers.next_answer()

    def stop(self) -> None:
        """Offer the tools no longer: the time is over, and the model has to answer."""
        self._budget.exhausted = True

    def _said(self) -> tuple[Turn, ...]:
        """Return the model's answer of this pass, with the ids that the client got."""
        said, self._unsaid = self._unsaid, []
        parts = (*said, *map(self._renamed, self._pass.fold.message.content))
        return (Turn("assistant", parts),) if parts else ()

    def _renamed(self, part: Part) -> Part:
        if isinstance(part, Call) and part.id in self._pass.ids:
            return replace(part, id=self._pass.ids[part.id], raw="")
        return part

    def _remaining(self) -> int | None:
        most = self._plan.request.max_tokens
        if most is None:
            return None
        return max(most - self.usage.output - self._pass.usage.output, 1)

    # ── the end ──────────────────────────────────────────────────────────────

    def _finish(self) -> list[ev.Event]:
        ended = self._pass
        self.done = True
        events: list[ev.Event] = [self._added(call) for call in ended.asked]
        events += [self._numbers.renumbered(event) for event in ended.kept]
        if self.usage != Usage() or self.searches:
            events.append(ev.UsageReported(self._total()))
        return [*events, settled_end(ended.end, calls=ended.client)]

    def _total(self) -> Usage:
        """Return the counts for the client: the prompt of the last pass, the output of all."""
        last = self._pass.usage
        return replace(
            last,
            output=self.usage.output + last.output,
            reasoning=self.usage.reasoning + last.reasoning,
            searches=self.searches + last.searches,
        )

    def _listings(self) -> list[ev.Event]:
        listed, self._listed = self._listed, []
        return [self._added(one) for one in listed]

    def _function_name(self, call: ServerCall) -> str:
        if call.needs_approval:
            return ""
        for name, offered in self._plan.offered.items():
            same = offered.tool.kind == call.kind and offered.tool.server == call.server
            if same and (call.kind != "mcp" or offered.call_name == call.name):
                return name
        return ""


class _Pass:
    """The state of one pass."""

    def __init__(self) -> None:
        self.fold = Fold()
        self.usage = Usage()
        self.end = ev.Finished("end")
        self.server: list[int] = []
        """The blocks with calls of server tools."""
        self.client = False
        """Whether the model has called a tool of the client."""
        self.held: set[int] = set()
        """The blocks with calls of the client's tools that follow the results of server tools."""
        self.kept: list[BlockEvent] = []
        self.asked: list[ServerCall] = []
        """Calls that the client has to approve first."""
        self.ids: dict[str, str] = {}
        """The model's id of a call → the client's."""


def _without(request: Request, offered: Mapping[str, RunnableTool]) -> Request:
    """Return `request` without server tools, so that the model answers."""
    tools = tuple(tool for tool in request.tools if tool.name not in offered)
    return replace(request, tools=tools, tool_choice=ToolChoice())
