"""Appends rows to the ledger off the request path, in batches.

A request only puts its row into a bounded queue. One thread, started with the first row, writes what
has arrived. While the ledger cannot be written (a full disk, a server that is away), rows wait in
the queue; when it is full, further rows are dropped and counted. No answer waits for the ledger.
"""

import threading
import time
from collections import deque
from collections.abc import Callable

import msgspec

from toolbridge.core.redaction import Redactor
from toolbridge.store import StoreUnavailable
from toolbridge.store.ledger import LedgerRow, LedgerStore
from toolbridge.store.notices import notice

MOST_WAITING = 10_000
"""Rows in the queue."""
_BATCH = 500
_DELAY = 0.1
"""Seconds in which rows are collected for one batch."""
_PAUSE = 2.0
"""Seconds after an error until the next attempt."""
_CLEANING = 3600.0
"""Seconds between two removals of old rows."""
_DAY = 86_400.0
_FROM_CLIENTS = ("client", "session", "asked", "model")
_LONGEST_TEXT = 200


class LedgerWriter:
    """The queue and the thread of one process."""

    def __init__(
        self,
        open_store: Callable[[], LedgerStore],
        days: int,
        redactor: Redactor | None = None,
        most: int = MOST_WAITING,
    ) -> None:
        self._redactor = redactor or Redactor()
        self.open_store = open_store
        """Opens the ledger; a reader calls it for a connection of its own."""
        self._days = days
        self._most = most
        self._rows: deque[LedgerRow] = deque()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._closing = False
        self._trouble = ""
        self._cleaned = float("-inf")
        self.dropped = 0
        """Rows that were dropped since the start."""

    def add(self, row: LedgerRow) -> None:
        """Put a row into the queue; never wait for the disk and never raise."""
        with self._changed:
            if len(self._rows) >= self._most:
                self.dropped += 1
                return
            self._rows.append(row)
            if len(self._rows) == 1:
                self._changed.notify()
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="toolbridge-ledger", daemon=True)
            self._thread.start()

    def close(self, wait: float = 2.0) -> None:
        """Write what waits, for at most `wait` seconds, and stop the thread."""
        if self._thread is None:
            return
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join(wait)
        if lost := len(self._rows) + self.dropped:
            notice(f"{lost} rows of the ledger were not written{_why(self._trouble)}")

    # ── in the thread ────────────────────────────────────────────────────────

    def _run(self) -> None:
        store = self.open_store()
        while True:
            with self._changed:
                while not self._rows and not self._closing:
                    self._changed.wait()
                if not self._rows:
                    break
                if not self._closing:
                    self._changed.wait(_PAUSE if self._trouble else _DELAY)
                batch = [self._rows[at] for at in range(min(_BATCH, len(self._rows)))]
            if not self._write(store, batch) and self._closing:
                break
        store.close()

    def _write(self, store: LedgerStore, batch: list[LedgerRow]) -> bool:
        """Write a batch and take it from the queue; return whether that worked."""
        try:
            store.append([self._safe(row) for row in batch])
            self._clean(store)
        except StoreUnavailable as error:
            if not self._trouble:
                notice(f"the ledger cannot be written: {error}; rows wait in memory")
            self._trouble = str(error)
            return False
        with self._changed:
            for _ in batch:
                self._rows.popleft()
        if self._trouble:
            notice(f"the ledger is written again; {self.dropped} rows were dropped")
            self._trouble = ""
        return True

    def _safe(self, row: LedgerRow) -> LedgerRow:
        """Return `row` with its secrets masked and its texts shortened: clients choose these texts."""
        texts = {name: self._shown(getattr(row, name)) for name in _FROM_CLIENTS}
        routes = tuple(self._shown(route) for route in row.routes)
        return msgspec.structs.replace(row, routes=routes, **texts)

    def _shown(self, text: str) -> str:
        return self._redactor.text(text)[:_LONGEST_TEXT]

    def _clean(self, store: LedgerStore) -> None:
        now = time.monotonic()
        if now - self._cleaned >= _CLEANING:
            self._cleaned = now
            store.forget(time.time() - self._days * _DAY)


def _why(trouble: str) -> str:
    return f": {trouble}" if trouble else ""
