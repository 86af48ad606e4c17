"""`GET /v1/explain/{id}` and `toolbridge explain`: what was done with a request, and why."""

import asyncio
import contextlib
import json
import os
import pty
import re
import subprocess
import sys

import aiohttp
import pytest
from tests.peers import bridged, gateway, line_of, model_server, replay, whole
from tests.waiting import until

from toolbridge.cli.explain import lines_of
from toolbridge.config import Config, ProviderConfig
from toolbridge.core.caller import owner_of
from toolbridge.server.kept_requests import KeptRequests

SECRET = "sk-proj-0123aAbBcCdDeEfF"
TOOL = {
    "name": "read_file",
    "input_schema": {
        "type": "object",
        "properties": {"path": {"type": "string"}},
        "required": ["path"],
    },
}
CALL = {
    "model": "m",
    "message": {"role": "assistant", "content": '<tool_call>{"name": "read_file", "arguments": {"path": 5}}</tool_call>'},
    "done": False,
}  # fmt: skip


def asked(**fields):
    messages = fields.pop("messages", [{"role": "user", "content": "hi"}])
    return {"model": "claude-sonnet-4-5", "max_tokens": 64, "messages": messages, **fields}


async def post(url, body, headers=None, path="/v1/messages"):
    async with (
        aiohttp.ClientSession() as session,
        session.post(url + path, json=body, headers=headers or {}) as answer,
    ):
        await answer.read()
        return answer.headers["request-id"], answer.status


async def get(url, id, headers=None):
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"{url}/v1/explain/{id}", headers=headers or {}) as answer,
    ):
        return answer.status, await answer.json()


def edits(found):
    return {edit["place"]: edit for edit in found["edits"]}


async def test_every_edit_has_its_place_reason_before_and_after():
    async with bridged(replay(line_of("Hi", done=True))) as (url, _, _):
        system = [{"type": "text", "text": "One."}, {"type": "text", "text": "Two."}]
        body = asked(system=system, top_k=5, metadata={"user_id": "u"}, stop_sequences=["END"])
        id, _ = await post(url, body)
        status, found = await get(url, id)
    assert status == 200
    assert found["id"] == id
    assert found["route"]["asked"] == "claude-sonnet-4-5"
    assert found["route"]["why"] == "no other rule applies: `default` of [map]"
    assert (found["route"]["provider"], found["route"]["model"]) == ("ollama", "tiny:latest")
    assert [one["status"] for one in found["route"]["attempts"]] == [200]
    said = edits(found)
    assert said["model"]["before"] == "claude-sonnet-4-5"
    assert said["model"]["after"] == "tiny:latest"
    assert said["metadata.user_id"]["before"] == "u"
    assert "has no field for the user" in said["metadata.user_id"]["reason"]
    assert said["system.0"]["after"] == ["One.\n\nTwo."]
    assert all(edit["reason"] and "report" not in edit["reason"] for edit in found["edits"])
    assert found["tokens"]["estimated"] > 0
    assert found["times"]["total_ms"] > 0


async def test_healings_dialect_and_losses_of_the_answer_are_shown():
    async with bridged(replay(CALL, line_of("", done=True))) as (url, _, _):
        id, _ = await post(url, asked(tools=[TOOL], stream=True))
        _, found = await get(url, id)
    assert found["tool_mode"] == "native"
    healed = found["healings"][0]
    assert healed["name"] == "read_file"
    assert healed["steps"][0]["before"] != healed["steps"][0]["after"]


async def test_attempts_are_shown_with_their_reasons():
    answers = [503, 200]

    async def chat(_, line):
        status = answers.pop(0)
        if status == 503:
            await whole(line, {"error": "busy"}, 503)
        else:
            await replay(line_of("Hi", done=True))(_, line)

    async with bridged(chat) as (url, _, _):
        id, _ = await post(url, asked())
        _, found = await get(url, id)
    first, second = found["route"]["attempts"]
    assert first["status"] == 503
    assert "busy" in first["problem"]
    assert re.fullmatch(r"sent again after [\d.]+ s", first["then"])
    assert second["status"] == 200
    assert "problem" not in second


