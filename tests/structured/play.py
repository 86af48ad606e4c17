"""A conversation played out: scripted answers, repairs and tools in, all that a client is told out."""

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise

from toolbridge.core import events as cv
from toolbridge.core.draft import Draft
from toolbridge.core.json import Json, JsonObject, loads
from toolbridge.core.messages import Request, StopReason, Text, Turn
from toolbridge.demo.restaurant import schemas as restaurant
from toolbridge.structured import events as ev
from toolbridge.structured.contract import Contract, OfferedTool
from toolbridge.structured.conversation import (
    AskRepair,
    RunTool,
    RunTools,
    StructuredConversation,
)
from toolbridge.structured.schemas import Schemas

DEMO_SCHEMAS = Schemas().extended(restaurant.SCHEMAS)
SCHEMAS = DEMO_SCHEMAS.extended(
    {
        "Grid": {
            "type": "object",
            "properties": {
                "rows": {
                    "type": "array",
                    "items": {"type": "array", "items": {"type": "integer"}},
                },
                "late": {"type": "string"},
            },
            "required": ["rows"],
        },
        "Never": {"not": {}},
        "List": {"type": "array", "items": {"type": "integer"}},
    }
)
SEARCH = OfferedTool("places.search", "Find places.", SCHEMAS.get("places.search"))
BOOK = OfferedTool("bookings.create", "Book a table.", SCHEMAS.get("bookings.create"), client=True)

ACTION = '{"mode":"search","target":{"kind":"place","id":"p1"}}'
REPLY = '{"answer":"Done.","citations":[]}'


def frame(kind: str, id: str, name: str, body: str) -> str:
    attribute = "name" if kind == "TOOL_CALL" else "schema"
    return f"⟦BEGIN_{kind} id={id} {attribute}={name}⟧{body}⟦END_{kind} id={id}⟧"


def obj(body: str = ACTION, id: str = "O1", name: str = "Action") -> str:
    return frame("OBJECT", id, name, body)


def call(body: str = '{"query":"pizza"}', id: str = "T1", name: str = "places.search") -> str:
    return frame("TOOL_CALL", id, name, body)


def result(body: str = REPLY, id: str = "R1", name: str = "AssistantReply") -> str:
    return frame("RESULT", id, name, body)


def contract(**changes: object) -> Contract:
    settled = {
        "model": "demo",
        "turns": (Turn("user", (Text("Find pizza."),)),),
        "schemas": SCHEMAS,
        "objects": ("Action", "Grid", "Never", "List"),
        "tools": (SEARCH, BOOK),
    }
    return Contract(**{**settled, **changes})


def spoken(text: str, cuts: Iterable[int] = (), stop: StopReason = "end") -> list[cv.Event]:
    """Return an answer that is text, cut at some places."""
    draft = Draft()
    edges = [0, *sorted(cut for cut in cuts if 0 < cut < len(text)), len(text)]
    said = [e for a, b in pairwise(edges) for e in draft.text(text[a:b])]
    return said + draft.finish(stop)


def called(
    *calls: tuple[str, str], text: str = "", stop: StopReason = "tool_use"
) -> list[cv.Event]:
    """Return an answer of native calls, each a name and its arguments as text."""
    draft = Draft()
    said = draft.text(text)
    for key, (name, arguments) in enumerate(calls):
        said += draft.call(key, name=name, id=f"call_{key}")
        half = len(arguments) // 2
        said += draft.arguments(key, arguments[:half]) + draft.arguments(key, arguments[half:])
        said += draft.end(key)
    return said + draft.finish(stop)


class Play:
    """What came of it: the events, the requests to the model, and what was wanted."""

    def __init__(self, contract: Contract) -> None:
        self.conversation = StructuredConversation(contract)
        self.events: list[ev.Event] = []
        self.requests: list[Request] = []
        self.repairs: list[Request] = []
        self.calls: list[RunTool] = []
        self.rounds: list[int] = []
        """How many tools ran at the same time, for each round."""
        self._order: Callable[[Sequence[RunTool]], Iterable[RunTool]] = iter

    def run(
        self,
        answers: Sequence[str | list[cv.Event]],
        repairs: Sequence[str] = (),
        tool: Callable[[RunTool], Json] = lambda _: [],
        order: Callable[[Sequence[RunTool]], Iterable[RunTool]] = iter,
    ) -> "Play":
        self._order = order
        self._script = iter(repairs)
        self._tool = tool
        for answer in answers:
            request = self.conversation.request()
            if request is None:
                break
            self.requests.append(request)
            self._hear(spoken(answer) if isinstance(answer, str) else answer)
        return self

    def _hear(self, answer: list[cv.Event]) -> None:
        for event in answer:
            self._deliver(self.conversation.feed(event))
            if not self.conversation.listening:
                return
        self._deliver(self.conversation.close())

    def _deliver(self, out: Sequence[object]) -> None:
        wants = [item for item in out if isinstance(item, RunTools | AskRepair)]
        assert len(wants) <= 1
        assert wants == out[len(out) - len(wants) :]
        assert (self.conversation.effect is None) == (not wants)
        self.events += [item for item in out if not isinstance(item, RunTools | AskRepair)]
        for want in wants:
            assert want == self.conversation.effect
            self._fulfil(want)

    def _fulfil(self, want: RunTools | AskRepair) -> None:
        if isinstance(want, RunTools):
            self.calls += want.calls
            self.rounds.append(len(want.calls))
            self._answer(want)
        else:
            self.repairs.append(want.request)
            self._deliver(self.conversation.repaired(next(self._script, "")))

    def _answer(self, want: RunTools) -> None:
        """Answer the calls of a round, in the order that the play asks for."""
        for call in self._order(want.calls):
            out = self.conversation.tool_done(call.id, self._tool(call))
            over = self.conversation.effect is not want
            if over:
                self._deliver(out)
            else:
                self.events += out

    # Looking at it.

    @property
    def names(self) -> list[str]:
        """The names of the events, adjacent deltas as one."""
        names: list[str] = []
        for event in self.events:
            name = ev.name_of(event)
            if not (name.endswith(".delta") and names and names[-1] == name):
                names.append(name)
        return names

    @property
    def text(self) -> str:
        return "".join(e.text for e in self.events if isinstance(e, ev.RunTextDelta))

    @property
    def codes(self) -> list[str]:
        return [e.code for e in self.events if isinstance(e, ev.RunError)]

    def chunks(self, id: str) -> str:
        kinds = ev.JsonDelta | ev.ResultDelta
        return "".join(e.chunk for e in self.events if isinstance(e, kinds) and e.id == id)

    def end(self, id: str) -> ev.JsonEnd | ev.ResultEnd:
        ends = [e for e in self.events if isinstance(e, ev.JsonEnd | ev.ResultEnd) and e.id == id]
        assert len(ends) == 1
        return ends[0]

    def value(self, id: str) -> Json:
        end = self.end(id)
        return loads(self.chunks(id)) if end.status == "valid" else end.value

    def result_of(self, id: str) -> JsonObject:
        found = [e.result for e in self.events if isinstance(e, ev.ToolResult) and e.id == id]
        assert len(found) == 1
        return found[0]


def play(
    *answers: str | list[cv.Event],
    repairs: Sequence[str] = (),
    tool: Callable[[RunTool], Json] = lambda _: [],
    order: Callable[[Sequence[RunTool]], Iterable[RunTool]] = iter,
    **changes: object,
) -> Play:
    return Play(contract(**changes)).run(answers, repairs, tool, order)
