"""The interface of a codec: what each folder in `codecs/` exports.

`Codec` bundles the functions of one API; `Target` and `AnswerContext` are their inputs. The router
and the gateway use codecs only through this interface.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias, runtime_checkable

import msgspec

from toolbridge.core.answer_losses import AnswerFeatures
from toolbridge.core.events import Event
from toolbridge.core.ids import Ids
from toolbridge.core.json import JsonObject
from toolbridge.core.messages import Foreign, Loss, Message, Problem, Request, Tool
from toolbridge.core.server_tools import ServerTool
from toolbridge.core.stage import Stage


class Rules(msgspec.Struct, frozen=True, cache_hash=True):
    """The rules of an API for the history of a request; `history.prepare` enforces them."""

    id_pattern: str = r".+"
    """Call ids that match this pattern are kept; others are mapped."""
    id_length: int = 0
    """The longest legal call id; 0 for any length."""
    name_pattern: str = r".+"
    name_length: int = 0
    alternate: bool = False
    """Whether turns of the same role must be merged and the first turn must be the user's."""
    system_in_place: bool = True
    """Whether a system turn may come later; otherwise it becomes a marked user turn."""
    system_after_user: bool = False
    """Whether such a turn must follow a user turn, and an assistant turn or nothing follow it."""
    empty_text: bool = True
    """Whether a text may be empty or blank."""
    needs_turn: bool = False
    """Whether a request needs a turn with content beside its system prompt."""
    may_end_with_assistant: bool = True
    """Whether the model continues a last assistant turn; otherwise a user turn asks it to."""
    signed_thoughts: bool = False
    """Whether thinking is accepted only with its signature."""
    cache_marks: bool = False
    """Whether every provider of the API accepts marks at the end of a prefix to cache."""
    defers: bool = False
    """Whether the API has deferred tools, which are loaded when a result names them."""
    pairs: bool = True
    """Whether every call needs a result after it, and every result a call before it."""
    text_arguments: bool = False
    """Whether the arguments of a past call may be any text; otherwise they must be an object."""


class Target(msgspec.Struct, frozen=True):
    """The model that a request is sent to, with its limits and capabilities."""

    model: str = ""
    """Its name at the provider."""
    provider: str = ""
    window: int = 0
    """The context window in tokens; 0 where unknown."""
    max_output: int = 0
    """The maximum of output tokens; 0 where unknown."""
    limits_only: bool = False
    """Whether `max_output` only lowers a larger limit, and sets none for a request without one."""
    capabilities: frozenset[str] | None = None
    """`tools`, `thinking`, `vision` …; None where unknown."""
    server_tools: frozenset[str] = frozenset()
    """The kinds of server tools that the provider runs itself for this model (`ServerToolKind`)."""
    files: str | None = None
    """The API whose file ids the provider accepts; None: those of its own API."""
    quirks: JsonObject = msgspec.field(default_factory=dict)
    """Deviations of the provider from its API, by the names in the codec's `Quirks`."""
    options: JsonObject = msgspec.field(default_factory=dict)
    """Fields from the configuration that are added to the body unchanged."""

    def can(self, capability: str, *, unknown: bool = True) -> bool:
        """Whether the model has `capability`; `unknown` where the capabilities are unknown."""
        return unknown if self.capabilities is None else capability in self.capabilities


class AnswerTimes(Protocol):
    """The times of an answer, in seconds since its request; the shell has the clock."""

    @property
    def first_token(self) -> float | None:
        """When the first token arrived; None before that."""

    @property
    def seconds(self) -> float:
        """How long the request has been running."""


class AnswerContext(msgspec.Struct, frozen=True):
    """The client's request and its time, for encoding the envelope of the answer."""

    request: Request = Request(model="")
    at: float = 0.0
    """Seconds since the epoch."""
    estimate: int = 0
    """The estimated number of input tokens, used until the upstream reports its count."""
    times: AnswerTimes | None = None
    """None where no clock runs, as in a translation."""


class Outgoing(msgspec.Struct, frozen=True):
    """A request encoded for its target."""

    path: str
    body: JsonObject
    losses: tuple[Loss, ...] = ()
    headers: dict[str, str] = msgspec.field(default_factory=dict)
    stops: tuple[str, ...] = ()
    """Stop sequences that the target does not accept; `StopScanner` searches the answer for them."""


