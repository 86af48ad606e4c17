"""Requests and answers, independent of any vendor's API.

A `Request` is a list of turns, and a `Turn` is a list of parts. The results of tools are the first
parts of a user turn. Codecs decode each API's JSON into these types and encode them again; what an
API cannot express is reported as a `Loss`.
"""

from typing import Literal, TypeAlias

import msgspec

from toolbridge.core.content import Cache as Cache
from toolbridge.core.content import Image as Image
from toolbridge.core.content import Opaque as Opaque
from toolbridge.core.content import Origin as Origin
from toolbridge.core.content import Text as Text
from toolbridge.core.json import JsonObject
from toolbridge.core.server_tools import ServerCall, ServerResult, ServerTool
from toolbridge.core.usage import Usage


class Thinking(msgspec.Struct, frozen=True, gc=False, tag="thinking", omit_defaults=True):
    """Thinking of the model. Redacted thinking has no text, only an opaque token."""

    text: str
    opaque: tuple[Opaque, ...] = ()
    field: str = ""
    """The name of the provider's field, where the API has several (`reasoning`, `thinking`) and it
    is not the usual one. Clients of the same API receive the thinking under that name."""
    source: Origin | None = None


class Document(msgspec.Struct, frozen=True, gc=False, tag="document", omit_defaults=True):
    """One of `data` (base64), `text`, `url` and `file_id` is set."""

    data: str = ""
    media_type: str = ""
    text: str = ""
    url: str = ""
    file_id: str = ""
    title: str = ""
    context: str = ""
    cite: bool = False
    """Whether the answer should cite passages of it. Anthropic, Messages API: `citations.enabled`."""
    cache: Cache = ""
    source: Origin | None = None


class Audio(msgspec.Struct, frozen=True, gc=False, tag="audio", omit_defaults=True):
    data: str
    media_type: str = ""
    source: Origin | None = None


class Reference(msgspec.Struct, frozen=True, gc=False, tag="reference", omit_defaults=True):
    """A deferred tool that a tool search has found and that may be called from now on."""

    name: str
    source: Origin | None = None


class Foreign(msgspec.Struct, frozen=True, gc=False, tag="foreign", omit_defaults=True):
    """A part that only one API has: kept for that API, reported as a loss for the others."""

    origin: str
    kind: str
    raw: JsonObject
    source: Origin | None = None
    text: str = ""
    """A text that other APIs get instead, such as code that was executed and its output."""


class Call(msgspec.Struct, frozen=True, gc=False, tag="call", omit_defaults=True):
    """A tool call of the model.

    `raw` is the text of arguments that are not a JSON object; `arguments` is then empty. Such a
    call must not be run: healing either parses the text or reports that it could not.
    """

    id: str
    name: str
    arguments: JsonObject = msgspec.field(default_factory=dict)
    raw: str = ""
    opaque: tuple[Opaque, ...] = ()
    cache: Cache = ""
    source: Origin | None = None


ResultPart: TypeAlias = Text | Image | Document | Audio | Reference | Foreign


class Result(msgspec.Struct, frozen=True, gc=False, tag="result", omit_defaults=True):
    call_id: str
    content: tuple[ResultPart, ...] = ()
    is_error: bool = False
    name: str = ""
    """The name of the tool, from the API or from the call that this result answers."""
    cache: Cache = ""
    source: Origin | None = None


Part: TypeAlias = (
    Text
    | Thinking
    | Image
    | Document
    | Audio
    | Reference
    | Foreign
    | Call
    | Result
    | ServerCall
    | ServerResult
)
Role: TypeAlias = Literal["system", "user", "assistant"]


class Turn(msgspec.Struct, frozen=True, omit_defaults=True, dict=True):
    """A message of the conversation. `core.shared_turns` keeps derived values in its `__dict__`."""

    role: Role
    content: tuple[Part, ...]
    source: Origin | None = None


