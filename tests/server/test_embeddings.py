"""Embeddings: every client's endpoint, every provider that has them, over real sockets."""

import base64
import json
import math
import struct

import ollama
import openai
import pytest
from google import genai
from google.genai import types
from tests import peers
from tests.peers import Heard, Line, gateway, model_server, whole
from tests.server.test_routes import call

from toolbridge.config import Config, ProviderConfig

DEMO = Config(log="off", map={"default": "demo/toolbridge-demo"})
VECTORS = [[0.25, -0.5, 1.0], [0.0, 0.125, -2.0]]


def openai_sdk(url: str) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="x", max_retries=0)


def cosine(a, b):
    return sum(x * y for x, y in zip(a, b, strict=True))


async def upstream(heard: Heard, line: Line) -> None:
    """Answer an embedding request of any of the three wire formats, texts only."""
    body = heard.json
    if heard.path == "/v1/embeddings":
        data = [{"index": i, "embedding": VECTORS[i]} for i in range(len(body["input"]))]
        # The order of a list is no promise; `index` is.
        await whole(line, {"data": data[::-1], "model": "x", "usage": {"prompt_tokens": 7}})
    elif heard.path == "/api/embed":
        found = VECTORS[: len(body["input"])]
        await whole(line, {"model": "x", "embeddings": found, "prompt_eval_count": 7})
    elif heard.path.endswith(":batchEmbedContents"):
        found = [{"values": v} for v in VECTORS[: len(body["requests"])]]
        await whole(line, {"embeddings": found, "usageMetadata": {"promptTokenCount": 7}})
    else:
        await whole(line, {"error": "nothing here"}, 404)


def there(url: str, api: str) -> Config:
    provider = ProviderConfig(api=api, url=url, retries=0)
    return Config(log="off", map={"default": "there/m"}, providers={"there": provider})


def sent_texts(heard: Heard) -> list[str]:
    body = heard.json
    if "requests" in body:
        return [r["content"]["parts"][0]["text"] for r in body["requests"]]
    return body["input"]


@pytest.mark.parametrize("api", ["openai_chat", "openai_responses", "ollama", "gemini"])
async def test_each_sdk_gets_the_vectors_of_each_provider(api):
    async with model_server(upstream) as server, gateway(there(server.url, api)) as (url, _):
        async with openai_sdk(url) as sdk:
            found = await sdk.embeddings.create(model="m", input=["one", "two"])
        assert [d.embedding for d in found.data] == VECTORS
        assert found.usage.prompt_tokens == 7
        async with ollama.AsyncClient(url) as client:
            told = await client.embed("m", ["one", "two"])
            assert [list(v) for v in told.embeddings] == VECTORS
            told = await client.embeddings("m", "one")
            assert list(told.embedding) == VECTORS[0]
        google = genai.Client(api_key="x", http_options=types.HttpOptions(base_url=url))
        got = await google.aio.models.embed_content(model="m", contents=["one", "two"])
        assert [e.values for e in got.embeddings] == VECTORS
        await google.aio.aclose()
    asked = [h for h in server.heard if "embed" in h.path.lower()]
    assert [sent_texts(h) for h in asked] == [
        ["one", "two"],
        ["one", "two"],
        ["one"],
        ["one", "two"],
    ]


async def test_dimensions_and_task_reach_a_provider_that_knows_them():
    async with (
        model_server(upstream) as server,
        gateway(there(server.url, "gemini")) as (url, _),
    ):
        google = genai.Client(api_key="x", http_options=types.HttpOptions(base_url=url))
        config = types.EmbedContentConfig(task_type="RETRIEVAL_QUERY", output_dimensionality=3)
        await google.aio.models.embed_content(model="m", contents="one", config=config)
        await google.aio.aclose()
    sent = server.heard[-1].json["requests"][0]
    assert (sent["taskType"], sent["outputDimensionality"]) == ("RETRIEVAL_QUERY", 3)
    assert sent["model"] == "models/m"


async def test_what_the_provider_cannot_be_told_is_a_warning():
    async with (
        model_server(upstream) as server,
        gateway(there(server.url, "ollama")) as (url, _),
    ):
        body = {"content": {"parts": [{"text": "a"}]}, "taskType": "CLUSTERING"}
        answer, found = await call(url, "/v1beta/models/m:embedContent", "POST", body)
    assert found == {"embedding": {"values": VECTORS[0]}, "usageMetadata": {"promptTokenCount": 7}}
    assert "taskType" in answer.headers["x-toolbridge-warning"]


async def test_the_demo_model_embeds_and_similar_texts_are_close():
    async with gateway(DEMO) as (url, _):
        texts = ["the cat sat on the mat", "a cat sat on a mat", "quarterly revenue fell"]
        async with openai_sdk(url) as sdk:
            packed = await sdk.embeddings.create(model="toolbridge-demo", input=texts)
            plain = await sdk.embeddings.create(
                model="toolbridge-demo", input=texts, encoding_format="float"
            )
    a, b, c = (d.embedding for d in plain.data)
    assert len(a) == 384
    assert all(math.isclose(cosine(v, v), 1.0, rel_tol=1e-6) for v in (a, b, c))
    assert cosine(a, b) > 0.5 > cosine(a, c)
    # The SDK asks for base64 by default; the vectors are the same to the precision of 32 bits.
    assert all(
        math.isclose(x, y, abs_tol=1e-6) for x, y in zip(a, packed.data[0].embedding, strict=True)
    )


