"""A provider that rejects parameters: the request is corrected, the correction is reported and kept."""

import json
import time
from contextlib import asynccontextmanager

import aiohttp
import pytest
from tests.peers import gateway, model_server, whole

from toolbridge.config import Config, ProviderConfig
from toolbridge.routing import learned_corrections

SAID = "fine"
CHAT_ANSWER = {
    "id": "c1", "object": "chat.completion", "created": 1, "model": "m",
    "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": SAID}}],
    "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5},
}  # fmt: skip
ANSWERS = {
    "openai_chat": CHAT_ANSWER,
    "anthropic": {
        "id": "msg_1", "type": "message", "role": "assistant", "model": "m", "stop_reason": "end_turn",
        "content": [{"type": "text", "text": SAID}], "usage": {"input_tokens": 1, "output_tokens": 1},
    },
    "gemini": {"candidates": [{"content": {"role": "model", "parts": [{"text": SAID}]},
                               "finishReason": "STOP"}]},
    "openai_responses": {
        "id": "resp_1", "object": "response", "status": "completed", "model": "m",
        "output": [{"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
                    "content": [{"type": "output_text", "text": SAID, "annotations": []}]}],
        "usage": {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2},
    },
    "ollama": {"model": "m", "message": {"role": "assistant", "content": SAID}, "done": True,
               "done_reason": "stop"},
}  # fmt: skip
HI = [{"role": "user", "content": "hi"}]
CLIENTS = {
    "anthropic": ("/v1/messages", {"model": "x", "max_tokens": 99, "messages": HI, "temperature": 0.5,
                                   "top_p": 0.9, "stop_sequences": ["END"]}),
    "openai_chat": ("/v1/chat/completions", {"model": "x", "max_tokens": 99, "messages": HI,
                                             "temperature": 0.5, "top_p": 0.9, "stop": ["END"]}),
    "openai_responses": ("/v1/responses", {"model": "x", "max_output_tokens": 99, "input": "hi",
                                           "temperature": 0.5, "top_p": 0.9}),
    "gemini": ("/v1beta/models/x:generateContent",
               {"contents": [{"role": "user", "parts": [{"text": "hi"}]}],
                "generationConfig": {"temperature": 0.5, "topP": 0.9, "maxOutputTokens": 99}}),
    "ollama": ("/api/chat", {"model": "x", "messages": HI,
                             "options": {"temperature": 0.5, "top_p": 0.9, "num_predict": 99}}),
}  # fmt: skip
REFUSED = {
    "max_tokens": "Unsupported parameter: 'max_tokens' is not supported with this model. Use "
    "'max_completion_tokens' instead.",
    "temperature": "Unsupported value: 'temperature' does not support 0.5 with this model. Only the "
    "default (1) value is supported.",
    "top_p": "Extra inputs are not permitted, field: 'top_p', value: 0.9",
    "stop": "Model m does not support parameter stop.",
    "stream_options": "Unrecognized request argument supplied: stream_options",
}


def error(text: str, api: str = "openai_chat") -> dict | list:
    """Return an error body as the vendor of `api` writes it."""
    if api == "anthropic":
        return {"type": "error", "error": {"type": "invalid_request_error", "message": text}}
    if api == "gemini":
        return {"error": {"code": 400, "message": text, "status": "INVALID_ARGUMENT"}}
    if api == "ollama":
        return {"error": text}
    return {
        "error": {"message": text, "type": "invalid_request_error", "param": None, "code": None}
    }


def picky(refused: dict[str, str], status: int = 400):
    """Return a server of Chat Completions that rejects one parameter after another."""

    async def answer(heard, line):
        body = heard.json
        wrong = next((name for name in refused if name in body), None)
        if wrong is not None:
            await whole(line, error(refused[wrong]), status)
        elif body.get("stream"):
            await line.head(200, "text/event-stream")
            chunk = {"id": "c", "model": "m", "choices": [{"index": 0, "delta": {"content": SAID}}]}
            end = {"id": "c", "model": "m", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}  # fmt: skip
            await line.send(
                f"data: {json.dumps(chunk)}\n\ndata: {json.dumps(end)}\n\ndata: [DONE]\n\n"
            )
            await line.end()
        else:
            await whole(line, CHAT_ANSWER)

    return answer


