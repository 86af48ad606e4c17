"""Values that outlive a request, for a while and not without bound."""

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
