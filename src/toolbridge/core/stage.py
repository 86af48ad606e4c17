"""The one shape of everything that streams.

Lists, not generators: a generator that is dropped half-way leaves its stage in a half-state.
"""

from collections.abc import Sequence
from typing import Generic, Protocol, TypeVar

In = TypeVar("In", contravariant=True)
Out = TypeVar("Out")
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")


class Stage(Protocol[In, Out]):
    def feed(self, piece: In, /) -> list[Out]:
        """Return what `piece` made certain; keep the rest."""
        ...

    def close(self) -> list[Out]:
        """Return what the end makes certain."""
        ...


class Pipe(Generic[A, B, C]):
    """Two stages as one."""

    def __init__(self, first: Stage[A, B], second: Stage[B, C]) -> None:
        self._first = first
        self._second = second

    def feed(self, piece: A, /) -> list[C]:
        written: list[C] = []
        for middle in self._first.feed(piece):
            written += self._second.feed(middle)
        return written

    def close(self) -> list[C]:
        last = [out for middle in self._first.close() for out in self._second.feed(middle)]
        return last + self._second.close()


class Chain(Generic[A]):
    """Stages of one type in a row, as one. Without any stage, everything passes unchanged."""

    def __init__(self, stages: Sequence[Stage[A, A]] = ()) -> None:
        self._stages = tuple(stages)

    def feed(self, piece: A, /) -> list[A]:
        return self.feed_all([piece])

    def feed_all(self, pieces: list[A]) -> list[A]:
        """Feed pieces in their order; return what they made certain."""
        for stage in self._stages:
            written: list[A] = []
            for piece in pieces:
                written += stage.feed(piece)
            pieces = written
        return pieces

    def close(self) -> list[A]:
        rest: list[A] = []
        for stage in self._stages:
            written: list[A] = []
            for piece in rest:
                written += stage.feed(piece)
            rest = written + stage.close()
        return rest


class Identity(Generic[A]):
    """The stage that changes nothing."""

    def feed(self, piece: A, /) -> list[A]:
        return [piece]

    def close(self) -> list[A]:
        return []
