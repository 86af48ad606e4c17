"""Results of searches for clients that send back only the call.

Codex sends a `web_search_call` back without its sources and results (seen with 0.166.0), so the model
would not know what it has found. The results are kept in the store under the id of the call, for the
caller who made the search, and put back into the history; every process that shares the store can do
that, also after a restart.
"""

import msgspec
from msgspec.structs import replace

from toolbridge.core.caller import owner_of
from toolbridge.core.messages import Message, Part, Request
from toolbridge.core.server_tools import SearchHits, ServerCall, ServerResult
from toolbridge.store.interface import Store

KEPT = 7 * 24 * 3600.0
_hits = msgspec.msgpack.Decoder(SearchHits)


class KeptSearches:
    """The results of the searches of all callers."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def keep(self, message: Message, caller: str) -> None:
        """Keep the results of the searches in an answer."""
        for part in message.content:
            if isinstance(part, ServerResult) and isinstance(part.outcome, SearchHits):
                value = msgspec.msgpack.encode(part.outcome)
                await self._store.put(_scope(caller), part.call_id, value, seconds=KEPT)

    async def restored(self, request: Request, caller: str) -> Request:
        """Return `request` with the results of searches that the client did not send back.

        Only the Responses API has such clients: others send the results, or no call at all.
        """
        if request.origin != "openai_responses":
            return request
        missing = _without_results(request)
        found = {id: hits for id in missing if (hits := await self._find(id, caller)) is not None}
        if not found:
            return request
        turns = (replace(turn, content=_with(turn.content, found)) for turn in request.turns)
        return replace(request, turns=tuple(turns))

    async def _find(self, id: str, caller: str) -> SearchHits | None:
        value = await self._store.get(_scope(caller), id)
        try:
            return None if value is None else _hits.decode(value)
        except msgspec.MsgspecError:  # of another version, or a mask replaced a part of it
            return None


def _scope(caller: str) -> str:
    return f"searches/{owner_of(caller)}"


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
