"""Created keys over real sockets: who gets in, and what a key may use."""

import asyncio
import json
import os
import re
import shutil
import sqlite3

import aiohttp
import anthropic
import ollama
import openai
import pytest
from google import genai
from tests.key_users import ask, create, key, team
from tests.peers import gateway

from toolbridge.config import Config
from toolbridge.core.errors import ConfigError
from toolbridge.server import created_keys
from toolbridge.server.app import App
from toolbridge.store.keys import KeyRecord, fits, new_key

pytestmark = pytest.mark.usefixtures("state")
TOOLS = [
    {"name": name, "description": "x", "input_schema": {"type": "object", "properties": {}}}
    for name in ("Read", "Bash")
]


@pytest.fixture
def state(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(created_keys, "_PAUSE", 0.0)
    return tmp_path


async def get(url: str, path: str, key: str, **headers: str):
    headers = {"x-api-key": key} | headers
    async with (
        aiohttp.ClientSession() as session,
        session.get(url + path, headers=headers) as found,
    ):
        text = await found.text()
        return found.status, json.loads(text) if text.startswith("{") else text


async def test_without_keys_nothing_is_asked_for_and_no_file_is_made(state):
    async with team(state, ledger="off") as (url, _):
        assert (await ask(url))[0] == 200
        assert (await ask(url, "anything"))[0] == 200
    assert not (state / "toolbridge" / "keys.sqlite").exists()


async def test_a_created_key_gets_in_and_others_do_not(state):
    async with team(state) as (url, _):
        assert (await ask(url))[0] == 200
        alice = await create("alice")  # while the gateway runs
        assert (await ask(url))[0] == 401
        assert (await ask(url, "wrong"))[0] == 403
        status, body, _ = await ask(url, alice[:-1] + ("a" if alice[-1] != "a" else "b"))
        assert (status, "unknown or revoked" in body["error"]["message"]) == (403, True)
        assert "toolbridge key create" in body["error"]["message"]
        assert "started with" not in body["error"]["message"]
        assert (await ask(url, alice))[0] == 200


async def test_a_revoked_and_an_expired_key_stop_working(state, monkeypatch):
    async with team(state) as (url, _):
        alice, bob = await create("alice"), await create("bob", "--expires", "2199-01-01")
        assert [(await ask(url, k))[0] for k in (alice, bob)] == [200, 200]
        await key("revoke", "alice")
        status, body, _ = await ask(url, alice)
        assert (status, "'alice'" in body["error"]["message"]) == (403, True)
        assert "revoked" in body["error"]["message"]
        later = 7_258_118_400.0
        monkeypatch.setattr(created_keys.time, "time", lambda: later)
        status, body, _ = await ask(url, bob)
        assert (status, "expired" in body["error"]["message"]) == (403, True)


async def test_the_key_of_the_configuration_works_beside_created_ones(state):
    async with team(state, key="the-admin") as (url, _):
        alice = await create("alice", "--models", "small")
        assert (await ask(url, "the-admin"))[0] == 200
        assert (await get(url, "/metrics", "the-admin"))[0] == 200
        assert (await ask(url, alice, model="small"))[0] == 200


async def test_no_secret_is_on_the_disk(state):
    async with team(state) as (url, _):
        alice = await create("alice")
        await ask(url, alice)
    secret = alice.rpartition("_")[2]
    files = [file for file in state.rglob("*") if file.is_file()]
    assert files
    for file in files:
        assert secret.encode() not in file.read_bytes()
        assert file.stat().st_mode & 0o077 == 0


def test_two_keys_with_the_same_secret_have_different_hashes():
    record, shown = new_key("a", 0.0)
    assert fits(record, shown)
    assert not fits(None, shown)
    other = KeyRecord(record.id, "b", b"another salt", record.hash, 0.0)
    assert not fits(other, shown)


async def test_a_lost_or_broken_key_file_does_not_open_the_gateway(state, capfd):
    file = state / "toolbridge" / "keys.sqlite"
    async with team(state) as (url, _):
        alice = await create("alice")
        assert (await ask(url, alice))[0] == 200
        for each in file.parent.glob("keys.sqlite*"):
            each.unlink()
        assert (await ask(url))[0] == 401
        assert (await ask(url, alice))[0] == 403
    async with team(state) as (url, _):  # the mark of the first key outlives the process
        assert (await ask(url))[0] == 401
        assert (await ask(url, alice))[0] == 403
    assert "keys.sqlite is missing" in capfd.readouterr().err
    await create("bob")
    file.write_bytes(b"not a database" * 1000)
    async with team(state) as (url, _):
        assert (await ask(url))[0] == 401
        assert (await ask(url, alice))[0] == 503


@pytest.mark.parametrize("running", [True, False])
async def test_requests_that_arrive_together_wait_for_the_first_reading_of_the_keys(
    state, monkeypatch, running
):
    monkeypatch.setattr(created_keys, "_PAUSE", 1.0)
    alice = "" if running else await create("alice")
    async with team(state) as (url, _):
        alice = alice or await create("alice")  # the first key, while the gateway runs
        found = await asyncio.gather(*(ask(url, alice) for _ in range(30)))
        assert {(status, str(body.get("error"))) for status, body, _ in found} == {(200, "None")}


async def test_a_client_that_leaves_during_the_first_reading_does_not_block_others(
    state, monkeypatch
):
    monkeypatch.setattr(created_keys, "_PAUSE", 1.0)
    alice = await create("alice")
    async with team(state) as (url, _):
        blocker = sqlite3.connect(state / "toolbridge" / "keys.sqlite", isolation_level=None)
        blocker.execute("pragma locking_mode = exclusive")
        blocker.execute("begin exclusive")
        leaving = [asyncio.create_task(ask(url, alice)) for _ in range(3)]
        await asyncio.sleep(0)
        staying = asyncio.create_task(ask(url, alice))
        done, _ = await asyncio.wait([staying], timeout=0.3)
        assert not done  # a lock of another process is waited for
        for one in leaving:
            one.cancel()
        await asyncio.gather(*leaving, return_exceptions=True)
        blocker.execute("commit")
        blocker.close()
        assert (await staying)[0] == 200


async def test_keys_that_cannot_be_read_are_a_503_with_a_delay_and_a_row(state, capsys):
    alice = await create("alice")
    (state / "toolbridge" / "keys.sqlite").write_bytes(b"not a database" * 1000)
    async with team(state) as (url, _):
        status, body, headers = await ask(url, alice)
        text = body["error"]["message"]
        assert (status, headers["retry-after"]) == (503, "5")
        assert re.search(r"the keys cannot be read now; .*toolbridge doctor", text), text
        # The file is named to the operator, not to the client.
        assert "sqlite" not in text
        assert "keys.sqlite: file is not a database" in capsys.readouterr().err
    rows = sqlite3.connect(state / "toolbridge" / "ledger.sqlite").execute(
        "select status, error from requests"
    )
    assert rows.fetchall() == [(503, "busy")]


async def test_beyond_loopback_a_created_key_is_enough(state):
    env = {"XDG_STATE_HOME": str(state)}
    with pytest.raises(ConfigError, match="key create"):
        App(Config(host="0.0.0.0", log="off"), env)
    await create("alice")
    App(Config(host="0.0.0.0", log="off"), env)


# ── scopes ───────────────────────────────────────────────────────────────────


async def test_a_forbidden_model_is_a_403_that_names_the_allowed_ones(state):
    async with team(state) as (url, model):
        alice = await create("alice", "--models", "small", "other/*")
        assert (await ask(url, alice, model="small"))[0] == 200
        assert (await ask(url, alice, model="there/small"))[0] == 200
        for name in ("there/big", "claude-sonnet-5", "small-but-served-by-the-default"):
            status, body, _ = await ask(url, alice, model=name)
            assert (status, body["error"]["type"]) == (403, "permission_error")
            assert "there/big" in body["error"]["message"]
            assert "small, other/*" in body["error"]["message"]
        assert model.requests == 2


async def test_official_sdks_raise_their_own_error_for_a_forbidden_model(state):
    async with team(state) as (url, _):
        alice = await create("alice", "--models", "small")
        async with anthropic.AsyncAnthropic(base_url=url, api_key=alice, max_retries=0) as sdk:
            with pytest.raises(anthropic.PermissionDeniedError, match="small"):
                await sdk.messages.create(
                    model="big", max_tokens=5, messages=[{"role": "user", "content": "x"}]
                )
        async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key=alice, max_retries=0) as sdk:
            with pytest.raises(openai.PermissionDeniedError, match="small"):
                await sdk.chat.completions.create(
                    model="big", messages=[{"role": "user", "content": "x"}]
                )
            with pytest.raises(openai.PermissionDeniedError, match="small"):
                await sdk.responses.create(model="big", input="x")
            with pytest.raises(openai.PermissionDeniedError, match="small"):
                await sdk.embeddings.create(model="big", input="x")
        client = genai.Client(api_key=alice, http_options={"base_url": url})
        with pytest.raises(genai.errors.ClientError, match="small") as error:
            await client.aio.models.generate_content(model="big", contents="x")
        assert error.value.code == 403
        await client.aio.aclose()
        sdk = ollama.AsyncClient(host=url, headers={"authorization": f"Bearer {alice}"})
        with pytest.raises(ollama.ResponseError, match="small") as error:
            await sdk.chat(model="big", messages=[{"role": "user", "content": "x"}])
        assert error.value.status_code == 403
        await sdk._client.aclose()


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/messages/count_tokens", {"messages": [{"role": "user", "content": "x"}]}),
        ("/v1/responses/compact", {"input": "x"}),
        ("/api/show", {}),
        ("/api/pull", {}),
        ("/v1/stream", {"prompt": "x"}),
        ("/v1beta/models/big:countTokens", {"contents": [{"parts": [{"text": "x"}]}]}),
    ],
)
async def test_every_other_route_keeps_to_the_models_of_the_key(state, path, body):
    async with team(state) as (url, model):
        alice = await create("alice", "--models", "small")
        headers = {"x-api-key": alice}
        async with (
            aiohttp.ClientSession() as session,
            session.post(url + path, json={"model": "there/big", **body}, headers=headers) as got,
        ):
            assert (got.status, "may not use there/big" in await got.text()) == (403, True)
        assert (await get(url, "/v1/models/there/big", alice))[0] == 403
        assert model.requests == 0


