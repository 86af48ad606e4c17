"""What every engine of the ledger and of the keys does."""

import asyncio

import msgspec
import pytest

from toolbridge.accounting.limits_of_keys import KeyLimit
from toolbridge.policy.key_scopes import KeyScopes
from toolbridge.store import RowsRefused
from toolbridge.store.keys import new_key
from toolbridge.store.ledger import GROUPINGS, LedgerRow, RowQuery, UsageTotal
from toolbridge.store.sqlite_keys import SqliteKeys
from toolbridge.store.sqlite_ledger import SqliteLedger

NOON = 1_794_830_400.0


@pytest.fixture
def ledger(tmp_path):
    ledger = SqliteLedger(tmp_path / "ledger.sqlite")
    yield ledger
    ledger.close()


@pytest.fixture
async def keys(tmp_path):
    """Two processes."""
    both = SqliteKeys(tmp_path / "keys.sqlite"), SqliteKeys(tmp_path / "keys.sqlite")
    yield both
    for each in both:
        await each.close()


def row(id: str, **fields) -> LedgerRow:
    known = {"at": NOON, "model": "m", "provider": "p", "status": 200, "input": 100, "output": 10}
    return LedgerRow(id, **{**known, **fields})


def test_a_row_is_added_once(ledger):
    ledger.append([row("a"), row("b")])
    ledger.append([row("b", input=999), row("c")])
    [total] = ledger.totals("model", 0)
    assert total == UsageTotal("p/m", 3, 0, 300, 0, 0, 30, 0, 0, 3, 0)


def test_sums_are_exact_by_every_group(ledger):
    many = 2**53 + 1
    ledger.append(
        [
            row("a", key="alice", cost=many, cache_read=5, cache_write=7, session="s"),
            row("b", key="alice", cost=many, thinking=3, client="c", estimated=True),
            row("c", key="Bob", status=500, provider="", error="upstream", input=0, output=0),
            row("d", key="bob", at=NOON - 86_400, error="overloaded"),
        ]
    )
    found = {by: {t.group: t for t in ledger.totals(by, 0)} for by in GROUPINGS}
    assert found["key"]["alice"].cost == 2 * many
    assert list(found["key"]) == ["Bob", "alice", "bob"]
    assert list(found["day"]) == ["2026-11-15", "2026-11-16"]
    assert set(found["model"]) == {"m", "p/m"}
    alice = UsageTotal("alice", 2, 0, 200, 5, 7, 20, 3, 2 * many, 0, 1)
    assert found["key"]["alice"] == alice
    assert (found["key"]["Bob"].errors, found["key"]["Bob"].unpriced) == (1, 0)
    assert [t.group for t in ledger.totals("key", NOON)] == ["Bob", "alice"]


def test_sums_beyond_64_bits_are_shown(ledger):
    ledger.append([row(name, input=2**62, output=1, cost=2**62) for name in "abc"])
    [total] = ledger.totals("model", 0)
    assert (total.requests, total.output) == (3, 3)
    assert total.input == total.cost == 3 * 2**62


@pytest.mark.parametrize("number", [2**63, -(2**63) - 1, 10**30])
def test_a_number_beyond_64_bits_is_refused_and_nothing_is_written(ledger, number):
    with pytest.raises(RowsRefused):
        ledger.append([row("a"), row("b", output=number)])
    assert ledger.rows(RowQuery(9)) == []
    ledger.append([row("a")])
    assert len(ledger.rows(RowQuery(9))) == 1


def test_the_sums_of_one_key_are_its_own(ledger):
    ledger.append([row("a", key="alice"), row("b", key="bob"), row("c")])
    assert [t.requests for t in ledger.totals("model", 0, "alice")] == [1]
    assert [t.requests for t in ledger.totals("model", 0, "")] == [1]
    assert [t.requests for t in ledger.totals("model", 0)] == [3]


def test_rows_are_returned_as_they_were_added_in_pages_newest_first(ledger):
    whole = row(
        "whole", at=NOON + 1, key="k", client="c", session="s", api="anthropic", asked="x",
        routes=("a/x", "p/m"), error="truncated", cache_read=1, cache_write=2, thinking=3,
        estimated=True, cost=2**53 + 1, first_token_ms=1.5, total_ms=2.5, healings=4, losses=5,
    )  # fmt: skip
    rows = [*(row(f"r{n}", at=NOON - n // 3) for n in range(10)), whole]
    ledger.append(rows)
    order = sorted(rows, key=lambda one: (one.at, one.id), reverse=True)
    assert ledger.rows(RowQuery(99)) == order
    found, before = [], None
    while page := ledger.rows(RowQuery(4, before=before)):
        found += page
        before = page[-1].at, page[-1].id
    assert found == order
    assert ledger.rows(RowQuery(9, id="whole")) == [whole]
    assert ledger.rows(RowQuery(9, since=NOON + 1)) == [whole]
    assert ledger.rows(RowQuery(9, id="whole", key="other")) == []


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        (RowQuery(9, text="CLAUDE"), ["a"]),
        (RowQuery(9, text="100%"), ["b"]),
        (RowQuery(9, text="a_b!"), ["c"]),
        (RowQuery(9, text="529"), ["d"]),
        (RowQuery(9, text="there/two"), ["d"]),
        (RowQuery(9, text="'; --"), []),
        (RowQuery(9, only="errors"), ["d"]),
        (RowQuery(9, only="healed"), ["b"]),
        (RowQuery(9, only="losses", key="k"), ["c"]),
        (RowQuery(9, key=""), ["a", "b", "d"]),
    ],
)
def test_rows_are_found_by_their_texts_and_kinds(ledger, query, wanted):
    ledger.append(
        [
            row("a", client="claude-cli"),
            row("b", session="100%", healings=1),
            row("c", asked="a_b!", losses=1, key="k"),
            row("d", status=529, routes=("there/one", "there/two")),
        ]
    )
    assert sorted(one.id for one in ledger.rows(query)) == wanted
    ledger.rows(RowQuery(9, text="\x00"))  # which no row contains, and no engine rejects


def test_old_rows_are_removed(ledger):
    ledger.append([row("a", at=NOON - 10), row("b")])
    ledger.forget(NOON)
    assert [t.requests for t in ledger.totals("day", 0)] == [1]


def test_any_text_can_be_stored(ledger):
    texts = ["'); drop table requests; --", "\u2028 🜁", "a\x00b", "\ud800"]
    ledger.append([row(str(n), client=t, routes=(t,)) for n, t in enumerate(texts[:3])])
    assert sum(t.requests for t in ledger.totals("client", 0)) == 3


async def test_a_key_is_seen_by_another_process(keys):
    one, two = keys
    record, _ = new_key("alice", NOON)
    record = msgspec.structs.replace(
        record, limits=(KeyLimit("dollars", 10**15, "month"),), scopes=KeyScopes(models=("a/*",))
    )
    await one.put(record)
    version = await two.version()
    assert await two.all() == [record]
    assert await two.version() == version
    revoked = msgspec.structs.replace(record, revoked=NOON + 1)
    await one.put(revoked)
    assert await two.version() != version
    assert await two.all() == await one.all() == [revoked]


async def test_keys_that_are_created_at_once_are_all_there(keys):
    records = [new_key(f"user{n}", NOON + n)[0] for n in range(12)]
    await asyncio.gather(*(keys[n % 2].put(record) for n, record in enumerate(records)))
    assert await keys[0].all() == records