async def test_base64_is_little_endian_floats():
    body = {"model": "toolbridge-demo", "input": "x", "dimensions": 4, "encoding_format": "base64"}
    async with gateway(DEMO) as (url, _):
        _, packed = await call(url, "/v1/embeddings", "POST", body)
        _, plain = await call(url, "/v1/embeddings", "POST", body | {"encoding_format": "float"})
    read = struct.unpack("<4f", base64.b64decode(packed["data"][0]["embedding"]))
    assert read == pytest.approx(plain["data"][0]["embedding"], abs=1e-6)


async def test_token_ids_go_to_openai_and_are_an_error_elsewhere():
    body = {"model": "m", "input": [[1, 2], [3]]}
    async with (
        model_server(upstream) as server,
        gateway(there(server.url, "openai_chat")) as (url, _),
    ):
        answer, _ = await call(url, "/v1/embeddings", "POST", body)
        await call(url, "/v1/embeddings", "POST", {"model": "m", "input": [1, 2]})
    assert answer.status == 200
    assert [h.json["input"] for h in server.heard[-2:]] == [[[1, 2], [3]], [[1, 2]]]
    async with gateway(DEMO) as (url, _):
        answer, found = await call(url, "/v1/embeddings", "POST", body)
    assert answer.status == 400
    assert "token ids" in found["error"]["message"]


BAD = [
    ("/v1/embeddings", {"model": "m"}, "input"),
    ("/v1/embeddings", {"model": "m", "input": []}, "input"),
    ("/v1/embeddings", {"model": "m", "input": ["a", 3]}, "input.1"),
    ("/v1/embeddings", {"input": "a"}, "model"),
    ("/v1/embeddings", {"model": "m", "input": "a", "dimensions": 0}, "dimensions"),
    ("/v1/embeddings", {"model": "m", "input": "a", "encoding_format": "int8"}, "encoding_format"),
    ("/v1/embeddings", {"model": "m", "input": "a", "dimensions": 10**9}, "dimensions"),
    ("/api/embed", {"model": "m"}, "input"),
    ("/v1beta/models/m:embedContent", {}, "content"),
    ("/v1beta/models/m:embedContent", {"content": {"parts": [{"inlineData": {}}]}}, "parts"),
    ("/v1beta/models/m:batchEmbedContents", {"requests": []}, "requests"),
    ("/v1beta/models/m:batchEmbedContents", {"requests": [4]}, "requests.0"),
]


@pytest.mark.parametrize(("path", "body", "where"), BAD)
async def test_a_bad_request_is_answered_with_the_path_of_its_fault(path, body, where):
    async with gateway(DEMO) as (url, _):
        answer, found = await call(url, path, "POST", body)
        good, _ = await call(url, "/v1/embeddings", "POST", {"model": "m", "input": "still here"})
    assert answer.status == 400
    assert where in json.dumps(found)
    assert good.status == 200


async def test_an_api_without_embeddings_says_so():
    async with gateway(there("http://127.0.0.1:1", "anthropic")) as (url, _):
        answer, found = await call(url, "/v1/embeddings", "POST", {"model": "m", "input": "a"})
    assert answer.status == 400
    assert "no embeddings" in found["error"]["message"]


@pytest.mark.parametrize(
    ("body", "kind"),
    [("<html><body>proxy</body></html>", "web page"), ('{"data": [', ""), ('{"data": []}', "0 embeddings")],
)  # fmt: skip
async def test_a_broken_answer_is_an_error(body, kind):
    async def broken(_: Heard, line: Line) -> None:
        await line.head(200, "application/json")
        await line.send(body)
        await line.end()

    async with (
        model_server(broken) as server,
        gateway(there(server.url, "openai_chat")) as (url, _),
    ):
        answer, found = await call(url, "/v1/embeddings", "POST", {"model": "m", "input": "a"})
    assert answer.status >= 400
    assert kind in found["error"]["message"]


async def test_an_overloaded_provider_is_asked_again():
    seen = []

    async def busy(heard: Heard, line: Line) -> None:
        seen.append(heard)
        if len(seen) == 1:
            await line.head(503, "application/json", retry_after="0")
            await line.send('{"error": {"message": "busy"}}')
            await line.end()
        else:
            await upstream(heard, line)

    async with model_server(busy) as server:
        provider = ProviderConfig(api="openai_chat", url=server.url)
        config = Config(log="off", map={"default": "there/m"}, providers={"there": provider})
        async with gateway(config) as (url, _):
            answer, _ = await call(url, "/v1/embeddings", "POST", {"model": "m", "input": "a"})
    assert (answer.status, len(seen)) == (200, 2)


@pytest.mark.parametrize("name", ["nomic-embed-text", "nomic-embed-text:latest"])
async def test_an_ollama_that_only_embeds_is_found_for_that(name):
    show = {"capabilities": ["embedding"], "model_info": {}}
    models = ("nomic-embed-text:latest",)
    async with model_server(peers.ollama(upstream, show=show, models=models)) as server:
        env = {"OLLAMA_HOST": server.url}
        async with gateway(Config(log="off"), env, demo=False) as (url, _), openai_sdk(url) as sdk:
            found = await sdk.embeddings.create(model=name, input=["a", "b"])
            assert [one.embedding for one in found.data] == VECTORS
            chat = {"max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}
            answer, _ = await call(url, "/v1/messages", "POST", {"model": "claude-x", **chat})
            assert answer.headers["x-toolbridge-model"] == "demo/toolbridge-demo"
