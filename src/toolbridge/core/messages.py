"""What is asked and what is answered, in no vendor's shape.

A request is a list of turns; a turn is a list of parts. Results of tools are parts of a user turn,
in front of whatever else that turn says. What an API cannot express is a `Loss`, never silence.
"""

from typing import Literal, TypeAlias

import msgspec

from toolbridge.core.json import JsonObject
from toolbridge.core.usage import Usage

Cache: TypeAlias = Literal["", "5m", "1h"]
"""How long a prefix up to this part should be kept: a hint that some APIs take."""


class Opaque(msgspec.Struct, frozen=True):
    """A token that only its maker can read: a signature, an encrypted thought.

    It goes back to where it came from, byte for byte, and nowhere else.
    """

    origin: str
    """The API that made it, and the provider and model where known: `anthropic`, `gemini/google`."""
    kind: Literal["signature", "redacted", "encrypted", "thought_signature", "item"]
    value: str


class Origin(msgspec.Struct, frozen=True, eq=False, gc=False):
    """Where a part, a turn or a tool stood in the client's request, and how it was written there.

    The same API gets the client's own JSON back, unless the part was changed since; for any other
    API, the path is how a loss is named and `unknown` lists the fields that are lost. Two parts
    that differ in their sources alone are equal.
    """

    api: str
    path: str
    """As the client would write it: `messages.0.content.1`."""
    raw: msgspec.Raw | JsonObject | None = None
    unknown: tuple[str, ...] = ()
    """The fields of `raw` that are in no shape of ours; a dot leads into an object."""
    around: tuple[str, ...] = ()
    """Paths of such fields of the message that the part begins."""
    of: object = None
    """The part as it was decoded, to see whether it has changed."""

    def __eq__(self, other: object) -> bool:
        return other is None or isinstance(other, Origin)

    def __hash__(self) -> int:
        return 0


class Text(msgspec.Struct, frozen=True, tag="text", omit_defaults=True):
    text: str
    citations: tuple[JsonObject, ...] = ()
    """What it rests on; `core.citations` says which of them every API understands."""
    cache: Cache = ""
    opaque: tuple[Opaque, ...] = ()
    source: Origin | None = None


class Thinking(msgspec.Struct, frozen=True, tag="thinking", omit_defaults=True):
    """What the model thought. Redacted thinking has no text, only an opaque token."""

    text: str
    opaque: tuple[Opaque, ...] = ()
    field: str = ""
    """The name that the provider gave it, in an API that has several and where it is not the
    usual one. A client of the same API gets it under that name."""
    source: Origin | None = None


class Image(msgspec.Struct, frozen=True, tag="image", omit_defaults=True):
    """One of `data` (base64), `url` and `file_id` is set."""

    data: str = ""
    media_type: str = ""
    url: str = ""
    file_id: str = ""
    detail: str = ""
    cache: Cache = ""
    opaque: tuple[Opaque, ...] = ()
    source: Origin | None = None


class Document(msgspec.Struct, frozen=True, tag="document", omit_defaults=True):
    """One of `data` (base64), `text`, `url` and `file_id` is set."""

    data: str = ""
    media_type: str = ""
    text: str = ""
    url: str = ""
    file_id: str = ""
    title: str = ""
    context: str = ""
    cite: bool = False
    """Whether the answer should say where in it something was found."""
    cache: Cache = ""
    source: Origin | None = None


class Audio(msgspec.Struct, frozen=True, tag="audio", omit_defaults=True):
    data: str
    media_type: str = ""
    source: Origin | None = None


class Reference(msgspec.Struct, frozen=True, tag="reference", omit_defaults=True):
    """A tool that was found by a search among the deferred ones, and may now be called."""

    name: str
    source: Origin | None = None


class Foreign(msgspec.Struct, frozen=True, tag="foreign", omit_defaults=True):
    """A part that only its own API understands: kept for that API, a loss for every other."""

    origin: str
    kind: str
    raw: JsonObject
    source: Origin | None = None
    text: str = ""
    """What other APIs write in its place, where words can say it: code that ran, its output."""


class Call(msgspec.Struct, frozen=True, tag="call", omit_defaults=True):
    """The model asks for a tool.

    `raw` is what the model wrote when that was not a JSON object; `arguments` is then empty. Nobody
    runs such a call: healing turns it into a whole one, or says that it could not.
    """

    id: str
    name: str
    arguments: JsonObject = msgspec.field(default_factory=dict)
    raw: str = ""
    opaque: tuple[Opaque, ...] = ()
    cache: Cache = ""
    source: Origin | None = None


ResultPart: TypeAlias = Text | Image | Document | Audio | Reference | Foreign


class Result(msgspec.Struct, frozen=True, tag="result", omit_defaults=True):
    call_id: str
    content: tuple[ResultPart, ...] = ()
    is_error: bool = False
    name: str = ""
    """The tool's name, where the API gives it or history has found it out."""
    cache: Cache = ""
    source: Origin | None = None


Part: TypeAlias = Text | Thinking | Image | Document | Audio | Reference | Foreign | Call | Result
Role: TypeAlias = Literal["system", "user", "assistant"]


class Turn(msgspec.Struct, frozen=True, omit_defaults=True):
    role: Role
    content: tuple[Part, ...]
    source: Origin | None = None


