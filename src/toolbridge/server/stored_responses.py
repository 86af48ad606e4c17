"""Stored responses of the Responses API, for `previous_response_id`.

A conversation is stored under the id of its last response, and only the caller who created it can
continue it. Nothing is stored with `store: false`. The store has the exact conversation in memory;
the copy on disk, for use after a restart, has masks in place of secrets.

Each item of a stored response can be found by its own id as well: Vercel's AI SDK refers to earlier
output with `{"type": "item_reference", "id": "msg_…"}`.
"""

import msgspec
from msgspec.structs import replace
from typing_extensions import TypeIs

from toolbridge.codecs.openai_responses.decode_turns import decode_item
from toolbridge.codecs.openai_responses.shapes import ORIGIN
from toolbridge.core.caller import owner_of
from toolbridge.core.errors import MalformedRequest, Unsupported
from toolbridge.core.json import JsonObject, maybe_object
from toolbridge.core.messages import Call, Foreign, Message, Part, Request, Text, Thinking, Turn
from toolbridge.core.server_tools import SearchHits, ServerCall, ServerResult
from toolbridge.core.source import without_sources
from toolbridge.store.interface import Store

KEPT = 30 * 24 * 3600.0
_SEARCH_KEPT = 7 * 24 * 3600.0
WHY_MISSING = (
    "its id is wrong, it was created with `store: false` or by another key, it was deleted, it is older "
    "than 30 days, its answer failed or did not end before the gateway was stopped, or it is in the "
    "memory of another gateway"
)
"""Every reason why a response can be missing; the store has no record of which one it is."""


class StoredResponse(msgspec.Struct, frozen=True):
    """A conversation and its last response."""

    turns: tuple[Turn, ...]
    body: bytes
    """The response as the client got it."""


_kept = msgspec.msgpack.Decoder(StoredResponse)
_hits = msgspec.msgpack.Decoder(SearchHits)


