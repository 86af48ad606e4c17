"""The messages of a conversation as an encoder has written them, for the next request of its session.

Encoders write one turn after the other, and what they write depends on the turn, on the calls before
it and on the target. Their JSON is kept with them (`core/written_list.py`). Messages are shared
between requests, so nothing may change them.
"""

from collections.abc import Hashable, Sequence
from typing import Generic, Protocol, TypeVar

import msgspec

from toolbridge.core.json import Json, dump_members
from toolbridge.core.messages import Loss, Turn
from toolbridge.core.prefix_memo import LONG, PrefixMemo, ends_of
from toolbridge.core.steps import EVERY, Steps
from toolbridge.core.written_list import written_list

C = TypeVar("C")

MOST_BYTES = 4 * 1024 * 1024
"""The JSON of the messages that one encoder keeps."""


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
    json: bytes
    """The JSON of the messages, without the brackets of a list."""
    losses: tuple[Loss, ...]
    calls: dict[str, C]


class EncodedTurns(Generic[C]):
    """The messages that one encoder has written, by their turns."""

    def __init__(self) -> None:
        self._memo: PrefixMemo[_Encoded[C]] = PrefixMemo(MOST_BYTES, lambda kept: len(kept.json))

    def encode(
        self, turns: Sequence[Turn], context: Hashable, encoder: TurnEncoder[C]
    ) -> Steps[list[Json]]:
        """Return the messages of all turns.

        `context` is what the messages depend on beside the turns. Where `encoder` continues, its
        losses and calls are those of the turns before.
        """
        if len(turns) < LONG:
            return encode_few(turns, encoder)
        messages: list[Json] = []
        written, json, losses_before = 0, b"", len(encoder.losses)
        done, known = self._memo.find(turns, context) or (0, None)
        if known is not None:
            messages += known.messages
            written, json = len(messages), known.json
            encoder.losses += known.losses
            encoder.calls.update(known.calls)
        for end in ends_of(turns, done):
            for number in range(done, end):
                messages += encoder.encode(number, turns[number])
                if number % EVERY == EVERY - 1:
                    yield
            done = end
            if end == len(turns):
                break
            yield
            if more := _dumped(messages[written:]):
                written, json = len(messages), b"%b,%b" % (json, more) if json else more
                losses = tuple(encoder.losses[losses_before:])
                state = _Encoded(tuple(messages), json, losses, encoder.calls.copy())
                self._memo.keep(turns, end, context, state)
                yield
        return written_list(messages, written, json) if json else messages


def encode_few(turns: Sequence[Turn], encoder: TurnEncoder[C]) -> list[Json]:
    """Return the messages of fewer than `LONG` turns, which are not kept."""
    messages: list[Json] = []
    for number, turn in enumerate(turns):
        messages += encoder.encode(number, turn)
    return messages


def _dumped(messages: list[Json]) -> bytes:
    """Return the JSON of messages; nothing if a lone surrogate is in them, which `dump_bytes` replaces."""
    try:
        return dump_members(messages)
    except UnicodeEncodeError:
        return b""
