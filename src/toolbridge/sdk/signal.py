"""One word that ends many answers."""

from typing import Protocol
from weakref import WeakSet

ASKED = "the caller asked to stop"


class Stoppable(Protocol):
    def abort(self, why: str = ASKED) -> None: ...


class Signal:
    """Ends every answer that was given it, from any thread, also those that are yet to begin."""

    def __init__(self) -> None:
        self._why = ""
        # An answer that nobody holds any more needs no ending.
        self._listeners: WeakSet[Stoppable] = WeakSet()

    @property
    def aborted(self) -> bool:
        return bool(self._why)

    def abort(self, why: str = ASKED) -> None:
        self._why = self._why or why
        for listener in list(self._listeners):
            listener.abort(self._why)

    def attach(self, listener: Stoppable) -> None:
        self._listeners.add(listener)
        if self._why:
            listener.abort(self._why)
