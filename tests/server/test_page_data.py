"""The data of the page over real sockets: who sees which requests, what is shown of them, and bounds."""

import asyncio
import json
import time
from contextlib import asynccontextmanager

import aiohttp
import pytest
from tests.key_users import ask, command, create, key, settings, team
from tests.peers import Heard, Line, bridged, gateway, line_of, model_server, replay, whole
from tests.streams import read, reply, scripted, streaming
from tests.waiting import until

from toolbridge.config import Config
from toolbridge.server import created_keys, request_feed
from toolbridge.server.recent_requests import RecentRequests
from toolbridge.store.ledger import LedgerRow, RowQuery
from toolbridge.store.sqlite_ledger import SqliteLedger

EVIL = "<img src=x onerror=alert(1)>"
SECRET = "sk-proj-0123aAbBcCdDeEfF"
CALL = '<tool_call>{"name": "read_file", "arguments": {"path": 5}}</tool_call>'
TOOL = {
    "name": "read_file",
    "input_schema": {
        "type": "object",
        "properties": {"path": {"type": "string"}},
        "required": ["path"],
    },
}


@pytest.fixture
def state(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(created_keys, "_PAUSE", 0.0)
    return tmp_path


async def get(
    url: str, path: str, key: str = "", status: int = 200, *, running: bool = False, **headers: str
):
    """Return the JSON of an answer with the expected status.

    A request counts as running until the last byte of its answer is written, which its client may
    read before.
    """
    headers |= {"x-api-key": key} if key else {}
    for _ in range(1000):
        async with (
            aiohttp.ClientSession() as session,
            session.get(url + path, headers=headers) as answer,
        ):
            found = await answer.json()
            assert answer.status == status, found
        if running or "The request is running" not in str(found.get("why")):
            break
        await asyncio.sleep(0.01)
    return found


async def listing(url):
    """Return the list of requests once it has one: a row is added after the end of its answer."""
    for _ in range(1000):
        found = await get(url, "/v1/requests")
        if found["requests"]:
            return found
        await asyncio.sleep(0.01)
    raise AssertionError("no request was listed")


@asynccontextmanager
async def watching(url: str, key: str = ""):
    """Yield an iterator over the events of the feed."""
    headers = {"x-api-key": key} if key else {}
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"{url}/v1/requests/stream", headers=headers) as answer,
    ):
        assert answer.status == 200, await answer.text()
        yield read(answer)


async def next_rows(events, holds=bool) -> list[dict]:
    """Return the rows of the next event whose rows fit."""
    async with asyncio.timeout(20):
        async for event in events:
            if event.name == "rows" and holds(event.data["rows"]):
                return event.data["rows"]
    raise AssertionError("the feed has ended")


def asked(**fields):
    messages = fields.pop("messages", [{"role": "user", "content": "hi"}])
    return {"model": "claude-sonnet-4-5", "max_tokens": 64, "messages": messages, **fields}


async def post(url, body, **headers):
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{url}/v1/messages", json=body, headers=headers) as answer,
    ):
        await answer.read()
        return answer.headers["request-id"]


# ── the list ─────────────────────────────────────────────────────────────────


async def test_a_request_is_listed_with_what_was_asked_served_and_used(state):
    async with team(state) as (url, _):
        _, _, headers = await ask(url)
        (row,) = (await listing(url))["requests"]
    assert row["id"] == headers["request-id"]
    assert (row["asked"], row["provider"], row["model"]) == ("any", "there", "big")
    assert (row["status"], row["running"], row["error"]) == (200, False, "")
    assert (row["input"], row["output"], row["cost"]) == (100, 10, "0.000200000")
    assert row["first_token_ms"] <= row["total_ms"]
    assert "hi" not in json.dumps(row["asked"])


async def test_a_running_request_is_listed_before_it_ends(state):
    async with team(state) as (url, model):
        model.gate.clear()
        task = asyncio.create_task(ask(url))
        await until(lambda: model.running == 1)
        listed = await get(url, "/v1/requests")
        assert listed["requests"] == []
        (row,) = listed["running"]
        assert (row["running"], row["status"], row["model"]) == (True, 0, "big")
        found = await get(url, f"/v1/requests/{row['id']}", running=True)
        assert found["request"]["running"]
        assert "is running" in found["why"]
        model.gate.set()
        await task
        assert (await listing(url))["running"] == []


