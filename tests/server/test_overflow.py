"""Prompts that do not fit: nothing that was learned lets them through, and every client can read it."""

import json

import aiohttp
import openai
import pytest
from tests.peers import bridged, gateway, line_of, model_server, whole

from toolbridge.config import Config, ModelConfig, ProviderConfig

SMALL = {"capabilities": ["completion", "tools"], "model_info": {"llama.context_length": 32768}}
LONG = "word and sentence " * 16_000


async def post(url: str, path: str, body: dict):
    async with aiohttp.ClientSession() as session, session.post(url + path, json=body) as answer:
        return answer, await answer.text()


@pytest.mark.parametrize(
    ("share", "size", "teachers"),
    [(0.24, 1, 20), (0.3, 1, 20), (0.24, 6_000, 20), (0.5, 20, 8)],
    ids=["tiny", "tiny 0.3", "larger", "small 0.5"],
)
async def test_odd_counts_do_not_disarm_the_window(share, size, teachers):
    async def chat(heard, line):
        await line.head()
        said = sum(len(message["content"]) for message in heard.json["messages"])
        count = max(1, round((said / 3.6 + 8) * share))
        end = line_of("", done=True) | {"prompt_eval_count": count, "eval_count": 1}
        for piece in (line_of("a"), end):
            await line.send(json.dumps(piece) + "\n")
        await line.end()

    def body(text: str) -> dict:
        return {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": text}]}

    async with bridged(chat, show=SMALL) as (url, server, _):
        for number in range(teachers):
            answer, _ = await post(url, "/v1/messages", body("word " * size + str(number)))
            assert answer.status == 200
        answer, text = await post(url, "/v1/messages", body(LONG))
    assert answer.status == 400, text
    assert "prompt is too long" in text
    assert len(server.chats()) == teachers


async def test_a_prompt_that_fits_is_let_through_after_high_counts_of_tiny_ones():
    """Most of a tiny prompt is its template: five times the estimate there is not so for a large one."""

    async def chat(_, line):
        await line.head()
        end = line_of("", done=True) | {"prompt_eval_count": 40, "eval_count": 1}
        await line.send(json.dumps(line_of("a")) + "\n" + json.dumps(end) + "\n")
        await line.end()

    async with bridged(chat, show=SMALL) as (url, *_):
        for text in ["x"] * 20 + ["word " * 15_000]:
            ask = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": text}]}
            answer, said = await post(url, "/v1/messages", ask)
            assert answer.status == 200, said


def places(server_url: str, *, window: int) -> Config:
    return Config(
        log="off",
        map={"default": "up/m"},
        models={"up/m": ModelConfig(window=window)},
        providers={"up": ProviderConfig(api="openai_chat", url=server_url, retries=0)},
    )


async def too_long(_, line):
    text = "This model's maximum context length is 4096 tokens, however you requested 99999 tokens"
    error = {"message": text, "type": "invalid_request_error", "code": "context_length_exceeded"}
    await whole(line, {"error": error}, 400)


@pytest.mark.parametrize("window", [1000, 0], ids=["ours", "upstream"])
async def test_codex_reads_an_overflow_in_its_stream(window):
    """Codex shows the body of a 400 as raw JSON; a failed response it understands, and compacts."""
    body = {"model": "m", "input": LONG, "stream": True}
    async with (
        model_server(too_long) as server,
        gateway(places(server.url, window=window)) as (url, _),
    ):
        answer, text = await post(url, "/v1/responses", body)
        assert answer.status == 200
        assert answer.headers["content-type"].startswith("text/event-stream")
        events = [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: ")]
        whole_answer, whole_text = await post(url, "/v1/responses", body | {"stream": False})
    assert [event["type"] for event in events] == [
        "response.created",
        "response.in_progress",
        "response.failed",
    ]
    assert len({event["response"]["id"] for event in events}) == 1
    assert events[-1]["response"]["error"]["code"] == "context_length_exceeded"
    assert events[-1]["response"]["status"] == "failed"
    assert whole_answer.status == 400
    assert json.loads(whole_text)["error"]["code"] == "context_length_exceeded"


async def test_the_official_client_reads_the_failed_response():
    async with (
        model_server(too_long) as server,
        gateway(places(server.url, window=1000)) as (url, _),
        openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="k") as client,
    ):
        stream = await client.responses.create(model="m", input=LONG, stream=True)
        last = [event async for event in stream][-1]
    assert last.type == "response.failed"
    assert last.response.error.code == "context_length_exceeded"


@pytest.mark.parametrize("api", ["/v1/messages", "/v1/chat/completions"])
async def test_other_clients_get_a_status(api):
    ask = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": LONG}]}
    async with (
        model_server(too_long) as server,
        gateway(places(server.url, window=1000)) as (url, _),
    ):
        answer, text = await post(url, api, ask | {"stream": True})
    assert answer.status == 400
    assert "prompt is too long" in text