class Tool(msgspec.Struct, frozen=True, omit_defaults=True):
    """A tool that the model may call.

    A `hosted` tool is run by the provider of its API and has no schema here. A `native` tool is run
    by the client, but its API declares it without a schema: by its type (`bash_20250124`) or in the
    deprecated `functions` field. Other APIs get a native tool as an ordinary one.
    """

    name: str
    description: str = ""
    schema: JsonObject = msgspec.field(default_factory=dict)
    strict: bool | None = None
    deferred: bool = False
    """Whether the model may call it only after a `Reference` has named it."""
    freeform: bool = False
    """Whether its input is plain text. Other APIs get a tool with the arguments `{"input": text}`."""
    namespace: str = ""
    cache: Cache = ""
    origin: str = ""
    hosted: JsonObject | None = None
    server: ServerTool | None = None
    """What a hosted tool does, where the decoder knows it: any target or the gateway may run it."""
    native: JsonObject | None = None
    """Its declaration in the API `origin`; empty where a part of the conversation declares it."""
    source: Origin | None = None

    @property
    def input_schema(self) -> JsonObject:
        """The JSON schema of the arguments: an object, with `input` as its text if `freeform`."""
        if self.freeform:
            text: JsonObject = {"type": "string"}
            return {"type": "object", "properties": {"input": text}, "required": ["input"]}
        if "type" in self.schema:
            return self.schema
        return {"type": "object", "properties": {}, **self.schema}


class ToolChoice(msgspec.Struct, frozen=True, omit_defaults=True):
    mode: Literal["auto", "none", "required", "named"] = "auto"
    names: tuple[str, ...] = ()
    """The tool of `named`; for the other modes, the tools that are allowed (empty: all)."""
    parallel: bool | None = None


Effort: TypeAlias = Literal["", "none", "minimal", "low", "medium", "high", "xhigh", "max"]


class Think(msgspec.Struct, frozen=True, omit_defaults=True):
    """The thinking that the client asks for. `auto`: the model decides."""

    mode: Literal["on", "auto", "off", "between_tools", "unset"] = "unset"
    budget: int | None = None
    effort: Effort = ""
    show: Literal["", "omitted", "summarized", "full", "updates"] = ""


MAX_ANSWERS = 128
"""The largest number of answers per request. OpenAI chat: `n` <= 128."""


class Sampling(msgspec.Struct, frozen=True, omit_defaults=True):
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    seed: int | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    repeat_penalty: float | None = None
    logprobs: int | None = None
    """How many alternatives to report per token; 0 reports only the chosen token."""
    n: int | None = None
    """The number of answers, where the client asks for more than one."""


class TaggedJson(msgspec.Struct, frozen=True):
    """JSON between two tags in a text."""

    begin: str
    schema: JsonObject
    end: str


class OutputFormat(msgspec.Struct, frozen=True, omit_defaults=True):
    """The answer must be JSON, valid for `schema` where one is given."""

    schema: JsonObject | None = None
    name: str = ""
    strict: bool | None = None
    checked: bool = False
    """Whether the caller checks the answer against `schema` and removes null for optional keys."""
    tagged: TaggedJson | None = None
    """If given, the answer is text, and only JSON between these tags is constrained."""


class Completion(msgspec.Struct, frozen=True, omit_defaults=True):
    """A request to a completion endpoint, whose single user turn is the text to continue."""

    suffix: str = ""
    """The text after the gap that the model fills."""
    echo: bool = False
    """Whether the answer begins with the prompt."""


class Request(msgspec.Struct, frozen=True, omit_defaults=True):
    model: str
    turns: tuple[Turn, ...] = ()
    system: tuple[Text, ...] = ()
    tools: tuple[Tool, ...] = ()
    tool_choice: ToolChoice = ToolChoice()
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()
    sampling: Sampling = Sampling()
    think: Think = Think()
    output: OutputFormat | None = None
    completion: Completion | None = None
    stream: bool = False
    user: str = ""
    session: str = ""
    origin: str = ""
    """The API of the client's request."""
    extra: JsonObject = msgspec.field(default_factory=dict)
    """Fields that only the API `origin` has, under that API's names."""


