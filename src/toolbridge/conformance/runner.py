"""Runs conformance cases, many at once, and collects one outcome per case.

Two kinds of case share this runner: translations (`translation.py`: a client of one API, an upstream
of another) and structured streams (`streams/player.py`). A `CasePlayer` knows how to play one kind;
the runner limits how many plays run at the same time and keeps the order of the cases.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Generic, Protocol, TypeVar

import msgspec

AT_ONCE = 16
LIMIT = 60.0
"""Seconds that one play may take; a busy machine needs them."""

C = TypeVar("C")
C_contra = TypeVar("C_contra", contravariant=True)
P = TypeVar("P")


class CaseOutcome(msgspec.Struct, frozen=True):
    """The result of one case: passed if it has no faults."""

    case: str
    family: str
    client: str
    upstream: str = ""
    passthrough: bool = False
    why: str = ""
    """The reason for the case, in one sentence."""
    plays: int = 1
    faults: tuple[str, ...] = ()
    took: float = 0.0

    @property
    def pair(self) -> str:
        """The row of the report: client API and upstream API; the client alone without an upstream."""
        if not self.upstream:
            return self.client
        return f"{self.client} → {self.upstream}{' (passthrough)' if self.passthrough else ''}"

    @property
    def passed(self) -> bool:
        return not self.faults


class CasePlayer(Protocol[C_contra, P]):
    """Plays cases of one kind; `P` is what one play gives."""

    def rounds(self, case: C_contra) -> Sequence[Sequence[str]]:
        """Return the ways to play a case; the plays of one round run at the same time."""
        ...

    def admit(self, case: C_contra) -> AbstractAsyncContextManager[object]:
        """Return a context that waits until a play of this case may start."""
        ...

    async def play(self, case: C_contra, way: str) -> P:
        """Play a case once."""
        ...

    def outcome(self, case: C_contra, rounds: Sequence[Sequence[P]]) -> CaseOutcome:
        """Judge all plays of a case."""
        ...


class Runner(Generic[C, P]):
    """Runs the cases of one player."""

    def __init__(
        self,
        player: CasePlayer[C, P],
        *,
        at_once: int = AT_ONCE,
        note: Callable[[CaseOutcome], None] = lambda _: None,
    ) -> None:
        self._player = player
        self._note = note
        self._slots = asyncio.Semaphore(at_once)

    async def run(self, cases: Iterable[C]) -> list[CaseOutcome]:
        """Return the outcome of each case, in the order of `cases`."""
        return [*await asyncio.gather(*(self._run(case) for case in cases))]

    async def _run(self, case: C) -> CaseOutcome:
        rounds = [
            await asyncio.gather(*(self._play(case, way) for way in ways))
            for ways in self._player.rounds(case)
        ]
        outcome = self._player.outcome(case, rounds)
        self._note(outcome)
        return outcome

    async def _play(self, case: C, way: str) -> P:
        async with self._player.admit(case), self._slots:
            return await self._player.play(case, way)
