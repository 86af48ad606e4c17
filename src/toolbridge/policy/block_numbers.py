"""Numbers the blocks of several answers as the blocks of one answer."""

from msgspec.structs import replace

from toolbridge.core import events as ev
from toolbridge.core.block_order import BlockEvent


class BlockNumbers:
    """Maps the indices of the current answer to those of the joined one."""

    def __init__(self) -> None:
        self._next = 0
        self._known: dict[int, int] = {}

    def next_answer(self) -> None:
        """Begin another answer, whose indices begin at 0 again."""
        self._known = {}

    def new(self) -> int:
        """Return the index of a block that belongs to no answer."""
        self._next += 1
        return self._next - 1

    def renumbered(self, event: BlockEvent) -> BlockEvent:
        """Return an event of the current answer with the index in the joined one."""
        if event.index not in self._known:
            self._known[event.index] = self.new()
        index = self._known[event.index]
        return event if index == event.index else replace(event, index=index)

    def maybe(self, index: int) -> int:
        """Return the index in the joined answer; `NO_BLOCK` for a block that was left out."""
        return self._known.get(index, ev.NO_BLOCK)
