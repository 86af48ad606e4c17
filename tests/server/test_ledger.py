"""The ledger over real sockets: one row for each request, and sums that equal the provider's."""

import asyncio
import contextlib
import csv
import io
import json
import random
import sqlite3

import aiohttp
import pytest
from tests.key_users import ask, command, create, settings, team
from tests.peers import Heard, Line, gateway, model_server
from tests.peers import whole as reply_whole
from tests.waiting import until

from toolbridge.routing import charges
from toolbridge.server import created_keys
from toolbridge.store import StoreUnavailable, ledger_journal, ledger_writer
from toolbridge.store.ledger import LedgerRow
from toolbridge.store.ledger_journal import JournalLine
from toolbridge.store.ledger_writer import LedgerWriter
from toolbridge.store.sqlite_ledger import SqliteLedger
from toolbridge.upstream import turn_writes


@pytest.fixture
def state(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(created_keys, "_PAUSE", 0.0)
    return tmp_path


def rows(state) -> list[dict]:
    file = state / "toolbridge" / "ledger.sqlite"
    with contextlib.closing(sqlite3.connect(file)) as ledger:
        ledger.row_factory = sqlite3.Row
        return [dict(row) for row in ledger.execute("select * from requests order by at")]


async def usage(*args: str) -> str:
    return await asyncio.to_thread(command, "usage", *args)


async def test_a_request_is_one_row_with_all_its_fields(state):
    async with team(state) as (url, _):
        alice = await create("alice")
        headers = {
            "x-api-key": alice,
            "user-agent": "claude-cli/2.1.325 (external, cli)",
            "x-claude-code-session-id": "sess-1",
        }
        body = {
            "model": "claude-x",
            "max_tokens": 9,
            "messages": [{"role": "user", "content": "hi"}],
        }
        ids: list[str] = []
        async with aiohttp.ClientSession() as session:
            for path in ("/v1/messages", "/v1/messages/count_tokens"):
                async with session.post(url + path, json=body, headers=headers) as got:
                    assert got.status == 200
                    ids.append(got.headers["request-id"])
    (row,) = rows(state)
    expected = {
        "id": ids[0], "key": "alice", "client": "claude-cli", "session": "sess-1", "api": "anthropic",
        "asked": "claude-x", "model": "big", "provider": "there", "routes": '["there/big"]',
        "status": 200, "error": "", "input": 100, "cache_read": 0, "cache_write": 0, "output": 10,
        "thinking": 0, "estimated": 0, "cost": 200_000, "currency": "USD", "healings": 0, "losses": 0,
    }  # fmt: skip
    assert expected.items() <= row.items()
    assert row["total_ms"] > 0
    assert row["first_token_ms"] > 0


async def test_the_ledger_has_no_prompt_no_answer_and_no_key(state):
    async with team(state) as (url, _):
        alice = await create("alice")
        await ask(url, alice, messages=[{"role": "user", "content": "a secret plan"}])
    for file in state.rglob("ledger.sqlite*"):
        data = file.read_bytes()
        assert b"secret plan" not in data
        assert b"Yes." not in data
        assert alice.rpartition("_")[2].encode() not in data
        assert file.stat().st_mode & 0o077 == 0


async def test_an_ended_request_is_in_the_journal_while_another_one_runs(state, monkeypatch):
    monkeypatch.setattr(ledger_writer, "_DELAY", 600.0)  # nothing else writes to the journal
    monkeypatch.setattr(charges, "_NOTING", 600.0)

    def journal() -> str:
        folder = state / "toolbridge" / "journal"
        return "".join(path.read_text() for path in folder.glob("*.journal"))

    async with team(state) as (url, model):
        opened, model.gate = model.gate, asyncio.Event()
        running = asyncio.create_task(ask(url))
        await until(lambda: model.running)
        assert '"status":200' not in journal()
        held, model.gate = model.gate, opened
        await ask(url)
        await until(lambda: '"status":200' in journal())
        held.set()
        await running
    assert [row["status"] for row in rows(state)] == [200, 200]


@pytest.mark.parametrize("stream", [False, True])
async def test_the_journal_has_a_line_before_the_bytes_that_it_describes(
    state, monkeypatch, stream
):
    monkeypatch.setattr(ledger_writer, "_DELAY", 600.0)  # the file keeps all lines
    write, sent, ended, in_time = turn_writes._write, [], [], []

    def lines() -> list[JournalLine]:
        found = (state / "toolbridge" / "journal").glob("*.journal")
        return [line for path in found for line in ledger_journal._lines_of(path)]

    def checked(waiting) -> None:
        for transport, pieces in waiting.items():
            check(b"".join(pieces))
            write({transport: pieces})

    def check(data: bytes) -> None:
        if data.startswith(b"POST /"):  # to the provider
            sent.append(len(sent))
            in_time.append(len({line.row.id for line in lines()}) >= len(sent))
        elif b"message_stop" in data or b'"stop_reason":"end_turn"' in data:  # to the client
            ended.append(len(ended))
            used = {line.row.id for line in lines() if line.row.output and not line.row.estimated}
            in_time.append(len(used) >= len(ended))

    monkeypatch.setattr(turn_writes, "_write", checked)
    async with team(state) as (url, _):
        await asyncio.gather(*(ask(url, stream=stream) for _ in range(12)))
        assert len(sent) == len(ended) == 12
        assert all(in_time)
        # Of most requests, the line of the end stands for that of the usage.
        assert 24 <= len(lines()) < 36


async def test_refused_and_unanswered_requests_have_rows_and_strangers_have_none(state):
    async with team(state) as (url, model):
        alice = await create("alice", "--models", "small", "--requests", "1/day")
        await ask(url, alice, model="small")
        await ask(url, alice, model="small")
        await ask(url, alice, model="big")
        await ask(url, "stranger")
        await ask(url)
        model.status = 500
        bob = await create("bob")
        await ask(url, bob)
    found = [(row["key"], row["status"], row["error"]) for row in rows(state)]
    assert found[:3] == [
        ("alice", 200, ""), ("alice", 429, "rate_limited"), ("alice", 403, "not_allowed"),
    ]  # fmt: skip
    assert [row[0] for row in found[3:]] == ["bob"]
    assert found[3][1] >= 500


async def test_no_row_without_a_state_directory_and_none_when_it_is_off(state):
    async with team(state, ledger="off") as (url, _):
        assert (await ask(url))[0] == 200
    assert not (state / "toolbridge" / "ledger.sqlite").exists()


async def test_a_model_on_this_machine_costs_nothing_and_a_price_that_is_not_known_is_said(state):
    from toolbridge.config import ModelConfig

    tools = ModelConfig(tools=True)
    async with team(state, models={"there/big": tools}) as (url, _):
        assert (await ask(url))[0] == 200
    assert [row["cost"] for row in rows(state)] == [0]
    assert "no known price" not in await usage()
    ledger = SqliteLedger(state / "toolbridge" / "ledger.sqlite")
    ledger.append([LedgerRow("x", rows(state)[0]["at"], model="m", input=5)])
    ledger.close()
    assert "1 requests have no known price" in await usage()


async def test_calls_of_a_structured_stream_are_rows(state):
    async with team(state) as (url, model):
        body = {"prompt": "x", "mode": "sentinel", "max_tokens": 50}
        async with (
            aiohttp.ClientSession() as session,
            session.post(f"{url}/v1/stream", json=body) as got,
        ):
            await got.text()
    found = rows(state)
    assert len(found) == model.requests
    assert {row["api"] for row in found} == {"stream"}
    assert sum(row["input"] for row in found) == model.input


class FaultyModel:
    """A Chat Completions server that counts what it reports, and fails in the ways it is told to."""

    def __init__(self) -> None:
        self.requests = 0
        self.reported = [0, 0, 0]

    async def __call__(self, heard: Heard, line: Line) -> None:
        self.requests += 1
        asked = heard.json
        fault, prompt, output, cached = json.loads(asked["messages"][-1]["content"])
        usage = {
            "prompt_tokens": prompt + cached, "completion_tokens": output,
            "total_tokens": prompt + cached + output,
            "prompt_tokens_details": {"cached_tokens": cached},
        }  # fmt: skip
        if fault == "error":
            await reply_whole(line, {"error": {"message": "no"}}, 400)
            return
        if fault == "cut":
            await line.head(kind="text/event-stream" if asked.get("stream") else "application/json")
            if asked.get("stream"):
                await line.send(_chunk({"content": "half an answer"}))
            line.cut()
            return
        if fault == "leave":
            await line.head(kind="text/event-stream")
            await line.send(_chunk({"content": "half an answer"}))
            await line.gone()
            return
        counted = (prompt, cached, output)
        self.reported = [a + b for a, b in zip(self.reported, counted, strict=True)]
        if not asked.get("stream"):
            choice = {"index": 0, "message": {"role": "assistant", "content": "Yes."}}
            choices = [choice | {"finish_reason": "stop"}]
            await reply_whole(line, {"id": "c", "choices": choices, "usage": usage})
            return
        await line.head(kind="text/event-stream")
        await line.send(_chunk({"content": "Yes."}) + _chunk({}, "stop"))
        await line.send(f"data: {json.dumps({'id': 'c', 'choices': [], 'usage': usage})}\n\n")
        await line.send("data: [DONE]\n\n")
        await line.end()


def _chunk(delta: dict, end: str | None = None) -> str:
    found = {"id": "c", "choices": [{"index": 0, "delta": delta, "finish_reason": end}]}
    return f"data: {json.dumps(found)}\n\n"


PATHS = {
    "/v1/messages": {"max_tokens": 50},
    "/v1/chat/completions": {"max_tokens": 50},
    "/api/chat": {},
}


async def _one(
    url: str, session: aiohttp.ClientSession, rng: random.Random, keys: list[str]
) -> str:
    fault = rng.choices(["", "error", "cut", "leave"], [6, 1, 1, 1])[0]
    stream = fault == "leave" or rng.random() < 0.5
    text = json.dumps([fault, rng.randrange(1, 10**6), rng.randrange(1, 10**6), rng.randrange(500)])
    path = rng.choice(list(PATHS))
    message = {"role": "user", "content": text}
    body = {"model": "m", "stream": stream, "messages": [message], **PATHS[path]}
    headers = {"x-api-key": rng.choice(keys)}
    with contextlib.suppress(aiohttp.ClientError):
        async with session.post(url + path, json=body, headers=headers) as got:
            if fault == "leave":
                await got.content.readany()
                got.close()
            else:
                await got.read()
    return fault


@pytest.mark.parametrize("seed", range(3))
async def test_the_sums_equal_what_the_provider_reported_with_faults_and_departures(state, seed):
    rng = random.Random(seed)
    model = FaultyModel()
    async with model_server(model) as server:
        config = settings(server.url)
        async with gateway(config, {"XDG_STATE_HOME": str(state)}) as (url, app):
            keys = [await create("a"), await create("b", "--tokens", "999999M/day")]
            async with aiohttp.ClientSession() as session:
                faults = await asyncio.gather(*(_one(url, session, rng, keys) for _ in range(60)))
            for _ in range(300):  # departures end a moment later
                if not app.in_flight:
                    break
                await asyncio.sleep(0.02)
            metrics = app.metrics.text()
    found = rows(state)
    assert len(found) == 60
    whole = [row for row in found if not row["estimated"]]
    sums = [sum(row[name] for row in whole) for name in ("input", "cache_read", "output")]
    assert sums == model.reported
    for row in found:
        if row["estimated"]:
            assert 0 < row["output"] < 10
            assert row["input"] > 0
    assert sum(row["estimated"] for row in found) >= faults.count("leave")
    # `usage` and `/metrics` have the same sums.
    (total,) = [json.loads(line) for line in (await usage("--json", "--by", "model")).splitlines()]
    assert total["input"] == sum(row["input"] for row in found)
    assert total["output"] == sum(row["output"] for row in found)
    nanos = sum(row["cost"] or 0 for row in found)
    assert total["cost"] == f"{nanos // 10**9}.{nanos % 10**9:09d}"
    line = next(x for x in metrics.split("\n") if x.startswith('toolbridge_tokens_total{direction="output"'))  # fmt: skip
    assert int(line.rpartition(" ")[2]) == total["output"]


# ── usage ────────────────────────────────────────────────────────────────────


async def test_usage_shows_groups_while_the_gateway_runs(state):
    async with team(state) as (url, _):
        alice, bob = await create("alice"), await create("bob")
        for key in (alice, alice, bob):
            await ask(url, key)
        for _ in range(200):
            if "alice" in (text := await usage("--by", "key")) and "bob" in text:
                break
            await asyncio.sleep(0.02)
        lines = text.split("\n")
        assert lines[0].split() == [
            "KEY",
            "REQUESTS",
            "ERRORS",
            "INPUT",
            "CACHED",
            "OUTPUT",
            "COST",
        ]
        assert lines[1].split()[:7] == ["alice", "2", "0", "200", "0", "20", "$0.0004"]
        assert lines[2].split()[:7] == ["bob", "1", "0", "100", "0", "10", "$0.0002"]
        assert lines[3].split()[:7] == ["total", "3", "0", "300", "0", "30", "$0.0006"]
        assert lines[1].count("█") == 24
        assert lines[2].count("█") == 12
    for by in ("model", "day", "session", "client", "provider"):
        (row,) = csv.DictReader(io.StringIO(await usage("--by", by, "--csv")))
        assert (row["requests"], row["cost"]) == ("3", "0.000600000")
    assert "no requests" in await usage("--since", "2199-01-01")


@pytest.mark.parametrize("since", ["soon", "7", "2026-13-01"])
async def test_a_wrong_time_is_explained(state, capsys, since):
    from toolbridge.cli import main

    assert main(["usage", "--since", since]) == 2
    await asyncio.sleep(0)
    (state / "toolbridge").mkdir(exist_ok=True)
    (state / "toolbridge" / "ledger.sqlite").touch()
    assert main(["usage", "--since", since]) == 2
    assert "--since" in capsys.readouterr().err


# ── the writer ───────────────────────────────────────────────────────────────


class BrokenLedger:
    """A ledger that cannot be written until it is repaired."""

    def __init__(self) -> None:
        self.broken = True
        self.rows: list[LedgerRow] = []
        self.tries = 0

    def append(self, rows):
        self.tries += 1
        if self.broken:
            raise StoreUnavailable("the disk is full")
        self.rows += rows

    def forget(self, before):
        pass

    def totals(self, *_):
        return []

    def close(self):
        pass


async def test_a_full_disk_keeps_rows_then_drops_and_counts_them(monkeypatch, capsys):
    monkeypatch.setattr(ledger_writer, "_PAUSE", 0.01)
    ledger = BrokenLedger()
    writer = LedgerWriter(lambda: ledger, 90, most=5)
    for n in range(8):
        writer.add(LedgerRow(str(n), float(n)))
    for _ in range(500):
        if ledger.tries > 2:
            break
        await asyncio.sleep(0.01)
    assert writer.dropped == 3
    ledger.broken = False
    await asyncio.to_thread(writer.close, 20.0)
    assert [row.id for row in ledger.rows] == list("01234")
    assert "the disk is full" in capsys.readouterr().err


def test_old_rows_are_removed(tmp_path):
    ledger = SqliteLedger(tmp_path / "l")
    ledger.append([LedgerRow("a", 10.0), LedgerRow("b", 20.0), LedgerRow("b", 20.0)])
    ledger.forget(15.0)
    assert [total.requests for total in ledger.totals("model", 0.0)] == [1]
    ledger.close()


async def test_a_disk_that_is_full_changes_no_answer(state):
    folder = state / "toolbridge"
    folder.mkdir()
    (folder / "ledger.sqlite").mkdir()  # it can never be opened as a file
    async with team(state) as (url, _):
        assert [(await ask(url))[0] for _ in range(3)] == [200] * 3
