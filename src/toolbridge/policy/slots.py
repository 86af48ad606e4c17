"""Slots of a llama.cpp server: which conversation uses which one.

A llama.cpp server keeps one prompt in each slot. A request whose prompt begins like the one in its
slot reads only the rest of it. Left to itself, the server may run a side request, such as the title
of the session, in the slot of a conversation, which then reads its whole prompt again.

A conversation keeps its slot, and the last slot is for side requests. A request for a slot that is
busy would wait although others are idle, so that such a request is left to the server. So are the
conversations for which no slot is left.
"""

from collections import Counter

import msgspec

from toolbridge.policy.agent_requests import RequestKind

LIVE = 600.0
"""Seconds after its last request for which a conversation keeps its slot."""


class _Holder(msgspec.Struct, frozen=True):
    session: str
    at: float
    main: bool


class SlotTable:
    """The slots of one server, by the requests of this process."""

    def __init__(self) -> None:
        self._holders: dict[int, _Holder] = {}
        self._busy: Counter[int] = Counter()

    def take(self, session: str, kind: RequestKind, slots: int, now: float) -> int | None:
        """Return the slot for a request, which is busy until `release`; None for any slot."""
        slot = self._find(session, kind, slots, now)
        if slot is None or self._busy[slot]:
            return None
        if kind != "background" and slot < slots - 1:
            self._holders[slot] = _Holder(session, now, kind == "main")
        self._busy[slot] += 1
        return slot

    def release(self, slot: int) -> None:
        self._busy[slot] -= 1

    def _find(self, session: str, kind: RequestKind, slots: int, now: float) -> int | None:
        last = slots - 1
        if last < 1:
            return None
        if kind == "background":
            return last
        own = (slot for slot, holder in self._holders.items() if holder.session == session)
        if (slot := next(own, None)) is not None and slot < last:
            return slot
        if kind == "main":
            return self._oldest([slot for slot in range(last) if self._is_free(slot, now)])
        # The first slot is left to a conversation, which may begin while its subagents run.
        free = [n for n in range(1, last) if self._is_free(n, now, for_main=False)]
        return self._oldest(free, last)

    def _is_free(self, slot: int, now: float, *, for_main: bool = True) -> bool:
        holder = self._holders.get(slot)
        if self._busy[slot]:
            return False
        return holder is None or now - holder.at > LIVE or (for_main and not holder.main)

    def _oldest(self, free: list[int], other: int | None = None) -> int | None:
        """Return the slot that was not used for the longest time; `other` if none is free."""
        return min(free, key=self._last_use, default=other)

    def _last_use(self, slot: int) -> float:
        holder = self._holders.get(slot)
        return float("-inf") if holder is None else holder.at
