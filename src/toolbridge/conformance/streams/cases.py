"""The cases, read from the eight files of `conformance/stream/`."""

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
    """A tool call in the model's own form."""

    tool: int | str
    """Its name, or its place among the tools that the model was offered."""
    arguments: str = "{}"
    id: str = ""


class ScriptedAnswer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One answer of the model: its text, then its calls, then its end."""

    text: str = ""
    """`<<wait 0.2>>` pauses for seconds; `{{x*5}}` is x five times."""
    at: tuple[int, ...] = ()
    """Where the cutting `given` cuts."""
    calls: tuple[ScriptedCall, ...] = ()
    status: int = 200
    end: Literal["stop", "length", "cut", "hang"] = "stop"
    """`cut`: the connection dies; `hang`: nothing follows until the other side leaves."""


class ClientStep(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the client does when it has read an event."""

    on: str
    """`json.delta`, or `json.delta:3` for the third of them."""
    do: Literal["leave", "quit", "abort", "pause", "freeze", "repeat", "join", "crowd", "misspeak"]
    """`leave`: hang up, wait, resume; `quit`: the same, with an abort before the return; `pause`:
    stop reading for a while; `freeze`: pause, and abort instead of resuming; `repeat`: send the same
    request again, with its key; `join`: follow the run from its start as well; `crowd`: ask for
    another stream where only one may run; `misspeak`: answer a call that was never made."""
    wait: float = 0.0


class ScriptedClient(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    transport: Literal["", "sse", "ws"] = ""
    """Both, in turn, where none is given."""
    resume: Literal["get", "post", "ws"] = "get"
    steps: tuple[ClientStep, ...] = ()
    answers: dict[str, str] = {}
    """Call id → what is posted back, as JSON: `{"result": …}` or `{"error": "…"}`."""
    key: str = ""
    """The idempotency key; every play makes its own of it."""
    credential: str = ""
    slow: float = 0.0
    """Seconds between two reads, the first hundred times."""
    after: tuple[After, ...] = ()
    """What is tried when all is over; `anew`: the same request once more, which runs again."""


class ExpectedRejection(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An error before the first event."""

    status: int
    code: str
    where: str | None = None
    has: str = ""


class ExpectedRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What one of the requests to the model must look like."""

    at: int
    """1 for the first."""
    has: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()
    fields: dict[str, Json] = {}
    """By path, as `messages.0.role`."""


class StreamExpectation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What must come out; grammar, ids, lengths and validity are checked in every case besides."""

    events: str = ""
    """In their order, runs of deltas as one: `text`; `json` and `result` for begin, delta, end;
    `tool` for call and result; `error:CODE`; `done`; or an event's full name."""
    anew: str = ""
    """The events of the second run, where the client asks anew."""
    anew_cached: tuple[str, ...] = ()
    """Calls of the second run that the first has answered."""
    text: str | None = None
    values: dict[str, str] = {}
    """Frame id → the object that counts, as JSON."""
    chunks: dict[str, str] = {}
    """Frame id → the chunks, joined, to the letter."""
    status: dict[str, str] = {}
    """Frames that are not valid as they were written."""
    error: dict[str, str] = {}
    """Frame id → the code in the diagnostics of a degraded frame."""
    invented: dict[str, tuple[str, ...]] = {}
    """Frame id → the members of a degraded value that are not the model's."""
    args: dict[str, str] = {}
    results: dict[str, str] = {}
    """Call id → the tool's result, as JSON."""
    results_have: dict[str, tuple[str, ...]] = {}
    failed: dict[str, str] = {}
    """Call id → the code of the failure."""
    cached: tuple[str, ...] = ()
    requests: int | None = None
    """How often the model is asked; as often as it has answers, where nothing is said."""
    asked: tuple[ExpectedRequest, ...] = ()
    rejected: ExpectedRejection | None = None
    quotes: bool = False
    """Whether a sentinel is quoted, in a JSON string or in prose, where it is text."""
    pings: bool = False
    fewest: int = 0
    """Events at least."""
    most: int = 0
    """Events at most: a run that nobody reads waits."""
    hung_up: bool = False
    """The line to the model is closed soon after the end."""


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
    """Whether every cutting gives the same events; not where time decides how far a stream gets."""
    gateway: Literal["", "short", "keyed", "few"] = ""
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
    """Return `text` with `{{x*5}}` written out; `%d` in it counts from 0, `%+` from 1."""

    def written(found: re.Match[str]) -> str:
        part, times = found[1], int(found[2])
        if "%d" not in part and "%+" not in part:
            return part * times
        return "".join(part.replace("%d", str(n)).replace("%+", str(n + 1)) for n in range(times))

    return _REPEAT.sub(written, text)


def body_of(case: StreamCase, model: str) -> bytes | JsonObject:
    """Return what is posted: an object, or the bytes of what is none."""
    written = expand(case.body)
    if case.bare:
        return written.encode()
    found = loads(written)
    if not isinstance(found, dict):
        return written.encode()
    asked = {} if "messages" in found or "prompt" in found else {"prompt": "Conformance."}
    return {"mode": "sentinel", **asked, **found, "model": model}
