"""`Signal`: aborts any number of answers at once."""

import threading
from typing import Protocol
from weakref import WeakSet

ASKED = "the caller asked to stop"


class Stoppable(Protocol):
    def abort(self, why: str = ASKED) -> None: ...


class Signal:
    """Aborts every answer that it was passed to, from any thread, also answers started later."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._why = ""
        # Weak references: an answer that was dropped needs no abort.
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
