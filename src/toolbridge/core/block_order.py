"""Events of interleaved blocks, reordered so that one block ends before the next begins.

Our blocks may interleave: a provider can write two calls at the same time. Most APIs cannot express
that. Their stream encoders pass block events through a `BlockOrder` and write what it returns.
"""

from typing import TypeAlias

import msgspec

from toolbridge.core import events as ev

BlockEvent: TypeAlias = (
    ev.TextStart
    | ev.TextDelta
    | ev.TextEnd
    | ev.ThinkingStart
    | ev.ThinkingDelta
    | ev.ThinkingEnd
    | ev.CallStart
    | ev.CallDelta
    | ev.CallEnd
    | ev.PartAdded
)
"""Every event that belongs to a block; `index` names the block."""

_ENDS = (ev.TextEnd, ev.ThinkingEnd, ev.CallEnd, ev.PartAdded)
_NO_BLOCK = -1


class BlockOrder(msgspec.Struct, eq=False):
    """Passes the events of the oldest open block and holds the events of the others."""

    current: int = _NO_BLOCK
    """The index of the block whose events pass; -1 while no block is open."""
    _held: dict[int, list[BlockEvent]] = {}

    def feed(self, event: BlockEvent) -> list[BlockEvent]:
        """Return the events that can be written now, `event` among them or not."""
        if self.current == _NO_BLOCK:
            self.current = event.index
        if event.index != self.current:
            self._held.setdefault(event.index, []).append(event)
            return []
        if not isinstance(event, _ENDS):
            return [event]
        self.current = _NO_BLOCK
        return [event, *self._release()] if self._held else [event]

    def flush(self) -> list[BlockEvent]:
        """Return the held events, for an answer that failed before the current block ended."""
        held, self._held = self._held, {}
        return [event for events in held.values() for event in events]

    def _release(self) -> list[BlockEvent]:
        """Return what was held of the blocks that follow, up to the first that is still open."""
        released: list[BlockEvent] = []
        while self.current == _NO_BLOCK and self._held:
            index = next(iter(self._held))
            events = self._held.pop(index)
            released += events
            self.current = _NO_BLOCK if isinstance(events[-1], _ENDS) else index
        return released