async def test_a_request_that_cannot_be_read_is_listed_too():
    async with bridged(replay(line_of("Hi", done=True))) as (url, _, _):
        agent = {"user-agent": "my-agent/1"}
        id = await post(url, {"model": "m", "messages": [{"role": "user"}]}, **agent)
        (row,) = (await listing(url))["requests"]
    assert (row["id"], row["status"], row["error"]) == (id, 400, "malformed_request")
    assert (row["client"], row["api"]) == ("my-agent", "anthropic")


async def test_past_requests_come_from_the_ledger_in_pages_without_gaps(state):
    rows = [LedgerRow(f"req_{n:04}", at=1000.0 + n // 3, model="m") for n in range(250)]
    async with team(state) as (url, _):
        SqliteLedger(state / "toolbridge" / "ledger.sqlite").append(rows)
        found, query = [], "limit=60"
        for _ in range(9):
            page = await get(url, f"/v1/requests?{query}")
            found += [row["id"] for row in page["requests"]]
            if page["next"] is None:
                break
            query = f"limit=60&before={page['next']}"
    assert found == [row.id for row in reversed(rows)]


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ("q=100%25", {"req_b"}),
        ("q=a_b", {"req_c"}),
        ("q=CLAUDE", {"req_a"}),
        ("q=529", {"req_d"}),
        ("q=there/two", {"req_d"}),
        ("only=errors", {"req_d", "req_e"}),
        ("only=healed", {"req_b"}),
        ("only=losses&q=big", {"req_c"}),
        ("q=%27%3B--", set()),
    ],
)
async def test_the_ledger_and_the_memory_find_the_same_rows(state, query, wanted):
    rows = [
        LedgerRow("req_a", 1.0, client="claude-cli"),
        LedgerRow("req_b", 2.0, session="100%", healings=1),
        LedgerRow("req_c", 3.0, asked="a_b", model="big", losses=1),
        LedgerRow("req_d", 4.0, status=529, routes=("there/one", "there/two")),
        LedgerRow("req_e", 5.0, status=200, error="truncated"),
    ]
    config = Config(log="off", ledger="off")
    async with gateway(config) as (url, app):
        for row in rows:
            app.recent_requests.add(row)
        listed = await get(url, f"/v1/requests?{query}")
        assert {row["id"] for row in listed["requests"]} == wanted
        assert listed["ledger"] == "off"
    async with team(state) as (url, _):
        SqliteLedger(state / "toolbridge" / "ledger.sqlite").append(rows)
        listed = await get(url, f"/v1/requests?{query}")
        assert {row["id"] for row in listed["requests"]} == wanted


@pytest.mark.parametrize(
    "query", ["limit=0", "limit=201", "limit=x", "only=all", "before=yesterday"]
)
async def test_a_question_that_makes_no_sense_is_rejected_with_its_parameter(query):
    async with gateway() as (url, _):
        found = await get(url, f"/v1/requests?{query}", status=400)
    assert query.partition("=")[0] in found["error"]["message"]


async def test_a_ledger_that_cannot_be_read_leaves_the_rows_in_memory(state):
    async with team(state) as (url, _):
        await ask(url)
        await until((state / "toolbridge" / "ledger.sqlite").exists)
    file = state / "toolbridge" / "ledger.sqlite"
    file.unlink()
    file.mkdir()
    async with team(state) as (url, _):
        await ask(url)
        listed = await listing(url)
        assert len(listed["requests"]) == 1
        assert "ledger.sqlite" in listed["ledger"]
        assert "cannot be read" in (await get(url, "/v1/usage", status=503))["error"]["message"]


def test_the_memory_of_requests_is_bounded():
    recent = RecentRequests(3)
    for n in range(10):
        recent.add(LedgerRow(f"req_{n}", float(n)))
    assert [row.id for row in recent.all()] == ["req_7", "req_8", "req_9"]
    assert [row.id for row in recent.after(9)] == ["req_9"]
    assert [row.id for row in recent.after(2)] == ["req_7", "req_8", "req_9"]
    assert recent.after(10) == []


