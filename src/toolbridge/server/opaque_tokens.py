"""Opaque tokens that a client's API cannot carry.

A provider's opaque tokens (the signature of a thought, encrypted reasoning) must be sent back to it
with the next request, but a client of another API has no field for them. They are kept here under
the id of the call, or the fingerprint of the thought, that they belong to, and restored when that
call or thought is in the history of a request. Models repeat short thoughts, so the fingerprint
includes what follows the thought, and no token of a thought is restored twice. The number is limited;
providers accept a history whose tokens are missing.

Most ids of calls are random, and name a call in any conversation. Some engines number their calls, so
that each conversation has a `call_0`: such a call is known by its name and its arguments as well.

A client of the same API sends its tokens itself, but not their maker. The maker of every token is
kept too, so that a token is sent only to the provider and model that it came from.

A client may drop a thought, or may never have got one without text. Where the model needs its thought
before a call (Anthropic) or makes use of it (OpenAI), the thought itself is kept under the id of the
call, in memory, and put back before it.

Processes that share a store keep them there as well, so that a conversation can go on in another
process. A process asks the store once for each call and thought that it does not know.
"""

import asyncio
import re
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from copy import copy
from hashlib import blake2b
from operator import is_
from typing import TypeGuard

import msgspec

from toolbridge.core.caller import owner_of
from toolbridge.core.messages import Call, Message, Opaque, Part, Request, Text, Thinking, Turn
from toolbridge.core.source import sourced
from toolbridge.store.interface import Store

MOST = 20_000
_THOUGHT_BYTES = 32 * 1024 * 1024
"""The most characters of the thoughts that are kept with their calls."""
_NEED_THOUGHTS = frozenset({"anthropic", "bedrock", "openai_responses"})
"""The APIs to which a thought that the client has not sent is sent again."""
_SCOPE = "opaque"
_KEPT = 7 * 24 * 3600.0
_MOST_AT_ONCE = 32
_MOST_WRITES = 1000
_RANDOM = re.compile(
    r"(?=[A-Za-z0-9]{0,30}[0-9][A-Za-z])(?=[A-Za-z0-9]{0,30}[A-Za-z][0-9])[A-Za-z0-9]{8}"
)
"""A part of an id that is neither a word nor a number, nor a word with a number at its end."""
_CARRIERS = (Call, Thinking, Text)
"""The parts that may have tokens; `Call | Thinking | Text` would be made again for each part."""


class _Token(msgspec.Struct, frozen=True, array_like=True):
    """A token as it is stored, with its check sum: a mask may have replaced a part of it."""

    kind: str
    value: str
    origin: str
    sum: str


_tokens = msgspec.msgpack.Decoder(tuple[_Token, ...])


