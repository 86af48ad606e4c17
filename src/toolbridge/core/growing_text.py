"""A text that grows by small pieces, as the blocks of a streamed answer do."""

import msgspec

MOST_PIECES = 256
"""Pieces above which they are joined: a short string takes ten times the memory of its characters."""


class GrowingText(msgspec.Struct, eq=False):
    """What was written so far. A writer appends to `pieces`, and calls `join` above `MOST_PIECES`."""

    pieces: list[str] = []
    _joined: list[str] = []

    def join(self) -> None:
        """Join the pieces, so that they take the memory of their characters."""
        self._joined.append("".join(self.pieces))
        self.pieces.clear()

    @property
    def length(self) -> int:
        """The characters of the whole text."""
        return sum(map(len, self._joined)) + sum(map(len, self.pieces))

    @property
    def text(self) -> str:
        """The whole text."""
        return "".join([*self._joined, *self.pieces]) if self._joined else "".join(self.pieces)