async def test_every_attempt_of_a_chain_names_its_model_and_what_followed():
    async def busy(_, line):
        await whole(line, {"error": {"message": "busy"}}, 503)

    async with model_server(busy) as one, model_server(busy) as other:
        last = model_server(replay(line_of("Hi", done=True)))
        async with last as third:
            providers = {
                name: ProviderConfig(api="ollama", url=server.url, retries=0)
                for name, server in {"a": one, "b": other, "c": third}.items()
            }
            chain = {"default": ("a/x", "b/x", "c/x"), "none": ("a/x", "b/x")}
            config = Config(log="off", map=chain, providers=providers)
            async with gateway(config) as (url, _):
                id, status = await post(url, asked())
                _, found = await get(url, id)
                failed, _ = await post(url, asked() | {"model": "none"})
                _, nobody = await get(url, failed)
    assert status == 200
    attempts = found["route"]["attempts"]
    assert [one["model"] for one in attempts] == ["a/x", "b/x", "c/x"]
    assert attempts[0]["then"] == "the request was sent to b/x, the next model of the chain"
    assert attempts[1]["then"] == "the request was sent to c/x, the next model of the chain"
    assert "then" not in attempts[2]
    thens = [one["then"] for one in nobody["route"]["attempts"]]
    assert thens == [
        "the request was sent to b/x, the next model of the chain",
        "the error was returned to the client",
    ]
    lines = "\n".join(lines_of(found, lambda _, text: text))
    assert "attempt 1 of a/x at " in lines
    assert "attempt 3 of c/x at " in lines


async def test_the_prefix_names_the_first_change_since_the_last_turn():
    async with bridged(replay(line_of("Hi", done=True))) as (url, _, _):
        head = {"x-session-id": "s1"}
        first = [{"role": "user", "content": "a" * 400}]
        reply = [{"role": "assistant", "content": "b"}, {"role": "user", "content": "c"}]
        await post(url, asked(messages=first, system="Be brief."), head)
        id, _ = await post(url, asked(messages=first + reply, system="Be brief."), head)
        _, extended = await get(url, id)
        id, _ = await post(url, asked(messages=first + reply, system="Be long."), head)
        _, changed = await get(url, id)
        id, _ = await post(url, asked(messages=first, system="Other."), {"x-session-id": "s2"})
        _, alone = await get(url, id)
    assert extended["prefix"]["extends"]
    assert "place" not in extended["prefix"]
    assert extended["prefix"]["tokens"] > 50
    assert changed["prefix"]["place"] == "messages.0"
    assert "brief" in changed["prefix"]["before"]
    assert "long" in changed["prefix"]["after"]
    assert changed["prefix"]["unchanged_messages"] == 0
    assert alone["prefix"] is None


async def test_the_user_id_of_claude_code_is_its_conversation():
    async with bridged(replay(line_of("Hi", done=True))) as (url, _, _):
        found = []
        for user in ("a", "b", "a"):
            id, _ = await post(url, asked(metadata={"user_id": user}))
            found.append((await get(url, id))[1]["prefix"])
    assert found[:2] == [None, None]
    assert found[2]["extends"]


async def test_last_is_the_newest_request_and_an_unknown_id_names_the_remedy():
    async with bridged(replay(line_of("Hi", done=True))) as (url, _, _):
        status, error = await get(url, "last")
        assert status == 404
        await post(url, asked())
        id, _ = await post(url, asked())
        assert (await get(url, "last"))[1]["id"] == id
        status, error = await get(url, "req_00000000")
    assert status == 404
    assert "explain_bytes" in json.dumps(error)
    assert "--record" in json.dumps(error)


async def test_a_rejected_request_is_explained_too():
    async with bridged(replay(line_of("Hi", done=True))) as (url, _, _):
        id, status = await post(url, {"model": "m", "messages": [{"role": "user"}]})
        assert status == 400
        _, found = await get(url, id)
    assert found["error"]["type"] == "malformed_request"
    assert found["edits"] == []


async def test_another_key_sees_nothing_and_secrets_are_masked():
    async def chat(_, line):
        await whole(line, {"choices": [{"message": {"content": "Hi"}, "finish_reason": "stop"}]})

    async with model_server(chat) as server:
        provider = ProviderConfig(api="openai_chat", url=server.url, key="provider-key-0123456789")
        config = Config(
            log="off", key="gateway-key-abc", map={"default": "p/m"}, providers={"p": provider}
        )
        async with gateway(config) as (url, app):
            key = {"x-api-key": "gateway-key-abc"}
            words = f"my key is {SECRET} and provider-key-0123456789"
            body = asked(messages=[{"role": "user", "content": words}], system=words, top_k=4)
            id, _ = await post(url, body, key)
            status, found = await get(url, id, key)
            assert status == 200
            shown = json.dumps(found)
            assert SECRET not in shown
            assert "provider-key-0123456789" not in shown
            assert (await get(url, id))[0] == 401
            assert (await get(url, id, {"x-api-key": "other"}))[0] == 403
            assert app.gateway.kept_requests.find(id, owner_of("another-key")) is None


