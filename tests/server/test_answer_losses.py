"""What an answer loses on its way to a client: said in a header, in the log and in the last event."""

import json
from contextlib import asynccontextmanager

import aiohttp
import openai
import pytest
from google import genai
from google.genai import types
from tests.peers import gateway, model_server, whole
from tests.sdks import SDKS

from toolbridge.config import Config, ModelConfig, ProviderConfig

HEADER = "x-toolbridge-warning"


@asynccontextmanager
async def between(behind: str, body: dict | bytes):
    """Serve a gateway in front of a server of the API `behind` that gives one answer."""

    async def answer(heard, line):
        if heard.method != "POST" or heard.path.startswith("/api/show"):
            await whole(line, {"error": "there is nothing here"}, 404)
        elif isinstance(body, dict):
            await whole(line, body)
        else:
            await line.head(200, "text/event-stream")
            await line.send(body)
            await line.end()

    async with model_server(answer) as server:
        there = ProviderConfig(api=behind, url=server.url, passthrough=False, retries=0)
        config = Config(
            log="json",
            map={"default": "there/m"},
            providers={"there": there},
            models={"there/m": ModelConfig(thinking=True, tools=True, vision=True)},
        )
        async with gateway(config) as (url, app):
            yield url, app


ASKS = {
    "anthropic": (
        "/v1/messages",
        {"max_tokens": 99, "messages": [{"role": "user", "content": "x"}]},
    ),
    "openai_chat": ("/v1/chat/completions", {"messages": [{"role": "user", "content": "x"}]}),
    "openai_responses": ("/v1/responses", {"input": "x"}),
}


async def ask(url: str, api: str, **fields):
    """Return the headers and the text of the answer that a client of `api` gets."""
    path, body = ASKS[api]
    async with (
        aiohttp.ClientSession() as session,
        session.post(url + path, json={"model": "m", **body, **fields}) as answer,
    ):
        return answer.headers, (await answer.read()).decode()


def sse(*frames: dict | bytes) -> bytes:
    datas = (f if isinstance(f, bytes) else json.dumps(f).encode() for f in frames)
    return b"".join(b"data: %b\n\n" % data for data in datas)


def logged(capsys) -> dict:
    """Return the last line of the log."""
    return json.loads(capsys.readouterr().err.strip().split("\n")[-1])


SEARCHED = {
    "id": "resp_1", "object": "response", "status": "completed", "model": "m",
    "output": [
        {"type": "file_search_call", "id": "fs_1", "status": "completed", "queries": ["x"]},
        {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
         "content": [{"type": "output_text", "text": "Found.", "annotations": []}]},
    ],
    "usage": {"input_tokens": 1, "output_tokens": 2},
}  # fmt: skip
SEARCH_LOSS = "answer.file_search_call: only openai_responses has such a part"


async def test_a_whole_answer_says_in_a_header_and_in_the_log_what_it_lost(capsys):
    async with between("openai_responses", SEARCHED) as (url, _):
        headers, text = await ask(url, "anthropic")
    assert json.loads(text)["content"] == [{"type": "text", "text": "Found."}]
    assert headers[HEADER] == SEARCH_LOSS
    assert logged(capsys)["dropped"] == [SEARCH_LOSS]


@pytest.mark.parametrize("api", ["anthropic", "openai_chat"])
async def test_a_stream_says_in_its_last_event_and_in_the_log_what_it_lost(api, capsys):
    async with between("openai_responses", streamed(SEARCHED)) as (url, _):
        _, text = await ask(url, api, stream=True)
    assert text.count(SEARCH_LOSS) == 1
    assert logged(capsys)["dropped"] == [SEARCH_LOSS]
    last = [json.loads(line[6:]) for line in text.split("\n") if SEARCH_LOSS in line]
    assert last[0]["toolbridge"] == {"lost": [SEARCH_LOSS]}


