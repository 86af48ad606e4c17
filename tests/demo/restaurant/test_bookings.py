"""A table, once: also when the process dies in the middle, and when two of them race."""

import asyncio
import json
import signal
import sqlite3
import subprocess
import sys
import textwrap
from contextlib import closing

import pytest

from toolbridge.demo.restaurant.bookings import BOOKINGS_CREATE
from toolbridge.demo.restaurant.places import town
from toolbridge.store.sqlite import SqliteStore
from toolbridge.tools.context import ToolContext
from toolbridge.tools.registry import Registry

REGISTRY = Registry([BOOKINGS_CREATE])
ASKED = {"place_id": "pl_001", "time": "19:00", "party_size": 2, "name": "Ada"}


@pytest.fixture
async def store(tmp_path):
    store = SqliteStore(tmp_path / "x.sqlite")
    yield store
    await store.close()


def bookings(path):
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute(
            "select scope, value from kept where scope like 'booking/%' order by scope"
        )
        return [(*scope.split("/")[1:], *_party(value)) for scope, value in rows]


def _party(value):
    booked = json.loads(value)
    return booked["party"], booked["name"]


async def book(store, key="", **changes):
    context = ToolContext(caller="ada", idempotency_key=key, store=store)
    return await REGISTRY.call("bookings.create", {**ASKED, **changes}, context)


@pytest.mark.req("TF-42")
async def test_a_booking_is_confirmed_and_always_under_the_same_name(store, tmp_path):
    first = await book(store)
    assert first.result == {
        "confirmation": "BK-5ZFHFXFU", "status": "confirmed", "place_id": "pl_001",
        "place": "Luigi's Pizza", "address": "12 Mill Lane", "time": "19:00", "party_size": 2,
        "name": "Ada",
    }  # fmt: skip
    assert (await book(store)).result == first.result
    assert bookings(tmp_path / "x.sqlite") == [("pl_001", "19:00", 2, "Ada")]
    assert (await book(store, name="Bob")).result["confirmation"] != "BK-5ZFHFXFU"


@pytest.mark.req("TF-42")
@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"place_id": "pl_999"}, "unknown_place"),
        ({"time": "09:00"}, "closed"),
        ({"time": "2030-05-06T19:00"}, "closed"),
        ({"party_size": 9}, "party_too_large"),
        ({"time": "20:30"}, "conflict"),
        ({"time": "2030-05-01 20:30:15"}, "conflict"),
    ],
)
async def test_what_cannot_be_booked_is_refused_with_its_reason(store, changes, reason):
    outcome = await book(store, **changes)
    assert (outcome.code, outcome.result["error"]["reason"]) == ("tool_failed", reason)
    assert len(outcome.tries) == 1


@pytest.mark.req("TF-42")
@pytest.mark.parametrize(
    "changes",
    [{"time": "7pm"}, {"party_size": 0}, {"party_size": "two"}, {"name": ""}, {"time": None}],
)
async def test_wrong_arguments_are_said(store, changes):
    assert (await book(store, **changes)).code == "invalid_arguments"


async def test_no_more_parties_than_tables(store):
    tables = town()["pl_003"].tables
    at = {"place_id": "pl_003", "time": "18:00"}
    for n in range(tables):
        assert (await book(store, name=f"guest {n}", **at)).code == ""
    assert (await book(store, name="one more", **at)).result["error"]["reason"] == "conflict"
    assert (await book(store, name="guest 0", **at)).code == "", "that one is booked already"


@pytest.mark.req("TF-35")
async def test_a_repeat_is_the_same_booking(store, tmp_path):
    first = await book(store, "k1")
    again = await book(store, "k1")
    assert (first.cached, again.cached) == (False, True)
    assert first.result == again.result
    assert len(bookings(tmp_path / "x.sqlite")) == 1


@pytest.mark.req("TF-51")
@pytest.mark.parametrize(
    "name",
    ["'); drop table bookings; --", "{{7*7}} ${PATH} `id`", "__import__('os').abort()", "\u2028"],
)
async def test_a_text_is_only_a_text(store, tmp_path, name):
    assert (await book(store, name=name)).result["name"] == name
    assert bookings(tmp_path / "x.sqlite") == [("pl_001", "19:00", 2, name)]


async def test_without_a_store_nothing_is_booked():
    outcome = await REGISTRY.call("bookings.create", ASKED, ToolContext())
    assert outcome.result["error"]["reason"] == "no_store"


