"""Appends rows to the ledger off the request path, in batches.

A request puts its row into a journal and into a bounded queue. One thread, started with the first
row, writes what has arrived; who reads the ledger in this process has that written first. While the ledger cannot be written (a full disk, a server that is
away), rows wait: in the queue, and those without room there in the journal alone. The thread also
takes over the journals of processes that were killed. No answer waits for the ledger.
"""

import threading
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from itertools import islice
from operator import attrgetter
from pathlib import Path
from typing import TypeAlias

import msgspec

from toolbridge.accounting.limits_of_keys import Amounts
from toolbridge.core.redaction import Redactor
from toolbridge.store import RowsRefused, StoreUnavailable
from toolbridge.store.budgets import Reservation
from toolbridge.store.ledger import LedgerRow, LedgerStore
from toolbridge.store.ledger_journal import (
    DeadJournal,
    JournalLine,
    LedgerJournal,
    dead_journals,
    has_journals,
    set_aside,
)
from toolbridge.store.notices import notice, worker_notices

MOST_WAITING = 10_000
"""Rows in the queue."""
_BATCH = 1000
_DELAY = 0.1
"""Seconds in which rows are collected for one batch."""
_MANY = 50
"""Rows of a batch after which the next one is collected for longer."""
_LONG_DELAY = 0.5
"""Seconds in which it is collected: a row of a large batch costs a fraction of one of a small batch."""
_PAUSE = 2.0
"""Seconds after an error until the next attempt."""
_CLEANING = 3600.0
"""Seconds between two removals of old rows."""
_LOOKING = 5.0
"""Seconds between two searches for journals of dead processes."""
_DAY = 86_400.0
_LONGEST_TEXT = 200
_MOST_PLAIN = 1000
"""Texts in memory that need no mask: models, clients and sessions repeat."""
_MOST = 2**53
"""Tokens, and billionths of a dollar, that one request can have used at most."""
_Texts: TypeAlias = tuple[str, str, str, str, tuple[str, ...]]
"""The texts of a row that clients choose: its client, session, asked model, model and routes."""
_texts_of: Callable[[LedgerRow], _Texts] = attrgetter(
    "client", "session", "asked", "model", "routes"
)
SettleDead: TypeAlias = Callable[[list[tuple[Reservation, Amounts]]], None]
"""Settles what requests of a dead process have reserved with what they have used."""


