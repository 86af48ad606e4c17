"""Gateways that share a Redis and a PostgreSQL server, and servers that go away and come back."""

import asyncio
import json
import os
import re
import subprocess
import sys
import time
from contextlib import AsyncExitStack, asynccontextmanager

import aiohttp
import pytest
from tests.key_users import CountingModel, ask, command, create, settings
from tests.peers import gateway, model_server
from tests.waiting import until

from toolbridge.server import created_keys

BOUND = 30.0
"""Seconds that a request may take at most while a server is away; the machine may be busy."""
AWAY = float(os.environ.get("TOOLBRIDGE_SECONDS_AWAY", "0"))
"""Seconds for which Redis stays away at least, while requests are sent: 30 for the real outage."""


@pytest.fixture
def quick(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "cli"))
    monkeypatch.setattr(created_keys, "_PAUSE", 0.0)
    return tmp_path


@asynccontextmanager
async def cluster(home, count=2, **more):
    """Serve gateways on separate machines: each has a state directory of its own."""
    model = CountingModel()
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(model_server(model))
        found = []
        for n in range(count):
            env = {"XDG_STATE_HOME": str(home / str(n))}
            serving = gateway(settings(server.url, **more), env)
            found.append(await stack.enter_async_context(serving))
        yield [url for url, _ in found], [app for _, app in found], model


async def health(url, path="/health"):
    async with aiohttp.ClientSession() as session, session.get(url + path) as answer:
        return await answer.json()


async def in_time(work):
    """Return the result and fail if it takes too long."""
    began = time.monotonic()
    result = await work
    assert time.monotonic() - began < BOUND
    return result


async def usage(*args):
    text = await asyncio.to_thread(command, "usage", "--json", *args)
    return [json.loads(line) for line in text.splitlines()]


async def test_two_machines_share_keys_budgets_and_the_ledger(
    quick, redis_url, postgres_url, monkeypatch
):
    monkeypatch.setenv("TOOLBRIDGE_LEDGER", postgres_url)
    monkeypatch.setenv("TOOLBRIDGE_STORE", redis_url)
    name = f"alice{os.getpid()}{time.time_ns()}"
    async with cluster(quick, store=redis_url, ledger=postgres_url) as (urls, apps, model):
        key = await create(name, "--requests", "4/day", "--concurrency", "9")
        await until_admitted(urls, key)
        before = model.requests
        done = await asyncio.gather(*(ask(urls[n % 2], key) for n in range(20)))
        statuses = [status for status, _, _ in done]
        assert statuses.count(200) == 4 - 2, statuses  # two were used to see that the key is there
        assert statuses.count(429) == 18
        assert model.requests - before == 2
        shown = await asyncio.to_thread(command, "key", "show", name)
        assert "4 requests of 4 requests per day" in shown
        for app in apps:
            await asyncio.to_thread(app.ledger.close)
    rows = [row for row in await usage("--by", "key") if row["key"] == name]
    assert rows[0]["requests"] - rows[0]["errors"] == 4
    assert not list(quick.rglob("ledger.sqlite"))
    assert not list(quick.rglob("keys.sqlite"))
    assert not list(quick.rglob("toolbridge.sqlite"))


async def test_the_first_request_after_a_pause_uses_the_keys_of_now(
    quick, redis_url, postgres_url, monkeypatch
):
    monkeypatch.setattr(created_keys, "_PAUSE", 0.05)
    monkeypatch.setenv("TOOLBRIDGE_LEDGER", postgres_url)
    monkeypatch.setenv("TOOLBRIDGE_STORE", redis_url)
    name = f"carol{os.getpid()}{time.time_ns()}"
    async with cluster(quick, 1, store=redis_url, ledger=postgres_url) as ((url,), *_):
        key = await create(name)
        await asyncio.sleep(0.11)  # twice the pause: what the gateway knows is old
        assert [status for status, *_ in await asyncio.gather(*(ask(url) for _ in range(3)))] == [
            401, 401, 401,
        ]  # fmt: skip
        assert (await ask(url, key))[0] == 200
        await asyncio.to_thread(command, "key", "revoke", name)
        await asyncio.sleep(0.11)  # twice the pause: what the gateway knows is old
        done = await asyncio.gather(*(ask(url, key) for _ in range(3)))
        assert [status for status, *_ in done] == [403, 403, 403]


