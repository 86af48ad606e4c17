"""Values that outlive a request, for a while and not without bound."""

import asyncio
import sqlite3
import subprocess
import sys
import textwrap
from contextlib import closing

import pytest

from toolbridge.core.redaction import Redactor
from toolbridge.store import file as file_module
from toolbridge.store.file import Unavailable
from toolbridge.store.sqlite import SqliteStore


async def test_a_file_outlives_its_store(tmp_path):
    path = tmp_path / "deep" / "x.sqlite"
    store = SqliteStore(path)
    await store.put("a", "k", b"1", seconds=60)
    await store.close()
    again = SqliteStore(path)
    assert await again.get("a", "k") == b"1"
    await again.close()


async def test_what_would_end_first_gives_way():
    store = SqliteStore(most=2)
    for n in range(4):
        await store.put("a", str(n), b"x", seconds=60 + n)
    assert [await store.get("a", str(n)) is not None for n in range(4)] == [
        False,
        False,
        True,
        True,
    ]
    await store.close()


async def test_one_kind_does_not_crowd_out_another():
    store = SqliteStore(most=2)
    await store.put("claim/ada", "k", b"x", seconds=1)
    await store.put("claims", "k", b"x", seconds=1)
    for n in range(4):
        await store.put(f"stream/{n}", "k", b"x", seconds=60 + n)
        await store.put("plain", str(n), b"x", seconds=60 + n)
    assert [await store.get(f"stream/{n}", "k") for n in range(4)] == [None, None, b"x", b"x"]
    assert [await store.get("plain", str(n)) for n in range(4)] == [None, None, b"x", b"x"]
    assert await store.get("claim/ada", "k") == await store.get("claims", "k") == b"x"
    await store.close()


async def test_what_is_kept_stays_near_its_bound(tmp_path):
    path = tmp_path / "x.sqlite"
    store = SqliteStore(path, most=300)
    for n in range(1000):
        await store.put("a", str(n), b"x", seconds=60 + n)
    await store.close()
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("select count(*) from kept").fetchone()[0] <= 303


