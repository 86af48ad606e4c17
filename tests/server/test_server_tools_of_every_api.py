"""The gateway runs server tools for clients of every API, streaming and whole."""

import json

import aiohttp
import openai
import pytest
from tests.key_users import create
from tests.scripted_chat import call, chats, says, searching
from tests.server.test_server_tool_kinds import MCP

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
    assert "first hit" in told


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


async def respond(url: str, key: str = "k", **fields) -> dict:
    async with (
        aiohttp.ClientSession(headers={"authorization": f"Bearer {key}"}) as session,
        session.post(f"{url}/v1/responses", json={"model": "m", **fields}) as answer,
    ):
        return await answer.json()


async def test_codex_sends_back_a_search_without_results_and_the_model_reads_them_again():
    tools = [{"type": "web_search", "external_web_access": False}]
    user = {"type": "message", "role": "user", "content": TEXT}
    async with searching(FOUND, ANSWER) as (url, server, double, _):
        first = await respond(url, input=[user], tools=tools, store=False)
        output = first["output"]
        assert "results" not in output[1]
        await respond(url, input=[user, *output, user], tools=tools, store=False)
    assert len(double.asked) == 1
    told = chats(server)[2]["messages"]
    assert "first hit" in next(m["content"] for m in told if m["role"] == "tool")
    # The prompt begins as the one of the last pass did, for caches.
    assert told[: len(chats(server)[1]["messages"])] == chats(server)[1]["messages"]


async def test_results_are_known_after_a_restart_and_to_their_caller_alone(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    own = {"env": {"XDG_STATE_HOME": str(tmp_path)}, "host": "127.0.0.1"}
    tools = [{"type": "web_search", "external_web_access": False}]
    user = {"type": "message", "role": "user", "content": TEXT}
    keys = await create("alice"), await create("bob")
    async with searching(FOUND, ANSWER, **own) as (url, *_):
        first = await respond(url, keys[0], input=[user], tools=tools, store=False)
    told = []
    async with searching(ANSWER, **own) as (url, server, *_):
        for key in keys:
            asked = [user, *first["output"], user]
            await respond(url, key, input=asked, tools=tools, store=False)
            told.append(json.dumps(chats(server)[-1]["messages"]))
    assert ["first hit" in one for one in told] == [True, False]


ECHO = says(call("all__echo", text="hi"))


@MODES
async def test_responses_lists_and_calls_an_mcp_server(stream):
    tool = {"type": "mcp", "server_label": "all", "require_approval": "never"}
    asked = {"model": "m", "input": TEXT, "tools": [tool]}
    async with (
        searching(ECHO, ANSWER, server_tools={"mcp": {"all": MCP}}) as (url, *_),
        openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="k", max_retries=0) as client,
    ):
        if stream:
            async with client.responses.stream(**asked) as events:
                response = await events.get_final_response()
        else:
            response = await client.responses.create(**asked)
        again = await client.responses.create(
            model="m", input="Once more", previous_response_id=response.id, tools=[tool]
        )
    listed, called, said = response.output
    assert (listed.type, listed.server_label) == ("mcp_list_tools", "all")
    assert "echo" in [one.name for one in listed.tools]
    assert (called.type, called.name, called.status) == ("mcp_call", "echo", "completed")
    assert json.loads(called.output) == {"text": "hi"}
    assert said.type == "message"
    assert [item.type for item in again.output] == ["message"]


@pytest.mark.parametrize("approve", [True, False])
async def test_a_call_runs_after_the_client_approved_it(approve):
    tools = [{"type": "mcp", "server_label": "all", "require_approval": "always"}]
    async with searching(ECHO, ANSWER, server_tools={"mcp": {"all": MCP}}) as (url, server, *_):
        first = await respond(url, input=TEXT, tools=tools)
        assert [item["type"] for item in first["output"]] == [
            "mcp_list_tools",
            "mcp_approval_request",
        ]
        asked = first["output"][1]
        assert (asked["name"], json.loads(asked["arguments"])) == ("echo", {"text": "hi"})
        assert len(chats(server)) == 1
        answered = {
            "type": "mcp_approval_response",
            "approval_request_id": asked["id"],
            "approve": approve,
        }
        second = await respond(url, input=[answered], tools=tools, previous_response_id=first["id"])
    called, said = second["output"]
    assert called["type"] == "mcp_call"
    assert ("output" in called, "error" in called) == (approve, not approve)
    assert said["type"] == "message"
    told = chats(server)[1]["messages"]
    assert told[-2]["tool_calls"][0]["function"]["name"] == "all__echo"
    assert ("declined" in told[-1]["content"]) is not approve