async def until_admitted(urls, key):
    """Use one request on each gateway as soon as it knows the key."""
    for url in urls:
        for _ in range(200):
            if (await ask(url))[0] in {401, 403}:
                break
            await asyncio.sleep(0.05)
        assert (await ask(url, key))[0] == 200


async def test_a_stored_response_is_continued_on_another_machine(quick, redis_url):
    async with cluster(quick, store=redis_url) as (urls, _, model):
        async with aiohttp.ClientSession() as session:
            body = {"model": "any", "input": "first words"}
            async with session.post(f"{urls[0]}/v1/responses", json=body) as answer:
                first = await answer.json()
            body = {"model": "any", "input": "go on", "previous_response_id": first["id"]}
            async with session.post(f"{urls[1]}/v1/responses", json=body) as answer:
                assert answer.status == 200, await answer.text()
    assert "first words" in json.dumps(model.heard[-1]["messages"])


async def test_learned_counts_and_modes_reach_another_machine(quick, redis_url, monkeypatch):
    monkeypatch.setattr("toolbridge.server.shared_facts.INTERVAL", 0.05)
    async with cluster(quick, store=redis_url) as (urls, apps, _):
        prompt = [{"role": "user", "content": "some words " * 40}]  # near the reported 100 tokens
        for _ in range(4):
            assert (await ask(urls[0], messages=prompt))[0] == 200
        assert apps[0].gateway.router.calibration.states()
        counts = [app.gateway.router.calibration for app in apps]
        await until(lambda: counts[1].states() == counts[0].states())


@pytest.mark.parametrize("fault", ["kill", "pause"])
@pytest.mark.parametrize("offline", ["refuse", "allow"])
async def test_redis_goes_away_and_comes_back(
    quick, redis_process, capfd, fault, offline, monkeypatch
):
    store = redis_process.url
    monkeypatch.setenv("XDG_STATE_HOME", str(quick / "0"))
    async with cluster(quick, 1, store=store, limits_offline=offline) as ((url,), _, model):
        limited = await create("alice", "--tokens", "1M/day")
        free = await create("bob")
        await until_admitted([url], limited)
        assert (await health(url))["store"] == "server"
        model.gate.clear()
        running = [asyncio.create_task(ask(url, key, stream=True)) for key in (limited, free)]
        await until(lambda: model.running == 2)
        await asyncio.to_thread(getattr(redis_process, fault))
        model.gate.set()
        for task in running:
            assert (await in_time(task))[0] == 200
        sent, began = 0, time.monotonic()
        while sent < 3 or time.monotonic() - began < AWAY:
            sent += 1
            assert (await in_time(ask(url, free)))[0] == 200
            status, body, _ = await in_time(ask(url, limited))
            assert status == (503 if offline == "refuse" else 200), body
            if offline == "refuse":
                assert "limits_offline" in body["error"]["message"]
                assert "redis" not in body["error"]["message"]
                assert "127.0.0.1" not in body["error"]["message"]
            await asyncio.sleep(AWAY / 300)
        for path in ("/health", "/readyz"):
            found = await in_time(health(url, path))
            assert found["store"].startswith("memory (redis://:***@127.0.0.1:")
        await asyncio.to_thread(redis_process.start if fault == "kill" else redis_process.resume)
        for _ in range(400):
            if (await health(url))["store"] == "server":
                break
            await asyncio.sleep(0.05)
        assert (await in_time(ask(url, limited)))[0] == 200
    said = capfd.readouterr().err
    assert said.count("is away") == 1, said
    assert said.count("is used again") == 1, said
    assert "a-pass" not in said


