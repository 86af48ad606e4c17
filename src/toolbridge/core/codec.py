"""What every codec offers: the door of each folder in `codecs/`."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias, runtime_checkable

import msgspec

from toolbridge.core.answer_losses import AnswerFeatures
from toolbridge.core.errors import ConfigError
from toolbridge.core.events import Event
from toolbridge.core.ids import Ids
from toolbridge.core.json import JsonObject
from toolbridge.core.messages import Foreign, Loss, Message, Problem, Request, Tool
from toolbridge.core.stage import Stage


class Rules(msgspec.Struct, frozen=True):
    """What a transcript must look like to be legal for an API; `history` makes it so."""

    id_pattern: str = r".+"
    """A call id that matches this whole is kept; any other is mapped."""
    id_length: int = 0
    """The longest legal call id; 0 for any length."""
    name_pattern: str = r".+"
    name_length: int = 0
    alternate: bool = False
    """Whether turns of the same role must be merged, and the first must be the user's."""
    system_in_place: bool = True
    """Whether a system turn may stand inside the conversation; else the user says it, marked."""
    empty_text: bool = True
    """Whether a text may be empty or only white space."""
    may_end_with_assistant: bool = True
    """Whether a last turn by the assistant is continued; else the user asks to go on."""
    signed_thoughts: bool = False
    """Whether a thought is taken back only with the token that its maker put on it."""
    cache_marks: bool = False
    """Whether parts can be marked as the end of a prefix to cache, at every provider of the API."""
    defers: bool = False
    """Whether a tool can be offered that is loaded only once a result names it."""
    pairs: bool = True
    """Whether every call must be followed by its result, and every result follow its call."""


class Target(msgspec.Struct, frozen=True):
    """The model that a request goes to, and what is known of it."""

    model: str = ""
    """Its name at the provider."""
    provider: str = ""
    window: int = 0
    """Tokens of context; 0 where unknown."""
    max_output: int = 0
    capabilities: frozenset[str] | None = None
    """`tools`, `thinking`, `vision` …; None where unknown."""
    files: str | None = None
    """Whose file ids the provider takes; None where unknown: those of its own API."""
    quirks: JsonObject = msgspec.field(default_factory=dict)
    """Facts about the place, from the closed list of the codec that obeys them."""
    options: JsonObject = msgspec.field(default_factory=dict)
    """Fields from the configuration that go into the body as they are."""

    def can(self, capability: str, *, unknown: bool = True) -> bool:
        """Whether the model has `capability`; `unknown` answers where nobody knows."""
        return unknown if self.capabilities is None else capability in self.capabilities


def check_quirks(given: JsonObject, known: Collection[str]) -> None:
    """Raise `ConfigError` for a quirk that the codec does not know: a typo would do nothing."""
    for name in given:
        if name not in known:
            text = f"there is no quirk {name!r}; there are {', '.join(sorted(known))}"
            raise ConfigError(text, where=f"quirks.{name}")


class AnswerContext(msgspec.Struct, frozen=True):
    """What the client asked and when: all that the envelope of its answer needs."""

    request: Request = Request(model="")
    at: float = 0.0
    """Seconds since the epoch."""
    estimate: int = 0
    """Input tokens, as far as we can tell before the upstream does."""


class Outgoing(msgspec.Struct, frozen=True):
    """A request in the words of its target."""

    path: str
    body: JsonObject
    losses: tuple[Loss, ...] = ()
    headers: dict[str, str] = msgspec.field(default_factory=dict)
    stops: tuple[str, ...] = ()
    """Stop sequences that the target does not take: whoever reads the answer looks for them."""


Lose: TypeAlias = Callable[[str, str], None]
"""Records a loss: takes the path of a field in our request and the reason."""


class Rejection(msgspec.Struct, frozen=True):
    """A problem in the envelope of an API, for when no byte of an answer was sent."""

    status: int
    body: bytes
    headers: dict[str, str] = msgspec.field(default_factory=dict)


class Encoder(Stage[Event, bytes], Protocol):
    def keep_alive(self) -> bytes:
        """Return an empty event of the API: something for a client to read in silence."""
        ...


@runtime_checkable
class NumberedEncoder(Protocol):
    """An encoder of an API that numbers its events."""

    def continue_from(self, number: int) -> None:
        """Give the next event `number`: the events before it were written by somebody else."""
        ...


class DecodeRequest(Protocol):
    def __call__(
        self, body: bytes, *, model: str = "", stream: bool | None = None, counting: bool = False
    ) -> Request:
        """Read a request; `model` and `stream` where the path says them, not the body.

        `counting` reads what a token counter is sent: the same, without the need for a limit.
        Raise `MalformedRequest` with the path of the fault.
        """
        ...


def _never(_: Request, __: Target) -> bool:
    return False


class RequestEncoder(Protocol):
    """How a request is said to a target: all that is needed of whoever takes requests of ours."""

    @property
    def name(self) -> str: ...
    @property
    def rules(self) -> Rules: ...
    @property
    def encode_request(self) -> Callable[[Request, Target], Outgoing]: ...
    @property
    def completes(self) -> Callable[[Request, Target], bool]: ...


EncodeUnavailable: TypeAlias = Callable[[Tool, str, Ids], tuple[Foreign | str, ...] | None]
"""Takes a tool that its API should run, what it should be used on, and ids; None: no such shape."""


def no_shape(_tool: Tool, _subject: str, _ids: Ids) -> None:
    """Return nothing: the API cannot say that a tool of its own has failed."""


@dataclass(frozen=True)
class Codec:
    name: str
    decode_request: DecodeRequest
    encode_request: Callable[[Request, Target], Outgoing]
    stream_decoder: Callable[[Ids], Stage[bytes, Event]]
    """Reads a stream or a whole body: a whole reply is a stream that came at once."""
    stream_encoder: Callable[[AnswerContext], Encoder]
    encode_message: Callable[[Message, AnswerContext], bytes]
    shows: AnswerFeatures
    """What its answers can hold: whatever else a message has is a loss."""
    decode_rejection: Callable[[int, Mapping[str, str], bytes], Problem]
    encode_rejection: Callable[[Problem, str], Rejection]
    """Takes the problem and the request id."""
    authorize: Callable[[str], dict[str, str]]
    """Return the headers that carry a key."""
    content_type: str
    """Of a stream."""
    rules: Rules
    completes: Callable[[Request, Target], bool] = _never
    """Whether the target has a completion endpoint for this request."""
    field_names: Mapping[str, str] = field(default_factory=dict)
    """Our names of a request's fields → the API's own: losses are told in the client's words."""
    fails_in_stream: frozenset[str] = frozenset()
    """Kinds of problems that a client who asked for a stream only understands inside one."""
    encode_unavailable: EncodeUnavailable = no_shape
    """Return the parts of an answer that report a tool of this API as failed."""
