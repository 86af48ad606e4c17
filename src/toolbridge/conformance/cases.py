"""The cases, read from the TOML files of `conformance/`."""

import fnmatch
import re
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import msgspec

from toolbridge.conformance.client_requests import CaseRequest, CaseTool
from toolbridge.core.errors import ConfigError
from toolbridge.core.json import Json, JsonObject

APIS = ("anthropic", "openai_chat", "openai_responses", "gemini", "ollama")
REQUESTS = "requests.toml"


class ExpectedCall(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A call that the client must see."""

    name: str
    arguments: JsonObject = {}


class Expectation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What must come out, in words that hold for every client API.

    What is not said is not checked, except this: the stream is legal, and an answer that ends well
    has the calls that are given and no others.
    """

    terminal: Literal["finished", "error", "any"] = "finished"
    """`error`: a status of 400 or more, or an error as the last event, or a stream that breaks off;
    never an end that looks like success. `any`: a legal end or an error."""
    status: tuple[int, ...] = ()
    """Any of these; an error must then come before the first byte."""
    error_has: tuple[str, ...] = ()
    """Any of these stands in the error's text, in whatever case."""
    error_for: dict[str, tuple[str, ...]] = {}
    """The same for one client API."""
    retry_after: bool = False
    text: str | None = None
    text_has: tuple[str, ...] = ()
    text_lacks: tuple[str, ...] = ()
    thinking: str | None = None
    calls: tuple[ExpectedCall, ...] = ()
    runnable: tuple[str, ...] | None = None
    """The only tools that a client could run: calls that are closed and have what the tool requires.
    Replaces the check of `calls`."""
    stop: str | tuple[str, ...] = ()
    """`end`, `length`, `tool_use`, `stop_sequence` or `refusal`; any of them."""
    input: int = 0
    output: int = 0
    early_usage: bool = False
    """The first event of a stream estimates the input, where the API has a place for it."""
    order: tuple[str, ...] = ()
    """The blocks, where the API has an order: `thinking`, `text`, `call`."""
    status_within: float = 0.0
    within: float = 0.0
    keep_alive: bool = False
    """The client is sent an empty event of its own API while the upstream is silent."""
    longest_silence: float = 0.0
    """Between two deliveries to the client, from the status on."""
    hangs_up_within: float = 0.0
    """After the client left, the upstream's connection is closed within this time."""
    heard: int = 0
    """How often the upstream may be asked at most."""
    received: dict[str, Json] = {}
    """What the upstream must have been sent, by path."""
    received_absent: tuple[str, ...] = ()
    received_has: tuple[str, ...] = ()
    """Words that must stand somewhere in what the upstream was sent."""


class WireFraming(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How the lines of an answer become bytes; the default is the API's own way."""

    eol: str = ""
    event: bool = True
    """Whether the `event:` lines of the API are sent."""
    space: bool = True
    bom: bool = False
    comments: bool = False


class Case(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    family: str
    why: str
    api: str = ""
    """The API that the upstream speaks; the file says it."""
    rows: tuple[str, ...] = ()
    """The pitfalls that it stands for, as `docs/reference/conformance.md` numbers them."""
    tags: tuple[str, ...] = ()
    ask: str = "plain"
    clients: tuple[str, ...] = ()
    """The only client APIs that can say or see it; none given: all."""
    passed_through: bool = True
    """Whether a gateway that forwards the bytes of its own API untouched is held to it too."""
    whole: bool = False
    """Whether the client asks for a whole answer instead of a stream."""
    before: float = 0.0
    """Seconds before the status."""
    fail_first: int = 0
    """The status of the first attempt; 0 for none, -1 for a connection that is dropped."""
    status: int = 200
    headers: dict[str, str] = {}
    type: str = ""
    answer: str = ""
    """One frame per line. `~wait SECONDS` pauses; `~raw "JSON string"` sends bytes as they are;
    `~split N` cuts what follows into pieces of N bytes, `~split 0` no more."""
    framing: WireFraming = WireFraming()
    gzip: bool = False
    end: Literal["clean", "cut", "rst", "hang"] = "clean"
    abort: Literal["", "early", "speaking"] = ""
    """When the client leaves: before anything came, or at the first words."""
    expect: Expectation = Expectation()

    @property
    def id(self) -> str:
        return f"{self.api}/{self.name}"


class CaseBook(msgspec.Struct, frozen=True):
    """All cases, and the requests that they name."""

    cases: tuple[Case, ...]
    asks: dict[str, CaseRequest]

    def select(
        self, *, api: str, client: str, only: str = "*", passthrough: bool = False
    ) -> list[Case]:
        """Return the cases of an upstream API that a client API can be held to."""
        return [
            case
            for case in self.cases
            if case.api == api
            and (not case.clients or client in case.clients)
            and (case.passed_through or not passthrough)
            and any(fnmatch.fnmatch(name, only) for name in (case.id, case.name, *_groups(case)))
        ]


def _groups(case: Case) -> Sequence[str]:
    return (case.family, *case.tags)


def folder() -> Path:
    """Return where the cases are: beside the code in an installed package, else in the project."""
    installed = Path(__file__).parent / "data"
    return installed if installed.is_dir() else Path(__file__).parents[3] / "conformance"


def load(path: Path | None = None) -> CaseBook:
    """Return the cases in a folder; raise `ConfigError` that names the file and the fault."""
    place = path or folder()
    cases: list[Case] = []
    for file in sorted(place.glob("*.toml")):
        if file.name != REQUESTS:
            cases += _read_cases(file)
    asks = _read_asks(place / REQUESTS)
    if unknown := {case.ask for case in cases} - asks.keys():
        raise ConfigError(f"{REQUESTS} has no {', '.join(sorted(unknown))}")
    return CaseBook(tuple(cases), asks)


class _CaseFile(msgspec.Struct, forbid_unknown_fields=True):
    api: str
    case: list[Case]


class _AskFile(msgspec.Struct, forbid_unknown_fields=True):
    tool: list[CaseTool]
    ask: dict[str, JsonObject]


def _read_cases(file: Path) -> list[Case]:
    try:
        read = msgspec.convert(tomllib.loads(file.read_text("utf-8")), _CaseFile)
    except (tomllib.TOMLDecodeError, msgspec.ValidationError, OSError) as error:
        raise ConfigError(f"{file}: {error}") from None
    return [msgspec.structs.replace(case, api=read.api) for case in read.case]


def _read_asks(file: Path) -> dict[str, CaseRequest]:
    try:
        read = msgspec.convert(tomllib.loads(expand(file.read_text("utf-8"))), _AskFile)
        tools = {tool.name: tool for tool in read.tool}
        return {name: _ask(dict(ask), tools) for name, ask in read.ask.items()}
    except (tomllib.TOMLDecodeError, msgspec.ValidationError, OSError, KeyError) as error:
        raise ConfigError(f"{file}: {error}") from None


def _ask(given: dict[str, object], tools: dict[str, CaseTool]) -> CaseRequest:
    offered = given.pop("tools", [])
    names = offered if isinstance(offered, list) else []
    ask = msgspec.convert(given, CaseRequest)
    return msgspec.structs.replace(ask, tools=tuple(tools[str(name)] for name in names))


_REPEAT = re.compile(r"\{\{(.)\*(\d{1,8})\}\}")


def expand(text: str) -> str:
    """Return `text` with `{{x*5}}` written out: some cases are as long as a wire can be.

    Answers and expected texts are written out only when they are needed.
    """
    return _REPEAT.sub(lambda found: found[1] * int(found[2]), text)