async def test_a_list_shows_only_the_models_of_the_key(state):
    async with team(state) as (url, _):
        alice, bob = await create("alice", "--models", "*/small"), await create("bob")

        async def names(user, **headers):
            _, found = await get(url, "/v1/models", user, **headers)
            return {re.sub("^claude-", "", model["id"]) for model in found["data"]}

        for headers in (
            {},
            {"anthropic-version": "2023-06-01"},
            {"user-agent": "claude-cli/2.1.1"},
        ):
            assert all("small" in name for name in await names(alice, **headers))
            assert any("big" in name for name in await names(bob, **headers))
            assert await names(alice, **headers)
        _, found = await get(url, "/api/tags", alice)
        assert {model["name"] for model in found["models"]} <= {"small", "there/small"}


async def test_a_key_keeps_to_its_routes(state):
    async with team(state) as (url, _):
        alice = await create("alice", "--routes", "/v1/chat/*", "/v1/models")
        prometheus = await create("prometheus", "--routes", "/metrics")
        status, body, _ = await ask(url, alice)
        assert (status, "/v1/chat/*" in body["error"]["message"]) == (403, True)
        assert (await get(url, "/v1/models", alice))[0] == 200
        assert (await get(url, "/metrics", prometheus))[0] == 200
        bob = await create("bob")
        assert (await get(url, "/metrics", bob))[0] == 403


