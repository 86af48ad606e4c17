"""Opaque tokens that a client's API cannot carry.

A provider's opaque tokens (the signature of a thought, encrypted reasoning) must be sent back to it
with the next request, but a client of another API has no field for them. They are kept here under
the id of the call, or the fingerprint of the thought, that they belong to, and restored when that
call or thought is in the history of a request. The number is limited; providers accept a history
whose tokens are missing.

A client of the same API sends its tokens itself, but not their maker. The maker of every token is
kept too, so that a token is sent only to the provider and model that it came from.
"""

from collections import OrderedDict
from copy import copy
from hashlib import blake2b

import msgspec

from toolbridge.core.caller import owner_of
from toolbridge.core.messages import Call, Message, Opaque, Part, Request, Text, Thinking, Turn
from toolbridge.core.source import sourced

MOST = 20_000


class OpaqueTokens:
    """The opaque tokens of all callers, in memory."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._kept: OrderedDict[str, tuple[Opaque, ...]] = OrderedDict()
        self._makers: OrderedDict[str, str] = OrderedDict()
        """Fingerprint of a token → its maker."""

    def keep(self, message: Message, caller: str, maker: str = "") -> None:
        """Keep the tokens of an answer; `maker` is made by `history.seals.maker_name`."""
        for part in message.content:
            if not isinstance(part, Call | Thinking | Text) or not part.opaque:
                continue
            stamped = tuple(_stamped(token, maker) for token in part.opaque)
            if not isinstance(part, Text):
                self._kept[_key(part, caller)] = stamped
                self._kept.move_to_end(_key(part, caller))
            for token in stamped:
                self._makers[_fingerprint(token, caller)] = token.origin
                self._makers.move_to_end(_fingerprint(token, caller))
        for kept in (self._kept, self._makers):
            while len(kept) > self._most:
                kept.popitem(last=False)

    def restore(self, request: Request, caller: str) -> Request:
        """Return `request` with the tokens of its calls and thoughts restored."""
        if not self._makers:
            return request
        turns = tuple(self._restored(turn, caller) for turn in request.turns)
        return msgspec.structs.replace(request, turns=turns)

    def _restored(self, turn: Turn, caller: str) -> Turn:
        if turn.role != "assistant":
            return turn
        content = tuple(self._with_tokens(part, caller) for part in turn.content)
        if all(new is old for new, old in zip(content, turn.content, strict=True)):
            return turn
        return msgspec.structs.replace(turn, content=content)

    def _with_tokens(self, part: Part, caller: str) -> Part:
        if not isinstance(part, Call | Thinking | Text):
            return part
        own = tuple(self._known(token, caller) for token in part.opaque)
        kept = () if isinstance(part, Text) else self._kept.get(_key(part, caller), ())
        carried = {(token.kind, token.value) for token in own}
        missing = tuple(token for token in kept if (token.kind, token.value) not in carried)
        if not missing and own == part.opaque:
            return part
        restored = msgspec.structs.replace(part, opaque=(*own, *missing))
        if missing or part.source is None:
            return restored
        # Only the maker was added, so the part still is what the client sent.
        return sourced(restored, copy(part.source))

    def _known(self, token: Opaque, caller: str) -> Opaque:
        maker = self._makers.get(_fingerprint(token, caller))
        return token if maker is None else msgspec.structs.replace(token, origin=maker)


def _stamped(token: Opaque, maker: str) -> Opaque:
    """Return the token with its maker, if both belong to the same API."""
    if not maker or token.origin != maker.partition("/")[0]:
        return token
    return msgspec.structs.replace(token, origin=maker)


def _fingerprint(token: Opaque, caller: str) -> str:
    named = f"{owner_of(caller)}\0{token.kind}/{token.value}"
    return blake2b(named.encode(), digest_size=16).hexdigest()


def _key(part: Call | Thinking, caller: str) -> str:
    """Return the key of a part's tokens; it includes the caller."""
    name = f"call/{part.id}" if isinstance(part, Call) else f"thought/{part.text.strip()}"
    return blake2b(f"{owner_of(caller)}\0{name}".encode(), digest_size=16).hexdigest()