class OpaqueTokens:
    """The opaque tokens of all callers, in memory; with a store, those of other processes too."""

    def __init__(self, store: Store | None = None, most: int = MOST) -> None:
        self._store = store
        self._asked: OrderedDict[str, None] = OrderedDict()
        """What the store was asked for, or what this process has written."""
        self._writing: set[asyncio.Task[None]] = set()
        self._most = most
        self._kept: OrderedDict[str, tuple[Opaque, ...]] = OrderedDict()
        self._makers: OrderedDict[str, str] = OrderedDict()
        """Fingerprint of a token → its maker."""
        self._thoughts: OrderedDict[str, tuple[Thinking, ...]] = OrderedDict()
        """Maker, caller and identity of a call → the thoughts before it."""
        self._size = 0

    def keep(self, message: Message, caller: str, maker: str = "") -> None:
        """Keep the tokens of an answer; `maker` is made by `history.seals.maker_name`."""
        kept = False
        for at, part in enumerate(message.content):
            if not isinstance(part, _CARRIERS) or not part.opaque:
                continue
            kept = True
            stamped = tuple(_stamped(token, maker) for token in part.opaque)
            keys = _keys(message.content, at, caller)
            for key in keys:
                self._kept[key] = stamped
                self._kept.move_to_end(key)
            for token in stamped:
                self._makers[_fingerprint(token, caller)] = token.origin
                self._makers.move_to_end(_fingerprint(token, caller))
            self._write(keys, caller, stamped)
        if kept:
            self._keep_thoughts(message, caller, maker)
            self._trim()

    def _keep_thoughts(self, message: Message, caller: str, maker: str) -> None:
        """Keep the thoughts of an answer with the calls that follow them."""
        if maker.partition("/")[0] not in _NEED_THOUGHTS:
            return
        before: list[Thinking] = []
        for part in message.content:
            if isinstance(part, Thinking) and part.opaque:
                stamped = tuple(_stamped(token, maker) for token in part.opaque)
                before.append(Thinking(part.text, stamped))
            elif isinstance(part, Call) and before:
                key = _key(f"{maker}/before/{_identity(part)}", caller)
                self._size += sum(map(_length, before))
                self._size -= sum(map(_length, self._thoughts.pop(key, ())))
                self._thoughts[key] = tuple(before)
                before = []

    def _trim(self) -> None:
        for kept in (self._kept, self._makers, self._asked):
            while len(kept) > self._most:
                kept.popitem(last=False)
        while len(self._thoughts) > self._most or self._size > _THOUGHT_BYTES:
            _, dropped = self._thoughts.popitem(last=False)
            self._size -= sum(map(_length, dropped))

    def _write(self, keys: list[str], caller: str, tokens: tuple[Opaque, ...]) -> None:
        """Store tokens beside the answer, if other processes share the store."""
        if self._store is None or len(self._writing) >= _MOST_WRITES:
            return
        value = msgspec.msgpack.encode([_as_stored(token) for token in tokens])
        for name in dict.fromkeys(_names(keys, caller, tokens)):
            self._asked[name] = None
            task = asyncio.create_task(self._store.put(_SCOPE, name, value, seconds=_KEPT))
            self._writing.add(task)
            task.add_done_callback(self._writing.discard)

    async def restored(self, request: Request, caller: str, maker: str = "") -> Request:
        """As `restore`, with the tokens that other processes have stored."""
        if self._store is not None and not self._store.trouble:
            await self._load(self._store, request, caller)
        return self.restore(request, caller, maker) if self._makers else request

    async def _load(self, store: Store, request: Request, caller: str) -> None:
        unknown = [
            (name in keys, name)
            for turn in request.turns
            if turn.role == "assistant"
            for content in (turn.content, _joined(turn.content))
            for at, part in enumerate(content)
            if isinstance(part, _CARRIERS)
            for keys in [_keys(content, at, caller)]
            for name in _names(keys, caller, part.opaque)
            if name not in self._asked
        ]
        self._asked.update(dict.fromkeys(name for _, name in unknown))
        for at in range(0, len(unknown), _MOST_AT_ONCE):
            some = unknown[at : at + _MOST_AT_ONCE]
            found = await asyncio.gather(*(store.get(_SCOPE, name) for _, name in some))
            for (is_key, name), value in zip(some, found, strict=True):
                if value is not None:
                    self._adopt(name if is_key else "", caller, value)
        self._trim()

    def _adopt(self, key: str, caller: str, value: bytes) -> None:
        """Keep the tokens that another process has stored, unless a mask has changed them."""
        try:
            tokens = tuple(_as_token(stored) for stored in _tokens.decode(value))
        except (msgspec.MsgspecError, ValueError):
            return
        if key:
            self._kept[key] = tokens
        for token in tokens:
            self._makers[_fingerprint(token, caller)] = token.origin

    async def close(self) -> None:
        """Finish writing; call it before the store is closed."""
        await asyncio.gather(*self._writing, return_exceptions=True)

    def restore(self, request: Request, caller: str, maker: str = "") -> Request:
        """Return `request` with the tokens of its calls and thoughts restored.

        Thoughts that a client of another API has dropped are put back for their own `maker`.
        """
        if not self._makers:
            return request
        given: set[Opaque] = set()
        turns = tuple(self._restored(turn, caller, given) for turn in request.turns)
        if self._thoughts and maker.partition("/")[0] not in {"", request.origin}:
            turns = tuple(self._with_thoughts(turn, caller, maker, given) for turn in turns)
        return msgspec.structs.replace(request, turns=turns)

    def _with_thoughts(self, turn: Turn, caller: str, maker: str, given: set[Opaque]) -> Turn:
        """Return `turn` with the thoughts before its calls, if it has none there."""
        if turn.role != "assistant":
            return turn
        content: list[Part] = []
        begins = 0
        """Where the parts before the next call begin."""
        for part in turn.content:
            if isinstance(part, Call):
                found = self._thoughts.get(_key(f"{maker}/before/{_identity(part)}", caller), ())
                here = any(isinstance(one, Thinking) for one in content[begins:])
                if found and not here and given.isdisjoint(*(thought.opaque for thought in found)):
                    content[begins:begins] = found
                    given.update(*(thought.opaque for thought in found))
                content.append(part)
                begins = len(content)
            else:
                content.append(part)
        if len(content) == len(turn.content):
            return turn
        return msgspec.structs.replace(turn, content=tuple(content))

    def _restored(self, turn: Turn, caller: str, given: set[Opaque]) -> Turn:
        """Return `turn` with its tokens; `given` are those of the thoughts before it."""
        if turn.role != "assistant":
            return turn
        joined = _joined(turn.content)
        before = joined if self._knows_thought(joined, caller) else turn.content
        content = tuple(
            self._with_tokens(part, _keys(before, at, caller), caller, given)
            for at, part in enumerate(before)
        )
        if len(content) == len(turn.content) and all(map(is_, content, turn.content)):
            return turn
        return msgspec.structs.replace(turn, content=content)

    def _knows_thought(self, content: tuple[Part, ...], caller: str) -> bool:
        thoughts = (at for at, part in enumerate(content) if isinstance(part, Thinking))
        return any(key in self._kept for at in thoughts for key in _keys(content, at, caller))

    def _with_tokens(self, part: Part, keys: list[str], caller: str, given: set[Opaque]) -> Part:
        if not isinstance(part, _CARRIERS):
            return part
        own = tuple(self._known(token, caller) for token in part.opaque)
        kept = next((self._kept[key] for key in keys if key in self._kept), ())
        carried = {(token.kind, token.value) for token in own}
        missing = tuple(token for token in kept if (token.kind, token.value) not in carried)
        if isinstance(part, Thinking):
            missing = tuple(token for token in missing if token not in given)
            given.update(own, missing)
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