class StoredResponses:
    """Stores and finds the responses of all callers."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def resume(self, request: Request, caller: str, owner: str | None = None) -> Request:
        """Return `request` with the turns of the conversation that it continues.

        `owner` is the hash of a caller whose key is not known any more.
        """
        if request.extra.get("background") is True:
            raise Unsupported(
                "background responses are not supported; leave `background` out, and send "
                "`X-Toolbridge-Resume: 600` with `stream: true` to continue the answer later",
                where="background",
            )
        if request.extra.get("conversation"):
            raise Unsupported(
                "conversations are not supported; continue a response with `previous_response_id`",
                where="conversation",
            )
        if _has_reference(request):
            request = await self._resolve(request, owner_of(caller) if owner is None else owner)
        before = request.extra.get("previous_response_id")
        if not isinstance(before, str):
            return request
        kept = await self._find(before, owner_of(caller) if owner is None else owner)
        if kept is None:
            raise MalformedRequest(
                f"there is no response {before!r}: {WHY_MISSING}; send the whole conversation as "
                "`input`",
                where="previous_response_id",
            )
        return replace(request, turns=(*kept.turns, *request.turns))

    async def _resolve(self, request: Request, owner: str) -> Request:
        """Return `request` with each reference replaced by its item, if that is stored."""
        turns = [replace(turn, content=await self._items(turn, owner)) for turn in request.turns]
        return replace(request, turns=tuple(turns))

    async def _items(self, turn: Turn, owner: str) -> tuple[Part, ...]:
        content: list[Part] = []
        for part in turn.content:
            found = await self._item(part, owner) if _is_reference(part) else None
            content += (part,) if found is None else found
        return tuple(content)

    async def _item(self, reference: Foreign, owner: str) -> tuple[Part, ...] | None:
        id = str(reference.raw.get("id"))
        response = await self._store.get(f"items/{owner}", id)
        kept = await self._find(response.decode(), owner) if response else None
        if kept is None:
            return None
        where = reference.source.path if reference.source else "input"
        item = next((item for item in _output(kept.body) if item.get("id") == id), None)
        return None if item is None else decode_item(item, where)

    async def find(self, id: str, caller: str) -> StoredResponse | None:
        return await self._find(id, owner_of(caller))

    async def _find(self, id: str, owner: str) -> StoredResponse | None:
        value = await self._store.get(f"responses/{owner}", id)
        if value is None:
            return None
        try:
            return _kept.decode(value)
        except msgspec.MsgspecError:  # of another version, or a mask replaced a number
            return None

    async def keep(
        self, id: str, request: Request, message: Message, body: bytes, caller: str
    ) -> None:
        if request.extra.get("store") is False or not id:
            return
        parts: tuple[Part, ...] = tuple(
            part for part in message.content if isinstance(part, _STORED_PARTS)
        )
        said = Turn("assistant", parts)
        kept = StoredResponse(without_sources((*request.turns, said)), body)
        value = msgspec.msgpack.encode(kept)
        await self._store.put(_scope(caller), id, value, seconds=KEPT)
        for item in _output(body):
            if isinstance(own := item.get("id"), str):
                await self._store.put(_scope(caller, "items"), own, id.encode(), seconds=KEPT)

    async def drop(self, id: str, caller: str) -> bool:
        return await self._store.drop(_scope(caller), id)


_STORED_PARTS = Text | Thinking | Call | ServerCall | ServerResult


def needs_store(request: Request) -> bool:
    """Return whether `request` may refer to what a server of its API has stored."""
    if request.origin == ORIGIN:
        return True
    extra = request.extra
    if extra and ("background" in extra or not _STATE.isdisjoint(extra)):
        return True
    return _has_reference(request)


def stateless(request: Request) -> Request:
    """Return `request` without the fields that refer to this server's state.

    The history is complete at this point. Raise `MalformedRequest` for a reference to an item that
    is not stored, because no provider has it.
    """
    for turn in request.turns:
        for part in turn.content if Foreign in map(type, turn.content) else ():
            if _is_reference(part):
                raise _unresolved(part)
    if _STATE.isdisjoint(request.extra):
        return request
    extra = {name: value for name, value in request.extra.items() if name not in _STATE}
    return replace(request, extra=extra)


_STATE = frozenset({"previous_response_id", "conversation", "alt"})


def _has_reference(request: Request) -> bool:
    for turn in request.turns:
        if Foreign in map(type, turn.content) and any(map(_is_reference, turn.content)):
            return True
    return False


def _is_reference(part: Part) -> TypeIs[Foreign]:
    return isinstance(part, Foreign) and part.kind == "item_reference"


def _unresolved(reference: Foreign) -> MalformedRequest:
    id = reference.raw.get("id")
    text = (
        f"there is no item {id!r}, or its response is missing: {WHY_MISSING}; send the item itself"
    )
    where = reference.source.path if reference.source else "input"
    return MalformedRequest(text, where=where)


def _output(body: bytes) -> list[JsonObject]:
    """Return the output items of a response."""
    output = (maybe_object(body) or {}).get("output")
    return [item for item in output if isinstance(item, dict)] if isinstance(output, list) else []


def _scope(caller: str, kind: str = "responses") -> str:
    return f"{kind}/{owner_of(caller)}"


class KeptSearches:
    """The results of searches, for clients that send back only the call.

    Codex sends a `web_search_call` back without its sources and results (seen with 0.166.0), so the
    model would not know what it has found. The results are kept under the id of the call, for the
    caller who made the search, and put back into the history.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    async def keep(self, message: Message, caller: str) -> None:
        """Keep the results of the searches in an answer; OpenAI knows those that it made itself."""
        for part in message.content:
            if not isinstance(part, ServerResult) or not isinstance(part.outcome, SearchHits):
                continue
            if part.source is None or part.source.api != ORIGIN:
                value, scope = msgspec.msgpack.encode(part.outcome), _scope(caller, "searches")
                await self._store.put(scope, part.call_id, value, seconds=_SEARCH_KEPT)

    async def restored(self, request: Request, caller: str) -> Request:
        """Return `request` with the results of searches that the client did not send back.

        Only the Responses API has such clients: others send the results, or no call at all.
        """
        if request.origin != ORIGIN:
            return request
        missing = _without_results(request)
        found = {id: hits for id in missing if (hits := await self._find(id, caller)) is not None}
        if not found:
            return request
        turns = (replace(turn, content=_with(turn.content, found)) for turn in request.turns)
        return replace(request, turns=tuple(turns))

    async def _find(self, id: str, caller: str) -> SearchHits | None:
        value = await self._store.get(_scope(caller, "searches"), id)
        try:
            return None if value is None else _hits.decode(value)
        except msgspec.MsgspecError:  # of another version, or a mask replaced a part of it
            return None


def _without_results(request: Request) -> list[str]:
    """Return the ids of the searches whose results are missing or empty."""
    parts = [part for turn in request.turns for part in turn.content]
    known = {
        part.call_id
        for part in parts
        if isinstance(part, ServerResult) and part.outcome != SearchHits()
    }
    calls = (part for part in parts if isinstance(part, ServerCall) and part.kind == "web_search")
    return [call.id for call in calls if call.id not in known]


def _with(content: tuple[Part, ...], found: dict[str, SearchHits]) -> tuple[Part, ...]:
    """Return `content` with each result after its call, in place of an empty one."""
    restored: list[Part] = []
    for part in content:
        if not isinstance(part, ServerResult) or part.call_id not in found:
            restored.append(part)
        if isinstance(part, ServerCall) and part.id in found:
            restored.append(ServerResult(part.id, part.kind, found[part.id], part.name))
    return tuple(restored)
