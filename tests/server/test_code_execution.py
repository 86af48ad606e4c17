"""Code execution: off by default; with a tool of an MCP server, inside the answer."""

import json

import aiohttp
import openai
import pytest
from msgspec.structs import replace
from tests.scripted_chat import call, chats, says, searching
from tests.server.test_server_tool_kinds import ANSWER, MCP, ask_beta, body

from toolbridge.server_tool_settings import CodeExecutionSettings

CODE = {"type": "code_execution_20250522", "name": "code_execution"}
RUN = says(call("code_execution", code="print(1)"))
ECHOED = {"code": "print(1)"}
"""What the tool `echo` of the server returns."""


def running(tool: str = "echo", **server) -> dict:
    settings = CodeExecutionSettings(server="all", tool=tool)
    return {"mcp": {"all": replace(MCP, **server)}, "code_execution": settings}


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_anthropic_gets_the_call_and_its_output(stream):
    async with searching(RUN, ANSWER, server_tools=running()) as (url, server, *_):
        message = await ask_beta(url, body(CODE), stream=stream)
    used, result, said = message.content
    assert (used.type, used.name, used.input) == ("server_tool_use", "code_execution", ECHOED)
    assert result.type == "code_execution_tool_result"
    assert result.content.return_code == 0
    assert json.loads(result.content.stdout) == ECHOED
    assert said.text == "Done."
    offered = chats(server)[0]["tools"]
    assert [tool["function"]["name"] for tool in offered] == ["code_execution"]
    assert "print(1)" in chats(server)[1]["messages"][-1]["content"]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_responses_gets_an_item_of_the_code_interpreter(stream):
    run = says(call("code_interpreter", code="print(1)"))
    asked = {
        "model": "m",
        "input": "How much is it?",
        "tools": [{"type": "code_interpreter", "container": {"type": "auto"}}],
        "include": ["code_interpreter_call.outputs"],
    }
    async with (
        searching(run, ANSWER, server_tools=running()) as (url, *_),
        openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="k", max_retries=0) as client,
    ):
        if stream:
            async with client.responses.stream(**asked) as events:
                response = await events.get_final_response()
        else:
            response = await client.responses.create(**asked)
    ran, said = response.output
    assert (ran.type, ran.status, ran.code) == ("code_interpreter_call", "completed", "print(1)")
    assert json.loads(ran.outputs[0].logs) == ECHOED
    assert said.content[0].text == "Done."


async def test_gemini_gets_parts_for_the_code_and_its_output():
    asked = {
        "contents": [{"role": "user", "parts": [{"text": "How much is it?"}]}],
        "tools": [{"codeExecution": {}}],
    }
    run = says(call("codeExecution", code="print(1)"))
    async with (
        searching(run, ANSWER, server_tools=running()) as (url, *_),
        aiohttp.ClientSession() as session,
        session.post(f"{url}/v1beta/models/m:generateContent", json=asked) as answer,
    ):
        parts = (await answer.json())["candidates"][0]["content"]["parts"]
    assert parts[0]["executableCode"]["code"] == "print(1)"
    assert parts[1]["codeExecutionResult"]["outcome"] == "OUTCOME_OK"
    assert json.loads(parts[1]["codeExecutionResult"]["output"]) == ECHOED
    assert parts[2] == {"text": "Done."}


async def test_code_that_fails_is_output_on_the_error_stream():
    async with searching(RUN, ANSWER, server_tools=running("fail")) as (url, *_):
        message = await ask_beta(url, body(CODE), stream=True)
    output = message.content[1].content
    assert (output.return_code, output.stdout) == (1, "")
    assert output.stderr
    assert message.content[2].text == "Done."


async def test_code_that_does_not_end_is_stopped():
    settings = running("hang", timeout=0.2)
    async with searching(RUN, ANSWER, server_tools=settings) as (url, *_):
        message = await ask_beta(url, body(CODE), stream=True)
    assert message.content[1].content.error_code == "execution_time_exceeded"
    assert message.content[2].text == "Done."


async def test_output_is_cut_at_the_limit_of_the_server():
    settings = running("large", max_tokens=100)
    async with searching(RUN, ANSWER, server_tools=settings) as (url, server, *_):
        message = await ask_beta(url, body(CODE), stream=True)
    assert len(message.content[1].content.stdout) < 2000
    assert len(chats(server)[1]["messages"][-1]["content"]) < 2000


async def test_it_is_off_by_default_and_the_model_is_told():
    async with searching(ANSWER, server_tools={"mcp": {"all": MCP}}) as (url, server, *_):
        await ask_beta(url, body(CODE), stream=True)
    (asked,) = chats(server)
    assert "tools" not in asked
    assert "Not available in this conversation: code_execution." in json.dumps(asked["messages"])