async def test_the_api_that_has_the_part_gets_it_and_loses_nothing(capsys):
    async with between("openai_responses", SEARCHED) as (url, _):
        headers, text = await ask(url, "openai_responses")
    assert json.loads(text)["output"][0] == SEARCHED["output"][0]
    assert HEADER not in headers
    assert "dropped" not in logged(capsys)


def streamed(reply: dict) -> bytes:
    """A reply of the Responses API as its stream."""
    return sse(
        {"type": "response.created", "response": reply | {"status": "in_progress", "output": []}},
        *({"type": "response.output_item.done", "output_index": n, "item": item}
          for n, item in enumerate(reply["output"])),
        {"type": "response.completed", "response": reply},
    )  # fmt: skip


@pytest.mark.parametrize("sdk", SDKS.values(), ids=SDKS)
@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
async def test_every_official_sdk_reads_an_answer_that_lost_something(sdk, stream):
    picture = {
        "type": "image_generation_call",
        "id": "ig_1",
        "status": "completed",
        "result": "AAAA",
    }
    movie = {"type": "hologram_call", "id": "h_1", "status": "completed"}
    reply = SEARCHED | {"output": [movie, picture, *SEARCHED["output"]]}
    async with (
        between("openai_responses", streamed(reply) if stream else reply) as (url, _),
        sdk(url) as talk,
    ):
        said = await talk.ask("x", stream=stream)
    assert said.text.endswith("Found.")
    assert said.stop == "end"


# ── several answers to one request ───────────────────────────────────────────

CALL = {"name": "f", "args": {"a": "1"}}
TWO_CANDIDATES = {
    "candidates": [
        {"content": {"role": "model", "parts": [{"text": "One"}]}, "index": 0, "finishReason": "STOP"},
        {"content": {"role": "model", "parts": [{"text": "Two"}, {"functionCall": CALL}]}, "index": 1,
         "finishReason": "STOP"},
    ],
    "usageMetadata": {"promptTokenCount": 3, "candidatesTokenCount": 4, "totalTokenCount": 7},
}  # fmt: skip
TOOL = {"type": "function", "function": {"name": "f", "parameters": {
    "type": "object", "properties": {"a": {"type": "integer"}}}}}  # fmt: skip


def two_frames() -> bytes:
    """The two candidates, mixed."""
    one, two = TWO_CANDIDATES["candidates"]
    begun = {"content": {"role": "model", "parts": [{"text": "T"}]}, "index": 1}
    rest = two | {"content": {"role": "model", "parts": [{"text": "wo"}, {"functionCall": CALL}]}}
    usage = {"usageMetadata": TWO_CANDIDATES["usageMetadata"]}
    return sse({"candidates": [begun]}, {"candidates": [one]}, {"candidates": [rest], **usage})


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
async def test_a_chat_client_gets_both_answers_of_gemini(stream, capsys):
    async with between("gemini", two_frames() if stream else TWO_CANDIDATES) as (url, _):
        sdk = openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="x", max_retries=0)
        asked = {
            "model": "m",
            "n": 2,
            "messages": [{"role": "user", "content": "x"}],
            "tools": [TOOL],
        }
        if stream:
            async with sdk.chat.completions.stream(**asked) as events:
                async for _ in events:
                    pass
                reply = await events.get_final_completion()
        else:
            reply = await sdk.chat.completions.create(**asked)
        await sdk.close()
    assert [choice.message.content for choice in reply.choices] == ["One", "Two"]
    assert [choice.finish_reason for choice in reply.choices] == ["stop", "tool_calls"]
    [call] = reply.choices[1].message.tool_calls
    assert json.loads(call.function.arguments) == {"a": 1}, "each answer is healed"
    assert "dropped" not in logged(capsys)


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
async def test_a_gemini_client_gets_both_answers_of_a_chat_server(stream):
    def choice(number, text, kind):
        return {
            "index": number,
            kind: {"role": "assistant", "content": text},
            "finish_reason": "stop",
        }

    head = {"id": "c", "model": "m"}
    body = {**head, "choices": [choice(0, "One", "message"), choice(1, "Two", "message")]}
    frames = [
        {**head, "choices": [choice(n, text, "delta")]} for n, text in ((1, "Two"), (0, "One"))
    ]
    async with between("openai_chat", sse(*frames, b"[DONE]") if stream else body) as (url, _):
        options = types.HttpOptions(base_url=url)
        client = genai.Client(api_key="x", http_options=options).aio
        asked = {"model": "m", "contents": "x", "config": {"candidate_count": 2}}
        if stream:
            parts = [part async for part in await client.models.generate_content_stream(**asked)]
        else:
            parts = [await client.models.generate_content(**asked)]
    said: dict[int, str] = {}
    for one in (candidate for part in parts for candidate in part.candidates or ()):
        for piece in one.content.parts or ():
            said[one.index or 0] = said.get(one.index or 0, "") + (piece.text or "")
    assert said == {0: "One", 1: "Two"}