class Tool(msgspec.Struct, frozen=True, omit_defaults=True):
    """A tool on offer. A `hosted` one is run by its API and has no schema of ours.

    A `native` one is run by the client, but `origin` offers it in another way than as a tool with a
    schema: by its type alone, or as was done before there were tools. Elsewhere it is like any other.
    """

    name: str
    description: str = ""
    schema: JsonObject = msgspec.field(default_factory=dict)
    strict: bool | None = None
    deferred: bool = False
    """Offered only once a `Reference` names it."""
    freeform: bool = False
    """Its input is one text, not an object; carried elsewhere as `{"input": text}`."""
    namespace: str = ""
    cache: Cache = ""
    origin: str = ""
    hosted: JsonObject | None = None
    native: JsonObject | None = None
    """How `origin` offers it; empty where a part of the conversation does."""
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
    """The one tool of `named`; for the other modes, the only ones allowed (none given: all)."""
    parallel: bool | None = None


Effort: TypeAlias = Literal["", "none", "minimal", "low", "medium", "high", "xhigh", "max"]


class Think(msgspec.Struct, frozen=True, omit_defaults=True):
    """How the model should think. `auto` leaves the decision to the model."""

    mode: Literal["on", "auto", "off", "between_tools", "unset"] = "unset"
    budget: int | None = None
    effort: Effort = ""
    show: Literal["", "omitted", "summarized", "full", "updates"] = ""


MAX_ANSWERS = 128
"""The most answers that one request may ask for: OpenAI's limit of `n`."""


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
    """How many alternatives to report per token; 0 reports the chosen one only."""
    n: int | None = None
    """How many answers to give to one request, where that is more than one."""


class OutputFormat(msgspec.Struct, frozen=True, omit_defaults=True):
    """The answer is JSON; with a schema, JSON of that shape."""

    schema: JsonObject | None = None
    name: str = ""
    strict: bool | None = None


class Completion(msgspec.Struct, frozen=True, omit_defaults=True):
    """The request came to a completion endpoint: the one user turn is a text to be continued."""

    suffix: str = ""
    """What stands behind the gap to be filled."""
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
    """The API that the client spoke."""
    extra: JsonObject = msgspec.field(default_factory=dict)
    """Fields that only `origin` understands, by their own names."""


class Loss(msgspec.Struct, frozen=True):
    """Something that the target could not express."""

    what: str
    """A path in our request: `sampling.top_k`, `turns.3.content.0`; of an answer, its kind:
    `answer.audio`, `answer.logprobs`."""
    why: str
    minor: bool = False
    """Whether no answer depends on it: a note for the log, no warning for the client."""

    def __str__(self) -> str:
        return f"{self.what}: {self.why}"


class Step(msgspec.Struct, frozen=True):
    """One change that healing made: which, how bold, and the value before and after."""

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
    """An error as a value: whose fault, what is wrong and what to do."""

    kind: str
    """A leaf of the tree in `core.errors`: `malformed_request`, `overloaded`, `truncated` …"""
    text: str
    where: str = ""
    """The path of the fault in what was sent: `messages.0.content.1.text`."""
    status: int = 0
    """The HTTP status that the upstream gave, if one did."""
    retry_after: float | None = None
    provider: str = ""
    nearest: tuple[str, ...] = ()
    """For an unknown model: the names that come closest."""
    permanent: bool = False
    """Whether the same request fails until somebody acts: clients are told not to repeat it."""


class TokenLogprob(msgspec.Struct, frozen=True, omit_defaults=True):
    """How likely a token was, and others in its place."""

    token: str
    logprob: float
    bytes: tuple[int, ...] | None = None
    """Its bytes: a token may be a part of a character."""
    top: "tuple[TokenLogprob, ...]" = ()


class StopDetails(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a provider says about a refusal, beside the words of the model."""

    explanation: str = ""
    category: str = ""
    """Its kind, in the words of `origin`."""
    origin: str = ""
    raw: JsonObject = msgspec.field(default_factory=dict)


class Message(msgspec.Struct, frozen=True, omit_defaults=True):
    """An answer, whole or as far as it came."""

    id: str = ""
    model: str = ""
    content: tuple[Part, ...] = ()
    usage: Usage = Usage()
    stop: StopReason | None = None
    stop_sequence: str = ""
    stop_details: StopDetails | None = None
    logprobs: tuple[TokenLogprob, ...] = ()
    """Of the tokens of its text, where they were asked for."""
    healed: tuple[HealingReport, ...] = ()
    losses: tuple[Loss, ...] = ()
    """What the provider sent and our events cannot hold."""
    alternatives: "tuple[Message, ...]" = ()
    """The other answers to the same request, where more than one was asked for."""
    problem: Problem | None = None
    envelope: Foreign | None = None
    """What the provider's envelope says beyond id and model, for clients of the same API."""

    @property
    def text(self) -> str:
        return "".join(part.text for part in self.content if isinstance(part, Text))

    @property
    def thinking(self) -> str:
        return "".join(part.text for part in self.content if isinstance(part, Thinking))

    @property
    def calls(self) -> tuple[Call, ...]:
        return tuple(part for part in self.content if isinstance(part, Call))