async def test_a_file_that_cannot_be_written_changes_no_booking(tmp_path, capsys):
    path = tmp_path / "x.sqlite"
    store = SqliteStore(path, wait=0.05)
    await store.put("a", "k", b"1", seconds=60)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("begin exclusive")
        outcome = await book(store, "k1")
        other.execute("rollback")
    assert (outcome.code, outcome.cached) == ("", False)
    assert "database is locked" in capsys.readouterr().err
    again = await book(store, "k1")
    assert (again.result, again.cached) == (outcome.result, True)
    await store.close()


@pytest.mark.req("TF-50")
async def test_a_secret_for_a_name_is_booked_and_not_written_down(store, tmp_path):
    assert (await book(store, name="sk_live_123456")).result["name"] == "sk_live_123456"
    assert bookings(tmp_path / "x.sqlite") == [("pl_001", "19:00", 2, "[redacted]")]
    assert b"sk_live" not in b"".join(file.read_bytes() for file in tmp_path.iterdir())


PROCESS = """
    import asyncio, os, signal, sys
    from pathlib import Path
    from toolbridge.store import sqlite
    from toolbridge.demo.restaurant import bookings
    from toolbridge.tools.context import ToolContext
    from toolbridge.tools.registry import Registry

    path, when = Path(sys.argv[1]), sys.argv[2]

    def die(*_):
        os.kill(os.getpid(), signal.SIGKILL)

    real, made = sqlite.SqliteStore._claim, []

    def claim(*given):
        # The first claim is of the table, the second of the result.
        made.append(given)
        if (when, len(made)) in {("before", 1), ("booked", 2)}:
            die()
        done = real(*given)
        return die() if (when, len(made)) == ("after", 2) else done

    sqlite.SqliteStore._claim = claim

    async def main():
        store = sqlite.SqliteStore(path)
        context = ToolContext(caller="ada", idempotency_key="k1", store=store)
        asked = {"place_id": "pl_001", "time": "19:00", "party_size": 2, "name": "Ada"}
        if when == "race":
            print("ready", flush=True)
            sys.stdin.readline()
        outcome = await Registry([bookings.BOOKINGS_CREATE]).call("bookings.create", asked, context)
        print(outcome.result["confirmation"], outcome.cached, flush=True)
        await store.close()

    asyncio.run(main())
"""


def process(path, when):
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(PROCESS), str(path), when],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip


@pytest.mark.req("TF-35")
@pytest.mark.parametrize(
    ("when", "booked", "cached"),
    [("before", 0, False), ("booked", 1, False), ("after", 1, True)],
)
async def test_a_process_that_is_killed_in_the_middle_has_booked_once(
    tmp_path, when, booked, cached
):
    path = tmp_path / "x.sqlite"
    with process(path, when) as first:
        first.communicate(timeout=30)
    assert first.returncode == -signal.SIGKILL
    assert len(bookings(path)) == booked
    store = SqliteStore(path)
    outcome = await book(store, "k1")
    await store.close()
    assert (outcome.result["confirmation"], outcome.cached) == ("BK-5ZFHFXFU", cached)
    assert len(bookings(path)) == 1


@pytest.mark.req("TF-35")
def test_processes_that_race_book_once(tmp_path):
    path = tmp_path / "x.sqlite"
    racers = [process(path, "race") for _ in range(3)]
    for racer in racers:
        assert racer.stdout.readline() == "ready\n"
    for racer in racers:
        racer.stdin.write("go\n")
        racer.stdin.flush()
    said = [racer.communicate(timeout=30)[0].split() for racer in racers]
    assert {confirmation for confirmation, _ in said} == {"BK-5ZFHFXFU"}
    assert sorted(cached for _, cached in said) == ["False", "True", "True"]
    assert len(bookings(path)) == 1


async def test_a_booking_that_was_too_slow_is_not_made_twice(store, tmp_path):
    with closing(sqlite3.connect(tmp_path / "x.sqlite", isolation_level=None)) as other:
        await store.get("a", "k")
        other.execute("begin immediate")
        context = ToolContext(caller="ada", idempotency_key="k", store=store)
        booking = asyncio.create_task(REGISTRY.call("bookings.create", ASKED, context, timeout=2))
        await asyncio.sleep(2.3)
        other.execute("rollback")
        outcome = await booking
    assert [attempt.code for attempt in outcome.tries] == ["tool_timeout", ""]
    assert len(bookings(tmp_path / "x.sqlite")) == 1
