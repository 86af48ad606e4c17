"""Reads the translation cases from the TOML files of `conformance/`."""

import fnmatch
import re
import tomllib
from pathlib import Path
from typing import Literal

import msgspec

from toolbridge.conformance.client_requests import CaseRequest, CaseTool
from toolbridge.core.errors import ConfigError
from toolbridge.core.json import Json, JsonObject

APIS = ("anthropic", "openai_chat", "openai_responses", "gemini", "ollama")
REQUESTS = "requests.toml"


class ExpectedCall(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A call that the client must receive."""

    name: str
    arguments: JsonObject = {}


class ExpectedServerCall(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A call of a server tool that clients of an API with such calls must receive."""

    kind: str
    subject: str = ""
    urls: tuple[str, ...] = ()
    output: str = ""
    failed: bool = False


class Expectation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The expected result, in terms that fit every client API.

    Only the given fields are checked, and always these: the stream is legal, and a successful answer
    has exactly the given calls.
    """

    terminal: Literal["finished", "error", "any"] = "finished"
    """`error`: a status of 400 or more, or an error as the last event, or a stream that breaks off;
    never a successful end. `any`: a legal end or an error."""
    status: tuple[int, ...] = ()
    """Any of these; an error must then come before the first byte."""
    error_has: tuple[str, ...] = ()
    """The error's text contains one of these, in any case."""
    error_for: dict[str, tuple[str, ...]] = {}
    """The same for one client API."""
    retry_after: bool = False
    text: str | None = None
    text_has: tuple[str, ...] = ()
    text_lacks: tuple[str, ...] = ()
    thinking: str | None = None
    calls: tuple[ExpectedCall, ...] = ()
    server_calls: tuple[ExpectedServerCall, ...] | None = None
    """The calls of server tools, of the kinds that the client's API can contain."""
    cites: tuple[str, ...] = ()
    """The addresses that the text cites; Ollama has no citations, and has them in the text."""
    searches: int = 0
    """The number of searches in the usage, in APIs that count them."""
    runnable: tuple[str, ...] | None = None
    """The only tools that a client could run: closed calls with all required arguments. Replaces the
    check of `calls`."""
    stop: str | tuple[str, ...] = ()
    """`end`, `length`, `tool_use`, `stop_sequence` or `refusal`; one of several is enough."""
    input: int = 0
    output: int = 0
    early_usage: bool = False
    """The first event of a stream estimates the input tokens, in APIs that have a field for it."""
    order: tuple[str, ...] = ()
    """The blocks, where the API has an order: `thinking`, `text`, `call`."""
    status_within: float = 0.0
    within: float = 0.0
    keep_alive: bool = False
    """The client gets an empty event of its API while the upstream is silent."""
    longest_silence: float = 0.0
    """The most seconds between two deliveries to the client, from the status on."""
    hangs_up_within: float = 0.0
    """Seconds within which the upstream's connection is closed after the client disconnected."""
    heard: int = 0
    """The most requests to the upstream."""
    received: dict[str, Json] = {}
    """Values in the upstream's request, by path."""
    received_absent: tuple[str, ...] = ()
    received_has: tuple[str, ...] = ()
    """Texts that the upstream's request must contain."""
    received_lacks: tuple[str, ...] = ()
    """Texts that must not reach the upstream."""


class WireFraming(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How the lines of an answer are framed; the default is the API's own framing."""

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
    """The API of the upstream; set once per file."""
    rows: tuple[str, ...] = ()
    """The pitfalls that it covers, by their rows in `docs/reference/conformance.md`."""
    tags: tuple[str, ...] = ()
    ask: str = "plain"
    clients: tuple[str, ...] = ()
    """The only client APIs that can express it; empty for all."""
    passed_through: bool = True
    """Whether the case applies to a gateway that forwards bytes of the same API untouched."""
    whole: bool = False
    """Whether the client asks for a whole answer instead of a stream."""
    before: float = 0.0
    """Seconds before the status."""
    fail_first: int = 0
    """The status of a failed first attempt; 0 for none, -1 for a dropped connection."""
    status: int = 200
    headers: dict[str, str] = {}
    type: str = ""
    answer: str = ""
    """One event per line. `~wait SECONDS` pauses; `~raw "JSON string"` sends bytes unframed;
    `~split N` cuts the following bytes into chunks of N bytes, `~split 0` ends that."""
    then: str = ""
    """The answer to the second request and all later ones, where it differs."""
    emulated: bool = False
    """Whether the upstream has no server tools: the gateway runs them, and asks it again."""
    framing: WireFraming = WireFraming()
    gzip: bool = False
    end: Literal["clean", "cut", "rst", "hang"] = "clean"
    abort: Literal["", "early", "speaking"] = ""
    """When the client disconnects: before any byte arrived, or at the first text."""
    expect: Expectation = Expectation()

    @property
    def id(self) -> str:
        return f"{self.api}/{self.name}"


class CaseBook(msgspec.Struct, frozen=True):
    """All cases, and the requests that they name."""

    cases: tuple[Case, ...]
    asks: dict[str, CaseRequest]

    def groups(self) -> list[str]:
        """Return the families and tags by which cases are selected."""
        return sorted({name for case in self.cases for name in (case.family, *case.tags)})

    def matching(self, only: str) -> list[Case]:
        """Return the cases whose id, name, family or tag matches a glob."""
        return [
            case
            for case in self.cases
            if any(
                fnmatch.fnmatch(name, only)
                for name in (case.id, case.name, case.family, *case.tags)
            )
        ]

    def select(
        self,
        *,
        api: str,
        client: str,
        only: str = "*",
        passthrough: bool = False,
        emulated: bool = False,
    ) -> list[Case]:
        """Return the cases of an upstream API that apply to a client API.

        `emulated` adds those that need a gateway with a search engine.
        """
        return [
            case
            for case in self.matching(only)
            if case.api == api
            and (not case.clients or client in case.clients)
            and (case.passed_through or not passthrough)
            and (emulated or not case.emulated)
        ]


def folder() -> Path:
    """Return the folder of the cases: in the installed package, or else in the repository."""
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
    """Return `text` with `{{x*5}}` expanded: some cases are megabytes long.

    Answers and expected texts are expanded only when they are used.
    """
    return _REPEAT.sub(lambda found: found[1] * int(found[2]), text)
