"""Values that outlive a request, for a while and not without bound."""

import sqlite3
from contextlib import closing

import pytest

from toolbridge.store.sqlite import SqliteStore


async def test_a_value_is_kept_replaced_and_dropped():
    store = SqliteStore()
    assert await store.get("a", "k") is None
    await store.put("a", "k", b"1", seconds=60)
    await store.put("a", "k", b"2", seconds=60)
    await store.put("b", "k", b"3", seconds=60)
    assert (await store.get("a", "k"), await store.get("b", "k")) == (b"2", b"3")
    assert await store.drop("a", "k")
    assert not await store.drop("a", "k")
    assert await store.get("a", "k") is None
    await store.close()


async def test_a_value_ends():
    store = SqliteStore()
    await store.put("a", "k", b"1", seconds=-1)
    assert await store.get("a", "k") is None
    await store.close()


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


@pytest.mark.parametrize("place", ["/proc/none/x.sqlite", "/dev/null/x.sqlite", "rubbish"])
async def test_a_file_that_cannot_be_used_is_said_and_memory_serves(tmp_path, capsys, place):
    (tmp_path / "rubbish").write_bytes(b"this is no database" * 100)
    store = SqliteStore(tmp_path / place)
    await store.put("a", "k", b"1", seconds=60)
    assert await store.get("a", "k") == b"1"
    await store.close()
    assert "nothing is kept beyond this run" in capsys.readouterr().err


async def test_a_value_that_cannot_be_written_is_let_go(tmp_path, capsys):
    path = tmp_path / "x.sqlite"
    store = SqliteStore(path, wait=0.05)
    await store.put("a", "k", b"1", seconds=60)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("begin exclusive")
        await store.put("a", "k", b"2", seconds=60)
        other.execute("rollback")
    assert await store.get("a", "k") == b"1"
    await store.close()
    assert "an answer was not kept" in capsys.readouterr().err


async def test_nobody_else_can_read_the_file(tmp_path):
    path = tmp_path / "x.sqlite"
    store = SqliteStore(path)
    await store.put("a", "k", b"1", seconds=60)
    modes = {file.name: file.stat().st_mode & 0o777 for file in tmp_path.iterdir()}
    await store.close()
    assert set(modes.values()) == {0o600}, modes