async def test_a_settlement_of_an_outage_is_charged_in_the_end(quick, redis_process, monkeypatch):
    monkeypatch.setenv("TOOLBRIDGE_STORE", redis_process.url)
    async with cluster(quick, 1, store=redis_process.url) as ((url,), _, model):
        monkeypatch.setenv("XDG_STATE_HOME", str(quick / "0"))
        key = await create("alice", "--tokens", "1M/day")
        await until_admitted([url], key)
        model.gate.clear()
        running = asyncio.create_task(ask(url, key, stream=True))
        await until(lambda: model.running == 1)
        await asyncio.to_thread(redis_process.kill)
        model.gate.set()
        assert (await in_time(running))[0] == 200
        await asyncio.to_thread(redis_process.start)
        for _ in range(400):
            if (await health(url))["store"] == "server":
                break
            await asyncio.sleep(0.05)
        shown = await asyncio.to_thread(command, "key", "show", "alice")
    assert "220 tokens of 1,000,000 tokens per day" in shown  # two answers of 110


async def test_claims_and_logs_of_an_outage_reach_the_server(quick, redis_process):
    async with cluster(quick, 2, store=redis_process.url) as (_, apps, _):
        one, two = (app.gateway.store for app in apps)
        await one.append("stream/x", "log", 1, [b"1"], seconds=60)
        await asyncio.to_thread(redis_process.kill)
        assert await in_time(one.claim("idempotency/x", "k", b"mine", seconds=60)) == (
            b"mine",
            True,
        )
        assert await in_time(one.claim("idempotency/x", "k", b"2", seconds=60)) == (b"mine", False)
        await in_time(one.append("stream/x", "log", 2, [b"2"], seconds=60))
        await in_time(one.put("responses/x", "k", b"kept", seconds=60))
        assert await in_time(one.read("stream/x", "log", 0)) == [(1, b"1"), (2, b"2")]
        assert await in_time(two.read("stream/x", "log", 0, wait=0.2)) == []
        await asyncio.to_thread(redis_process.start)
        await until(lambda: not one.trouble and not two.trouble)
        assert await two.read("stream/x", "log", 0) == [(1, b"1"), (2, b"2")]
        assert await two.get("responses/x", "k") == b"kept"
        assert await two.claim("idempotency/x", "k", b"other", seconds=60) == (b"mine", False)


async def test_a_server_that_loses_its_data_does_not_take_it_from_those_who_have_it(
    quick, redis_process
):
    async with cluster(quick, 2, store=redis_process.url) as (_, apps, _):
        one, two = (app.gateway.store for app in apps)
        await one.claim("idempotency/x", "k", b"mine", seconds=60)
        await one.put("responses/x", "k", b"kept", seconds=60)
        await asyncio.to_thread(redis_process.lose_data)
        for store in (one, two):
            await store.check()
        await until(lambda: not one.trouble and not two.trouble)
        assert await one.get("responses/x", "k") == b"kept"
        assert await one.claim("idempotency/x", "k", b"2", seconds=60) == (b"mine", False)
        assert await two.claim("idempotency/x", "k", b"3", seconds=60) == (b"mine", False)


@pytest.mark.parametrize("fault", ["kill", "pause"])
async def test_postgresql_goes_away_and_comes_back(
    quick, postgres_process, capfd, fault, monkeypatch
):
    monkeypatch.setenv("TOOLBRIDGE_LEDGER", postgres_process.url)
    async with cluster(quick, 1, ledger=postgres_process.url) as ((url,), (app,), model):
        key = await create("alice")
        await until_admitted([url], key)
        await asyncio.to_thread(getattr(postgres_process, fault))
        for _ in range(5):
            assert (await in_time(ask(url, key)))[0] == 200
        assert (await in_time(ask(url, "tbk_wrong")))[0] in {401, 403}
        said = ""
        while "the ledger cannot be written" not in said:
            said += capfd.readouterr().err
            await asyncio.sleep(0.05)
        await asyncio.to_thread(
            postgres_process.start if fault == "kill" else postgres_process.resume
        )
        await until(lambda: not app.ledger._rows)
    rows = await usage("--by", "key")
    named = [row for row in rows if row["key"] == "alice"]
    assert [row["requests"] for row in named] == [6]
    assert sum(row["requests"] - row["errors"] for row in rows) == model.requests


