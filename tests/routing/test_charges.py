"""A charge over several requests to the model, with real budgets."""

import asyncio

import pytest
from msgspec.structs import replace

from toolbridge.accounting.limits_of_keys import KeyLimit
from toolbridge.config import ProviderConfig
from toolbridge.core import events as ev
from toolbridge.core.codec import Target
from toolbridge.core.fold import Fold
from toolbridge.core.messages import Message, Text
from toolbridge.core.usage import Usage
from toolbridge.routing import charges as charges_module
from toolbridge.routing.charge import BudgetExceeded, Charge, RequestSize
from toolbridge.routing.charges import Charges
from toolbridge.routing.nodes import NODE
from toolbridge.routing.providers import DEMO
from toolbridge.routing.route import Route
from toolbridge.store.keys import KeyRecord
from toolbridge.store.ledger import LedgerRow
from toolbridge.store.sqlite_budgets import SqliteBudgets

ROUTE = Route("local", ProviderConfig(api="openai_chat", url="http://127.0.0.1:1"), "", Target("m"))
LIMIT = KeyLimit("tokens", 1000, "day")
KEY = KeyRecord("k", "alice", b"salt", b"hash", 0.0, limits=(LIMIT,), concurrency=2)


@pytest.fixture
async def charges(tmp_path):
    found = Charges(lambda: SqliteBudgets(tmp_path / "budgets.sqlite"), clock=lambda: 1000.0)
    yield found
    await found.close()


class Noted:
    """A journal that keeps its rows in memory."""

    def __init__(self, *, held: bool = False) -> None:
        self._held = held
        self.rows: list[LedgerRow] = []
        self._waiting: list[LedgerRow] = []

    def note(self, row: LedgerRow, held: object, *, safe: bool, later: bool) -> LedgerRow:  # noqa: ARG002
        assert (held is not None) == self._held
        (self._waiting if later else self.rows).append(row)
        return row

    def add(self, row: LedgerRow, *, later: bool) -> None:
        assert later
        self._waiting.append(row)

    def flush(self) -> None:
        self.rows += self._waiting
        self._waiting.clear()


class Reported:
    """A request that keeps what was reported of it."""

    def __init__(self) -> None:
        self.found: list[tuple[Message, bool]] = []
        self.ended = False

    def finish(self, message: Message, estimated: bool) -> None:  # noqa: FBT001  as `Entry` has it
        self.found.append((message, estimated))

    def running_row(self, usage: Usage, estimated: bool) -> LedgerRow:  # noqa: FBT001
        return LedgerRow("req_1", 1000.0, output=usage.output, estimated=estimated)

    def end_in(self, journal: Noted) -> bool:
        if self.ended:
            journal.add(LedgerRow("req_1", 1000.0, status=200), later=True)
        return self.ended


async def opened(charges: Charges, request: Reported | None = None) -> Charge:
    """Return a charge that has reserved 150 tokens."""
    charge = charges.begin(KEY, request or Reported())
    await charge.fit(ROUTE, RequestSize(100, 50))
    return charge


async def state(charges: Charges) -> tuple[int, int]:
    """Return the used and the reserved tokens."""
    (found,) = await charges._budgets.states(KEY, 1000.0)
    return found.used, found.held


async def test_a_pass_is_used_and_the_next_one_reserved(charges):
    charge = await opened(charges)
    assert await state(charges) == (0, 150)
    await charge.next_pass(Usage(input=90, output=7), RequestSize(120, 43))
    assert await state(charges) == (97, 163)
    await charge.refit(RequestSize(300, 43))
    assert await state(charges) == (97, 343)
    # The answer has the output of both, and the prompt of the last.
    await charge.settle(
        Message(content=(Text("x"),), usage=Usage(input=280, output=17), stop="end")
    )
    assert await state(charges) == (97 + 290, 0)


async def test_a_pass_without_reported_usage_costs_its_prompt(charges):
    charge = await opened(charges)
    await charge.next_pass(Usage(), RequestSize(120, 43))
    assert (await state(charges))[0] == 100


async def test_a_refused_pass_leaves_nothing_reserved_and_charges_the_others(charges):
    request = Reported()
    charge = await opened(charges, request)
    with pytest.raises(BudgetExceeded):
        await charge.next_pass(Usage(input=990, output=5), RequestSize(120, 43))
    # The text has more characters than five tokens usually have.
    said = (Text("x" * 400),)
    message = Message(content=said, usage=Usage(input=990, output=5), stop="error")
    charge.message = message
    async with charge:
        pass
    assert await state(charges) == (995, 0)
    ((spent, _),) = request.found
    assert (spent.usage.input, spent.usage.output) == (990, 5)


