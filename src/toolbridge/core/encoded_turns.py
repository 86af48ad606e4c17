"""The messages of a conversation as an encoder has written them, for the next request of its session.

Encoders write one turn after the other, and what they write depends on the turn, on the calls before
it and on the target. Messages are shared between requests, so nothing may change them.
"""

from collections.abc import Hashable, Sequence
from typing import Generic, Protocol, TypeVar

import msgspec

from toolbridge.core.json import Json
from toolbridge.core.messages import Loss, Turn
from toolbridge.core.prefix_memo import LONG, PrefixMemo, ends_of
from toolbridge.core.steps import EVERY, Steps

C = TypeVar("C")


class TurnEncoder(Protocol[C]):
    """Writes the turns of one request in their order."""

    losses: list[Loss]
    calls: dict[str, C]
    """What the encoder knows of the calls so far, by their ids."""

    def encode(self, number: int, turn: Turn) -> Sequence[Json]:
        """Return the messages of the turn with this index."""


class _Encoded(msgspec.Struct, Generic[C], frozen=True):
    """The messages of the first turns of a conversation, and what their encoder knew after them."""

    messages: tuple[Json, ...]
    losses: tuple[Loss, ...]
    calls: dict[str, C]


class EncodedTurns(Generic[C]):
    """The messages that one encoder has written, by their turns."""

    def __init__(self) -> None:
        self._memo: PrefixMemo[_Encoded[C]] = PrefixMemo()

    def encode(
        self, turns: Sequence[Turn], context: Hashable, encoder: TurnEncoder[C]
    ) -> Steps[list[Json]]:
        """Return the messages of all turns.

        `context` is what the messages depend on beside the turns. Where `encoder` continues, its
        losses and calls are those of the turns before.
        """
        messages: list[Json] = []
        done = 0
        losses_before = len(encoder.losses)
        if len(turns) >= LONG and (found := self._memo.find(turns, context)) is not None:
            done, known = found
            messages += known.messages
            encoder.losses += known.losses
            encoder.calls.update(known.calls)
        for end in ends_of(turns, done):
            for number in range(done, end):
                messages += encoder.encode(number, turns[number])
                if number % EVERY == EVERY - 1:
                    yield
            if end < len(turns):
                losses = tuple(encoder.losses[losses_before:])
                encoded = _Encoded(tuple(messages), losses, encoder.calls.copy())
                self._memo.keep(turns, end, context, encoded)
                done = end
        return messages
