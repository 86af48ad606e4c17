"""Tokens that a client cannot carry.

A provider's opaque tokens (a thought's signature, encrypted reasoning) must come back to it with
the next request, but a client of another API has no field for them. They are kept here under the
id of the call, or the fingerprint of the thought, that they belong to, and put back when that call
or thought returns in a history. Bounded; what was forgotten is simply absent, which providers bear.
"""

from collections import OrderedDict
from hashlib import blake2b

import msgspec

from toolbridge.core.messages import Call, Message, Opaque, Part, Request, Thinking, Turn

MOST = 20_000


class Keepsakes:
    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._kept: OrderedDict[str, tuple[Opaque, ...]] = OrderedDict()

    def keep(self, message: Message, caller: str) -> None:
        for part in message.content:
            if isinstance(part, Call | Thinking) and part.opaque:
                self._kept[_key(part, caller)] = part.opaque
                self._kept.move_to_end(_key(part, caller))
        while len(self._kept) > self._most:
            self._kept.popitem(last=False)

    def restore(self, request: Request, caller: str) -> Request:
        """Return `request` with the tokens of its calls and thoughts put back."""
        if not self._kept:
            return request
        turns = tuple(self._restored(turn, caller) for turn in request.turns)
        return msgspec.structs.replace(request, turns=turns)

    def _restored(self, turn: Turn, caller: str) -> Turn:
        if turn.role != "assistant":
            return turn
        return Turn(turn.role, tuple(self._with_tokens(part, caller) for part in turn.content))

    def _with_tokens(self, part: Part, caller: str) -> Part:
        if not isinstance(part, Call | Thinking):
            return part
        kept = self._kept.get(_key(part, caller), ())
        missing = tuple(token for token in kept if token not in part.opaque)
        if not missing:
            return part
        return msgspec.structs.replace(part, opaque=(*part.opaque, *missing))


def _key(part: Call | Thinking, caller: str) -> str:
    """Return where a part's tokens are kept: each caller has their own."""
    name = f"call/{part.id}" if isinstance(part, Call) else f"thought/{part.text.strip()}"
    return blake2b(f"{caller}\0{name}".encode(), digest_size=16).hexdigest()
