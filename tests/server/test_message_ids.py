"""Ids of answers: unique, whatever the upstream calls them, and one inside one answer."""

import json
import re

import aiohttp
import pytest
from tests.peers import bridged, gateway, line_of, model_server, replay, whole

from toolbridge.config import Config, ProviderConfig

PROMPT = [{"role": "user", "content": "x"}]
ASKS = {
    "anthropic": ("/v1/messages", {"model": "m", "max_tokens": 9, "messages": PROMPT}),
    "openai_chat": ("/v1/chat/completions", {"model": "m", "messages": PROMPT}),
    "openai_responses": ("/v1/responses", {"model": "m", "input": "x"}),
    "gemini": (
        "/v1beta/models/m:generateContent",
        {"contents": [{"role": "user", "parts": [{"text": "x"}]}]},
    ),
}
IDS = {
    "anthropic": r'"id":"(msg_[^"]+)"',
    "openai_chat": r'"id":"([^"]+)"',
    "openai_responses": r'"id":"(resp_[^"]+)"',
    "gemini": r'"responseId":"([^"]+)"',
}


async def constant(heard, line):
    """Answer as llama.cpp's older servers did: every answer has one id."""
    if not heard.json.get("stream"):
        message = {"role": "assistant", "content": "hello"}
        choice = {"index": 0, "finish_reason": "stop", "message": message}
        await whole(line, {"id": "chatcmpl-x", "model": "m", "choices": [choice]})
        return
    await line.head(200, "text/event-stream")
    for delta, reason in [({"content": "hel"}, None), ({"content": "lo"}, None), ({}, "stop")]:
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        await line.send(f"data: {json.dumps({'id': 'chatcmpl-x', 'choices': [choice]})}\n\n")
    await line.send("data: [DONE]\n\n")
    await line.end()


async def ids_of(url: str, api: str, *, stream: bool) -> set[str]:
    path, body = ASKS[api]
    if api == "gemini":
        path = path.replace(":g", ":streamG") + "?alt=sse" if stream else path
    else:
        body = body | {"stream": stream}
    async with aiohttp.ClientSession() as session, session.post(url + path, json=body) as answer:
        text = await answer.text()
        assert answer.status == 200, text
    return set(re.findall(IDS[api], text))


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("api", ASKS)
async def test_every_answer_has_an_id_of_its_own(api, stream):
    async with model_server(constant) as server:
        place = ProviderConfig(api="openai_chat", url=server.url, passthrough=False)
        config = Config(log="off", map={"default": "up/m"}, providers={"up": place})
        async with gateway(config) as (url, _):
            seen = [await ids_of(url, api, stream=stream) for _ in range(3)]
    assert all(len(ids) == 1 for ids in seen), seen
    assert len(set().union(*seen)) == 3


async def test_an_ollama_names_no_answer_and_each_gets_an_id():
    async with bridged(replay(line_of("a"), line_of("", done=True))) as (url, *_):
        seen = [await ids_of(url, "anthropic", stream=True) for _ in range(3)]
    assert len(set().union(*seen)) == 3
    assert all(re.fullmatch(r"msg_[0-9a-f]{16}", id) for ids in seen for id in ids)
