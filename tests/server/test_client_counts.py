"""Counts and durations that clients get are those that the ledger has."""

import json

import aiohttp
import pytest
from tests.key_users import settings
from tests.peers import gateway, model_server, ollama
from tests.peers import whole as reply_whole

from toolbridge.config import Config, ProviderConfig

TURN = {"messages": [{"role": "user", "content": "hi"}]}
TEXT = "one two STOP three four"
REQUESTS = {
    "/v1/messages": (TURN | {"max_tokens": 99}, ("usage", "output_tokens")),
    "/v1/chat/completions": (TURN, ("usage", "completion_tokens")),
    "/v1/completions": ({"prompt": "hi"}, ("usage", "completion_tokens")),
    "/v1/responses": ({"input": "hi"}, ("usage", "output_tokens")),
    "/v1beta/models/any:generateContent": (
        {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]},
        ("usageMetadata", "candidatesTokenCount"),
    ),
    "/api/chat": (TURN | {"stream": False}, ("eval_count",)),
}


@pytest.fixture
def state(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path


def answers(usage):
    """Return a Chat Completions server that reports `usage`; None for nothing."""
    counts = {} if usage is None else {"usage": usage}

    async def answer(heard, line):
        if not heard.json.get("stream"):
            choice = {"index": 0, "message": {"role": "assistant", "content": TEXT}}
            await reply_whole(
                line, {"id": "c", "choices": [choice | {"finish_reason": "stop"}]} | counts
            )
            return
        await line.head(kind="text/event-stream")
        for delta, end in (({"content": TEXT}, None), ({}, "stop")):
            chunk = {"id": "c", "choices": [{"index": 0, "delta": delta, "finish_reason": end}]}
            await line.send(f"data: {json.dumps(chunk)}\n\n")
        await line.send(f"data: {json.dumps({'id': 'c', 'choices': []} | counts)}\n\n")
        await line.send("data: [DONE]\n\n")
        await line.end()

    return answer


async def asked(url, path, body):
    async with aiohttp.ClientSession() as session, session.post(url + path, json=body) as got:
        assert got.status == 200, await got.text()
        return await got.text()


async def rows(url):
    async with aiohttp.ClientSession() as session, session.get(f"{url}/v1/requests") as got:
        return (await got.json())["requests"]


def within(found, path):
    for name in path:
        found = found[name]
    return found


@pytest.mark.parametrize("path", REQUESTS)
@pytest.mark.parametrize("usage", [None, {"prompt_tokens": 9, "completion_tokens": -4}])
async def test_a_whole_answer_without_counts_has_the_estimate_of_the_ledger(state, path, usage):
    body, field = REQUESTS[path]
    async with (
        model_server(answers(usage)) as server,
        gateway(settings(server.url), {"XDG_STATE_HOME": str(state)}) as (url, _),
    ):
        found = json.loads(await asked(url, path, {"model": "any"} | body))
        (row,) = await rows(url)
    assert within(found, field) == row["output"] == -(-len(TEXT) // 4)
    assert row["estimated"]


@pytest.mark.parametrize("path", [path for path in REQUESTS if path != "/v1/completions"])
async def test_a_stream_without_counts_has_the_estimate_of_the_ledger(state, path):
    body, field = REQUESTS[path]
    extra = {"stream_options": {"include_usage": True}} if "chat/comp" in path else {}
    if "Content" in path:
        path = path.replace("generateContent", "streamGenerateContent") + "?alt=sse"
    async with (
        model_server(answers(None)) as server,
        gateway(settings(server.url), {"XDG_STATE_HOME": str(state)}) as (url, _),
    ):
        text = await asked(url, path, {"model": "any"} | body | {"stream": True} | extra)
        (row,) = await rows(url)
    assert row["estimated"]
    assert f'"{field[-1]}":{row["output"]}' in text.replace(" ", "")


@pytest.mark.parametrize("stream", [False, True])
async def test_an_answer_that_the_gateway_ends_has_the_counts_of_the_provider_or_an_estimate(
    state, stream
):
    # OpenAI chat: at most 4 stop sequences. The gateway searches the answer for the others.
    stops = ["a!", "b!", "c!", "d!", "STOP"]
    usage = {"prompt_tokens": 9, "completion_tokens": 33, "total_tokens": 42}
    options = {"stream": stream, "stream_options": {"include_usage": True}} if stream else {}
    async with (
        model_server(answers(usage)) as server,
        gateway(settings(server.url), {"XDG_STATE_HOME": str(state)}) as (url, _),
    ):
        body = TURN | {"model": "any", "max_tokens": 99, "stop_sequences": stops} | options
        text = await asked(url, "/v1/messages", body)
        (row,) = await rows(url)
    assert "three" not in text
    # The count of a stream comes after its text: it is used if both arrive at once.
    possible = [(33, False), (2, True)] if stream else [(33, False)]
    assert (row["output"], row["estimated"]) in possible
    assert f'"output_tokens":{row["output"]}' in text.replace(" ", "")


@pytest.mark.parametrize("stream", [False, True])
async def test_durations_of_an_ollama_server_reach_the_client(state, stream):
    last = {
        "model": "tiny", "message": {"role": "assistant", "content": "Hi"}, "done": True,
        "done_reason": "stop", "prompt_eval_count": 3, "eval_count": 1, "total_duration": 987654321,
        "load_duration": 11, "prompt_eval_duration": 22, "eval_duration": 33,
    }  # fmt: skip

    async def chat(heard, line):
        await line.head()
        await line.send(json.dumps(last) + "\n")
        await line.end()

    async with model_server(ollama(chat)) as server:
        provider = ProviderConfig(api="ollama", url=server.url)
        config = Config(log="off", map={"default": "o/tiny"}, providers={"o": provider})
        async with gateway(config, {"XDG_STATE_HOME": str(state)}) as (url, _):
            text = await asked(url, "/api/chat", {"model": "any", "stream": stream} | TURN)
    end = json.loads(text.strip().split("\n")[-1])
    wanted = {name: value for name, value in last.items() if name.endswith("_duration")}
    assert wanted.items() <= end.items()


@pytest.mark.parametrize("stream", [False, True])
async def test_durations_of_other_answers_are_measured(state, stream):
    async with (
        model_server(answers(None)) as server,
        gateway(settings(server.url), {"XDG_STATE_HOME": str(state)}) as (url, _),
    ):
        text = await asked(url, "/api/chat", {"model": "any", "stream": stream} | TURN)
        (row,) = await rows(url)
    end = json.loads(text.strip().split("\n")[-1])
    assert 0 < end["total_duration"] / 1e6 <= row["total_ms"] + 0.1
    if stream:
        assert abs(end["prompt_eval_duration"] / 1e6 - row["first_token_ms"]) < 0.1
    assert "load_duration" not in end