@asynccontextmanager
async def asked_server(answer):
    """Serve `answer` to requests for an answer; questions about models are a 404, and not counted."""

    async def posts(heard, line):
        if heard.method == "GET" and not heard.path.startswith("/api/"):
            server.heard.remove(heard)
            await whole(line, {}, 404)
        else:
            await answer(heard, line)

    async with model_server(posts) as server:
        yield server


@asynccontextmanager
async def in_front_of(answer, api: str = "openai_chat", env=None, **place):
    async with asked_server(answer) as server:
        provider = ProviderConfig(api=api, url=server.url, key="sk-of-the-gateway", **place)
        config = Config(log="off", map={"default": "there/m"}, providers={"there": provider})
        async with gateway(config, env) as (url, app):
            yield url, server, app


async def ask(url: str, client: str, *, stream: bool = False, **more):
    path, body = CLIENTS[client]
    if client == "gemini":
        path = (
            path.replace(":generateContent", ":streamGenerateContent?alt=sse") if stream else path
        )
    else:
        body = body | {"stream": stream}
    async with (
        aiohttp.ClientSession() as session,
        session.post(url + path, json=body | more) as reply,
    ):
        return reply, await reply.text()


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("client", sorted(CLIENTS))
async def test_one_parameter_after_another(client, stream):
    async with in_front_of(picky(REFUSED)) as (url, server, _):
        reply, text = await ask(url, client, stream=stream)
        assert (reply.status, SAID in text) == (200, True)
        first = len(server.heard)
        assert first > 3
        shown = reply.headers["x-toolbridge-warning"]
        for name in REFUSED:
            if any(name in heard.json for heard in server.heard):
                assert shown.count(f"{name}: there/m") == 1, (name, shown)
        sent = server.heard[-1].json
        assert not set(REFUSED) & set(sent)
        assert sent["max_completion_tokens"] == 99
        again, text = await ask(url, client, stream=stream)
        assert SAID in text
        assert len(server.heard) == first + 1, "the next request is right at once"
        assert server.heard[-1].json == sent
        assert again.headers["x-toolbridge-warning"] == shown


async def test_corrections_survive_a_restart(tmp_path):
    env = {"XDG_STATE_HOME": str(tmp_path)}
    async with asked_server(picky(REFUSED)) as server:
        provider = ProviderConfig(api="openai_chat", url=server.url)
        config = Config(log="off", map={"default": "there/m"}, providers={"there": provider})

        async def count() -> int:
            before = len(server.heard)
            async with gateway(config, env) as (url, _):
                reply, text = await ask(url, "anthropic")
                assert SAID in text
                assert "temperature" in reply.headers["x-toolbridge-warning"]
            return len(server.heard) - before

        assert await count() == 5
        assert await count() == 1
    assert b"temperature" in (tmp_path / "toolbridge" / "toolbridge.sqlite").read_bytes()


@pytest.mark.parametrize("api", sorted(ANSWERS))
async def test_every_api_of_a_provider(api):
    async def answer(heard, line):
        sent = heard.json if heard.body else {}
        if heard.path == "/api/show":
            await whole(line, {"capabilities": ["completion"], "model_info": {}})
        elif heard.path == "/api/tags":
            await whole(line, {"models": [{"name": "m"}]})
        elif '"temperature"' in json.dumps(sent):
            await whole(line, error("The parameter `temperature` is not supported.", api), 400)
        else:
            await whole(line, ANSWERS[api])

    async with in_front_of(answer, api) as (url, server, _):
        client = "anthropic" if api != "anthropic" else "openai_chat"
        reply, text = await ask(url, client)
        assert SAID in text
        assert "temperature: there/m rejects it" in reply.headers["x-toolbridge-warning"]
        before = len(server.heard)
        await ask(url, client)
        assert len(server.heard) == before + 1


