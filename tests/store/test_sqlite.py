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


async def test_a_value_is_made_once():
    store = SqliteStore()
    made = []

    def make(connection):
        made.append(connection)
        return b"%d" % len(made)

    first = await store.once("a", "k", make, seconds=60)
    assert (first, await store.once("a", "k", make, seconds=60)) == ((b"1", True), (b"1", False))
    assert await store.once("b", "k", make, seconds=60) == (b"2", True)
    assert await store.get("a", "k") == b"1"
    await store.close()


async def test_a_value_that_has_ended_is_made_again():
    store = SqliteStore()
    assert await store.once("a", "k", lambda _: b"1", seconds=-1) == (b"1", True)
    assert await store.once("a", "k", lambda _: b"2", seconds=60) == (b"2", True)
    await store.close()


async def test_what_a_maker_writes_and_what_is_kept_are_one(tmp_path):
    store = SqliteStore(tmp_path / "x.sqlite")

    def make(connection):
        connection.execute("create table if not exists t (a)")
        connection.execute("insert into t values (1)")
        return b"1"

    def fail(connection):
        make(connection)
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await store.once("a", "k", fail, seconds=60)
    assert await store.get("a", "k") is None
    await store.once("a", "k", make, seconds=60)
    await store.close()
    with closing(sqlite3.connect(tmp_path / "x.sqlite")) as connection:
        assert connection.execute("select count(*) from t").fetchone() == (1,)


async def test_what_cannot_be_kept_is_not_made(tmp_path):
    path = tmp_path / "x.sqlite"
    store = SqliteStore(path, wait=0.05)
    await store.put("a", "k", b"1", seconds=60)
    made = []
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("begin exclusive")
        with pytest.raises(sqlite3.Error):
            await store.once("a", "l", lambda _: made.append(1) or b"", seconds=60)
        other.execute("rollback")
    assert made == []
    assert (await store.once("a", "l", lambda _: b"2", seconds=60)) == (b"2", True)
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
