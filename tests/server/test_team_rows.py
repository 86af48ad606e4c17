"""What a process shows of the others: rows of the ledger, of other keys, and of lost processes."""

import asyncio

from tests.key_users import CountingModel, ask, create, settings
from tests.peers import gateway, model_server
from tests.server import test_team
from tests.server.test_page_data import get
from tests.server.test_team import answered, explained

from toolbridge.core.redaction import Redactor
from toolbridge.server import request_feed, team
from toolbridge.server.request_feed import TeamFeed
from toolbridge.server.request_rows import RowView
from toolbridge.server.team_records import TeamRows, decode_rows, encode_rows
from toolbridge.store.ledger import LedgerRow

state, two = test_team.state, test_team.two


async def test_a_process_that_does_not_answer_is_not_waited_for(two, monkeypatch):
    monkeypatch.setattr(team, "_ASKING", 0.2)
    async with two() as ((one, other), (first, second), _):
        id = await answered(one)
        await asyncio.to_thread(first.ledger.close)
        serving = first.team._serving
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
        found = await explained(other, id)
        assert "no running process" in found["note"]
        assert found["tokens"]["input"] == 100
        assert (await get(other, f"/v1/requests/{id}"))["explanation"] is None
        assert await second.team.all_rows() == []


async def test_a_created_key_sees_only_its_own_requests_of_other_processes(two):
    async with two() as ((one, other), _, _):
        alice, bob = await create("alice"), await create("bob")
        _, _, headers = await ask(one, alice)
        id = headers["request-id"]
        assert (await get(one, f"/v1/requests/{id}", alice))["explanation"]
        assert (await get(other, f"/v1/requests/{id}", alice))["explanation"]
        await get(other, f"/v1/requests/{id}", bob, status=404)
        await explained(other, id, 404, **{"x-api-key": bob})
        listed = await get(other, "/v1/requests", bob)
        assert (listed["requests"], listed["running"]) == ([], [])
        listed = await get(other, "/v1/requests", alice)
        assert [row["id"] for row in listed["requests"]] == [id]


async def test_a_single_process_is_no_team(state):
    async with model_server(CountingModel()) as server:
        env = {"XDG_STATE_HOME": str(state)}
        async with gateway(settings(server.url), env) as (url, app):
            assert app.team is None
            id = await answered(url)
            assert "process" not in (await get(url, f"/v1/requests/{id}"))["request"]
            assert "process" not in await explained(url, id)


# ── the rows of others ───────────────────────────────────────────────────────


def row(id, **more):
    return LedgerRow(id, 1.0, asked="x", **more)


def feed(key=None):
    view = RowView(Redactor(), None)
    view.key = key
    return TeamFeed(view)


def test_a_request_whose_process_is_gone_is_shown_as_interrupted_in_the_end():
    watched = feed()
    (shown,) = watched.changes([TeamRows("p", "host:1", [row("a")], [])])
    assert shown["running"]
    seen = [watched.changes([]) for _ in range(request_feed._PATIENCE + 3)]
    (last,) = [rows for rows in seen if rows]
    assert [(r["id"], r["running"], r["error"]) for r in last] == [("a", False, "interrupted")]


def test_a_request_that_is_missed_once_goes_on():
    watched = feed()
    running = TeamRows("p", "host:1", [row("a")], [])
    assert len(watched.changes([running])) == 1
    for _ in range(3 * request_feed._PATIENCE):
        assert watched.changes([]) == []
        assert watched.changes([running]) == []


def test_each_state_of_a_request_is_sent_once():
    watched = feed()
    states = [
        TeamRows("p", "host:1", [row("a")], []),
        TeamRows("p", "host:1", [row("a", model="m")], []),
        TeamRows("p", "host:1", [], [row("a", model="m", status=200)]),
    ]
    for one in states:
        assert len(watched.changes([one])) == 1
        assert watched.changes([one]) == []


def test_rows_of_other_keys_are_not_sent():
    watched = feed("bob")
    rows = TeamRows("p", "host:1", [row("a", key="alice")], [row("b", key="bob")])
    assert [r["id"] for r in watched.changes([rows])] == ["b"]


def test_a_row_that_a_mask_has_broken_is_left_out():
    rows = TeamRows("p", "host:1", [row("a")], [row("b"), row("c")])
    assert decode_rows(encode_rows(rows)) == rows
    broken = encode_rows(rows).replace(b'"id":"b"', b'"id":[redacted]')
    assert decode_rows(broken) == TeamRows("p", "host:1", [row("a")], [row("c")])
    assert decode_rows(b"other") is None
    assert decode_rows(encode_rows(TeamRows("p", "n", [], []))) == TeamRows("p", "n", [], [])