async def test_a_correction_that_does_not_help_is_not_kept():
    async def answer(heard, line):
        if "temperature" in heard.json:
            await whole(line, error("Unsupported parameter: 'temperature'"), 400)
        else:
            await whole(line, error("no such deployment"), 400)

    async with in_front_of(answer) as (url, server, app):
        reply, text = await ask(url, "anthropic")
        assert (reply.status, "no such deployment" in text) == (400, True)
        assert len(server.heard) == 2
        await ask(url, "anthropic")
        assert len(server.heard) == 4
        assert "temperature" in server.heard[2].json
        assert app.gateway.router.sources.corrections._known == {}


async def test_a_rejection_as_the_first_event_of_a_stream_is_corrected_and_not_taken_for_an_answer():
    async def answer(heard, line):
        wrong = "temperature" in heard.json
        text = "Unsupported parameter: 'temperature'" if wrong else "no such deployment"
        await line.head(200, "text/event-stream")
        await line.send(f"data: {json.dumps({'error': {'code': 400, 'message': text}})}\n\n")
        await line.end()

    async with in_front_of(answer) as (url, server, app):
        _, text = await ask(url, "anthropic", stream=True)
        assert "no such deployment" in text
        assert len(server.heard) == 2
        assert app.gateway.router.sources.corrections._known == {}


async def test_a_correction_is_tried_without_after_a_week(monkeypatch):
    async with in_front_of(picky(REFUSED)) as (url, server, _):
        await ask(url, "anthropic")
        await ask(url, "anthropic")
        assert len(server.heard) == 6
        later = time.time() + learned_corrections.LASTING + 1
        monkeypatch.setattr(learned_corrections.time, "time", lambda: later)
        await ask(url, "anthropic")
        assert len(server.heard) == 11


async def test_corrections_of_one_request_are_bounded():
    async def answer(heard, line):
        name = next((n for n in heard.json if n.startswith("extra")), "temperature")
        await whole(line, error(f"Unknown parameter: '{name}'."), 400)

    extra = {f"extra_{number}": number for number in range(30)}
    async with in_front_of(answer) as (url, server, _):
        reply, _ = await ask(url, "openai_chat", **extra)
        assert reply.status == 400
        assert len(server.heard) == 9


async def test_more_refusals_than_one_request_may_find_are_found_by_the_next_ones():
    refused = {f"extra_{number}": f"Unknown parameter: 'extra_{number}'." for number in range(20)}
    async with in_front_of(picky(refused), passthrough=True) as (url, server, _):
        for status, requests in ((400, 9), (400, 9), (200, 5), (200, 1)):
            server.heard.clear()
            reply, _ = await ask(url, "openai_chat", **dict.fromkeys(refused, 1))
            assert (reply.status, len(server.heard)) == (status, requests)


async def test_of_a_request_that_fails_only_the_corrections_that_changed_the_rejection_are_kept():
    async def answer(heard, line):
        wrong = next((name for name in ("temperature", "top_p") if name in heard.json), None)
        text = f"Unsupported parameter: '{wrong}'" if wrong else "no such deployment"
        await whole(line, error(text), 400)

    async with in_front_of(answer) as (url, server, _):
        for names in (["temperature", "top_p", None], ["top_p", None]):
            server.heard.clear()
            assert (await ask(url, "anthropic"))[0].status == 400
            asked = [heard.json for heard in server.heard]
            assert [next((n for n in ("temperature", "top_p") if n in one), None) for one in asked] == names  # fmt: skip


async def test_a_rejection_that_stays_the_same_confirms_no_correction():
    text = "Unknown parameter: 'temperature'. Model m does not support parameter top_p."

    async def answer(_, line):
        await whole(line, error(text), 400)

    async with in_front_of(answer) as (url, server, app):
        reply, _ = await ask(url, "anthropic")
        assert (reply.status, len(server.heard)) == (400, 3)
        assert app.gateway.router.sources.corrections._known == {}


