"""One word that ends many answers."""

import threading
from typing import Protocol
from weakref import WeakSet

ASKED = "the caller asked to stop"


class Stoppable(Protocol):
    def abort(self, why: str = ASKED) -> None: ...


class Signal:
    """Ends every answer that was given it, from any thread, also those that are yet to begin."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._why = ""
        # An answer that nobody holds any more needs no ending.
        self._listeners: WeakSet[Stoppable] = WeakSet()

    @property
    def aborted(self) -> bool:
        return bool(self._why)

    def abort(self, why: str = ASKED) -> None:
        with self._lock:
            self._why = self._why or why
            listeners = list(self._listeners)
        for listener in listeners:
            listener.abort(self._why)

    def attach(self, listener: Stoppable) -> None:
        with self._lock:
            self._listeners.add(listener)
        if self._why:
            listener.abort(self._why)
