"""What is recorded of the model calls of a structured stream: the ledger, rows, metrics and usage."""

import asyncio
import contextlib
import json
import re
import sqlite3
from collections import Counter

import aiohttp
import pytest
import websockets
from tests.key_users import command
from tests.peers import whole
from tests.server.test_stream import codes, silent
from tests.server.test_stream_ws import at, listen
from tests.streams import ask, call, chunk, read, reply, say, scripted, streaming
from tests.waiting import until

from toolbridge.cli.explain import lines_of


@pytest.fixture
def state(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path


def env(state) -> dict[str, str]:
    return {"XDG_STATE_HOME": str(state)}


def errors(state) -> list[tuple[str, int, str]]:
    file = state / "toolbridge" / "ledger.sqlite"
    with contextlib.closing(sqlite3.connect(file)) as ledger:
        return [*ledger.execute("select api, status, error from requests order by at")]


async def get(url: str, path: str) -> str:
    async with aiohttp.ClientSession() as client, client.get(url + path) as response:
        return await response.text()


async def shown_errors(url: str) -> list[str]:
    """Return the error of each request that the page lists."""
    return [row["error"] for row in json.loads(await get(url, "/v1/requests"))["requests"]]


async def failures(url: str) -> dict[str, str]:
    found = await get(url, "/metrics")
    return dict(re.findall(r'toolbridge_failures_total\{kind="(\w+)"\} (\d+)', found))


async def cut(_, line) -> None:
    """Answer a beginning, and close."""
    await line.head(kind="text/event-stream")
    for text in ("Well ", "then ", "we "):
        await line.send(chunk({"content": text}))
    line.cut()


async def test_a_call_that_breaks_off_is_an_error_as_for_other_clients(state):
    async with streaming(cut, env(state)) as (url, _, _):
        assert codes(await ask(url, {"prompt": "x"})) == ["upstream_error"]
        body = {"model": "m", "stream": True, "messages": [{"role": "user", "content": "x"}]}
        async with aiohttp.ClientSession() as client:
            for path in ("/v1/chat/completions", "/v1/messages"):
                async with client.post(url + path, json=body | {"max_tokens": 9}) as got:
                    with contextlib.suppress(aiohttp.ClientPayloadError):
                        await got.read()
        assert await shown_errors(url) == ["truncated"] * 3
        assert await failures(url) == {"truncated": "3"}
    assert errors(state) == [
        ("stream", 200, "truncated"), ("openai_chat", 200, "truncated"), ("anthropic", 200, "truncated"),
    ]  # fmt: skip
    total = json.loads(await asyncio.to_thread(command, "usage", "--json", "--by", "model"))
    assert (total["requests"], total["errors"]) == (3, 3)


async def silent_from_the_start(_, line) -> None:
    await line.head(kind="text/event-stream")
    await line.gone()


async def abort_over_http(url: str, server) -> None:
    async with (
        aiohttp.ClientSession() as client,
        client.post(f"{url}/v1/stream", json={"prompt": "x"}) as response,
    ):
        await until(lambda: server.heard)
        run = response.headers["x-toolbridge-run"]
        async with client.delete(f"{url}/v1/stream/{run}") as got:
            assert (await got.json())["aborted"]
        assert codes([said async for said in read(response)]) == ["aborted"]


async def abort_over_websocket(url: str, server) -> None:
    async with websockets.connect(at(url)) as line:
        await line.send(json.dumps({"type": "start", "prompt": "x"}))
        await until(lambda: server.heard)
        await line.send(json.dumps({"type": "abort"}))
        assert codes(await listen(line)) == ["aborted"]


@pytest.mark.parametrize("model", [silent, silent_from_the_start])
@pytest.mark.parametrize("abort", [abort_over_http, abort_over_websocket])
async def test_a_call_that_the_client_aborts_is_recorded_as_aborted(state, model, abort):
    async with streaming(model, env(state)) as (url, server, _):
        await abort(url, server)
        assert await shown_errors(url) == ["aborted"]
    assert errors(state) == [("stream", 200, "aborted")]


async def test_a_run_that_takes_too_long_is_no_success(state):
    async with streaming(silent, env(state)) as (url, _, _):
        said = await ask(url, {"prompt": "x", "request_timeout_ms": 300})
        assert codes(said) == ["request_timeout"]
    assert errors(state) == [("stream", 200, "aborted")]


async def test_an_answer_that_is_left_after_its_result_is_a_success(state):
    async def goes_on(_, line) -> None:
        await line.head(kind="text/event-stream")
        await line.send(chunk({"content": reply()}))
        await line.gone()

    async with streaming(goes_on, env(state)) as (url, _, _):
        assert codes(await ask(url, {"prompt": "x"})) == []
        assert await failures(url) == {}
    assert errors(state) == [("stream", 200, "")]


SERIES = re.compile(
    r'toolbridge_requests_total\{model="(.*?)",provider="(.+?)",status="(.*?)",surface="(.*?)"\} (\d+)'
)


async def test_metrics_and_ledger_count_the_same_requests_of_each_model(state):
    answers = iter([call("T1", "time.now", {}), reply(), 400, "cut", "Hello.", "Hello."])

    async def model(heard, line) -> None:
        said = next(answers)
        if said == "cut":
            await cut(heard, line)
        elif isinstance(said, int):
            await whole(line, {"error": {"message": "no"}}, said)
        else:
            await say(line, said)

    async with streaming(model, env(state)) as (url, server, _):
        for _ in range(3):
            await ask(url, {"prompt": "x", "tools": ["time.now"]})
        body = {"model": "m", "stream": True, "messages": [{"role": "user", "content": "x"}]}
        async with aiohttp.ClientSession() as client:
            for path in ("/v1/chat/completions", "/v1/messages", "/v1/messages/count_tokens"):
                async with client.post(url + path, json=body | {"max_tokens": 9}) as got:
                    await got.read()
        metrics = await get(url, "/metrics")
    counted = {tuple(labels): int(count) for *labels, count in SERIES.findall(metrics)}
    with contextlib.closing(sqlite3.connect(state / "toolbridge" / "ledger.sqlite")) as ledger:
        rows = ledger.execute("select model, provider, status, api from requests").fetchall()
    assert counted == Counter(
        (model, provider, str(status), api) for model, provider, status, api in rows
    )
    assert sum(counted.values()) == len(server.heard) == 6
    assert (
        'toolbridge_requests_total{model="",provider="",status="200",surface="stream"} 3' in metrics
    )


async def explained(url: str, id: str, **headers: str) -> tuple[int, dict]:
    async with (
        aiohttp.ClientSession() as client,
        client.get(f"{url}/v1/explain/{id}", headers=headers) as response,
    ):
        return response.status, await response.json()


async def test_the_id_of_a_stream_leads_to_its_model_calls(state):
    answers = iter([call("T1", "time.now", {}), reply()])

    async def model(heard, line) -> None:
        if (said := next(answers, "")) != "":
            await say(line, said)
        else:
            await cut(heard, line)

    async with streaming(model, env(state)) as (url, _, _), aiohttp.ClientSession() as client:
        ids, runs = [], []
        for _ in range(2):
            body = {"prompt": "x", "tools": ["time.now"]}
            async with client.post(f"{url}/v1/stream", json=body) as response:
                await response.read()
            ids.append(response.headers["request-id"])
            runs.append(response.headers["x-toolbridge-run"])
        status, first = await explained(url, ids[0])
        _, second = await explained(url, ids[1])
        _, last = await explained(url, "last")
        one = [await explained(url, called["id"]) for called in first["calls"]]
    assert status == 200
    assert (first["id"], first["run"], first["status"]) == (ids[0], runs[0], 200)
    assert [(called["model"], called["status"]) for called in first["calls"]] == [
        ("there/m", 200), ("there/m", 200),
    ]  # fmt: skip
    assert [status for status, _ in one] == [200, 200]
    assert [found["id"] for _, found in one] == [called["id"] for called in first["calls"]]
    (called,) = second["calls"]
    assert called["error"] == "truncated"
    assert last == second
    text = "\n".join(lines_of(second, lambda _, text: text))
    assert f"model calls of {runs[1]}" in text
    assert f"{called['id']}  there/m: status 200, truncated" in text


async def test_the_last_request_may_be_of_any_api(state):
    async with streaming(scripted(reply(), "Hello."), env(state)) as (url, _, _):
        await ask(url, {"prompt": "x"})
        _, stream = await explained(url, "last")
        body = {"model": "m", "stream": True, "messages": [{"role": "user", "content": "x"}]}
        async with (
            aiohttp.ClientSession() as client,
            client.post(f"{url}/v1/chat/completions", json=body) as response,
        ):
            await response.read()
        _, chat = await explained(url, "last")
    assert stream["client"]["path"] == "/v1/stream"
    assert chat["id"] == response.headers["request-id"]


async def test_only_its_caller_sees_the_calls_of_a_stream(state):
    async with (
        streaming(scripted(reply()), env(state), key="operator") as (url, _, app),
        aiohttp.ClientSession() as client,
    ):
        headers = {"x-api-key": "operator"}
        async with client.post(
            f"{url}/v1/stream", json={"prompt": "x"}, headers=headers
        ) as response:
            await response.read()
        id = response.headers["request-id"]
        status, _ = await explained(url, id, **headers)
        assert status == 200
        assert app.run_requests.find(id, "another") is None
        assert app.run_requests.find("last", "another") is None


async def test_a_stream_over_a_websocket_is_the_last_request(state):
    async with streaming(scripted(reply()), env(state)) as (url, _, _):
        async with websockets.connect(at(url)) as line:
            await line.send(json.dumps({"type": "start", "prompt": "x"}))
            await listen(line)
        _, found = await explained(url, "last")
    assert (found["status"], found["client"]["path"]) == (101, "/v1/stream/ws")
    assert len(found["calls"]) == 1
