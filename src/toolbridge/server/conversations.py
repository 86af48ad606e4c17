"""Answers that a later request may go on from: `previous_response_id` of the Responses API.

A conversation is kept under the id of its last answer, for whoever asked: a key's owner cannot go
on from somebody else's. Nothing is kept when the request says `store: false`. The store keeps a
conversation exactly in memory; what it has on the disk, for after a restart, has masks for secrets.
"""

import hashlib

import msgspec

from toolbridge.core.errors import MalformedRequest, Unsupported
from toolbridge.core.messages import Call, Message, Part, Request, Text, Thinking, Turn
from toolbridge.store.sqlite import SqliteStore

KEPT = 30 * 24 * 3600.0


class Kept(msgspec.Struct, frozen=True):
    turns: tuple[Turn, ...]
    body: bytes
    """The answer as the client got it."""


_kept = msgspec.msgpack.Decoder(Kept)


class Conversations:
    def __init__(self, store: SqliteStore) -> None:
        self._store = store

    async def resume(self, request: Request, caller: str) -> Request:
        """Return `request` with the turns of the answer that it goes on from."""
        if request.extra.get("background") is True:
            raise Unsupported("answers in the background are not kept here", where="background")
        before = request.extra.get("previous_response_id")
        if not isinstance(before, str):
            return request
        kept = await self.find(before, caller)
        if kept is None:
            raise MalformedRequest(
                f"there is no answer {before!r} to go on from; it was not stored, or has expired",
                where="previous_response_id",
            )
        return msgspec.structs.replace(request, turns=(*kept.turns, *request.turns))

    async def find(self, id: str, caller: str) -> Kept | None:
        value = await self._store.get(_scope(caller), id)
        if value is None:
            return None
        try:
            return _kept.decode(value)
        except msgspec.MsgspecError:  # of another version, or a mask stands where a number was
            return None

    async def keep(
        self, id: str, request: Request, message: Message, body: bytes, caller: str
    ) -> None:
        if request.extra.get("store") is False or not id:
            return
        parts: tuple[Part, ...] = tuple(
            part for part in message.content if isinstance(part, Text | Thinking | Call)
        )
        kept = Kept((*request.turns, Turn("assistant", parts)), body)
        value = msgspec.msgpack.encode(kept)
        await self._store.put(_scope(caller), id, value, seconds=KEPT)

    async def drop(self, id: str, caller: str) -> bool:
        return await self._store.drop(_scope(caller), id)


def stateless(request: Request) -> Request:
    """Return `request` without what concerns its own server alone.

    The history is whole here, and how an answer is framed is the surface's affair.
    """
    state = {"previous_response_id", "conversation", "alt"}
    if not state & request.extra.keys():
        return request
    extra = {name: value for name, value in request.extra.items() if name not in state}
    return msgspec.structs.replace(request, extra=extra)


def _scope(caller: str) -> str:
    owner = hashlib.blake2b(caller.encode(), digest_size=16).hexdigest() if caller else ""
    return f"responses/{owner}"
