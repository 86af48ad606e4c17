"""The journal of the ledger: rows of processes that were killed, and of a ledger that is away."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest

from toolbridge.accounting.limits_of_keys import Amounts, KeyLimit
from toolbridge.store import StoreUnavailable, ledger_journal, ledger_writer
from toolbridge.store.budgets import Reservation
from toolbridge.store.ledger import LedgerRow, RowQuery
from toolbridge.store.ledger_journal import JournalLine, LedgerJournal, dead_journals
from toolbridge.store.ledger_writer import LedgerWriter
from toolbridge.store.sqlite_ledger import SqliteLedger

HELD = Reservation(
    "r1", "k1", (KeyLimit("tokens", 1000, "day"),), Amounts(1, 500, 0), Amounts(1, 7, 0)
)
KILLED = """
import os, signal, sys
from pathlib import Path
from toolbridge.store.budgets import Reservation
from toolbridge.store.ledger import LedgerRow
from toolbridge.store.ledger_journal import JournalLine, LedgerJournal
from tests.store.test_ledger_journal import HELD
journal = LedgerJournal(Path(sys.argv[1]))
row = lambda id, **more: LedgerRow(id, 1.0, model="m", **more)
journal.note(JournalLine(row("whole", output=1), runs=True))
journal.note(JournalLine(row("cut", input=5, error="interrupted"), runs=True, held=HELD))
journal.note(JournalLine(row("cut", input=5, output=9, error="interrupted"), runs=True, held=HELD))
journal.note(JournalLine(row("whole", output=3, status=200)))
os.write(journal._file, b'{"row":{"id":"torn"')
print("ready", flush=True)
sys.stdin.read()
"""


def killed(folder) -> None:
    """Write a journal in a process of its own, and kill that."""
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=str(Path.cwd()),
        env={**os.environ, "PYTHONPATH": str(Path.cwd())},
    )
    assert process.stdout.readline() == b"ready\n"
    with dead_journals(folder) as found:
        assert found == [], "its process lives"
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdin.close()
    process.stdout.close()


FULL = """
import resource, sys
from pathlib import Path
from toolbridge.store.ledger import LedgerRow
from toolbridge.store.ledger_journal import JournalLine, LedgerJournal
journal = LedgerJournal(Path(sys.argv[1]))
assert journal.note(JournalLine(LedgerRow("a", 1.0), runs=True))
resource.setrlimit(resource.RLIMIT_FSIZE, (journal.path.stat().st_size + 20, 10_000))
journal.add(JournalLine(LedgerRow("b", 1.0)))
assert not journal.note(JournalLine(LedgerRow("c", 1.0), runs=True))
resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
assert journal.note(JournalLine(LedgerRow("d", 1.0)))
resource.setrlimit(resource.RLIMIT_FSIZE, (journal.path.stat().st_size + 60, 10_000))
for id in ("e", "f", "g"):
    journal.add(JournalLine(LedgerRow(id, 1.0), runs=True))