class Loss(msgspec.Struct, frozen=True):
    """Something in a request or an answer that the target API cannot express."""

    what: str
    """A path in the `Request` (`sampling.top_k`, `turns.3.content.0`) or a kind of content of an
    answer (`answer.audio`, `answer.logprobs`)."""
    why: str
    minor: bool = False
    """Whether no answer depends on it: it is logged, but the client gets no warning."""

    def __str__(self) -> str:
        return f"{self.what}: {self.why}"


class Step(msgspec.Struct, frozen=True):
    """One change that healing made, with its level and the value before and after."""

    what: str
    level: int
    before: str
    after: str


class HealingReport(msgspec.Struct, frozen=True):
    call_id: str
    name: str
    level: int
    steps: tuple[Step, ...]


StopReason: TypeAlias = Literal[
    "end", "length", "tool_use", "stop_sequence", "refusal", "pause", "context_overflow",
    "error", "aborted",
]  # fmt: skip


class Problem(msgspec.Struct, frozen=True, omit_defaults=True):
    """An error as a value: its kind, its text and its position in the request."""

    kind: str
    """The `kind` of a class in `core.errors`: `malformed_request`, `overloaded`, `truncated` …"""
    text: str
    where: str = ""
    """The path of the invalid field in the request: `messages.0.content.1.text`."""
    status: int = 0
    """The HTTP status of the upstream's response; 0 where there was none."""
    retry_after: float | None = None
    provider: str = ""
    nearest: tuple[str, ...] = ()
    """For an unknown model: the most similar names."""
    permanent: bool = False
    """Whether the same request will fail again, so that clients must not retry it."""
    lasting: bool = False
    """Whether only a change of settings helps, so that the gateway does not retry it either."""
    generated: str = ""
    """What the model wrote, where the error of an engine that could not parse it contains that."""


class TokenLogprob(msgspec.Struct, frozen=True, omit_defaults=True):
    """The log probability of a token and of its alternatives."""

    token: str
    logprob: float
    bytes: tuple[int, ...] | None = None
    """Its bytes in UTF-8: a token may be a part of a character."""
    top: "tuple[TokenLogprob, ...]" = ()


class StopDetails(msgspec.Struct, frozen=True, omit_defaults=True):
    """The provider's explanation of a refusal, apart from the text of the model."""

    explanation: str = ""
    category: str = ""
    """The category of the refusal, as the API `origin` names it."""
    origin: str = ""
    raw: JsonObject = msgspec.field(default_factory=dict)


class Message(msgspec.Struct, frozen=True, omit_defaults=True):
    """An answer, complete or partial."""

    id: str = ""
    model: str = ""
    content: tuple[Part, ...] = ()
    usage: Usage = Usage()
    stop: StopReason | None = None
    stop_sequence: str = ""
    stop_details: StopDetails | None = None
    logprobs: tuple[TokenLogprob, ...] = ()
    """The log probabilities of the text, where the client asked for them."""
    healed: tuple[HealingReport, ...] = ()
    losses: tuple[Loss, ...] = ()
    """What the provider sent and events cannot represent."""
    alternatives: "tuple[Message, ...]" = ()
    """The other answers, where the client asked for more than one (`Sampling.n`)."""
    problem: Problem | None = None
    envelope: Foreign | None = None
    """The provider's envelope without id and model, for clients of the same API."""

    @property
    def text(self) -> str:
        return "".join(part.text for part in self.content if isinstance(part, Text))

    @property
    def thinking(self) -> str:
        return "".join(part.text for part in self.content if isinstance(part, Thinking))

    @property
    def calls(self) -> tuple[Call, ...]:
        return tuple(part for part in self.content if isinstance(part, Call))
