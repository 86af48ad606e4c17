"""The same API on both sides, as users of the official SDKs meet it: by default and passed through.

`default` is a provider of the user's own with nothing set; `passthrough` forwards the provider's
own bytes, watched. A promise holds on both.
"""

import json
from contextlib import asynccontextmanager

import aiohttp
import anthropic
import ollama
import openai
import pytest
from google.genai import errors as genai
from tests.peers import gateway, model_server, whole
from tests.sdk_clients import upstreams
from tests.sdks import SDKS, Tool

from toolbridge.config import Config, ModelConfig, ProviderConfig

KEY = "sk-upstream-0123456789"
ERRORS = (anthropic.APIError, openai.APIError, genai.APIError, ollama.ResponseError)

every_api = pytest.mark.parametrize("api", upstreams.APIS)
both_paths = pytest.mark.parametrize(
    "settings", [{}, {"passthrough": True}], ids=["default", "passthrough"]
)
both_ways = pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])


@asynccontextmanager
async def bridged(api: str, answer, **settings):
    """Serve a gateway in front of a provider of `api`; yield its URL and the provider."""

    async def serve(heard, line):
        if heard.method == "POST" and not heard.path.startswith("/api/show"):
            await answer(heard, line)
        else:
            await whole(line, {"error": "there is nothing here"}, 404)

    async with model_server(serve) as server:
        there = ProviderConfig(api=api, url=server.url, key=KEY, **settings)
        config = Config(
            log="json",
            map={"default": "there/m"},
            providers={"there": there},
            models={"there/m": ModelConfig(thinking=True, tools=True, vision=True)},
        )
        async with gateway(config) as (url, _):
            yield url, server


def sending(body: bytes, *, kind: str, status: int = 200, **headers: str):
    async def answer(_, line):
        await line.head(status, kind, **headers)
        await line.send(body)
        await line.end()

    return answer


def chats(server) -> list:
    return [h for h in server.heard if h.method == "POST" and not h.path.startswith("/api/show")]


@every_api
@both_paths
async def test_a_stream_that_ends_without_a_finish_raises(api, settings):
    body = upstreams.ANSWERS[api](stream=True)
    half = body[: body.index(upstreams.TEXT.encode()) + len(upstreams.TEXT) + 20]
    at = half.rindex(b"\n") + 1 if api == "ollama" else half.rindex(b"\n\n") + 2
    answer = sending(half[:at], kind=upstreams.kind(api, stream=True))
    async with bridged(api, answer, retries=0, **settings) as (url, _), SDKS[api](url) as talk:
        with pytest.raises(ERRORS):
            await talk.ask("please", stream=True)


