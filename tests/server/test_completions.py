"""Text completions: `/v1/completions` and `/api/generate`, with and without a gap to fill."""

import json

import openai
import pytest
from tests.peers import Heard, Line, gateway, model_server, ollama, replay, whole
from tests.server.test_routes import call

from toolbridge.config import Config, ModelConfig, ProviderConfig

DEMO = Config(log="off", map={"default": "demo/toolbridge-demo"})
CHUNKS = (
    {"id": "cmpl-1", "object": "text_completion", "model": "x", "choices": [{"index": 0, "text": "return "}]},
    {"id": "cmpl-1", "object": "text_completion", "model": "x", "choices": [{"index": 0, "text": "a + b"}]},
    {"id": "cmpl-1", "object": "text_completion", "model": "x", "choices": [{"index": 0, "text": "", "finish_reason": "stop"}]},
    {"id": "cmpl-1", "choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 4}},
)  # fmt: skip
SSE = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in CHUNKS) + "data: [DONE]\n\n"
CHAT = {"choices": [{"index": 0, "message": {"content": "a + b"}, "finish_reason": "stop"}]}


def sdk(url: str) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="x", max_retries=0)


def there(url: str, api: str = "openai_chat", **quirks) -> Config:
    provider = ProviderConfig(api=api, url=url, retries=0, quirks=quirks)
    return Config(log="off", map={"default": "there/m"}, providers={"there": provider})


async def chat_server(heard: Heard, line: Line) -> None:
    if heard.path != "/v1/completions":
        await whole(line, CHAT)
    elif heard.json.get("stream"):
        await line.head(200, "text/event-stream")
        await line.send(SSE)
        await line.end()
    else:
        choice = {"index": 0, "text": "return a + b", "finish_reason": "length"}
        usage = {"prompt_tokens": 9, "completion_tokens": 4}
        await whole(line, {"id": "cmpl-1", "choices": [choice], "usage": usage})


async def test_a_provider_with_completions_is_asked_for_one():
    config = lambda url: there(url, completions="/completions", completion_suffix=True)  # noqa: E731
    async with (
        model_server(chat_server) as server,
        gateway(config(server.url)) as (url, _),
        sdk(url) as client,
    ):
        told = await client.completions.create(
            model="m", prompt="def add(a, b):\n    ", suffix="\n", max_tokens=9, stop=["\n\n"],
            temperature=0.2,
        )  # fmt: skip
        pieces = [
            chunk.choices[0].text
            async for chunk in await client.completions.create(model="m", prompt="x", stream=True)
            if chunk.choices
        ]
    assert told.object == "text_completion"
    assert told.choices[0].text == "return a + b"
    assert told.choices[0].finish_reason == "length"
    assert (told.usage.prompt_tokens, told.usage.completion_tokens) == (9, 4)
    assert [p for p in pieces if p] == ["return ", "a + b"]
    first = server.heard[0].json
    assert first | {"stream": False} == {
        "model": "m", "prompt": "def add(a, b):\n    ", "suffix": "\n", "max_tokens": 9,
        "stop": ["\n\n"], "temperature": 0.2, "stream": False,
    }  # fmt: skip


async def test_a_model_that_only_chats_is_asked_for_the_gap():
    async with (
        model_server(chat_server) as server,
        gateway(there(server.url)) as (url, _),
    ):
        body = {"model": "m", "prompt": "def add(a, b):\n    return ", "suffix": "\n"}
        answer, told = await call(url, "/v1/completions", "POST", body)
    assert told["choices"][0]["text"] == "a + b"
    assert "suffix" in answer.headers["x-toolbridge-warning"]
    sent = server.heard[0]
    assert sent.path == "/v1/chat/completions"
    system, user = sent.json["messages"]
    assert "cursor" in system["content"]
    assert user["content"] == "<prefix>def add(a, b):\n    return </prefix>\n<suffix>\n</suffix>"