async def test_a_client_without_several_answers_gets_the_first_and_is_told(capsys):
    async with between("gemini", TWO_CANDIDATES) as (url, _):
        headers, text = await ask(url, "anthropic")
    assert json.loads(text)["content"] == [{"type": "text", "text": "One"}]
    assert headers[HEADER] == "answer.choices: anthropic gives one answer to a request"


async def test_a_server_without_several_answers_is_asked_for_one_and_that_is_said():
    reply = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m",
             "content": [{"type": "text", "text": "One"}], "stop_reason": "end_turn",
             "usage": {"input_tokens": 1, "output_tokens": 1}}  # fmt: skip
    async with between("anthropic", reply) as (url, _):
        headers, text = await ask(url, "openai_chat", n=2)
    assert len(json.loads(text)["choices"]) == 1
    assert headers[HEADER].startswith("n: ")


GROUNDED = {
    "candidates": [
        {"index": 0, "finishReason": "STOP", "content": {"role": "model", "parts": [{"text": "Hi"}]},
         "citationMetadata": {"citationSources": [{"endIndex": 2, "uri": "https://c.org/"}]},
         "groundingMetadata": {
             "webSearchQueries": ["q"], "searchEntryPoint": {"renderedContent": "<div>"},
             "groundingChunks": [{"web": {"uri": "https://e.org/", "title": "E"}}],
         },
         "urlContextMetadata": {"urlMetadata": [{"retrievedUrl": "https://e.org/"}]}},
    ],
    "usageMetadata": {"promptTokenCount": 1, "candidatesTokenCount": 2, "totalTokenCount": 3},
}  # fmt: skip


@pytest.mark.parametrize("body", [GROUNDED, sse(GROUNDED)], ids=["whole", "stream"])
async def test_what_geminis_tools_did_is_kept_for_its_sdk_and_said_to_others(body):
    stream = isinstance(body, bytes)
    async with between("gemini", body) as (url, _):
        options = types.HttpOptions(base_url=url)
        async with genai.Client(api_key="x", http_options=options).aio as client:
            asked = {"model": "m", "contents": "x"}
            if stream:
                chunks = [c async for c in await client.models.generate_content_stream(**asked)]
                found = chunks[-1].candidates[0]
            else:
                found = (await client.models.generate_content(**asked)).candidates[0]
        headers, text = await ask(url, "openai_chat", stream=stream)
    assert found.citation_metadata.citations[0].uri == "https://c.org/"
    assert found.grounding_metadata.web_search_queries == ["q"]
    assert found.grounding_metadata.grounding_chunks[0].web.uri == "https://e.org/"
    assert found.url_context_metadata.url_metadata[0].retrieved_url == "https://e.org/"
    # Chat Completions has citations; that a search and a fetch were run is in the log.
    assert "https://c.org/" in text
    assert HEADER not in headers
    assert '"lost"' not in text
