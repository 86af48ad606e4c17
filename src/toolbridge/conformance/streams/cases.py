"""Reads the cases of structured streams from the eight files of `conformance/stream/`."""

import fnmatch
import re
import tomllib
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec

from toolbridge.conformance.cases import folder as all_cases
from toolbridge.core.errors import ConfigError
from toolbridge.core.json import Json, JsonObject, loads

LABELS = {
    "json": "valid JSON under a stream",
    "partial": "partial frames and resuming",
    "tools": "tools in mid-stream",
    "interruptions": "interruptions",
    "backpressure": "back-pressure",
    "repair": "repair",
    "security": "security and limits",
    "compliance": "compliance and determinism",
}
CATEGORIES = tuple(LABELS)
After: TypeAlias = Literal[
    "repeat", "anew", "conflict", "replay", "suffixes", "unknown", "late_abort", "late_result"
]
CUTTINGS = ("whole", "1", "3", "7", "random")


class ScriptedCall(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A native tool call of the model."""

    tool: int | str
    """Its name, or its index among the offered tools."""
    arguments: str = "{}"
    id: str = ""


class ScriptedAnswer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One answer of the model: its text, then its calls, then its end."""

    text: str = ""
    """`<<wait 0.2>>` pauses for seconds; `{{x*5}}` is x five times."""
    at: tuple[int, ...] = ()
    """The positions at which the cutting `given` splits the text."""
    calls: tuple[ScriptedCall, ...] = ()
    status: int = 200
    end: Literal["stop", "length", "cut", "hang"] = "stop"
    """`cut`: the connection breaks; `hang`: silence until the other side disconnects."""


class ClientStep(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An action of the client after it has read an event."""

    on: str
    """`json.delta`, or `json.delta:3` for the third of them."""
    do: Literal["leave", "quit", "abort", "pause", "freeze", "repeat", "join", "crowd", "misspeak"]
    """`leave`: disconnect, wait, resume; `quit`: the same, with an abort before the return; `pause`:
    stop reading for a while; `freeze`: pause, and abort instead of resuming; `repeat`: send the same
    request again, with its key; `join`: follow the run from its start as well; `crowd`: ask for
    another stream where only one may run; `misspeak`: answer a call that was never made."""
    wait: float = 0.0


class ScriptedClient(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    transport: Literal["", "sse", "ws"] = ""
    """Both, in turn, if empty."""
    resume: Literal["get", "post", "ws"] = "get"
    steps: tuple[ClientStep, ...] = ()
    answers: dict[str, str] = {}
    """Call id → the posted result, as JSON: `{"result": …}` or `{"error": "…"}`."""
    key: str = ""
    """The idempotency key; each play adds a suffix of its own."""
    credential: str = ""
    slow: float = 0.0
    """Seconds between two reads, the first hundred times."""
    after: tuple[After, ...] = ()
    """Actions after the end; `anew`: the same request again, which must start a new run."""


class ExpectedRejection(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An error before the first event."""

    status: int
    code: str
    where: str | None = None
    has: str = ""


class ExpectedRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The expected content of one request to the model."""

    at: int
    """1 for the first."""
    has: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()
    fields: dict[str, Json] = {}
    """By path, as `messages.0.role`."""


class StreamExpectation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The expected result; grammar, ids, lengths and validity are checked in every case."""

    events: str = ""
    """In their order, runs of deltas as one: `text`; `json` and `result` for begin, delta, end;
    `tool` for call and result; `error:CODE`; `done`; or an event's full name."""
    anew: str = ""
    """The events of the second run, for `anew`."""
    anew_cached: tuple[str, ...] = ()
    """Calls of the second run whose results come from the first."""
    text: str | None = None
    values: dict[str, str] = {}
    """Frame id → the valid object, as JSON."""
    chunks: dict[str, str] = {}
    """Frame id → the exact joined chunks."""
    status: dict[str, str] = {}
    """Frame id → the status of a frame that was not valid as written."""
    error: dict[str, str] = {}
    """Frame id → the code in the diagnostics of a degraded frame."""
    invented: dict[str, tuple[str, ...]] = {}
    """Frame id → the members of a degraded value that the model did not write."""
    args: dict[str, str] = {}
    results: dict[str, str] = {}
    """Call id → the tool's result, as JSON."""
    results_have: dict[str, tuple[str, ...]] = {}
    failed: dict[str, str] = {}
    """Call id → the code of the failure."""
    cached: tuple[str, ...] = ()
    requests: int | None = None
    """The number of requests to the model; by default the number of its answers."""
    asked: tuple[ExpectedRequest, ...] = ()
    rejected: ExpectedRejection | None = None
    quotes: bool = False
    """Whether the text quotes a sentinel, in a JSON string or in prose."""
    pings: bool = False
    fewest: int = 0
    """The least number of events."""
    most: int = 0
    """The largest number of events: an unread run waits."""
    hung_up: bool = False
    """The connection to the model is closed soon after the end."""


class StreamCase(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    proves: str
    body: str = "{}"
    """The request as JSON; a prompt, the model and the mode `sentinel` are added unless it is `bare`
    or has its own."""
    bare: bool = False
    says: tuple[ScriptedAnswer, ...] = ()
    client: ScriptedClient = ScriptedClient()
    expect: StreamExpectation = StreamExpectation()
    cuttings: tuple[str, ...] = CUTTINGS
    steady: bool = True
    """Whether every cutting gives the same events; false if timing decides how far a stream gets."""
    gateway: Literal["", "short", "pinging", "keyed", "few"] = ""
    """A gateway with another configuration, by its name in `self_gateway.stream_config`."""
    category: str = ""

    @property
    def id(self) -> str:
        return f"{self.category}/{self.name}"


class _File(msgspec.Struct, forbid_unknown_fields=True):
    category: str
    case: list[StreamCase]


def folder() -> Path:
    return all_cases() / "stream"


def load(path: Path | None = None) -> tuple[StreamCase, ...]:
    """Return the cases in a folder; raise `ConfigError` that names the file and the fault."""
    cases: list[StreamCase] = []
    place = path or folder()
    for category in CATEGORIES:
        file = place / f"{category}.toml"
        try:
            read = msgspec.convert(tomllib.loads(file.read_text("utf-8")), _File)
        except (tomllib.TOMLDecodeError, msgspec.ValidationError, OSError) as error:
            raise ConfigError(f"{file}: {error}") from None
        cases += [msgspec.structs.replace(case, category=read.category) for case in read.case]
    return tuple(cases)


def select(cases: tuple[StreamCase, ...], only: str = "*") -> list[StreamCase]:
    return [
        case
        for case in cases
        if any(fnmatch.fnmatch(name, only) for name in (case.id, case.name, case.category))
    ]


_REPEAT = re.compile(r"\{\{(.+?)\*(\d{1,8})\}\}", re.DOTALL)


def expand(text: str) -> str:
    """Return `text` with `{{x*5}}` expanded; `%d` in it counts from 0, `%+` from 1."""

    def written(found: re.Match[str]) -> str:
        part, times = found[1], int(found[2])
        if "%d" not in part and "%+" not in part:
            return part * times
        return "".join(part.replace("%d", str(n)).replace("%+", str(n + 1)) for n in range(times))

    return _REPEAT.sub(written, text)


def body_of(case: StreamCase, model: str) -> bytes | JsonObject:
    """Return the request body: an object, or bytes if the body is not an object."""
    written = expand(case.body)
    if case.bare:
        return written.encode()
    found = loads(written)
    if not isinstance(found, dict):
        return written.encode()
    asked = {} if "messages" in found or "prompt" in found else {"prompt": "Conformance."}
    return {"mode": "sentinel", **asked, **found, "model": model}