async def test_without_a_suffix_the_prompt_is_the_message():
    async with (
        model_server(chat_server) as server,
        gateway(there(server.url)) as (url, _),
    ):
        answer, _ = await call(url, "/v1/completions", "POST", {"model": "m", "prompt": "Say hi"})
    assert server.heard[0].json["messages"] == [{"role": "user", "content": "Say hi"}]
    assert "x-toolbridge-warning" not in answer.headers


INSERT = {"capabilities": ["completion", "insert"], "model_info": {}}
LINE = {"model": "tiny", "response": "a + b", "done": True, "done_reason": "stop", "eval_count": 3}


@pytest.mark.parametrize("path", ["/v1/completions", "/api/generate"])
async def test_an_ollama_model_that_inserts_gets_the_suffix(path):
    async with model_server(ollama(replay(LINE), show=INSERT)) as server:
        provider = ProviderConfig(api="ollama", url=server.url, retries=0)
        config = Config(log="off", map={"default": "o/tiny"}, providers={"o": provider})
        async with gateway(config) as (url, _):
            body = {"model": "tiny", "prompt": "return ", "suffix": "\n", "stream": False}
            _, told = await call(url, path, "POST", body)
    text = told["response"] if path.startswith("/api") else told["choices"][0]["text"]
    assert text == "a + b"
    sent = next(h for h in server.heard if h.path == "/api/generate").json
    assert (sent["prompt"], sent["suffix"]) == ("return ", "\n")
    assert "messages" not in sent


async def test_generate_keeps_what_only_ollama_knows():
    async with model_server(ollama(replay(LINE))) as server:
        provider = ProviderConfig(api="ollama", url=server.url, retries=0)
        config = Config(
            log="off", map={"default": "o/tiny"}, providers={"o": provider},
            models={"o/tiny": ModelConfig()},
        )  # fmt: skip
        async with gateway(config) as (url, _):
            body = {
                "model": "tiny", "prompt": "x", "raw": True, "template": "{{ .Prompt }}",
                "context": [1, 2], "system": "be brief", "stream": False,
            }  # fmt: skip
            answer, _ = await call(url, "/api/generate", "POST", body)
    sent = next(h for h in server.heard if h.path == "/api/generate").json
    kept = {name: sent[name] for name in ("prompt", "raw", "template", "context", "system")}
    assert kept == {name: body[name] for name in kept}
    assert "x-toolbridge-warning" not in answer.headers


@pytest.mark.parametrize("stream", [True, False])
async def test_echo_repeats_the_prompt(stream):
    async with gateway(DEMO) as (url, _), sdk(url) as client:
        given = await client.completions.create(
            model="m", prompt="What is 2+3? ", echo=True, stream=stream
        )
        text = (
            "".join([c.choices[0].text async for c in given]) if stream else given.choices[0].text
        )
    assert text.startswith("What is 2+3? ")
    assert "5" in text.removeprefix("What is 2+3? ")


async def test_a_stream_reports_usage_when_asked():
    async with gateway(DEMO) as (url, _), sdk(url) as client:
        given = await client.completions.create(
            model="m", prompt="hello", stream=True, stream_options={"include_usage": True}
        )
        chunks = [chunk async for chunk in given]
    assert chunks[-1].usage.completion_tokens > 0
    assert chunks[-2].choices[0].finish_reason == "stop"


async def test_a_cut_completion_raises():
    async def cut(_: Heard, line: Line) -> None:
        await line.head(200, "text/event-stream")
        await line.send(SSE[: SSE.index('"a + b"')])
        await line.end()

    config = lambda url: there(url, completions="/completions")  # noqa: E731
    async with (
        model_server(cut) as server,
        gateway(config(server.url)) as (url, _),
        sdk(url) as client,
    ):
        given = await client.completions.create(model="m", prompt="x", stream=True)
        with pytest.raises(openai.APIError):
            _ = [chunk async for chunk in given]