async def test_a_later_pass_keeps_the_place_of_its_request(charges):
    charge = await opened(charges)
    other = await opened(charges)
    # The limit was lowered meanwhile: the answer that is under way goes on.
    charge.key = replace(KEY, concurrency=1)
    await charge.next_pass(Usage(input=90, output=7), RequestSize(120, 43))
    assert charge.reservation is not None
    await charge.settle(Message())
    await other.settle(Message())


@pytest.mark.parametrize("same", [True, False])
async def test_a_request_without_limits_is_reported_as_it_ended(charges, same):
    charges.journal = journal = Noted()
    request = Reported()
    settled = Message(content=(Text("x"),), usage=Usage(input=9, output=7), stop="end")
    ended = settled if same else replace(settled, usage=Usage(input=9, output=8))
    charge = charges.begin(None, request)
    async with charge:
        await charge.fit(ROUTE, RequestSize(100, 50))
        await charge.settle(settled)
        charge.message = ended
    assert request.found == [(ended, False)]
    assert [row.output for row in journal.rows] == [0, 7]


async def test_rows_wait_for_the_end_of_the_turn_where_the_bytes_do(charges):
    charges.journal = journal = Noted()
    charges.waits_for_turns = True
    first, other = charges.begin(None, Reported()), charges.begin(None, Reported())
    await first.fit(ROUTE, RequestSize(100, 50), waits=True)
    await other.fit(ROUTE, RequestSize(100, 50), waits=True)
    assert journal.rows == []
    await asyncio.sleep(0)
    assert len(journal.rows) == 2
    await first.settle(answer := Message(usage=Usage(input=9, output=7), stop="end"))
    assert len(journal.rows) == 2
    await asyncio.sleep(0)
    assert [row.output for row in journal.rows] == [0, 0, 7]
    other._request.ended = True  # in the same turn: its last row alone
    await other.settle(answer)
    await asyncio.sleep(0)
    assert [row.status for row in journal.rows[3:]] == [200]


@pytest.mark.parametrize("api", ["openai_chat", DEMO, NODE, "proxy", "key"])
async def test_rows_do_not_wait_where_the_bytes_may_not(charges, api):
    charges.journal = journal = Noted(held=api == "key")
    charges.waits_for_turns = api != "proxy"
    config = ProviderConfig(api=api, url="http://127.0.0.1:1")
    route = Route("local", config, "", Target("m")) if api in (DEMO, NODE) else ROUTE
    charge = charges.begin(KEY if api == "key" else None, Reported())
    await charge.fit(route, RequestSize(100, 50), waits=api != "openai_chat")
    assert len(journal.rows) == 1
    await charge.settle(Message(usage=Usage(input=9, output=7), stop="end"))
    assert [row.output for row in journal.rows] == [0, 7]


async def test_a_row_that_waits_does_not_replace_a_later_one(charges):
    charges.journal = journal = Noted()
    charges.waits_for_turns = True
    charge = charges.begin(None, Reported())
    await charge.fit(ROUTE, RequestSize(100, 50), waits=True)
    charge.reading = Fold()
    charge.reading.feed_all([ev.UsageReported(Usage(input=9, output=5))])
    await charge.note_so_far(journal)
    journal.flush()
    await asyncio.sleep(0)
    assert [row.output for row in journal.rows] == [5]


async def test_running_requests_are_noted_together_and_in_steps(charges, monkeypatch):
    monkeypatch.setattr(charges_module, "_NOTING", 0.01)
    charges.journal = journal = Noted()
    running = [charges.begin(None, Reported()) for _ in range(250)]
    for charge in running:
        await charge.fit(ROUTE, RequestSize(100, 50))
        charge.reading = Fold()
        charge.reading.feed_all([ev.UsageReported(Usage(input=9, output=5))])
    journal.rows.clear()
    for charge in running:
        await charge.__aenter__()
    seen = set()
    while len(journal.rows) < len(running):  # between two steps, other work goes on
        seen.add(len(journal.rows))
        await asyncio.sleep(0)
    assert seen == {0, 100, 200}
    assert {row.output for row in journal.rows} == {5}
    await asyncio.sleep(0.03)
    assert len(journal.rows) == len(running)  # nothing was read since
    for charge in running:
        await charge.end(None)
