"""The ledger and the keys on a real PostgreSQL server."""

import asyncio
import threading
import time

import psycopg
import pytest
from tests.store.test_keys_and_ledger import *  # noqa: F403  the contract of every engine
from tests.store.test_keys_and_ledger import NOON, row

from toolbridge.store import StoreUnavailable
from toolbridge.store.keys import new_key
from toolbridge.store.postgres import PostgresTables
from toolbridge.store.postgres_keys import PostgresKeys
from toolbridge.store.postgres_ledger import PostgresLedger


@pytest.fixture
def clean(postgres_url):
    """A connection to a server without tables; the tests after this one find none either."""

    def drop():
        for table in ("schema", "requests", "keys"):
            connection.execute(f"drop table if exists toolbridge_{table}")

    with psycopg.connect(postgres_url, autocommit=True) as connection:
        drop()
        yield connection
        drop()


@pytest.fixture
def ledger(postgres_url, clean):
    ledger = PostgresLedger(postgres_url)
    yield ledger
    ledger.close()


@pytest.fixture
async def keys(postgres_url, clean):
    both = PostgresKeys(postgres_url), PostgresKeys(postgres_url)
    yield both
    for each in both:
        await each.close()


def test_processes_that_start_at_once_create_the_tables_once(postgres_url, clean):
    ledgers = [PostgresLedger(postgres_url) for _ in range(6)]
    faults = []

    def start(ledger):
        try:
            ledger.append([row("a")])
        except StoreUnavailable as error:
            faults.append(error)
        ledger.close()

    threads = [threading.Thread(target=start, args=(ledger,)) for ledger in ledgers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []
    assert clean.execute("select count(*) from toolbridge_requests").fetchone() == (1,)


def test_tables_of_a_newer_version_are_not_used(postgres_url, clean, ledger):
    ledger.append([row("a")])
    clean.execute("update toolbridge_schema set version = 99")
    newer = PostgresLedger(postgres_url)
    with pytest.raises(StoreUnavailable, match="upgrade toolbridge"):
        newer.append([row("b")])
    newer.close()


@pytest.mark.parametrize("change", [("pg-pass", "wrong"), ("@127.0.0.1", "@127.0.0.2")])
def test_an_error_names_the_server_without_the_password(postgres_url, change):
    ledger = PostgresLedger(postgres_url.replace(*change).replace("%2Fword", "%2Fsecret"))
    with pytest.raises(StoreUnavailable, match=r"postgresql://team:\*\*\*@127") as caught:
        ledger.totals("day", 0)
    assert "secret" not in str(caught.value)


async def test_a_server_that_hangs_is_given_up_after_a_time(postgres_process):
    tables = PostgresTables(postgres_process.url, seconds=0.5)
    assert await tables.run(lambda c: c.execute("select 1").fetchone()) == (1,)
    await asyncio.to_thread(postgres_process.pause)
    began = time.monotonic()
    with pytest.raises(StoreUnavailable):
        await tables.run(lambda c: c.execute("select 1").fetchone())
    assert time.monotonic() - began < 10
    await asyncio.to_thread(postgres_process.resume)
    assert await tables.run(lambda c: c.execute("select 1").fetchone()) == (1,)
    await tables.close()


async def test_keys_and_rows_outlive_a_restart_of_the_server(postgres_process):
    keys, ledger = PostgresKeys(postgres_process.url), PostgresLedger(postgres_process.url)
    record, _ = new_key("alice", NOON)
    await keys.put(record)
    await asyncio.to_thread(ledger.append, [row("a")])
    await asyncio.to_thread(postgres_process.kill)
    with pytest.raises(StoreUnavailable):
        await keys.all()
    with pytest.raises(StoreUnavailable):
        await asyncio.to_thread(ledger.append, [row("b")])
    await asyncio.to_thread(postgres_process.start)
    for _ in range(100):  # it recovers for a while
        try:
            assert await keys.all() == [record]
            break
        except StoreUnavailable:
            await asyncio.sleep(0.1)
    await asyncio.to_thread(ledger.append, [row("b")])
    assert [t.requests for t in await asyncio.to_thread(ledger.totals, "day", 0)] == [2]
    await asyncio.to_thread(ledger.close)
    await keys.close()