async def test_texts_of_clients_are_shown_as_they_are_but_short_and_without_secrets():
    async with bridged(replay(line_of("Hi", done=True))) as (url, _, _):
        body = asked(model=f"{EVIL}{'m' * 400}")
        await post(url, body, **{"x-session-id": f"{EVIL} {SECRET}", "user-agent": EVIL})
        (row,) = (await listing(url))["requests"]
    assert row["asked"].startswith(EVIL)
    assert len(row["asked"]) <= 201
    assert row["session"].startswith(EVIL)
    assert SECRET not in json.dumps(row)
    assert row["client"] == "img"


# ── the feed ─────────────────────────────────────────────────────────────────


async def test_the_feed_shows_a_request_when_it_begins_and_when_it_ends(state):
    async with team(state) as (url, model), watching(url) as events:
        first = await anext(events)
        assert (first.name, first.data["rows"]) == ("first", [])
        model.gate.clear()
        task = asyncio.create_task(ask(url))
        (begun,) = await next_rows(events, lambda rows: rows[-1]["asked"])
        assert (begun["running"], begun["asked"]) == (True, "any")
        model.gate.set()
        await task
        (ended,) = await next_rows(events, lambda rows: not rows[-1]["running"])
        assert (ended["id"], ended["status"], ended["output"]) == (begun["id"], 200, 10)


async def test_a_new_watcher_gets_what_happened_before_it(state):
    async with team(state) as (url, _):
        await ask(url)
        await listing(url)
        async with watching(url) as events:
            first = await anext(events)
    assert [row["status"] for row in first.data["rows"]] == [200]


async def test_a_flood_is_shortened_to_the_newest_rows(state):
    async with gateway() as (url, app), watching(url) as events:
        await anext(events)
        for n in range(900):
            app.recent_requests.add(LedgerRow(f"req_{n}", float(n)))
        async with asyncio.timeout(20):
            async for event in events:
                if event.name == "rows":
                    break
    assert [row["id"] for row in event.data["rows"]] == [f"req_{n}" for n in range(650, 900)]
    assert event.data["skipped"] == 650


async def test_watchers_are_limited_and_count_as_no_request(monkeypatch):
    monkeypatch.setattr(request_feed, "MOST_WATCHERS", 2)
    async with gateway() as (url, app), watching(url) as one, watching(url) as two:
        await anext(one)
        await anext(two)
        assert (await get(url, "/health"))["in_flight"] == 0
        found = await get(url, "/v1/requests/stream", status=429)
        assert "2 pages watch" in found["error"]["message"]
        assert len(app.watchers) == 2
    await until(lambda: not app.watchers)


async def test_the_feed_ends_when_the_gateway_shuts_down():
    async with gateway() as (url, app), watching(url) as events:
        await anext(events)
        app.lifecycle.drain()
        async with asyncio.timeout(20):
            assert [event.name async for event in events if event.name != "ping"] == []


async def test_rows_of_other_processes_come_from_the_ledger(state, monkeypatch):
    monkeypatch.setattr(request_feed, "_SHARED", 0.0)
    async with team(state) as (url, _):
        await ask(url)
    async with model_server(replay()) as server:
        env = {"XDG_STATE_HOME": str(state)}
        config = settings(server.url, workers=2)
        async with gateway(config, env) as (url, _), watching(url) as events:
            await anext(events)
            (first,) = await next_rows(events)
            assert first["model"] == "big"
            row = LedgerRow("req_00000abc", time.time(), model="m")
            SqliteLedger(state / "toolbridge" / "ledger.sqlite").append([row])
            (second,) = await next_rows(events)
    assert second["id"] == "req_00000abc"


async def test_a_head_of_the_feed_does_not_wait():
    async with (
        gateway() as (url, _),
        aiohttp.ClientSession() as session,
        session.head(f"{url}/v1/requests/stream") as answer,
    ):
        assert answer.status == 200


# ── keys ─────────────────────────────────────────────────────────────────────