def _names(keys: list[str], caller: str, tokens: tuple[Opaque, ...]) -> Iterator[str]:
    """Yield the names under which a part's tokens are stored."""
    yield from keys
    for token in tokens:
        yield _fingerprint(token, caller)


def _as_stored(token: Opaque) -> _Token:
    return _Token(token.kind, token.value, token.origin, _sum(token.value))


def _as_token(stored: _Token) -> Opaque:
    if _sum(stored.value) != stored.sum:
        raise ValueError("a part of the token was masked")
    return msgspec.convert(
        {"origin": stored.origin, "kind": stored.kind, "value": stored.value}, Opaque
    )


def _sum(value: str) -> str:
    return blake2b(value.encode(), digest_size=8).hexdigest()


def _length(thought: Thinking) -> int:
    return len(thought.text) + sum(len(token.value) for token in thought.opaque)


def _stamped(token: Opaque, maker: str) -> Opaque:
    """Return the token with its maker, if both belong to the same API."""
    if not maker or token.origin != maker.partition("/")[0]:
        return token
    return msgspec.structs.replace(token, origin=maker)


def _fingerprint(token: Opaque, caller: str) -> str:
    named = f"{owner_of(caller)}\0{token.kind}/{token.value}"
    return blake2b(named.encode(), digest_size=16).hexdigest()


def _keys(content: Sequence[Part], at: int, caller: str) -> list[str]:
    """Return the keys of a part's tokens, the most certain first; they include the caller."""
    part = content[at]
    if isinstance(part, Call):
        return [_key(f"call/{_identity(part)}", caller)]
    if not isinstance(part, Thinking):
        return []
    name = f"thought/{part.text.strip()}"
    followed = f"{name}\0{_follows(content[at + 1 :])}"
    return [_key(followed, caller), _key(name, caller)]


def _identity(call: Call) -> str:
    """Return what names a call among those of all conversations of a caller."""
    if _RANDOM.search(call.id):
        return call.id
    arguments = msgspec.json.encode(call.arguments, order="deterministic").decode()
    return f"{call.id}\0{call.name}\0{call.raw or arguments}"


def _joined(content: tuple[Part, ...]) -> tuple[Part, ...]:
    """Return `content` with neighbouring thoughts without tokens as one.

    A client of a streamed answer may send every delta of a thought back as a part of its own.
    """
    joined: list[Part] = []
    for part in content:
        last = joined[-1] if joined else None
        if _is_plain_thought(part) and _is_plain_thought(last):
            joined[-1] = Thinking(last.text + part.text)
        else:
            joined.append(part)
    return content if len(joined) == len(content) else tuple(joined)


def _is_plain_thought(part: Part | None) -> TypeGuard[Thinking]:
    return isinstance(part, Thinking) and not part.opaque


def _follows(content: Sequence[Part]) -> str:
    """Return the next call, or else the next text: it differs for thoughts with the same text."""
    for part in content:
        if isinstance(part, Call):
            return f"call/{_identity(part)}"
    return next((part.text.strip() for part in content if isinstance(part, Text)), "")


def _key(name: str, caller: str) -> str:
    return blake2b(f"{owner_of(caller)}\0{name}".encode(), digest_size=16).hexdigest()
