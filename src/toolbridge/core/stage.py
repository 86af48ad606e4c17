"""Stages: the interface of every streaming step, from bytes to bytes.

A stage receives pieces in `feed` and returns what they complete; `close` ends its input. Stages
return lists, because a generator that is not exhausted leaves its stage in an undefined state.
"""

from collections.abc import Callable, Sequence
from typing import Generic, Protocol, TypeVar

In = TypeVar("In", contravariant=True)
Out = TypeVar("Out")
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")


class Stage(Protocol[In, Out]):
    def feed(self, piece: In, /) -> list[Out]:
        """Return the outputs that `piece` completes; keep the rest for later."""
        ...

    def close(self) -> list[Out]:
        """Return the outputs that the end of the input completes."""
        ...


class Pipe(Generic[A, B, C]):
    """Two stages connected as one."""

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


class StageChain(Generic[A]):
    """Any number of stages with the same type of input and output, connected as one."""

    def __init__(self, stages: Sequence[Stage[A, A]] = ()) -> None:
        self._stages = tuple(stages)
        self.feeds: list[Callable[[list[A]], list[A]]] = [
            getattr(stage, "feed_all", None) or _one_by_one(stage) for stage in stages
        ]
        """The `feed_all` of each stage: one that has its own does less for each piece of a delivery."""

    def feed(self, piece: A, /) -> list[A]:
        return self.feed_all([piece])

    def feed_all(self, pieces: list[A]) -> list[A]:
        """Feed pieces in their order; return the outputs that they complete."""
        for feed_all in self.feeds:
            pieces = feed_all(pieces)
        return pieces

    def close(self) -> list[A]:
        rest: list[A] = []
        for stage in self._stages:
            written: list[A] = []
            for piece in rest:
                written += stage.feed(piece)
            rest = written + stage.close()
        return rest


def _one_by_one(stage: Stage[A, A]) -> Callable[[list[A]], list[A]]:
    """Return the `feed_all` of a stage without one."""

    def feed_all(pieces: list[A]) -> list[A]:
        written: list[A] = []
        for piece in pieces:
            written += stage.feed(piece)
        return written

    return feed_all


class Identity(Generic[A]):
    """A stage that passes everything unchanged."""

    def feed(self, piece: A, /) -> list[A]:
        return [piece]

    def close(self) -> list[A]:
        return []
