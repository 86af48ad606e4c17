"""Counts of first tries, in memory and over a restart."""

import stat

from toolbridge.runs.first_tries import FirstTryCounts
from toolbridge.store.sqlite import SqliteStore
from toolbridge.structured.modes import FirstTries

MODEL = "llamacpp/tiny"


async def test_counts_outlive_a_restart_in_a_private_file(tmp_path):
    path = tmp_path / "toolbridge.sqlite"
    store = SqliteStore(path)
    counts = FirstTryCounts(store)
    for valid in (True, True, False):
        await counts.add(MODEL, "native", valid=valid)
    await counts.add("other/model", "native", valid=False)
    assert (await counts.of(MODEL))["native"] == FirstTries(3, 2)
    await store.close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600

    store = SqliteStore(path)
    again = await FirstTryCounts(store).of(MODEL)
    assert again == {"native": FirstTries(3, 2), "sentinel": FirstTries()}
    await store.close()


async def test_a_count_that_cannot_be_read_is_begun_anew():
    store = SqliteStore()
    await store.put("first_tries", f"{MODEL} native", b"[1]", seconds=60)
    assert (await FirstTryCounts(store).of(MODEL))["native"] == FirstTries()
    await store.close()