async def test_a_key_is_claimed_once_also_while_the_file_is_locked(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(file_module, "_PAUSE", 0.2)
    path = tmp_path / "x.sqlite"
    store = SqliteStore(path, wait=0.05)
    await store.put("a", "k", b"1", seconds=60)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("begin exclusive")
        assert await store.claim("a", "l", b"2", seconds=60) == (b"2", True)
        assert await store.claim("a", "l", b"3", seconds=60) == (b"2", False)
        assert "locked" in store.trouble
        other.execute("rollback")
    await asyncio.sleep(0.3)
    assert await store.claim("a", "l", b"3", seconds=60) == (b"2", False)
    assert store.trouble == ""
    await store.close()
    again = SqliteStore(path)
    assert await again.get("a", "l") == b"2"
    await again.close()
    said = capsys.readouterr().err
    assert said.count("database is locked") == 1
    assert "is in use again" in said


@pytest.mark.parametrize("place", ["/proc/none/x.sqlite", "/dev/null/x.sqlite"])
async def test_a_file_that_cannot_be_used_is_said_once_and_memory_serves(tmp_path, capsys, place):
    store = SqliteStore(tmp_path / place)
    await store.put("a", "k", b"1", seconds=60)
    assert await store.get("a", "k") == b"1"
    assert await store.claim("a", "l", b"2", seconds=60) == (b"2", True)
    assert await store.claim("a", "l", b"3", seconds=60) == (b"2", False)
    assert await store.drop("a", "l")
    assert store.trouble
    assert await store.check() == store.trouble
    await store.close()
    assert capsys.readouterr().err.count("kept in memory only") == 1


def garbage(path):
    path.write_bytes(b"this is no database" * 100)


def bad_pages(path):
    """Overwrite all pages but the first, as a failing disk does."""
    data = bytearray(path.read_bytes())
    data[4096:] = b"\xa5" * (len(data) - 4096)
    path.write_bytes(data)


def cut(path):
    path.write_bytes(path.read_bytes()[:5000])


@pytest.mark.parametrize("spoil", [garbage, bad_pages, cut])
async def test_a_corrupt_file_is_set_aside(tmp_path, capsys, spoil):
    path = tmp_path / "x.sqlite"
    store = SqliteStore(path)
    for n in range(200):
        await store.put("a", str(n), b'"%b"' % (b"x" * 200), seconds=60)
    await store.close()
    spoil(path)
    again = SqliteStore(path)
    for n in range(200):
        assert await again.get("a", str(n)) in {None, b'"%b"' % (b"x" * 200)}
    assert await again.claim("b", "k", b"1", seconds=60) == (b"1", True)
    assert again.trouble == ""
    await again.close()
    third = SqliteStore(path)
    assert await third.get("b", "k") == b"1"
    await third.close()
    [aside] = [
        p
        for p in tmp_path.iterdir()
        if ".corrupt-" in p.name and not p.name.endswith(("-wal", "-shm"))
    ]
    said = capsys.readouterr().err
    assert said.count("is corrupt") == 1
    assert aside.name in said


async def test_pages_that_go_bad_under_a_running_store_change_no_answer(tmp_path, capsys):
    path = tmp_path / "x.sqlite"
    store = SqliteStore(path)
    for n in range(500):
        await store.put("a", str(n), b'"%b"' % (b"x" * 2000), seconds=60)
    bad_pages(path)
    for n in range(500):
        assert await store.get("a", str(n)) == b'"%b"' % (b"x" * 2000)
        await store.put("b", str(n), b'"%b"' % (b"x" * 2000), seconds=60)
        assert await store.claim("c", str(n), b"1", seconds=60) == (b"1", True)
    await store.close()


async def test_only_a_few_corrupt_files_are_kept(tmp_path, monkeypatch):
    path = tmp_path / "x.sqlite"
    for n in range(6):
        monkeypatch.setattr("time.strftime", lambda _, n=n: f"2026010{n}")
        garbage(path)
        store = SqliteStore(path)
        await store.put("a", "k", b"1", seconds=60)
        await store.close()
    asides = sorted(p.name for p in tmp_path.iterdir() if ".corrupt-" in p.name)
    assert asides == [f"x.sqlite.corrupt-2026010{n}" for n in (3, 4, 5)]


async def test_a_full_disk_changes_no_answer(tmp_path, capsys, monkeypatch):
    path = tmp_path / "x.sqlite"
    first = SqliteStore(path)
    await first.put("a", "old", b"1", seconds=60)
    await first.close()
    real = file_module._connect

    def small(path, wait):
        connection = real(path, wait)
        connection.execute("pragma max_page_count = 20")
        return connection

    monkeypatch.setattr(file_module, "_connect", small)
    store = SqliteStore(path)
    for n in range(50):
        await store.put("a", str(n), b'"%b"' % (b"x" * 4000), seconds=60)
        assert await store.claim("b", str(n), b"%d" % n, seconds=60) == (
            b"%d" % n,
            True,
        )
    for n in range(50):
        assert await store.get("a", str(n)) == b'"%b"' % (b"x" * 4000)
        assert await store.claim("b", str(n), b"", seconds=60) == (b"%d" % n, False)
    assert await store.get("a", "old") == b"1"
    assert "full" in store.trouble
    await store.close()
    assert capsys.readouterr().err.count("is full") == 1


async def test_a_claim_on_a_full_disk_can_be_taken_over(tmp_path, monkeypatch):
    """The file can be read and not written: the store goes on in memory, and nothing repeats."""
    path = tmp_path / "x.sqlite"
    first = SqliteStore(path)
    await first.put("a", "k", b"old", seconds=60)
    await first.close()
    store = SqliteStore(path)
    assert await store.get("a", "k") == b"old"

    def full(_work):
        raise Unavailable("full")

    with monkeypatch.context() as broken:
        broken.setattr(store._file, "write", full)
        assert await store.claim("a", "k", b"mine", seconds=60) == (b"old", False)
        assert not await store.replace("a", "k", b"other", b"mine", seconds=60)
        assert await store.replace("a", "k", b"old", b"mine", seconds=60)
        assert await store.claim("a", "k", b"late", seconds=60) == (b"mine", False)
    # The file has space again, and still has the old value.
    assert await store.claim("a", "k", b"late", seconds=60) == (b"mine", False)
    assert await store.replace("a", "k", b"mine", b"next", seconds=60)
    await store.close()
    again = SqliteStore(path)
    assert await again.get("a", "k") == b"next"
    await again.close()


async def test_a_value_on_the_disk_has_no_secrets_and_one_in_memory_is_exact(tmp_path):
    path = tmp_path / "x.sqlite"
    store = SqliteStore(path, redactor=Redactor(["open-sesame"]))
    value = b'{"said": "open-sesame", "token": ["sk_live_123456"]}'
    await store.put("a", "sk_live_for_a_key", value, seconds=60)
    assert await store.get("a", "sk_live_for_a_key") == value
    assert await store.claim("b", "k", value, seconds=60) == (value, True)
    assert await store.claim("b", "k", b"", seconds=60) == (value, False)
    await store.close()
    written = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    assert b"sesame" not in written
    assert b"sk_live" not in written
    again = SqliteStore(path)
    masked = b'{"said":"[redacted]","token":["[redacted]"]}'
    assert await again.get("a", "sk_live_for_a_key") == masked
    assert await again.claim("b", "k", b"", seconds=60) == (masked, False)
    await again.close()


async def test_a_kind_is_bounded_in_bytes_in_memory_and_on_the_disk(tmp_path):
    path = tmp_path / "x.sqlite"
    store = SqliteStore(path, size=400_000)
    await store.put("claim", "k", b"1", seconds=3000)
    for n in range(1000):
        await store.put("stream/x", str(n), b'"%b"' % (b"x" * 1000), seconds=6000 + n)
    await store.put("stream/x", "large", b"x" * 60_000, seconds=6000)
    assert await store.get("stream/x", "large") is None
    assert await store.get("stream/x", "0") is None
    assert await store.get("stream/x", "999") is not None
    assert await store.get("claim", "k") == b"1"
    await store.close()
    assert path.stat().st_size < 600_000


async def test_a_file_of_an_older_version_gives_up_its_raw_values(tmp_path):
    path = tmp_path / "x.sqlite"
    with closing(sqlite3.connect(path, isolation_level=None)) as old:
        old.execute("pragma journal_mode = wal")
        old.execute("create table kept (scope, key, value, ends)")
        old.execute("insert into kept values ('a', 'k', 'sk_live_123456', 1e12)")
        store = SqliteStore(path)
        await store.put("a", "k", b"1", seconds=60)
        await store.close()
    assert b"sk_live" not in b"".join(file.read_bytes() for file in tmp_path.iterdir())


STARTING = """
    import asyncio, sys
    from pathlib import Path
    from toolbridge.store.sqlite import SqliteStore

    async def main(path):
        store = SqliteStore(path)
        _, new = await store.claim("idempotency", "k", b"1", seconds=60)
        print(new, store.trouble, flush=True)
        await store.close()

    print("ready", flush=True)
    for line in sys.stdin:
        asyncio.run(main(Path(line.strip())))
"""


def test_processes_that_start_at_once_share_one_file(tmp_path):
    """The switch to WAL is refused while another process opens the file, without waiting."""
    command = [sys.executable, "-c", textwrap.dedent(STARTING)]
    starting = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    for process in starting:
        assert process.stdout.readline() == "ready\n"
    for trial in range(5):  # a new file in each
        for process in starting:
            process.stdin.write(f"{tmp_path / f'{trial}.sqlite'}\n")
            process.stdin.flush()
        said = sorted(process.stdout.readline().strip() for process in starting)
        assert said == ["False", "False", "False", "True"]
    for process in starting:
        assert process.communicate(timeout=30)[0] == ""
        assert process.returncode == 0


async def test_nobody_else_can_read_the_file(tmp_path):
    path = tmp_path / "x.sqlite"
    store = SqliteStore(path)
    await store.put("a", "k", b"1", seconds=60)
    modes = {file.name: file.stat().st_mode & 0o777 for file in tmp_path.iterdir()}
    await store.close()
    assert set(modes.values()) == {0o600}, modes


async def test_a_value_that_is_too_large_is_said(capsys):
    store = SqliteStore(size=8000)
    await store.put("responses/x", "k", b"x" * 5000, seconds=60)
    await store.put("responses/x", "l", b"x" * 5000, seconds=60)
    assert await store.get("responses/x", "k") is None
    await store.close()
    assert capsys.readouterr().err.count("too large") == 1


async def test_a_value_of_exactly_the_bound_is_kept(capsys):
    store = SqliteStore(size=8000)
    most = store._memory_bounds.largest - 17  # the mark
    await store.put("responses/x", "k", b"x" * most, seconds=60)
    assert await store.get("responses/x", "k") == b"x" * most
    assert capsys.readouterr().err == ""
    for scope in ("responses/x", "responses/y", "events/x"):
        await store.put(scope, "l", b"x" * (most + 1), seconds=60)
    await store.close()
    said = capsys.readouterr().err.splitlines()
    assert [line.partition("(")[2].partition(")")[0] for line in said] == ["responses", "events"]
