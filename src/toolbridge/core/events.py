"""What a model does, one thing at a time.

`Started` comes first; exactly one of `Finished` and `Failed` comes last. Every block has an index,
and blocks may interleave. `Lost` may stand anywhere in between. A block's `…End` carries the whole block. After `Failed`, blocks that are
still open stay open: half a call is never closed as if it were one.
"""

from typing import TypeAlias

import msgspec

from toolbridge.core.messages import (
    Call,
    Foreign,
    HealingReport,
    Image,
    Loss,
    Message,
    Problem,
    StopDetails,
    StopReason,
    Text,
    Thinking,
    TokenLogprob,
)
from toolbridge.core.usage import Usage


class Started(msgspec.Struct, frozen=True, tag="started"):
    id: str
    model: str
    envelope: Foreign | None = None
    """What the provider's envelope says beyond that, for clients of the same API."""


class TextStart(msgspec.Struct, frozen=True, tag="text_start"):
    index: int


class TextDelta(msgspec.Struct, frozen=True, tag="text_delta"):
    index: int
    text: str


class TextEnd(msgspec.Struct, frozen=True, tag="text_end"):
    index: int
    text: Text


class ThinkingStart(msgspec.Struct, frozen=True, tag="thinking_start"):
    index: int
    field: str = ""
    """See `Thinking.field`."""


class ThinkingDelta(msgspec.Struct, frozen=True, tag="thinking_delta"):
    index: int
    text: str


class ThinkingEnd(msgspec.Struct, frozen=True, tag="thinking_end"):
    index: int
    thinking: Thinking


class CallStart(msgspec.Struct, frozen=True, tag="call_start"):
    index: int
    id: str
    name: str


class CallDelta(msgspec.Struct, frozen=True, tag="call_delta"):
    index: int
    json: str


class CallEnd(msgspec.Struct, frozen=True, tag="call_end"):
    index: int
    call: Call


class PartAdded(msgspec.Struct, frozen=True, tag="part_added"):
    """A block that came whole: a picture, or a part that only its own API understands."""

    index: int
    part: Image | Foreign


class UsageReported(msgspec.Struct, frozen=True, tag="usage_reported"):
    """The counts so far: totals, never increments."""

    usage: Usage


class LogprobsReported(msgspec.Struct, frozen=True, tag="logprobs_reported"):
    """How likely the next tokens of the text were."""

    tokens: tuple[TokenLogprob, ...]


NO_BLOCK = -1
"""The index of a report on a call that was left out of the answer."""


class Healed(msgspec.Struct, frozen=True, tag="healed"):
    index: int
    report: HealingReport


class Lost(msgspec.Struct, frozen=True, tag="lost"):
    """Something in the answer that our events cannot hold; reported once for each kind."""

    loss: Loss


class Alternative(msgspec.Struct, frozen=True, tag="alternative"):
    """What another answer to the same request does: a row of events of its own, inside this one."""

    choice: int
    """Its number, from 1; the answer around it is 0."""
    event: "Event"


class Finished(msgspec.Struct, frozen=True, omit_defaults=True, tag="finished"):
    """The end of a complete answer. `Fold` builds the message from the events before it."""

    reason: StopReason
    stop_sequence: str = ""
    """The sequence that ended the answer, where `reason` is `stop_sequence`."""
    details: StopDetails | None = None
    """Why the provider refused, where `reason` is `refusal`."""
    message: Message | None = None
    """The whole answer. Only the streams of `Client` and `AsyncClient` set it."""


class Failed(msgspec.Struct, frozen=True, omit_defaults=True, tag="failed"):
    """The end of an answer that failed or was aborted."""

    problem: Problem
    message: Message | None = None
    """The answer up to the failure. Only the streams of `Client` and `AsyncClient` set it."""


Event: TypeAlias = (
    Started
    | TextStart
    | TextDelta
    | TextEnd
    | ThinkingStart
    | ThinkingDelta
    | ThinkingEnd
    | CallStart
    | CallDelta
    | CallEnd
    | PartAdded
    | UsageReported
    | LogprobsReported
    | Healed
    | Lost
    | Alternative
    | Finished
    | Failed
)

DELTAS = (TextDelta, ThinkingDelta, CallDelta)
"""The events that carry a piece of a block. The block's end carries all of it again."""