journal.flush()
resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
assert journal.note(JournalLine(LedgerRow("h", 1.0)))
"""


def test_a_full_disk_leaves_no_part_of_a_line(folder):
    subprocess.run(
        [sys.executable, "-c", FULL, str(folder)],
        check=True,
        env={**os.environ, "PYTHONPATH": str(Path.cwd())},
    )
    (path,) = folder.iterdir()
    assert [line.row.id for line in ledger_journal._lines_of(path)] == ["a", "d", "e", "h"]
    assert path.read_bytes().count(b"\n") == 4


def until(what) -> None:
    end = time.monotonic() + 20
    while not what():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.01)


def rows_of(path) -> dict[str, LedgerRow]:
    ledger = SqliteLedger(path)
    found = {row.id: row for row in ledger.rows(RowQuery(100_000))}
    ledger.close()
    return found


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "journal"


def test_the_rows_of_a_killed_process_are_put_into_the_ledger_once(tmp_path, folder, capsys):
    killed(folder)
    settled = []
    file = tmp_path / "l"
    early = SqliteLedger(file)
    early.append([LedgerRow("whole", 1.0, model="m", output=3, status=200)])  # it was written
    early.close()
    writer = LedgerWriter(lambda: SqliteLedger(file), 10_000_000, folder=folder)
    writer.start(settled.extend)
    until(lambda: not list(folder.iterdir()))
    writer.close()
    found = rows_of(file)
    assert set(found) == {"whole", "cut"}
    assert (found["whole"].output, found["whole"].error) == (3, "")
    assert (found["cut"].output, found["cut"].error) == (9, "interrupted")
    # What was read is charged: 5 and 9 tokens, not the 500 that were reserved.
    assert settled == [(HELD, Amounts(0, 14, 0))]
    assert "its 1 running requests" in capsys.readouterr().err


def test_the_journal_of_a_dead_process_waits_until_the_ledger_is_back(
    tmp_path, folder, monkeypatch
):
    monkeypatch.setattr(ledger_writer, "_LOOKING", 0.01)
    killed(folder)
    ledger = AwayLedger(tmp_path / "l")
    settled = []
    writer = LedgerWriter(lambda: ledger, 10_000_000, folder=folder)
    writer.start(settled.append)
    until(lambda: ledger.tries > 2)
    assert len(list(folder.iterdir())) == 1
    assert settled, "budgets do not wait for the ledger"
    ledger.away = False
    until(lambda: not list(folder.iterdir()))
    writer.close()
    assert set(rows_of(tmp_path / "l")) == {"whole", "cut"}


class AwayLedger(SqliteLedger):
    """A ledger that cannot be written until it is back."""

    def __init__(self, path) -> None:
        super().__init__(path)
        self.away = True
        self.tries = 0

    def append(self, rows):
        self.tries += 1
        if self.away:
            raise StoreUnavailable("it is away")
        super().append(rows)


async def test_rows_without_room_in_memory_wait_in_the_journal(
    tmp_path, folder, monkeypatch, capsys
):
    monkeypatch.setattr(ledger_writer, "_PAUSE", 0.01)
    monkeypatch.setattr(ledger_journal, "_COMPACT", 100)
    ledger = AwayLedger(tmp_path / "l")
    writer = LedgerWriter(lambda: ledger, 10_000_000, most=5, folder=folder)
    count = 1300  # more than two batches
    writer.note(LedgerRow("running", 1.0), None)
    for n in range(count):
        writer.add(LedgerRow(str(n), float(n)))
    await asyncio.to_thread(until, lambda: ledger.tries > 2)
    ledger.away = False
    (path,) = folder.iterdir()
    await asyncio.to_thread(until, lambda: path.stat().st_size < 200)
    assert b'"running"' in path.read_bytes()
    await asyncio.to_thread(writer.close, 20.0)
    assert writer.dropped == 0
    assert set(rows_of(tmp_path / "l")) == set(map(str, range(count)))
    assert "0 rows were dropped" in capsys.readouterr().err


def test_a_reader_does_not_wait_for_the_next_batch(tmp_path, monkeypatch):
    monkeypatch.setattr(ledger_writer, "_DELAY", 600.0)
    writer = LedgerWriter(lambda: SqliteLedger(tmp_path / "l"), 10_000_000)
    writer.catch_up()
    for n in range(100):
        writer.add(LedgerRow(str(n), float(n)))
    writer.catch_up(60.0)
    assert len(rows_of(tmp_path / "l")) == 100
    writer.close()


def test_a_reader_does_not_wait_for_a_ledger_that_is_away(tmp_path):
    ledger = AwayLedger(tmp_path / "l")
    writer = LedgerWriter(lambda: ledger, 10_000_000)
    writer.add(LedgerRow("a", 1.0))
    writer.catch_up(600.0)
    assert ledger.tries
    writer.add(LedgerRow("b", 1.0))
    writer.catch_up(600.0)
    ledger.away = False
    writer.close(20.0)
    assert set(rows_of(tmp_path / "l")) == {"a", "b"}


def test_more_rows_than_one_statement_has_are_in_the_ledger_once(tmp_path):
    ledger = SqliteLedger(tmp_path / "l")
    for count in (1, 41, 42, 83):
        ledger.append(
            [LedgerRow(str(n), float(n), routes=("a/b",) * (n % 3)) for n in range(count)]
        )
        assert len(ledger.rows(RowQuery(1000))) == count
    assert ledger.rows(RowQuery(1, id="5")) == [LedgerRow("5", 5.0, routes=("a/b", "a/b"))]
    ledger.close()


def test_rows_that_cannot_be_written_at_the_end_are_written_by_the_next_process(
    tmp_path, folder, monkeypatch, capsys
):
    monkeypatch.setattr(ledger_writer, "_PAUSE", 0.01)
    ledger = AwayLedger(tmp_path / "l")
    writer = LedgerWriter(lambda: ledger, 10_000_000, most=2, folder=folder)
    for n in range(5):
        writer.add(LedgerRow(str(n), float(n)))
    until(lambda: ledger.tries)
    writer.close()
    told = capsys.readouterr().err
    assert f"5 rows of the ledger wait in {folder}" in told
    assert "not written" not in told
    following = LedgerWriter(lambda: SqliteLedger(tmp_path / "l"), 10_000_000, folder=folder)
    following.start(lambda _: None)
    until(lambda: not list(folder.iterdir()))
    following.close()
    assert set(rows_of(tmp_path / "l")) == set("01234")


def test_a_busy_journal_stays_small_and_keeps_what_is_needed(folder, monkeypatch):
    monkeypatch.setattr(ledger_journal, "_COMPACT", 4096)
    journal = LedgerJournal(folder)
    journal.note(JournalLine(LedgerRow("long", 1.0), runs=True, held=HELD))
    largest = 0
    for n in range(500):
        journal.note(JournalLine(LedgerRow(f"r{n}", 1.0), runs=True))
        journal.note(JournalLine(LedgerRow(f"r{n}", 1.0, output=1)))
        journal.written([f"r{n}"])
        largest = max(largest, journal.path.stat().st_size)
    assert largest < 4096 + 500
    with dead_journals(folder) as found:
        assert found == [], "a smaller journal is locked as well"
    journal.close()
    with dead_journals(folder) as found:
        assert [[line.row.id for line in one.running] for one in found] == [["long"]]
        assert found[0].running[0].held == HELD


def test_a_journal_without_rows_leaves_no_file(folder):
    journal = LedgerJournal(folder)
    journal.note(JournalLine(LedgerRow("a", 1.0)))
    assert len(list(folder.iterdir())) == 1
    assert (folder.stat().st_mode & 0o777, journal.path.stat().st_mode & 0o777) == (0o700, 0o600)
    journal.written(["a"])
    journal.close()
    assert list(folder.iterdir()) == []


def test_lines_of_ended_requests_are_written_with_the_next_line_in_their_order(folder):
    def ids(journal) -> list[str]:
        return [line.row.id for line in ledger_journal._lines_of(journal.path)]

    journal = LedgerJournal(folder)
    journal.note(JournalLine(LedgerRow("a", 1.0), runs=True))
    journal.add(JournalLine(LedgerRow("a", 1.0, status=200)))
    journal.add(JournalLine(LedgerRow("b", 1.0, status=200)))
    assert ids(journal) == ["a"]
    journal.note(JournalLine(LedgerRow("c", 1.0), runs=True))
    assert ids(journal) == ["a", "a", "b", "c"]
    journal.add(JournalLine(LedgerRow("d", 1.0, status=200)))
    journal.add(JournalLine(LedgerRow("e", 1.0, status=200)))
    journal.written(["d"])  # the ledger was faster than the journal
    journal.flush()
    assert ids(journal) == ["a", "a", "b", "c", "e"]
    journal.add(JournalLine(LedgerRow("f", 1.0, status=200)))
    journal.close()
    assert ids(journal) == ["a", "a", "b", "c", "e", "f"]


def test_a_smaller_file_has_the_lines_that_were_not_written_yet(folder, monkeypatch):
    monkeypatch.setattr(ledger_journal, "_COMPACT", 100)
    journal = LedgerJournal(folder)
    for n in range(9):
        journal.note(JournalLine(LedgerRow(f"a{n}", 1.0)))
    journal.add(JournalLine(LedgerRow("b", 1.0)))
    journal.written([f"a{n}" for n in range(9)])
    journal.close()
    assert [line.row.id for line in ledger_journal._lines_of(journal.path)] == ["b"]


def test_a_folder_that_cannot_be_made_is_reported_once(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    journal = LedgerJournal(tmp_path / "file" / "journal")
    assert not journal.note(JournalLine(LedgerRow("a", 1.0)))
    assert not journal.note(JournalLine(LedgerRow("b", 1.0)))
    journal.add(JournalLine(LedgerRow("c", 1.0)))
    journal.flush()
    journal.written(["a", "b"])
    journal.close()
    assert capsys.readouterr().err.count("memory only") == 1


def test_rows_without_a_file_to_wait_in_are_reported_as_not_written(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    ledger = AwayLedger(tmp_path / "l")
    writer = LedgerWriter(lambda: ledger, 10_000_000, folder=tmp_path / "file" / "journal")
    writer.add(LedgerRow("a", 1.0), later=True)
    writer.close()
    written = capsys.readouterr().err
    assert "1 rows of the ledger were not written" in written
    assert "for a start" not in written


def test_the_journal_masks_secrets(folder, tmp_path):
    from toolbridge.core.redaction import Redactor

    ledger = AwayLedger(tmp_path / "l")
    writer = LedgerWriter(lambda: ledger, 1, Redactor(["hunter2hunter2"]), folder=folder)
    writer.note(LedgerRow("a", 1.0, session="hunter2hunter2"), None)
    writer.add(LedgerRow("a", 1.0, asked="hunter2hunter2", session="s" * 5000))
    (path,) = folder.iterdir()
    data = path.read_bytes()
    assert b"hunter2" not in data
    assert b"s" * 201 not in data
    writer.close()


def test_a_row_that_the_ledger_cannot_hold_is_set_aside(tmp_path, folder, capsys):
    writer = LedgerWriter(lambda: SqliteLedger(tmp_path / "l"), 10_000_000, folder=folder)
    for number in range(9):
        writer.add(LedgerRow(f"good{number}", 1.0))
        if number in {3, 4}:
            writer.add(LedgerRow(f"bad{number}", 1.0, output=2**63))
    writer.catch_up(5.0)
    writer.add(LedgerRow("later", 1.0))
    writer.close()
    assert set(rows_of(tmp_path / "l")) == {*(f"good{number}" for number in range(9)), "later"}
    assert writer.dropped == 2
    (file,) = folder.iterdir()
    kept = [msgspec.json.decode(line, type=LedgerRow) for line in file.read_bytes().splitlines()]
    assert [row.id for row in kept] == ["bad3", "bad4"]
    assert kept[0].output == 2**63
    written = capsys.readouterr().err
    assert "the ledger cannot hold the row bad3: Python int too large" in written
    assert str(file) in written


def test_the_journal_of_a_process_that_died_of_a_row_is_taken_over(tmp_path, folder, capsys):
    folder.mkdir()
    rows = [LedgerRow("a", 1.0), LedgerRow("b", 1.0, input=10**30), LedgerRow("c", 1.0)]
    runs = JournalLine(LedgerRow("d", 1.0, output=2**70), runs=True, held=HELD)
    lines = [*(JournalLine(row) for row in rows), runs]
    (folder / "1-a.journal").write_bytes(b"\n".join(map(msgspec.json.encode, lines)) + b"\n")
    settled = []
    writer = LedgerWriter(lambda: SqliteLedger(tmp_path / "l"), 10_000_000, folder=folder)
    writer.start(settled.extend)
    until(lambda: [path.name for path in folder.iterdir()] == ["refused.jsonl"])
    writer.close()
    assert set(rows_of(tmp_path / "l")) == {"a", "c"}
    assert settled == [(HELD, Amounts(0, 2**53, 0))]
    assert "2 rows of the ledger were not written" in capsys.readouterr().err