@pytest.mark.parametrize(
    ("body", "where"),
    [
        ({"model": "m"}, "prompt"),
        ({"prompt": "x"}, "model"),
        ({"model": "m", "prompt": ["a", "b"]}, "prompt"),
        ({"model": "m", "prompt": [1, 2]}, "prompt"),
        ({"model": "m", "prompt": "x", "n": 3}, "n"),
        ({"model": "m", "prompt": "x", "max_tokens": 0}, "max_tokens"),
        ({"model": "m", "prompt": "x", "stop": 4}, "stop"),
    ],
)
async def test_a_bad_request_names_the_field(body, where):
    async with gateway(DEMO) as (url, _):
        answer, told = await call(url, "/v1/completions", "POST", body)
        good, _ = await call(url, "/v1/completions", "POST", {"model": "m", "prompt": "x"})
    assert answer.status == 400
    assert where in json.dumps(told["error"])
    assert good.status == 200


LIKELY = {
    "tokens": ["Hi", "!"], "token_logprobs": [-0.5, -1.5],
    "top_logprobs": [{"Hi": -0.5, "Yo": -2.0}, {"!": -1.5}], "text_offset": [0, 2],
}  # fmt: skip
CHAT_LIKELY = [
    {"token": "Hi", "logprob": -0.5,
     "top_logprobs": [{"token": "Hi", "logprob": -0.5}, {"token": "Yo", "logprob": -2.0}]},
    {"token": "!", "logprob": -1.5, "top_logprobs": [{"token": "!", "logprob": -1.5}]},
]  # fmt: skip


async def likely_server(heard: Heard, line: Line) -> None:
    choice: dict = {"index": 0, "finish_reason": "stop"}
    if heard.path == "/v1/completions":
        choice |= {"text": "Hi!", "logprobs": LIKELY}
    else:
        message = {"role": "assistant", "content": "Hi!"}
        choice |= {"message": message, "logprobs": {"content": CHAT_LIKELY}}
    await whole(line, {"id": "cmpl-1", "model": "m", "choices": [choice]})


@pytest.mark.parametrize("quirks", [{}, {"completions": "/completions"}], ids=["chat", "text"])
@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
async def test_log_probabilities_come_as_a_text_completion_has_them(stream, quirks):
    async with (
        model_server(likely_server) as server,
        gateway(there(server.url, **quirks)) as (url, _),
        sdk(url) as client,
    ):
        asked = {"model": "m", "prompt": "x", "logprobs": 2}
        if stream:
            told = [c async for c in await client.completions.create(**asked, stream=True)]
            found = [c.choices[0].logprobs for c in told if c.choices and c.choices[0].logprobs]
        else:
            found = [(await client.completions.create(**asked)).choices[0].logprobs]
    assert [one.model_dump() for one in found] == [LIKELY]


@pytest.mark.parametrize("quirks", [{}, {"completions": "/completions"}], ids=["chat", "text"])
async def test_fields_that_nobody_here_knows_reach_a_provider_of_the_api(quirks):
    async with (
        model_server(chat_server) as server,
        gateway(there(server.url, **quirks)) as (url, _),
        sdk(url) as client,
    ):
        extra = {"min_p": 0.1, "guided_regex": "a+"}
        await client.completions.create(
            model="m", prompt="x", logit_bias={"50256": -100}, extra_body=extra
        )
    sent = server.heard[-1].json
    assert {name: sent[name] for name in extra} == extra
    assert sent["logit_bias"] == {"50256": -100}


async def test_a_field_that_another_api_does_not_have_is_said():
    body = {"model": "m", "prompt": "x", "logit_bias": {"1": 2}}
    async with (
        model_server(chat_server) as server,
        gateway(there(server.url, api="ollama")) as (url, _),
    ):
        answer, _ = await call(url, "/v1/completions", "POST", body)
    assert "logit_bias" in answer.headers["x-toolbridge-warning"]