@pytest.mark.parametrize(
    ("routes", "path", "status"),
    [
        ((), "/v1/runs", 403),
        ((), "/v1/runs/run_0", 403),
        (("/v1/*",), "/v1/runs", 403),
        (("*",), "/metrics", 403),
        (("/v1/runs*",), "/v1/runs", 200),
        (("/v1/runs*",), "/v1/runs/run_0", 404),
        (("/metrics",), "/v1/runs", 403),
    ],
)
async def test_what_belongs_to_the_operator_needs_a_pattern_that_names_it(
    state, routes, path, status
):
    async with team(state) as (url, _):
        alice = await create("alice", *(("--routes", *routes) if routes else ()))
        assert (await get(url, path, alice))[0] == status


async def test_a_response_belongs_to_the_key_that_made_it(state):
    async with team(state) as (url, _):
        alice, bob = await create("alice"), await create("bob")
        headers = {"x-api-key": alice}
        body = {"model": "m", "input": "hi"}
        async with (
            aiohttp.ClientSession() as session,
            session.post(f"{url}/v1/responses", json=body, headers=headers) as got,
        ):
            id = (await got.json())["id"]
        assert (await get(url, f"/v1/responses/{id}", alice))[0] == 200
        assert (await get(url, f"/v1/responses/{id}", bob))[0] == 404