@every_api
@both_paths
async def test_half_a_body_raises_with_status_502(api, settings):
    body = upstreams.ANSWERS[api](stream=False)
    answer = sending(body[: len(body) // 2], kind="application/json")
    async with bridged(api, answer, retries=0, **settings) as (url, _), SDKS[api](url) as talk:
        with pytest.raises(ERRORS) as caught:
            await talk.ask("please", stream=False)
    found = getattr(caught.value, "status_code", 0) or getattr(caught.value, "code", 0)
    assert found == 502


@every_api
@both_paths
@both_ways
async def test_a_web_page_with_status_200_is_an_error(api, settings, stream):
    page = sending(b"<!doctype html><h1>Sign in</h1>", kind="text/html")
    async with bridged(api, page, retries=0, **settings) as (url, _), SDKS[api](url) as talk:
        with pytest.raises(ERRORS, match="Sign in") as caught:
            await talk.ask("please", stream=stream)
    found = getattr(caught.value, "status_code", 0) or getattr(caught.value, "code", 0)
    assert found == 502


@every_api
@both_paths
@both_ways
async def test_an_error_in_a_body_with_status_200_is_an_error(api, settings, stream):
    error = json.dumps(upstreams._ERRORS[api](500, "the model is gone")).encode()
    answer = sending(error, kind="application/json")
    async with bridged(api, answer, retries=0, **settings) as (url, _), SDKS[api](url) as talk:
        with pytest.raises(ERRORS, match="the model is gone"):
            await talk.ask("please", stream=stream)


@every_api
@both_paths
@both_ways
async def test_a_dropped_connection_is_asked_again(api, settings, stream):
    good = upstreams.answering(api)
    left = iter([True])

    async def answer(heard, line):
        if next(left, False):
            line.cut()
        else:
            await good(heard, line)

    async with (
        bridged(api, answer, **settings) as (url, server),
        SDKS[api](url, tools=(Tool(),), think=True) as talk,
    ):
        said = await talk.ask("please", stream=stream)
    assert (said.text, said.calls) == (upstreams.TEXT, upstreams.CALLS)
    assert len(chats(server)) == 2


@every_api
@both_paths
async def test_a_stream_that_breaks_before_its_content_is_asked_again(api, settings):
    body = upstreams.ANSWERS[api](stream=True)
    good = upstreams.answering(api)
    left = iter([True])

    async def answer(heard, line):
        if next(left, False):
            await line.head(200, upstreams.kind(api, stream=True))
            await line.send(body[:40])
            line.cut()
        else:
            await good(heard, line)

    async with bridged(api, answer, **settings) as (url, _), SDKS[api](url) as talk:
        said = await talk.ask("please", stream=True)
    assert said.text == upstreams.TEXT


@every_api
@both_paths
@both_ways
async def test_a_key_that_the_provider_echoes_is_shown_to_nobody(api, settings, stream, capsys):
    error = json.dumps(upstreams._ERRORS[api](401, f"bad key {KEY}")).encode()
    answer = sending(error, kind="application/json", status=401, x_ratelimit_key=KEY)
    async with bridged(api, answer, **settings) as (url, _), SDKS[api](url) as talk:
        with pytest.raises(ERRORS) as caught:
            await talk.ask("please", stream=stream)
    assert KEY not in str(caught.value)
    assert "bad key [key]" in str(caught.value)
    response = getattr(caught.value, "response", None)
    assert KEY not in str(getattr(response, "headers", ""))
    shown = capsys.readouterr()
    assert KEY not in shown.err + shown.out


@every_api
@both_paths
@both_ways
async def test_a_key_inside_an_answer_is_masked_wherever_the_network_cuts(api, settings, stream):
    body = upstreams.ANSWERS[api](stream=stream).replace(upstreams.TEXT.encode(), KEY.encode())

    async def answer(_, line):
        await line.head(200, upstreams.kind(api, stream=stream))
        at = body.index(KEY.encode()) + 9
        await line.send(body[:at])
        await line.send(body[at:])
        await line.end()

    async with bridged(api, answer, **settings) as (url, _), SDKS[api](url) as talk:
        said = await talk.ask("please", stream=stream)
    assert said.text == "[key]"


@pytest.mark.parametrize("sdk", ["anthropic", "openai_chat", "openai_responses"])
async def test_a_call_written_as_text_arrives_as_a_call(sdk):
    """qwen-code, pi and Cline speak Chat Completions to local engines, which write calls as text."""
    text = '<tool_call>{"name": "get_weather", "arguments": {"city": "Berlin"}}</tool_call>'
    body = upstreams.ANSWERS[sdk](stream=True).replace(
        json.dumps(upstreams.TEXT).encode(), json.dumps(text).encode()
    )
    answer = sending(body, kind="text/event-stream")
    async with bridged(sdk, answer) as (url, _), SDKS[sdk](url, tools=(Tool(),)) as talk:
        said = await talk.ask("please", stream=True)
    assert ("get_weather", {"city": "Berlin"}) in said.calls
    assert "<tool_call>" not in said.text


# ── nothing is lost by default ───────────────────────────────────────────────

HEAD = {"id": "gen-abc", "created": 1763200001, "model": "m", "system_fingerprint": "fp_1",
        "service_tier": "default"}  # fmt: skip
USAGE = {
    "prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15, "cost": 0.25,
    "prompt_tokens_details": {"cached_tokens": 3, "audio_tokens": 1},
    "completion_tokens_details": {"reasoning_tokens": 2, "accepted_prediction_tokens": 1},
}  # fmt: skip


def _chat_chunks() -> bytes:
    deltas = [{"role": "assistant", "content": ""}, {"reasoning": "Hm."}, {"content": "Hi"}]
    chunks = [
        {**HEAD, "object": "chat.completion.chunk",
         "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
        for delta in deltas
    ]  # fmt: skip
    end = {"index": 0, "delta": {}, "finish_reason": "stop"}
    chunks += [
        {**HEAD, "object": "chat.completion.chunk", "choices": [end]},
        {**HEAD, "object": "chat.completion.chunk", "choices": [], "usage": USAGE},
    ]
    return "".join(f"data: {json.dumps(c)}\n\n" for c in chunks).encode() + b"data: [DONE]\n\n"


def _check_head(found) -> None:
    assert (found.id, found.created) == ("gen-abc", 1763200001)
    assert (found.system_fingerprint, found.service_tier) == ("fp_1", "default")


def _check_usage(found) -> None:
    assert found.completion_tokens_details.accepted_prediction_tokens == 1
    assert found.completion_tokens_details.reasoning_tokens == 2
    assert found.prompt_tokens_details.audio_tokens == 1
    assert found.cost == 0.25


async def test_a_chat_stream_keeps_its_envelope_counts_and_names():
    answer = sending(_chat_chunks(), kind="text/event-stream")
    async with bridged("openai_chat", answer) as (url, _):
        client = openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="x", max_retries=0)
        stream = await client.chat.completions.create(
            model="m", messages=[{"role": "user", "content": "hi"}], stream=True,
            stream_options={"include_usage": True},
        )  # fmt: skip
        chunks = [chunk async for chunk in stream]
        await client.close()
    for chunk in chunks:
        _check_head(chunk)
    thoughts = [c.choices[0].delta.model_extra for c in chunks if c.choices]
    assert [t["reasoning"] for t in thoughts if "reasoning" in t] == ["Hm."]
    assert not [t for t in thoughts if "reasoning_content" in t]
    _check_usage(chunks[-1].usage)


async def test_a_chat_body_keeps_its_envelope_counts_and_names():
    message = {"role": "assistant", "content": "Hi", "reasoning": "Hm."}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    body = {**HEAD, "object": "chat.completion", "choices": [choice], "usage": USAGE}
    answer = sending(json.dumps(body).encode(), kind="application/json")
    async with bridged("openai_chat", answer) as (url, _):
        client = openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="x", max_retries=0)
        found = await client.chat.completions.create(
            model="m", messages=[{"role": "user", "content": "hi"}]
        )
        await client.close()
    _check_head(found)
    assert found.choices[0].message.model_extra["reasoning"] == "Hm."
    _check_usage(found.usage)


@both_paths
async def test_a_signature_of_a_thought_comes_and_goes_untouched(settings):
    answer = sending(upstreams.ANSWERS["anthropic"](stream=True), kind="text/event-stream")
    async with (
        bridged("anthropic", answer, **settings) as (url, server),
        SDKS["anthropic"](url, tools=(Tool(),), think=True) as talk,
    ):
        await talk.ask("please", stream=True)
        await talk.answer("snow", "sun", stream=True)
    again = chats(server)[1].json["messages"][1]["content"]
    assert [b["signature"] for b in again if b["type"] == "thinking"] == ["c2VhbA=="]


# ── headers ──────────────────────────────────────────────────────────────────

SENT = {
    "anthropic": {"anthropic-beta": "new-thing-2026", "anthropic-version": "2099-01-01"},
    "openai_chat": {"openai-beta": "new-thing"},
    "openai_responses": {"openai-beta": "new-thing"},
    "gemini": {"x-goog-request-params": "a=b"},
}
RETURNED = {
    "anthropic": {"anthropic-ratelimit-requests-remaining": "7", "request-id": "req_up"},
    "openai_chat": {"x-ratelimit-remaining-requests": "7", "x-request-id": "req_up"},
    "openai_responses": {"openai-processing-ms": "7", "x-request-id": "req_up"},
    "gemini": {"x-ratelimit-remaining": "7", "x-request-id": "req_up"},
}
PATHS = {
    "anthropic": "/v1/messages",
    "openai_chat": "/v1/chat/completions",
    "openai_responses": "/v1/responses",
    "gemini": "/v1beta/models/m:generateContent",
}
BODIES = {
    "anthropic": {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]},
    "openai_chat": {"model": "m", "messages": [{"role": "user", "content": "hi"}]},
    "openai_responses": {"model": "m", "input": "hi"},
    "gemini": {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]},
}
PRIVATE = {
    "x-api-key": "client-key-123", "authorization": "Bearer client-key-123",
    "x-goog-api-key": "client-key-123", "cookie": "a=client-key-123", "x-stainless-lang": "python",
}  # fmt: skip