PATHS = ("/v1/requests", "/v1/requests/stream", "/v1/usage", "/v1/providers", "/v1/model_cards")


@pytest.mark.parametrize("path", [*PATHS, "/v1/requests/req_00000000"])
async def test_the_data_of_the_page_needs_the_key(path):
    async with gateway(Config(log="off", key="key-of-the-house")) as (url, _):
        await get(url, path, status=401)
        await get(url, path, "wrong", status=403)


@pytest.mark.parametrize("path", PATHS)
async def test_pages_of_others_may_not_read_the_data(path):
    async with gateway() as (url, _):
        await get(url, path, status=403, origin="http://evil.example")
        await get(url, path, status=403, host="evil.example")


async def test_a_created_key_sees_its_own_requests_and_the_own_key_all(state):
    async with team(state, key="key-of-the-house") as (url, _):
        alice, bob = await create("alice"), await create("bob")
        for one in (alice, bob, "key-of-the-house"):
            await ask(url, one)

        async def seen(of: str) -> set[str]:
            return {row["key"] for row in (await get(url, "/v1/requests", of))["requests"]}

        assert await seen(alice) == {"alice"}
        assert await seen("key-of-the-house") == {"alice", "bob", ""}
        (theirs,) = (await get(url, "/v1/requests", bob))["requests"]
        await get(url, f"/v1/requests/{theirs['id']}", alice, status=404)
        await until(
            lambda: len(SqliteLedger(state / "toolbridge" / "ledger.sqlite").rows(RowQuery(9))) == 3
        )
        used = await get(url, "/v1/usage?by=key", alice)
        assert [total["key"] for total in used["totals"]] == ["alice"]
        used = await get(url, "/v1/usage?by=key", "key-of-the-house")
        assert [total["key"] for total in used["totals"]] == ["", "alice", "bob"]
        async with watching(url, alice) as events:
            first = await anext(events)
            assert {row["key"] for row in first.data["rows"]} == {"alice"}
            await ask(url, bob)
            await ask(url, alice)
            rows = await next_rows(events, lambda rows: not rows[-1]["running"])
            assert {row["key"] for row in rows} == {"alice"}


async def test_the_contents_belong_to_the_key_that_made_the_request(state):
    async with team(state, key="key-of-the-house") as (url, _):
        alice = await create("alice")
        _, _, headers = await ask(url, alice)
        path = f"/v1/requests/{headers['request-id']}"
        own = await get(url, path, alice)
        assert own["came"]["messages"] == [{"role": "user", "content": "hi"}]
        other = await get(url, path, "key-of-the-house")
        assert other["request"]["key"] == "alice"
        assert other["explanation"] is None
        assert "came" not in other
        assert "belong to the key" in other["why"]


async def test_a_key_with_other_routes_may_not_see_the_page(state):
    async with team(state) as (url, _):
        carol = await create("carol", "--routes", "/v1/messages")
        for path in PATHS:
            found = await get(url, path, carol, status=403)
            assert "may not use" in found["error"]["message"]


async def test_a_feed_ends_when_its_key_is_revoked(state, monkeypatch):
    monkeypatch.setattr(request_feed, "_CHECK", 0.0)
    async with team(state) as (url, _):
        dave = await create("dave")
        async with watching(url, dave) as events:
            await anext(events)
            await key("revoke", "dave")
            async with asyncio.timeout(20):
                assert {event.name async for event in events} <= {"ping"}


# ── one request ──────────────────────────────────────────────────────────────


async def test_both_requests_and_the_healed_answer_are_shown():
    call = {"model": "m", "message": {"role": "assistant", "content": CALL}, "done": False}
    async with bridged(replay(call, line_of("", done=True))) as (url, _, _):
        id = await post(url, asked(tools=[TOOL], top_k=3, stream=True))
        found = await get(url, f"/v1/requests/{id}")
    assert found["came"]["model"] == "claude-sonnet-4-5"
    assert found["sent"]["model"] == "tiny:latest"
    assert {edit["place"] for edit in found["explanation"]["edits"]} >= {"model"}
    (part,) = found["answer"]["content"]
    assert (part["name"], part["arguments"]) == ("read_file", {"path": "5"})
    assert found["answer"]["stop"] == "tool_use"
    assert found["explanation"]["healings"][0]["steps"][0]["before"]
    assert found["explanation"]["route"]["attempts"][0]["answered_ms"] > 0