async def test_the_same_text_again_is_not_corrected_again():
    async def answer(_, line):
        await whole(line, error("Unsupported parameter: 'temperature'"), 400)

    async with in_front_of(answer) as (url, server, _):
        reply, _ = await ask(url, "anthropic")
        assert reply.status == 400
        assert len(server.heard) == 2


async def test_the_provider_behind_openrouter_is_read():
    async def answer(heard, line):
        if "temperature" not in heard.json:
            await whole(line, CHAT_ANSWER)
            return
        raw = json.dumps(error("Unsupported parameter: 'temperature' is not supported"))
        metadata = {"raw": raw, "provider_name": "Azure"}
        wrapped = {"message": "Provider returned error", "code": 400, "metadata": metadata}
        await whole(line, {"error": wrapped}, 400)

    async with in_front_of(answer) as (url, server, _):
        reply, text = await ask(url, "anthropic")
        assert SAID in text
        assert "temperature" in reply.headers["x-toolbridge-warning"]
        assert len(server.heard) == 2


async def test_a_list_of_faults_is_corrected_at_once():
    async def answer(heard, line):
        wrong = [name for name in ("temperature", "top_p") if name in heard.json]
        faults = [
            {"type": "extra_forbidden", "loc": ["body", n], "msg": "Extra inputs are not permitted"}
            for n in wrong
        ]
        await whole(line, {"detail": faults} if wrong else CHAT_ANSWER, 422 if wrong else 200)

    async with in_front_of(answer) as (url, server, _):
        reply, text = await ask(url, "anthropic")
        assert SAID in text
        assert len(server.heard) == 2
        assert "temperature: " in reply.headers["x-toolbridge-warning"]
        assert "top_p: " in reply.headers["x-toolbridge-warning"]


async def test_in_passthrough_all_other_members_keep_their_bytes():
    odd = (
        b'{"model": "x", "max_tokens":  90, "temperature": 0.5, "brand_new": {"a":  1.0},'
        b' "messages": [{"role":"user","content":"caf\\u00e9 \\/"}]}'
    )

    async def answer(heard, line):
        wrong = next((n for n in ("temperature", "max_tokens") if n in heard.json), None)
        await whole(line, error(REFUSED[wrong]) if wrong else CHAT_ANSWER, 400 if wrong else 200)

    async with (
        in_front_of(answer, passthrough=True) as (url, server, _),
        aiohttp.ClientSession() as session,
    ):
        for _ in range(2):
            async with session.post(f"{url}/v1/chat/completions", data=odd) as reply:
                assert json.loads(await reply.read()) == CHAT_ANSWER
                shown = reply.headers["x-toolbridge-warning"]
                assert "max_tokens: there/m rejects it; it was sent as max_compl" in shown
    assert len(server.heard) == 4
    sent = server.heard[-1].body
    assert b'"messages":[{"role":"user","content":"caf\\u00e9 \\/"}]' in sent
    assert b'"brand_new":{"a":  1.0}' in sent
    assert b'"max_completion_tokens":90' in sent
    assert b"temperature" not in sent
    assert json.loads(server.heard[0].body)["temperature"] == 0.5


ONLY_RESPONSES = "This model is only supported in v1/responses and not in v1/chat/completions."


@pytest.mark.parametrize("passthrough", [False, True])
@pytest.mark.parametrize("stream", [False, True])
async def test_a_model_that_needs_the_other_api(stream, passthrough):
    async def answer(heard, line):
        if heard.path.endswith("/chat/completions"):
            await whole(line, error(ONLY_RESPONSES), 404)
        else:
            await whole(line, ANSWERS["openai_responses"])

    place = {"passthrough": passthrough, "quirks": {"max_tokens_field": "max_completion_tokens"}}
    async with in_front_of(answer, **place) as (url, server, _):
        reply, text = await ask(url, "openai_chat", stream=stream)
        assert SAID in text
        assert "api = 'openai_responses'" in reply.headers["x-toolbridge-warning"]
        before = len(server.heard)
        reply, text = await ask(url, "openai_chat", stream=stream)
        assert SAID in text
        assert [heard.path for heard in server.heard[before:]] == ["/v1/responses"]
        assert "api = 'openai_responses'" in reply.headers["x-toolbridge-warning"]