async def _post(url: str, api: str, headers: dict[str, str]):
    async with (
        aiohttp.ClientSession() as session,
        session.post(url + PATHS[api], json=BODIES[api], headers=headers) as reply,
    ):
        return reply, await reply.read()


@pytest.mark.parametrize("api", list(SENT))
@both_paths
async def test_headers_of_the_api_go_both_ways_and_no_others(api, settings):
    answer = sending(
        upstreams.ANSWERS[api](stream=False),
        kind="application/json",
        **{k.replace("-", "_"): v for k, v in RETURNED[api].items()},
        set_cookie="a=b",
    )
    async with bridged(api, answer, **settings) as (url, server):
        reply, _ = await _post(url, api, SENT[api] | PRIVATE)
    heard = chats(server)[0].headers
    for name, value in SENT[api].items():
        assert value in heard[name].split(",")
    assert "client-key-123" not in str(heard)
    assert "x-stainless-lang" not in heard
    assert reply.status == 200
    for name, value in RETURNED[api].items():
        shown = "x-toolbridge-upstream-request-id" if "request-id" in name else name
        assert reply.headers[shown] == value
    assert reply.headers["request-id"].startswith("req_")
    assert "set-cookie" not in reply.headers


async def test_another_api_gets_no_headers_of_the_clients():
    answer = sending(upstreams.ANSWERS["openai_chat"](stream=False), kind="application/json")
    async with bridged("openai_chat", answer) as (url, server):
        reply, _ = await _post(url, "anthropic", SENT["anthropic"])
    assert reply.status == 200
    assert not [name for name in chats(server)[0].headers if name.startswith("anthropic-")]


# ── Claude Code's billing line ───────────────────────────────────────────────

LINE = "x-anthropic-billing-header: cc_version=2.1.325.abc; cc_entrypoint=cli;"


@both_paths
async def test_the_billing_line_is_kept_from_providers_that_are_not_anthropic(settings):
    answer = sending(upstreams.ANSWERS["anthropic"](stream=False), kind="application/json")
    asked = BODIES["anthropic"] | {
        "system": [
            {"type": "text", "text": LINE},
            {
                "type": "text",
                "text": "You are Claude Code.",
                "cache_control": {"type": "ephemeral"},
            },
        ]
    }
    async with (
        bridged("anthropic", answer, **settings) as (url, server),
        aiohttp.ClientSession() as session,
        session.post(url + "/v1/messages", json=asked) as reply,
    ):
        assert reply.status == 200
    assert chats(server)[0].json["system"] == asked["system"][1:]