async def test_the_demo_model_is_shown_with_the_prepared_request():
    async with gateway() as (url, _):
        id = await post(url, asked())
        found = await get(url, f"/v1/requests/{id}")
    assert found["sent"]["turns"][0]["role"] == "user"
    assert found["answer"]["content"][0]["type"] == "text"


async def test_bodies_are_without_secrets_and_bounded():
    async with bridged(replay(line_of(f"Your key is {SECRET}", done=True))) as (url, _, _):
        messages = [
            {"role": "user", "content": f"{SECRET} {'x' * 30_000}"},
            *({"role": role, "content": "y" * 5000} for role in ["assistant", "user"] * 75),
        ]
        id = await post(url, asked(messages=messages))
        found = await get(url, f"/v1/requests/{id}")
    shown = json.dumps(found)
    assert SECRET not in shown
    assert len(shown) < 2_000_000
    assert found["came"]["messages"][0]["content"].endswith("characters)")
    assert found["came"]["messages"][-1].endswith("in all)")


async def test_what_is_no_longer_kept_has_its_row_and_the_remedy(state):
    async with team(state, explain_bytes=0) as (url, _):
        _, _, headers = await ask(url)
        found = await get(url, f"/v1/requests/{headers['request-id']}")
        assert found["request"]["status"] == 200
        assert "explain_bytes" in found["why"]
        await get(url, "/v1/requests/req_ffffffff", status=404)


async def test_answers_count_for_the_limit_of_what_is_kept():
    async with bridged(replay(line_of("z" * 50_000, done=True)), explain_bytes=120_000) as (
        url,
        _,
        app,
    ):
        for _ in range(5):
            await post(url, asked())
        assert len(app.gateway.kept_requests.newest()) == 2


async def test_a_call_of_a_structured_run_names_its_run(state):
    async with streaming(scripted(reply()), {"XDG_STATE_HOME": str(state)}) as (url, _, _):
        async with (
            aiohttp.ClientSession() as session,
            session.post(f"{url}/v1/stream", json={"prompt": "x"}) as answer,
        ):
            run = answer.headers["x-toolbridge-run"]
            assert [event.name async for event in read(answer)][-1] == "done"
        (row,) = (await listing(url))["requests"]
    assert (row["api"], row["session"]) == ("stream", run)


# ── runs that are active ─────────────────────────────────────────────────────


async def test_an_active_run_is_listed_and_has_its_time(state):
    lamp = {"name": "lamp.set", "client": True, "returns": {"type": "object"}}
    call = "⟦BEGIN_TOOL_CALL id=T1 name=lamp.set⟧{}⟦END_TOOL_CALL id=T1⟧"
    env = {"XDG_STATE_HOME": str(state)}
    async with (
        streaming(scripted(call, reply()), env) as (url, _, _),
        aiohttp.ClientSession() as session,
        session.post(f"{url}/v1/stream", json={"prompt": "x", "tools": [lamp]}) as answer,
    ):
        events = read(answer)
        async for event in events:
            if event.name == "tool.call":
                break
        run = answer.headers["x-toolbridge-run"]
        (listed,) = (await get(url, "/v1/runs"))["runs"]
        assert (listed["id"], listed["active"], listed["finished"]) == (run, True, False)
        assert abs(listed["started"] - time.time()) < 60
        found = await get(url, f"/v1/runs/{run}")
        assert found["active"]
        assert found["elapsed_ms"] > 0
        result = {"id": "T1", "result": {"on": True}}
        async with session.post(f"{url}/v1/stream/{run}/results", json=result) as accepted:
            assert accepted.status == 200
        assert [event.name async for event in events][-1] == "done"
        assert not (await get(url, f"/v1/runs/{run}"))["active"]


# ── usage, providers and models ──────────────────────────────────────────────


