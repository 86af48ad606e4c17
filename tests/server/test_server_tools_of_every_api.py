"""The gateway runs server tools for clients of every API, streaming and whole."""

import json

import aiohttp
import openai
import pytest
from tests.scripted_chat import call, chats, says, searching

FOUND = says("I will look. ", call("web_search", query="zürich"))
ANSWER = says("In Switzerland, says [Zürich](https://example.org/a).", prompt=30, output=7)
TEXT = "Where is Zürich?"
MODES = pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])


@MODES
async def test_responses(stream):
    tool = {"type": "web_search", "external_web_access": False}
    asked = {"model": "m", "input": TEXT, "tools": [tool]}
    async with (
        searching(FOUND, ANSWER) as (url, server, double, _),
        openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="k", max_retries=0) as client,
    ):
        if stream:
            async with client.responses.stream(**asked) as events:
                response = await events.get_final_response()
        else:
            response = await client.responses.create(**asked)
        again = await client.responses.create(
            model="m", input="And Bern?", previous_response_id=response.id, tools=[tool]
        )
    kinds = [item.type for item in response.output]
    assert kinds == ["message", "web_search_call", "message"]
    searched = response.output[1]
    assert (searched.status, searched.action.query) == ("completed", "zürich")
    assert response.output_text.endswith("(https://example.org/a).")
    assert response.usage.output_tokens == 12
    assert [asked.query["q"] for asked in double.asked] == ["zürich"]
    assert again.output_text
    # The results of the stored response go to the model again.
    told = json.dumps(chats(server)[2]["messages"], ensure_ascii=False)
    assert "https://example.org/a" in told


@MODES
async def test_chat(stream):
    asked = {
        "model": "m",
        "messages": [{"role": "user", "content": TEXT}],
        "web_search_options": {},
    }
    async with (
        searching(FOUND, ANSWER) as (url, server, double, _),
        openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="k", max_retries=0) as client,
    ):
        if stream:
            pieces = [chunk async for chunk in await client.chat.completions.create(
                **asked, stream=True
            )]  # fmt: skip
            text = "".join(c.delta.content or "" for p in pieces for c in p.choices)
            ends = [c.finish_reason for p in pieces for c in p.choices if c.finish_reason]
            calls = [c.delta.tool_calls for p in pieces for c in p.choices if c.delta.tool_calls]
        else:
            answer = await client.chat.completions.create(**asked)
            text, ends = answer.choices[0].message.content, [answer.choices[0].finish_reason]
            calls = answer.choices[0].message.tool_calls or []
    assert "In Switzerland" in text
    assert ends == ["stop"]
    assert calls == []
    assert [asked.query["q"] for asked in double.asked] == ["zürich"]
    assert len(chats(server)) == 2


@MODES
async def test_gemini(stream):
    asked = {
        "contents": [{"role": "user", "parts": [{"text": TEXT}]}],
        "tools": [{"googleSearch": {}}],
    }
    found = says("I will look. ", call("googleSearch", query="zürich"))
    method = "streamGenerateContent?alt=sse" if stream else "generateContent"
    async with (
        searching(found, ANSWER) as (url, server, double, _),
        aiohttp.ClientSession() as session,
        session.post(f"{url}/v1beta/models/m:{method}", json=asked) as answer,
    ):
        text = await answer.text()
    lines = [line[6:] for line in text.splitlines() if line.startswith("data: ")]
    bodies = [json.loads(line) for line in lines] if stream else [json.loads(text)]
    parts = [part for body in bodies for part in body["candidates"][0]["content"].get("parts", ())]
    assert "In Switzerland" in "".join(part.get("text", "") for part in parts)
    assert not any("functionCall" in part for part in parts)
    grounding = [
        c["groundingMetadata"] for b in bodies for c in b["candidates"] if "groundingMetadata" in c
    ]
    assert grounding[-1]["webSearchQueries"] == ["zürich"]
    assert [asked.query["q"] for asked in double.asked] == ["zürich"]
    assert len(chats(server)) == 2


async def test_the_search_request_of_gemini_cli_needs_no_model():
    asked = {
        "contents": [{"role": "user", "parts": [{"text": "hello wörld"}]}],
        "tools": [{"googleSearch": {}}],
        "systemInstruction": {"parts": [{"text": "You are Gemini CLI."}]},
    }
    headers = {"user-agent": "GeminiCLI/0.61.0/gemini-2.5-pro (linux; x64)"}
    async with (
        searching(says("never")) as (url, server, double, _),
        aiohttp.ClientSession(headers=headers) as session,
        session.post(
            f"{url}/v1beta/models/gemini-3-flash-preview:generateContent", json=asked
        ) as answer,
    ):
        candidate = (await answer.json())["candidates"][0]
    assert chats(server) == []
    assert "https://example.org/a" in candidate["content"]["parts"][-1]["text"]
    chunks = candidate["groundingMetadata"]["groundingChunks"]
    assert chunks[0]["web"]["uri"] == "https://example.org/a"
    assert [asked.query["q"] for asked in double.asked] == ["hello wörld"]