async def test_forbidden_tools_are_removed_and_reported(state):
    async with team(state) as (url, model):
        alice = await create("alice", "--tools", "Read", "mcp__*")
        status, _, headers = await ask(url, alice, tools=TOOLS)
        assert status == 200
        assert "Bash was removed" in headers["x-toolbridge-warning"]
        status, body, _ = await ask(
            url, alice, tools=TOOLS, tool_choice={"type": "tool", "name": "Bash"}
        )
        assert (status, "the tool Bash" in body["error"]["message"]) == (403, True)
        assert model.requests == 1


async def test_in_passthrough_forbidden_tools_do_not_reach_the_provider(state):
    from tests.peers import model_server, whole

    from toolbridge.config import ProviderConfig

    async def answer(heard, line):
        text = {"type": "text", "text": "Yes."}
        usage = {"input_tokens": 1, "output_tokens": 1}
        message = {"id": "m", "type": "message", "role": "assistant", "content": [text]}
        await whole(line, message | {"model": "x", "stop_reason": "end_turn", "usage": usage})

    async with model_server(answer) as server:
        config = Config(
            log="off",
            map={"default": "there/x"},
            providers={"there": ProviderConfig(api="anthropic", url=server.url, passthrough=True)},
        )
        async with gateway(config, {"XDG_STATE_HOME": str(state)}) as (url, _):
            alice = await create("alice", "--tools", "Read")
            assert (await ask(url, alice, tools=TOOLS))[0] == 200
    (heard,) = [each for each in server.heard if each.method == "POST"]
    assert [tool["name"] for tool in heard.json["tools"]] == ["Read"]


async def test_a_structured_stream_keeps_to_the_tools_of_the_key(state):
    async with team(state) as (url, _):
        alice = await create("alice", "--tools", "Read")
        body = {"model": "small", "prompt": "x", "tools": ["time.now"]}
        headers = {"x-api-key": alice}
        async with (
            aiohttp.ClientSession() as session,
            session.post(f"{url}/v1/stream", json=body, headers=headers) as got,
        ):
            assert (got.status, "time.now" in await got.text()) == (403, True)


# ── the command ──────────────────────────────────────────────────────────────


async def test_the_secret_is_shown_once(state):
    alice = await create("alice", "--tokens", "1.5M/day", "--dollars", "2.50/month")
    for text in (await key("list"), await key("list", "--json"), await key("show", "alice")):
        assert alice not in text
        assert "alice" in text
        assert "1,500,000 tokens per day" in text
        assert "$2.50 per month" in text
    assert alice[:13] in await key("show", alice[:13])