async def test_usage_is_what_the_command_prints(state):
    async with team(state) as (url, _):
        for _ in range(3):
            await ask(url)
        await until(
            lambda: len(SqliteLedger(state / "toolbridge" / "ledger.sqlite").rows(RowQuery(9))) == 3
        )
        found = await get(url, "/v1/usage?by=model&since=7d")
        printed = await asyncio.to_thread(command, "usage", "--json", "--since", "7d")
    assert found["totals"] == [json.loads(line) for line in printed.splitlines()]
    assert found["totals"][0]["requests"] == 3


@pytest.mark.parametrize("query", ["by=color", "since=soon", "since=2026-13-01"])
async def test_usage_rejects_what_it_does_not_know(query):
    async with gateway() as (url, _):
        found = await get(url, f"/v1/usage?{query}", status=400)
    assert query.partition("=")[0] in found["error"]["message"]


async def test_usage_without_a_ledger_says_so():
    async with gateway(Config(log="off", ledger="off")) as (url, _):
        found = await get(url, "/v1/usage")
    assert (found["ledger"], found["totals"]) == ("off", [])


async def test_a_provider_shows_its_breaker_latency_and_failures(state):
    async def answer(heard: Heard, line: Line) -> None:
        if heard.json["model"] == "bad":
            (asked,) = heard.json["messages"]
            await whole(line, {"error": {"message": f"no capacity {SECRET} for {asked}"}}, 529)
            return
        message = {"role": "assistant", "content": "Hi"}
        await whole(line, {"choices": [{"message": message, "finish_reason": "stop"}]})

    async with model_server(answer) as server:
        config = settings(server.url, key="key-of-the-house")
        async with gateway(config, {"XDG_STATE_HOME": str(state)}) as (url, _):
            own, alice = "key-of-the-house", await create("alice")
            await ask(url, own, model="there/big")
            prompt = [{"role": "user", "content": "swordfish"}]
            for _ in range(5):
                await ask(url, own, model="there/bad", messages=prompt)
            (found,) = (await get(url, "/v1/providers", own))["providers"]
            (restricted,) = (await get(url, "/v1/providers", alice))["providers"]
    assert (found["name"], found["api"], found["breaker"]) == ("there", "openai_chat", "open")
    assert (found["requests"], found["errors"], found["failures_in_a_row"]) == (6, 5, 5)
    # Of answers alone: five quick failures do not make it shorter than the first token.
    assert found["total_ms"]["p50"] >= found["first_token_ms"]["p50"] > 0
    assert len(found["failures"]) == 5
    assert "no capacity" in found["failures"][0]["text"]
    assert SECRET not in json.dumps(found)
    assert "swordfish" not in json.dumps(found)
    assert restricted["requests"] == 0
    assert {failure["text"] for failure in restricted["failures"]} == {""}


async def test_a_card_has_what_is_known_of_a_model_and_its_last_probe(state):
    from toolbridge.store.probe_cards import save_card

    names = {"default": "there/big", "fast": "there/small"}
    async with team(state, map=names) as (url, _):
        save_card(state / "toolbridge", "there/big", {"best": "native", "rows": [], "facts": []})
        found = await get(url, "/v1/model_cards")
    cards = {card["address"]: card for card in found["cards"]}
    big = cards["there/big"]
    assert found["count"] == len(cards) >= 2
    assert found["cards"][0]["default"]
    assert big["capabilities"]["tools"] is True
    assert big["sources"]["tools"] == "config"
    assert (big["rates"]["input"], big["rates"]["output"], big["free"]) == (1.0, 10.0, False)
    assert big["tool_mode"]["mode"] == "native"
    assert big["probe"]["best"] == "native"
    assert cards["there/small"]["probe"] is None
    assert cards["there/small"]["names"] == ["fast"]


async def test_cards_are_searched_and_limited_to_the_models_of_a_key(state):
    async with team(state) as (url, _):
        found = await get(url, "/v1/model_cards?q=SMALL")
        assert [card["address"] for card in found["cards"]] == ["there/small"]
        erin = await create("erin", "--models", "there/small")
        found = await get(url, "/v1/model_cards", erin)
        assert [card["address"] for card in found["cards"]] == ["there/small"]
