"""Checks the rules of every stream: order, event numbers, lengths and validity."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import jsonschema_rs

from toolbridge.conformance.json_path import text
from toolbridge.conformance.streams.connections import WireEvent
from toolbridge.core.json import Json, JsonObject, dumps, loads

_END = frozenset({"status", "value", "steps", "invented"})
MEMBERS: dict[str, tuple[frozenset[str], frozenset[str]]] = {
    "text.delta": (frozenset({"text"}), frozenset()),
    "json.begin": (frozenset({"id", "schema"}), frozenset()),
    "json.delta": (frozenset({"id", "chunk"}), frozenset()),
    "json.end": (frozenset({"id", "length"}), _END),
    "tool.call": (frozenset({"id", "name", "args"}), frozenset({"client"})),
    "tool.result": (frozenset({"id", "name", "result"}), frozenset({"cached"})),
    "result.begin": (frozenset({"id", "schema"}), frozenset()),
    "result.delta": (frozenset({"id", "chunk"}), frozenset()),
    "result.end": (frozenset({"id", "length"}), _END),
    "error": (frozenset({"code", "message"}), frozenset({"id"})),
    "done": (frozenset(), frozenset({"usage"})),
}
"""Event name → required members and optional members."""
LAST = frozenset(
    {
        "no_result", "aborted", "request_timeout", "upstream_error", "overloaded",
        "context_overflow", "abandoned", "replay_truncated",
    }
)  # fmt: skip
CODES = LAST | {
    "frame_too_large", "frame_too_deep", "arguments_too_large", "nested_frame", "duplicate_id",
    "unexpected_end", "unclosed_frame", "frame_timeout", "unknown_schema", "unknown_tool",
    "invalid_arguments", "invalid_result", "schema_repair_failed", "tool_timeout", "tool_failed",
    "too_many_tool_calls",
}  # fmt: skip
SENTINEL = re.compile(
    "\u27e6(?:BEGIN_(?:OBJECT|TOOL_CALL|RESULT) id=[A-Za-z0-9_.-]{1,64} (?:schema|name)="
    "|END_(?:OBJECT|TOOL_CALL|RESULT) id=[A-Za-z0-9_.-]{1,64}\u27e7)"
)
_RUN = re.compile(r"run_[0-9a-f]{16}")


@dataclass
class ObservedFrame:
    """A frame as read from its events."""

    kind: str
    id: str
    schema: str
    chunks: list[str] = field(default_factory=list)
    status: str = ""
    value: Json = None
    """The valid value, if there is one."""
    invented: tuple[str, ...] = ()
    ended: bool = False

    @property
    def written(self) -> str:
        return "".join(self.chunks)


@dataclass
class CaseFacts:
    """The schemas, tools and options of a case."""

    schemas: Mapping[str, JsonObject]
    tools: Mapping[str, JsonObject]
    held: bool = False
    """Whether only valid chunks are sent (`hold_results`)."""
    quotes: bool = False


class EventChecker:
    """Reads the events of a stream and collects `faults`."""

    def __init__(self, facts: CaseFacts) -> None:
        self._facts = facts
        self._open: ObservedFrame | None = None
        self._running: dict[str, str] = {}
        """Calls without a result, with the names of their tools, in their order."""
        self.faults: list[str] = []
        self.frames: dict[str, ObservedFrame] = {}
        self.calls: dict[str, JsonObject] = {}
        self.results: dict[str, JsonObject] = {}
        self.errors: list[JsonObject] = []
        self.text = ""

    def read(self, events: list[WireEvent], run: str) -> None:
        self.faults += _numbers(events, run)
        for at, event in enumerate(events):
            self.faults += _shape(event)
            self._take(event, events[at + 1].name if at + 1 < len(events) else "")
        self.text = "".join(text(e.data, "text") for e in events if e.name == "text.delta")
        if self._open is not None:
            self._fault(f"the frame {self._open.id} has no end")
        for id in self._running:
            self._fault(f"the call {id} has no result")
        if SENTINEL.search(self.text) and not self._facts.quotes:
            self._fault(f"a sentinel stands in the text: {self.text[:200]!r}")
        self.faults += _ending(events)

    def _fault(self, fault: str) -> None:
        self.faults.append(fault)

    def _take(self, event: WireEvent, follows: str) -> None:
        kind, _, part = event.name.partition(".")
        if self._running and event.name not in {"tool.call", "tool.result", "error"}:
            self._fault(f"{event.name} stands before the result of {next(iter(self._running))}")
        if kind in {"json", "result"}:
            self._frame(kind, part, event.data)
            return
        if kind == "tool" and part in {"call", "result"}:
            self._tool(part, event)
        elif event.name == "error":
            self._error(event.data, follows)
        if event.name in {"text.delta", "tool.call", "tool.result", "done"} and self._open:
            self._fault(f"{event.name} stands inside the frame {self._open.id}")

    # ── frames ───────────────────────────────────────────────────────────────

    def _frame(self, kind: str, part: str, data: JsonObject) -> None:
        id = text(data, "id")
        if part == "result":
            return
        if part == "begin":
            self._begin(ObservedFrame(kind, id, text(data, "schema")))
            return
        frame = self._open
        if frame is None or (frame.kind, frame.id) != (kind, id):
            self._fault(f"{kind}.{part} of {id} stands outside of its frame")
        elif part == "delta":
            frame.chunks.append(text(data, "chunk"))
        else:
            self._open = None
            frame.ended = True
            self._end(frame, data)

    def _begin(self, frame: ObservedFrame) -> None:
        if self._open is not None:
            self._fault(f"the frame {frame.id} begins inside {self._open.id}")
        if frame.id in self.frames or frame.id in self.calls:
            self._fault(f"the id {frame.id} was used before")
        if frame.schema not in self._facts.schemas:
            self._fault(f"the frame {frame.id} is of a schema nobody named: {frame.schema}")
        self._open = self.frames[frame.id] = frame

    def _end(self, frame: ObservedFrame, data: JsonObject) -> None:
        size = len(frame.written.encode("utf-8", "surrogatepass"))
        if data.get("length") != size:
            self._fault(f"{frame.id}: the length is {data.get('length')}, the chunks have {size}")
        if SENTINEL.search(frame.written) and not self._facts.quotes:
            self._fault(f"{frame.id}: a sentinel stands in the chunks")
        frame.status = text(data, "status")
        named = data.get("invented")
        frame.invented = tuple(map(str, named)) if isinstance(named, list) else ()
        if frame.status:
            self._end_otherwise(frame, data)
        else:
            self._end_valid(frame, data)
        if "value" in data or not frame.status:
            self.faults += self._flaws(frame)

    def _end_valid(self, frame: ObservedFrame, data: JsonObject) -> None:
        if "value" in data or "steps" in data:
            self._fault(f"{frame.id}: a frame without status needs no value and no steps")
        try:
            frame.value = loads(frame.written)
        except ValueError as error:
            self._fault(f"{frame.id}: called valid, but is no JSON: {error}")

    def _end_otherwise(self, frame: ObservedFrame, data: JsonObject) -> None:
        frame.value = data.get("value")
        if frame.status not in {"healed", "repaired", "degraded"}:
            self._fault(f"{frame.id}: there is no status {frame.status}")
        if "value" not in data:
            self._fault(f"{frame.id}: {frame.status}, but without the value that counts")
        if (frame.status == "healed") != bool(data.get("steps")):
            self._fault(f"{frame.id}: {frame.status} with the steps {data.get('steps')}")
        if data.get("invented") and frame.status != "degraded":
            self._fault(f"{frame.id}: {frame.status}, but {data.get('invented')} is invented")
        if self._facts.held and frame.written != dumps(frame.value):
            self._fault(f"{frame.id}: results are held, but the chunks are not the value")

    def _flaws(self, frame: ObservedFrame) -> Iterator[str]:
        schema = self._facts.schemas.get(frame.schema)
        if schema is not None:
            for flaw in _flaws(schema, frame.value):
                yield f"{frame.id}: the value does not fit {frame.schema}: {flaw}"

    # ── tools and errors ─────────────────────────────────────────────────────

    def _tool(self, part: str, event: WireEvent) -> None:
        id, name = text(event.data, "id"), text(event.data, "name")
        if part == "call":
            if id in self.calls or id in self.frames:
                self._fault(f"the id {id} was used before")
            self.calls[id] = event.data
            self._running[id] = name
            for flaw in _flaws(self._facts.tools.get(name, {}), event.data.get("args")):
                self._fault(f"the arguments of {id} do not fit {name}: {flaw}")
            return
        self.results[id] = event.data
        first = next(iter(self._running.items()), None)
        if first == (id, name):
            del self._running[id]
        elif id in self._running or (first is not None and not _failed(event.data)):
            self._fault(
                f"a result of {id} {name} stands before that of the call {first and first[0]}"
            )
        elif not _failed(event.data):
            self._fault(f"a result of {id} stands where nothing was called")

    def _error(self, data: JsonObject, follows: str) -> None:
        self.errors.append(data)
        code = text(data, "code")
        if code not in CODES:
            self._fault(f"the code {code!r} is in no document")
        if code in LAST and follows != "done":
            self._fault(f"{code} ends a stream, but {follows} follows")
        if not text(data, "message"):
            self._fault(f"{code} says nothing")


def _failed(result: JsonObject) -> bool:
    return bool(text(result, "result.error.code"))


def _numbers(events: Iterable[WireEvent], run: str) -> Iterator[str]:
    if not _RUN.fullmatch(run):
        yield f"{run!r} is no run's id"
    wanted = 1
    for event in events:
        if event.id != f"{run}:{wanted}":
            yield f"expected the id {run}:{wanted}, came {event.id!r} ({event.name})"
            return
        wanted += 1


def _shape(event: WireEvent) -> Iterator[str]:
    known = MEMBERS.get(event.name)
    if known is None:
        yield f"there is no event {event.name}"
        return
    must, may = known
    if missing := must - event.data.keys():
        yield f"{event.name} lacks {', '.join(sorted(missing))}"
    if beside := event.data.keys() - must - may:
        yield f"{event.name} has {', '.join(sorted(beside))} besides"


def _ending(events: list[WireEvent]) -> Iterator[str]:
    names = [event.name for event in events]
    if names.count("done") != 1 or names[-1] != "done":
        yield f"done comes {names.count('done')} times; the last event is {names[-1:]}"
        return
    ended = names.count("result.end")
    if ended > 1:
        yield f"there are {ended} results"
    last = events[-2].data.get("code") if names[-2:-1] == ["error"] else None
    if last not in LAST and not ended:
        yield "there is neither a result nor an error that ends the stream"
    if ended and set(names[names.index("result.end") + 1 :]) - {"error", "done"}:
        yield "something follows the result"


def _flaws(schema: JsonObject, value: Json) -> list[str]:
    validator = jsonschema_rs.Draft202012Validator(schema, offline=True)
    return [str(error).split("\n", 1)[0][:200] for error in validator.iter_errors(value)][:3]


def ping_faults(pings: Iterable[WireEvent]) -> Iterator[str]:
    for ping in pings:
        if ping.id or ping.data:
            yield f"a ping has no id and says nothing; came {ping.id!r} {ping.data}"
            return


def joined(events: Iterable[WireEvent]) -> list[tuple[str, str]]:
    """Return the events as they are for every cutting: deltas joined, runs and numbers left out."""
    found: list[tuple[str, str, str]] = []
    for event in events:
        id = text(event.data, "id")
        piece = text(event.data, "text") or text(event.data, "chunk")
        if not event.name.endswith(".delta"):
            found.append((event.name, id, dumps(event.data)))
        elif found and found[-1][:2] == (event.name, id):
            found[-1] = (event.name, id, found[-1][2] + piece)
        else:
            found.append((event.name, id, piece))
    return [(name, said) for name, _, said in found]