async def test_a_provider_without_the_other_api_gets_tools_without_thinking():
    text = (
        "Function tools with reasoning_effort are not supported for m in /v1/chat/completions. To use "
        "function tools, use /v1/responses or set reasoning_effort to 'none'."
    )

    async def answer(heard, line):
        if heard.path.endswith("/responses"):
            await whole(line, {"detail": "Not Found"}, 404)
        elif heard.json.get("reasoning_effort") != "none":
            await whole(line, error(text), 400)
        else:
            await whole(line, CHAT_ANSWER)

    tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
    async with in_front_of(answer) as (url, server, _):
        more = {"tools": [tool], "reasoning_effort": "high"}
        reply, said = await ask(url, "openai_chat", **more)
        assert SAID in said
        assert "reasoning_effort: " in reply.headers["x-toolbridge-warning"]
        before = len(server.heard)
        await ask(url, "openai_chat", **more)
        assert len(server.heard) == before + 1


QUOTA = {
    "openai_chat": {"error": {"message": "You exceeded your current quota", "type": "insufficient_quota",
                              "code": "insufficient_quota"}},
    "openai_responses": {"error": {"message": "You exceeded your current quota",
                                   "type": "insufficient_quota", "code": "insufficient_quota"}},
    "anthropic": {"type": "error", "error": {"type": "rate_limit_error",
                                             "message": "Your credit balance is too low"}},
    "gemini": {"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "You exceeded your quota",
                         "details": [{"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [
                             {"quotaId": "GenerateRequestsPerDayPerProjectPerModel-FreeTier"}]}]}},
    "ollama": {"error": "you've reached your weekly usage limit, please upgrade to continue"},
}  # fmt: skip


@pytest.mark.parametrize("stream", [False, True])
async def test_a_stop_sequence_that_is_rejected_still_ends_the_answer(stream):
    async with in_front_of(picky({"stop": REFUSED["stop"]})) as (url, server, _):
        for _ in range(2):
            reply, text = await ask(url, "openai_chat", stream=stream, stop=[SAID[2:]])
            assert reply.status == 200
            assert SAID not in text
            assert SAID[:2] in text
            assert "the answer is searched for it" in reply.headers["x-toolbridge-warning"]
        assert ["stop" in heard.json for heard in server.heard] == [True, False, False]


@pytest.mark.parametrize("client", sorted(CLIENTS))
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("api", ["openai_chat", "openai_responses"])
async def test_an_account_without_credit_is_asked_once_also_if_a_stream_says_so(
    api, client, stream
):
    error = QUOTA[api]["error"]
    event = {"error": error} if api == "openai_chat" else {"type": "error", "error": error}

    async def answer(heard, line):
        if heard.json.get("stream"):
            await line.head(200, "text/event-stream")
            await line.send(f"event: error\ndata: {json.dumps(event)}\n\n")
            await line.end()
        else:
            await whole(line, QUOTA[api], 429)

    async with in_front_of(answer, api) as (url, server, _):
        reply, _ = await ask(url, client, stream=stream)
        assert reply.status == 429
        assert reply.headers["x-should-retry"] == "false"
        assert len(server.heard) == 1


@pytest.mark.parametrize("client", sorted(CLIENTS))
@pytest.mark.parametrize("api", sorted(QUOTA))
async def test_an_account_without_credit_is_asked_once(api, client):
    async def answer(heard, line):
        if heard.path in {"/api/show", "/api/tags"}:
            await whole(line, {"models": [{"name": "m"}]})
        else:
            await whole(line, QUOTA[api], 429)

    async with in_front_of(answer, api) as (url, server, _):
        reply, _ = await ask(url, client)
        assert reply.status == 429
        assert reply.headers["x-should-retry"] == "false"
        assert len([h for h in server.heard if h.path not in {"/api/show", "/api/tags"}]) == 1