async def test_a_secret_is_masked_before_a_text_is_cut():
    async with bridged(replay(line_of("Hi", done=True))) as (url, _, _):
        head = {"x-session-id": "s"}
        # The first change of the prompt is in a secret that is longer than what is shown of it.
        key = "sk-proj-" + "aB3" * 60
        words = [f"{'x' * 385} {key}", f"{'x' * 385} {key[:-6]}999999"]
        for word in words:
            system = [{"type": "text", "text": word}, {"type": "text", "text": "Two."}]
            id, _ = await post(url, asked(system=system), head)
        _, found = await get(url, id)
    assert found["prefix"]["place"] == "messages.0"
    assert "aB3aB3" not in json.dumps(found)


class Kept:
    def __init__(self, id, size):
        self.id, self.size, self.owner = id, size, ""

    def finish(self, status):
        self.status = status


def test_what_is_kept_is_bounded_by_bytes():
    kept = KeptRequests(100)
    for number in range(50):
        kept.add(Kept(f"req_{number}", 30), 200)
    assert kept.find("req_46", "") is None
    assert kept.find("req_47", "").id == "req_47"
    kept.add(Kept("large", 1000), 200)
    assert kept.find("last", "") is None


async def test_a_request_in_passthrough_shows_only_what_was_changed():
    async def chat(_, line):
        answer = {"role": "assistant", "content": [{"type": "text", "text": "Hi"}]}
        await whole(line, {"id": "msg_1", "type": "message", **answer, "stop_reason": "end_turn"})

    async with model_server(chat) as server:
        provider = ProviderConfig(api="anthropic", url=server.url, passthrough=True)
        config = Config(log="off", map={"default": "p/real"}, providers={"p": provider})
        async with gateway(config) as (url, _):
            id, _ = await post(url, asked())
            _, found = await get(url, id)
    assert found["route"]["passthrough"]
    assert list(edits(found)) == ["model"]


# ── the command ──────────────────────────────────────────────────────────────