async def test_limits_and_scopes_of_a_key_can_be_changed(state):
    await create("alice", "--requests", "5/minute", "--tokens", "9/day", "--models", "a", "b")
    await key("set", "alice", "--requests", "7/day", "--requests", "8/month", "--clear", "models")
    shown = await key("show", "alice")
    assert "7 requests per day, 8 requests per month" in shown
    assert "9 tokens per day" in shown
    assert "5 requests" not in shown
    assert "models" not in shown


@pytest.mark.parametrize(
    ("args", "text"),
    [
        (("create", "a/b"), "NAME"),
        (("create", "alice", "--tokens", "many/day"), "--tokens"),
        (("create", "alice", "--tokens", "5/year"), "minute, day, month"),
        (("create", "alice", "--requests", "1.5/day"), "whole"),
        (("create", "alice", "--expires", "2001-01-01"), "past"),
        (("create", "alice", "--expires", "soon"), "date"),
        (("create", "alice", "--concurrency", "0"), "at least 1"),
        (("create", "alice", "--models", ""), "--models: a pattern is empty"),
        (("set", "twice", "--routes", "/v1/*", " "), "--routes: a pattern is empty"),
        (
            ("create", "alice", "--tokens", "1/day", "--tokens", "2/day"),
            "--tokens: is given twice per day",
        ),
        (("create", "twice"), "already"),
        (("revoke", "nobody"), "no key 'nobody'"),
    ],
)
async def test_wrong_arguments_are_explained(state, capsys, args, text):
    from toolbridge.cli import main

    await create("twice")
    flagged = any(word.startswith("--") for word in args)
    assert await asyncio.to_thread(main, ["key", *args]) == (2 if flagged else 1)
    assert text in capsys.readouterr().err


async def test_the_state_of_another_user_is_warned_of(state, capsys):
    from toolbridge.cli import main

    await create("alice")
    assert capsys.readouterr().err == ""
    if os.geteuid() != 0:
        pytest.skip("only root can give a directory to another user")
    os.chown(state / "toolbridge", 61_234, 61_234)
    assert await asyncio.to_thread(main, ["key", "list"]) == 0
    [line] = capsys.readouterr().err.splitlines()
    assert f"{state / 'toolbridge'} belongs to another user (#61234)" in line
    assert f"sudo -u '#61234' env XDG_STATE_HOME={state} " in line


async def test_a_broken_file_is_reported_by_the_command(state, capsys):
    from toolbridge.cli import main

    await create("alice")
    for each in (state / "toolbridge").glob("keys.sqlite-*"):
        each.unlink()
    (state / "toolbridge" / "keys.sqlite").write_bytes(b"no database" * 999)
    assert await asyncio.to_thread(main, ["key", "list"]) == 1
    shown = capsys.readouterr().err
    assert "keys.sqlite" in shown
    assert "goes on to admit the keys that it has read" in shown
    with pytest.raises(sqlite3.DatabaseError):
        sqlite3.connect(state / "toolbridge" / "keys.sqlite").execute("select * from keys")


async def test_a_key_file_that_is_replaced_while_the_gateway_runs_is_used(state, capfd):
    file = state / "toolbridge" / "keys.sqlite"
    async with team(state) as (url, _):
        alice = await create("alice")
        assert (await ask(url, alice))[0] == 200
        await asyncio.to_thread(shutil.copy, file, state / "backup")
        bob = await create("bob")
        assert (await ask(url, bob))[0] == 200
        broken = state / "broken"
        broken.write_bytes(b"no database " * 999)
        broken.replace(file)
        for key in (alice, bob):  # the keys that were read last
            assert (await ask(url, key))[0] == 200
        assert capfd.readouterr().err.count("the last known keys stay valid") == 1
        (state / "backup").replace(file)
        assert (await ask(url, alice))[0] == 200
        assert (await ask(url, bob))[0] == 403