class LedgerWriter:
    """The queue and the thread of one process."""

    def __init__(
        self,
        open_store: Callable[[], LedgerStore],
        days: int,
        redactor: Redactor | None = None,
        *,
        most: int = MOST_WAITING,
        folder: Path | None = None,
    ) -> None:
        self._redactor = redactor or Redactor()
        self._plain: set[_Texts] = set()
        self.open_store = open_store
        """Opens the ledger; a reader calls it for a connection of its own."""
        self._days = days
        self._most = most
        self._folder = folder
        """Where the journals of all processes of this machine are; None for none."""
        self._journal = None if folder is None else LedgerJournal(folder)
        self._settle_dead: SettleDead | None = None
        self._rows: deque[LedgerRow] = deque()
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._thread: threading.Thread | None = None
        self._closing = False
        self._added = self._written = 0
        """Rows that were put into the queue and taken from it since the start."""
        self._wanted = 0
        """The value of `_written` that a reader waits for."""
        self._trouble = ""
        self._cleaned = self._looked = float("-inf")
        self.dropped = 0
        """Rows that were dropped since the start."""

    def start(self, settle_dead: SettleDead) -> None:
        """Take over the journals of processes that were killed; `settle_dead` gets their reservations."""
        self._settle_dead = settle_dead
        if self._folder is not None and has_journals(self._folder):
            self._begin()

    def note(
        self,
        row: LedgerRow,
        held: Reservation | None = None,
        *,
        safe: bool = False,
        later: bool = False,
    ) -> LedgerRow:
        """Note a request that runs: what its row is if the process is killed now.

        The texts of a `safe` row are those of one that was returned here. `later` is that of `add`.
        """
        if self._journal is None:
            return row
        if not safe and _texts_of(row) not in self._plain:
            row = self._safe(row)
        if later:
            self._journal.add(JournalLine(row, True, held))
        else:
            self._journal.note(JournalLine(row, True, held))
        return row

    def add(self, row: LedgerRow, *, later: bool = False) -> None:
        """Put a row into the journal and the queue; never wait for the ledger and never raise.

        With `later` the journal has it after `flush`, or with the next row that is noted.
        """
        if _texts_of(row) not in self._plain:
            row = self._safe(row)
        with self._lock:
            full = len(self._rows) >= self._most
            if self._journal is None:
                kept = False
            elif later and not full:
                kept = self._journal.add(JournalLine(row))
            else:
                kept = self._journal.note(JournalLine(row), leave=full)
            if full:
                self.dropped += not kept
                return
            self._rows.append(row)
            self._added += 1
            if len(self._rows) == 1:
                self._changed.notify_all()
        if self._thread is None:
            self._begin()

    def flush(self) -> None:
        """Let the journal have all rows."""
        if self._journal is not None:
            self._journal.flush()

    def catch_up(self, wait: float = 1.0) -> None:
        """Return when the ledger has the rows of now: at once if it is away, and after `wait` seconds."""
        with self._changed:
            wanted = self._added
            if self._written >= wanted or self._trouble:
                return
            self._wanted = wanted
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._written >= wanted or bool(self._trouble), wait)

    def _begin(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="toolbridge-ledger", daemon=True)
            self._thread.start()

    def close(self, wait: float = 2.0) -> None:
        """Write what waits, for at most `wait` seconds, and stop the thread."""
        if self._thread is not None:
            with self._changed:
                self._closing = True
                self._changed.notify_all()
            self._thread.join(wait)
        waiting = len(self._rows)
        if self._journal is not None:
            self._journal.flush()
            if self._journal.has_file:
                if count := waiting + self._journal.left:
                    place, why = self._journal.path, _why(self._trouble)
                    notice(f"{count} rows of the ledger wait in {place} for a start{why}")
                waiting = 0
            self._journal.close()
        if lost := waiting + self.dropped:
            notice(f"{lost} rows of the ledger were not written{_why(self._trouble)}")

    # ── in the thread ────────────────────────────────────────────────────────

    def _run(self) -> None:
        store = self.open_store()
        delay = _DELAY
        while True:
            self._look_for_dead(store)
            batch = self._collected(_PAUSE if self._trouble else delay)
            if batch is None:
                break
            if batch and not self._tried(partial(self._write, store, batch)):
                if self._closing:
                    break
            elif len(self._rows) < _BATCH:
                self._tried(partial(self._write_left, store))
            delay = _LONG_DELAY if len(batch) > _MANY else _DELAY
        store.close()

    def _collected(self, delay: float) -> list[LedgerRow] | None:
        """Wait for rows, and for more of them for `delay` seconds; return None at the end."""
        with self._changed:
            if not self._rows and not self._closing:
                self._changed.wait(_LOOKING if self._folder is not None else None)
            if not self._rows and self._closing:
                return None
            if self._rows and (self._trouble or len(self._rows) < _BATCH):
                self._changed.wait_for(self._is_urgent, delay)
            return list(islice(self._rows, _BATCH))

    def _is_urgent(self) -> bool:
        return self._closing or (self._wanted > self._written and not self._trouble)

    def _tried(self, work: Callable[[], None]) -> bool:
        """Call `work`; report when the ledger goes away and when it is back."""
        try:
            work()
        except StoreUnavailable as error:
            if not self._trouble:
                where = "memory" if self._journal is None else "the journal"
                text = f"the ledger cannot be written: {error}; rows wait in {where}"
                worker_notices.report("ledger", text, fault=True)
            with self._changed:
                self._trouble = str(error)
                self._changed.notify_all()
            self.flush()
            return False
        if self._trouble:
            text = f"the ledger is written again; {self.dropped} rows were dropped"
            if self.dropped:  # of this worker alone
                notice(text)
            else:
                worker_notices.report("ledger", text, fault=False)
            self._trouble = ""
        return True

    def _write(self, store: LedgerStore, batch: list[LedgerRow]) -> None:
        """Write a batch and take it from the queue."""
        self._append(store, batch)
        self._clean(store)
        with self._changed:
            for _ in batch:
                self._rows.popleft()
            self._written += len(batch)
            self._changed.notify_all()
        if self._journal is not None:
            self._journal.written([row.id for row in batch])

    def _write_left(self, store: LedgerStore) -> None:
        """Write the rows for which the queue had no room."""
        if self._journal is None or not self._journal.left:
            return
        for rows in self._journal.left_rows():
            self._append(store, rows)
        self._journal.written([])

    def _append(self, store: LedgerStore, rows: list[LedgerRow]) -> None:
        """Write rows; one that the ledger cannot hold is set aside, and the others are written."""
        try:
            store.append(rows)
        except RowsRefused as error:
            if len(rows) > 1:
                middle = len(rows) // 2
                self._append(store, rows[:middle])
                self._append(store, rows[middle:])
                return
            self.dropped += 1
            set_aside(self._folder, rows[0], str(error))

    def _look_for_dead(self, store: LedgerStore) -> None:
        """Put the rows of killed processes into the ledger, and settle what they have reserved."""
        now = time.monotonic()
        if self._folder is None or now - self._looked < _LOOKING:
            return
        self._looked = now
        with dead_journals(self._folder) as found:
            for dead in found:
                held = [_settlement(line.held, line.row) for line in dead.running if line.held]
                if held and self._settle_dead is not None:
                    self._settle_dead(held)
                if not self._tried(partial(self._take_over, store, dead)):
                    break  # the next search finds it again
                if count := len(dead.running):
                    notice(f"a process was killed; the ledger has its {count} running requests")

    def _take_over(self, store: LedgerStore, dead: DeadJournal) -> None:
        for rows in dead.rows():
            self._append(store, rows)
        dead.remove()

    def _safe(self, row: LedgerRow) -> LedgerRow:
        """Return `row` with its secrets masked and its texts shortened: clients choose these texts."""
        texts = _texts_of(row)
        safe = self._masked(texts)
        if safe == texts:
            if len(self._plain) >= _MOST_PLAIN:
                self._plain.clear()
            self._plain.add(texts)
            return row
        client, session, asked, model, routes = safe
        return msgspec.structs.replace(
            row, client=client, session=session, asked=asked, model=model, routes=routes
        )

    def _masked(self, texts: _Texts) -> _Texts:
        client, session, asked, model, routes = texts
        shown = self._shown
        return (
            shown(client), shown(session), shown(asked), shown(model), tuple(map(shown, routes))
        )  # fmt: skip

    def _shown(self, text: str) -> str:
        return self._redactor.text(text)[:_LONGEST_TEXT]

    def _clean(self, store: LedgerStore) -> None:
        now = time.monotonic()
        if now - self._cleaned >= _CLEANING:
            self._cleaned = now
            store.forget(time.time() - self._days * _DAY)


def _why(trouble: str) -> str:
    return f": {trouble}" if trouble else ""


def _settlement(held: Reservation, row: LedgerRow) -> tuple[Reservation, Amounts]:
    """Return a reservation with what its request has used, as far as the journal has it."""
    tokens = row.input + row.cache_read + row.cache_write + row.output
    least = held.least
    used = Amounts(
        0, min(max(tokens, least.tokens), _MOST), min(max(row.cost or 0, least.dollars), _MOST)
    )
    return held, used