@pytest.fixture
def home(tmp_path):
    env = {k: v for k, v in os.environ.items() if not k.startswith("TOOLBRIDGE")}
    return {**env, "XDG_STATE_HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path), "HOME": str(tmp_path)}  # fmt: skip


async def command(home, *arguments, terminal=False):
    line = [sys.executable, "-m", "toolbridge", "explain", *arguments]

    def run():
        if not terminal:
            done = subprocess.run(line, env=home, capture_output=True, text=True, timeout=60, check=False)  # fmt: skip
            return done.returncode, done.stdout, done.stderr
        here, there = pty.openpty()
        child = subprocess.Popen(line, env=home | {"TERM": "xterm"}, stdout=there, stderr=there)
        os.close(there)
        pieces = []
        try:
            while piece := os.read(here, 65536):
                pieces.append(piece)
        except OSError:
            pass
        return child.wait(60), b"".join(pieces).decode(), ""

    return await asyncio.to_thread(run)


async def test_the_command_prints_a_view_and_json(home):
    async with bridged(replay(CALL, line_of("", done=True))) as (url, _, _):
        id, _ = await post(url, asked(tools=[TOOL], metadata={"user_id": "u\x1b[2J"}))
        status, shown, _ = await command(home, "last", "--url", url)
        assert status == 0
        assert f"{id}  " in shown
        assert "→ ollama/tiny:latest (ollama, translated)" in shown
        assert "removed metadata.user_id" in shown
        assert "healings: 1" in shown
        assert "\x1b" not in shown
        status, shown, _ = await command(home, id, "--json", "--url", url)
        assert json.loads(shown)["id"] == id
        status, shown, _ = await command(home, id, "--url", url, terminal=True)
        assert "\x1b[31m" in shown
        assert "\x1b[2J" not in shown


async def test_the_command_fails_with_the_next_step(home):
    status, _, error = await command(home, "last", "--url", "http://127.0.0.1:1")
    assert status == 1
    assert "toolbridge serve" in error
    async with bridged(replay(line_of("Hi", done=True))) as (url, _, _):
        status, _, error = await command(home, "req_00000000", "--url", url)
    assert status == 1
    assert "explain_bytes" in error


async def test_a_request_of_another_process_is_explained_from_the_ledger(home, tmp_path):
    env = {"XDG_STATE_HOME": str(tmp_path)}
    async with model_server(replay(line_of("Hi", done=True))) as server:
        config = Config(
            providers={"there": ProviderConfig(api="ollama", url=server.url)},
            map={"default": "there/tiny"},
        )
        async with gateway(config, env) as (one, app), gateway(config, env) as (two, _):
            id, _ = await post(one, asked(metadata={"user_id": "u"}), {"session-id": "s1"})
            await asyncio.to_thread(app.ledger.close)
            _, whole = await get(one, id)
            status, found = await get(two, id)
            _, shown, _ = await command(home, id, "--url", two)
            missing, _ = await get(two, "req_0000000000000000")
    assert (status, missing) == (200, 404)
    assert "edits" in whole
    assert "edits" not in found
    assert (found["id"], found["time"]) == (id, whole["time"])
    for name in ("provider", "model", "asked"):
        assert found["route"][name] == whole["route"][name]
    assert found["tokens"]["output"] == whole["tokens"]["output"]
    assert found["route"]["attempts"] == [{"model": "there/tiny"}]
    assert "→ there/tiny: " in shown
    assert "no running process of the gateway has the bodies" in shown


async def broken(_, line):
    await line.head(kind="application/x-ndjson")
    await line.send(json.dumps(line_of("half an")) + "\n")
    line.cut()


async def test_an_answer_that_broke_off_is_shown_with_its_failure():
    async with bridged(broken) as (url, _, _), aiohttp.ClientSession() as session:
        async with session.post(f"{url}/v1/messages", json=asked(stream=True)) as answer:
            with contextlib.suppress(aiohttp.ClientPayloadError):
                await answer.read()
        id = answer.headers["request-id"]
        _, found = await get(url, id)
        async with session.get(f"{url}/v1/requests/{id}") as answer:
            listed = await answer.json()
    assert found["status"] == 200
    assert found["error"]["type"] == "truncated"
    assert "ollama closed the connection" in found["error"]["message"]
    (attempt,) = found["route"]["attempts"]
    assert attempt["problem"] == f"truncated: {found['error']['message']}"
    assert (
        attempt["then"] == "the client had got a part of the answer, which ended with this failure"
    )
    assert listed["explanation"]["error"] == found["error"]
    text = "\n".join(lines_of(found, lambda _, text: text))
    assert text.count(f"truncated: {found['error']['message']}") == 2


async def test_an_answer_whose_client_has_left_is_shown_as_aborted():
    async def endless(_, line):
        await line.head(kind="application/x-ndjson")
        await line.send(json.dumps(line_of("half an")) + "\n")
        await line.gone()

    async with bridged(endless) as (url, _, app):
        async with aiohttp.ClientSession() as session:
            answer = await session.post(f"{url}/v1/messages", json=asked(stream=True))
            await answer.content.readany()
            answer.close()
            id = answer.headers["request-id"]
        await until(lambda: not app.in_flight and len(app.recent_requests))
        _, found = await get(url, id)
    assert found["error"] == {"type": "aborted", "message": "the client disconnected"}
    assert "aborted: the client disconnected" in "\n".join(lines_of(found, lambda _, text: text))


async def test_last_is_found_in_the_ledger_after_a_restart(home, tmp_path):
    env = {"XDG_STATE_HOME": str(tmp_path)}
    async with model_server(replay(line_of("Hi", done=True))) as server:
        config = Config(
            providers={"there": ProviderConfig(api="ollama", url=server.url)},
            map={"default": "there/tiny"},
        )
        async with gateway(config, env) as (one, app):
            await post(one, asked())
            id, _ = await post(one, asked())
            await asyncio.to_thread(app.ledger.close)
        async with gateway(config, env) as (two, _):
            status, found = await get(two, "last")
            _, shown, _ = await command(home, "last", "--url", two)
            newer, _ = await post(two, asked())
            _, after = await get(two, "last")
    assert (status, found["id"]) == (200, id)
    assert "edits" not in found
    assert f"{id}  " in shown
    assert (after["id"], "edits" in after) == (newer, True)