class OutputSupport(msgspec.Struct, frozen=True):
    """How far a target constrains its answers to a JSON Schema."""

    bound: bool = False
    """Whether the answer is known to be constrained, not only asked for."""
    schema: bool = False
    """Whether a request can carry a schema."""
    with_tools: bool = True
    """Whether a request can carry a schema and tools; otherwise the tools are never called."""


Lose: TypeAlias = Callable[[str, str], None]
"""Records a loss: takes the path of a field in our request and the reason."""


class Rejection(msgspec.Struct, frozen=True):
    """An HTTP error response of an API, sent instead of an answer."""

    status: int
    body: bytes
    headers: dict[str, str] = msgspec.field(default_factory=dict)


class Encoder(Stage[Event, bytes], Protocol):
    def keep_alive(self) -> bytes:
        """Return an event of the API without content, which keeps the connection alive."""
        ...


@runtime_checkable
class NumberedEncoder(Protocol):
    """An encoder of an API that numbers its events."""

    def continue_from(self, number: int) -> None:
        """Give the next event `number`; earlier events came from the provider."""
        ...


class DecodeRequest(Protocol):
    def __call__(
        self, body: bytes, *, model: str = "", stream: bool | None = None, counting: bool = False
    ) -> Request:
        """Decode a request; `model` and `stream` override the body where the URL has them.

        `counting` decodes a request for a token count, which needs no `max_tokens`.
        Raise `MalformedRequest` with the path of the invalid field.
        """
        ...


def _never(_: Request, __: Target) -> bool:
    return False


def _unsupported(_: Target) -> OutputSupport:
    return OutputSupport()


EncodeServerTool: TypeAlias = Callable[[ServerTool, Request, Target, Lose], JsonObject | None]
"""Takes a server tool of another API, the request, the target, and a function that records losses by
the fields of the tool; returns the declaration, or None where the target has no such tool."""


def no_server_tool(
    _tool: ServerTool, _request: Request, _target: Target, _lose: Lose, /
) -> JsonObject | None:
    """Return None: the API has no server tools."""


class RequestEncoder(Protocol):
    """The part of a codec that encodes requests. Nodes implement it without a codec."""

    @property
    def name(self) -> str: ...
    @property
    def rules(self) -> Rules: ...
    @property
    def encode_request(self) -> Callable[[Request, Target], Outgoing]: ...
    @property
    def completes(self) -> Callable[[Request, Target], bool]: ...
    @property
    def encode_server_tool(self) -> EncodeServerTool: ...


EncodeUnavailable: TypeAlias = Callable[[Tool, str, Ids], tuple[Foreign | str, ...] | None]
"""Takes a hosted tool, its subject and ids; returns None where the API has no such part."""


def no_shape(_tool: Tool, _subject: str, _ids: Ids) -> None:
    """Return None: the API has no part for the failure of a hosted tool."""


@dataclass(frozen=True, kw_only=True)
class TargetCodec:
    """The part of a codec that providers need; an API without clients has no other."""

    name: str
    encode_request: Callable[[Request, Target], Outgoing]
    stream_decoder: Callable[[Ids], Stage[bytes, Event]]
    """Decodes a stream or a whole body: a body is a stream that arrives at once."""
    decode_rejection: Callable[[int, Mapping[str, str], bytes], Problem]
    authorize: Callable[[str], dict[str, str]]
    """Returns the headers for an API key."""
    rules: Rules
    completes: Callable[[Request, Target], bool] = _never
    """Whether the target has a completion endpoint for this request."""
    output_support: Callable[[Target], OutputSupport] = _unsupported
    """Returns how far the target constrains answers to a schema."""
    encode_server_tool: EncodeServerTool = no_server_tool
    """Returns the API's own declaration of a server tool."""


@dataclass(frozen=True, kw_only=True)
class Codec(TargetCodec):
    """The codec of an API that has providers and clients."""

    decode_request: DecodeRequest
    stream_encoder: Callable[[AnswerContext], Encoder]
    encode_message: Callable[[Message, AnswerContext], bytes]
    shows: AnswerFeatures
    """What its answers can contain; other content of a message is a loss."""
    encode_rejection: Callable[[Problem, str], Rejection]
    """Encodes a problem; takes the request id, too."""
    content_type: str
    """The content type of a stream."""
    field_names: Mapping[str, str] = field(default_factory=dict)
    """Paths in `Request` → paths in the API, for naming losses."""
    fails_in_stream: frozenset[str] = frozenset()
    """Kinds of problems that clients of a stream can read only as an event of the stream."""
    encode_unavailable: EncodeUnavailable = no_shape
    """Returns the parts of an answer that report the failure of a hosted tool."""
