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


class Finished(msgspec.Struct, frozen=True, tag="finished"):
    reason: StopReason
    message: Message


class Failed(msgspec.Struct, frozen=True, tag="failed"):
    problem: Problem
    message: Message


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
