"""The one shape of everything that streams.

Lists, not generators: a generator that is dropped half-way leaves its stage in a half-state.
"""

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
        return [out for middle in self._first.feed(piece) for out in self._second.feed(middle)]

    def close(self) -> list[C]:
        last = [out for middle in self._first.close() for out in self._second.feed(middle)]
        return last + self._second.close()


class Identity(Generic[A]):
    """The stage that changes nothing."""

    def feed(self, piece: A, /) -> list[A]:
        return [piece]

    def close(self) -> list[A]:
        return []