FAULTS = [
    ({"store": "http://x"}, "store: must be .*redis://"),
    ({"store": "redis://127.0.0.1:1/0"}, "`store`: redis://127.0.0.1:1/0: .*start the server"),
    (
        {"store": "WRONG"},
        r"`store`: redis://:\*\*\*@127.0.0.1.*(WRONGPASS|invalid).*; correct the user and the password in `store`",
    ),
    ({"store": "$NOT_SET"}, "store: the variable NOT_SET is not set"),
    ({"ledger": "sqlite:x"}, "ledger: must be .*postgresql://"),
    ({"ledger": "postgresql://a:geheim@127.0.0.1:1/x"}, r"`ledger`: postgresql://a:\*\*\*@127"),
]


@pytest.mark.parametrize(("given", "text"), FAULTS)
def test_a_wrong_server_is_one_clear_error_at_the_start(tmp_path, redis_url, given, text):
    wrong = re.sub(r":a-pass[^@]*@", ":geheim@", redis_url)
    config = {name: wrong if value == "WRONG" else value for name, value in given.items()}
    done = serve(tmp_path, config)
    assert done.returncode, done.stderr
    assert re.search(text, done.stderr), done.stderr
    assert "geheim" not in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("package", "config", "extra"),
    [
        ("redis", {"store": "redis://127.0.0.1/0"}, "pip install '.[redis]'"),
        ("psycopg", {"ledger": "postgresql://127.0.0.1/x"}, "pip install '.[postgres]'"),
    ],
)
def test_a_missing_package_is_named_with_the_command_to_install_it(
    tmp_path, package, config, extra
):
    done = serve(tmp_path, config, f"import sys; sys.modules[{package!r}] = None; ")
    assert done.returncode
    assert extra in done.stderr
    assert "Traceback" not in done.stderr


def serve(home, config, before=""):
    lines = [f"{name} = {json.dumps(value)}" for name, value in config.items()]
    (home / "toolbridge.toml").write_text("\n".join(lines))
    program = f"{before}from toolbridge.cli import main; raise SystemExit(main())"
    return subprocess.run(
        [sys.executable, "-c", program, "serve", "--port", "0", "--config", "toolbridge.toml"],
        cwd=home, capture_output=True, text=True, timeout=60, check=False,
        env={"PATH": os.environ["PATH"], "HOME": str(home), "OLLAMA_HOST": "127.0.0.1:1"},
    )  # fmt: skip


def test_doctor_reports_servers_and_what_is_shared(tmp_path, redis_url, postgres_url, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("OLLAMA_HOST", "127.0.0.1:1")
    found = {}
    for name, env in (
        ("both", {"TOOLBRIDGE_STORE": redis_url, "TOOLBRIDGE_LEDGER": postgres_url}),
        ("store", {"TOOLBRIDGE_STORE": redis_url}),
        ("ledger", {"TOOLBRIDGE_LEDGER": postgres_url}),
    ):
        done = subprocess.run(
            [sys.executable, "-m", "toolbridge", "doctor"], capture_output=True, text=True,
            timeout=120, check=False, cwd=tmp_path,
            env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), **env},
        )  # fmt: skip
        found[name] = done.stdout
    assert "ok    store: redis://:***@127.0.0.1" in found["both"]
    assert "ok    ledger: postgresql://team:***@127.0.0.1" in found["both"]
    assert "keys and the ledger are in files of this machine" in found["store"]
    assert "each machine has a budget of its own" in found["ledger"]
