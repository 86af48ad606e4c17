"""Anthropic's own SDK as the client, over real sockets: the demo model, and an Ollama behind."""

import anthropic
import pytest
from tests.peers import bridged, gateway, recorded, replay

WEATHER = {
    "name": "get_weather",
    "description": "The weather in a city.",
    "input_schema": {
        "type": "object",
        "properties": {"city": {"type": "string"}, "unit": {"type": "string"}},
        "required": ["city"],
    },
}
WRITE = {
    "name": "Write",
    "description": "Writes a file.",
    "input_schema": {
        "type": "object",
        "properties": {"file_path": {"type": "string"}, "content": {"type": "string"}},
        "required": ["file_path", "content"],
    },
}


def client(url: str) -> anthropic.AsyncAnthropic:
    return anthropic.AsyncAnthropic(base_url=url, api_key="none", max_retries=0)


def ask(text: str, **more) -> dict:
    return {
        "model": "claude-sonnet-5-5",
        "max_tokens": 1024,
        "messages": [{"role": "user", "content": text}],
        **more,
    }


async def streamed(url: str, **request):
    async with client(url) as sdk, sdk.messages.stream(**request) as stream:
        return await stream.get_final_message()


async def whole(url: str, **request):
    async with client(url) as sdk:
        return await sdk.messages.create(**request)


both = pytest.mark.parametrize("answered", [streamed, whole])


@both
@pytest.mark.req("PX-52", "CB-04")
async def test_the_demo_model_calls_the_tool_that_writes_files(answered):
    async with gateway() as (url, _):
        message = await answered(url, **ask("create hello.txt saying hi", tools=[WRITE]))
    call = next(block for block in message.content if block.type == "tool_use")
    assert (call.name, message.stop_reason) == ("Write", "tool_use")
    assert call.input["content"].strip() == "hi"
    assert call.input["file_path"].endswith("hello.txt")
    assert message.id.startswith("msg_")
    assert message.model == "claude-sonnet-5-5"
    assert message.usage.input_tokens > 0
    assert message.usage.output_tokens > 0


@both
async def test_the_demo_model_says_what_the_result_was(answered):
    async with gateway() as (url, _):
        request = ask("create hello.txt saying hi", tools=[WRITE])
        first = await answered(url, **request)
        call = next(block for block in first.content if block.type == "tool_use")
        result = {"type": "tool_result", "tool_use_id": call.id, "content": "File created"}
        request["messages"] += [
            {"role": "assistant", "content": [b.model_dump() for b in first.content]},
            {"role": "user", "content": [result]},
        ]
        second = await answered(url, **request)
    assert second.stop_reason == "end_turn"
    assert "hello.txt" in second.content[-1].text


@both
async def test_the_demo_model_thinks_when_asked(answered):
    async with gateway() as (url, _):
        thinking = {"type": "enabled", "budget_tokens": 1024}
        message = await answered(url, **ask("hello", thinking=thinking) | {"max_tokens": 4096})
    assert [block.type for block in message.content] == ["thinking", "text"]
    assert message.content[0].thinking
    assert message.content[0].signature


@both
@pytest.mark.parametrize("name", ["tools", "two"])
@pytest.mark.req("PX-37", "PX-39", "PX-44", "PX-45", "PX-50")
async def test_calls_of_a_recorded_ollama_arrive(answered, name):
    file = {
        "tools": "ollama/jinja/chat_tool_stream.txt",
        "two": "ollama/gotemplate/chat_tool2_stream.txt",
    }
    async with bridged(recorded(file[name])) as (url, server, _):
        message = await answered(url, **ask("[[tool]] go", tools=[WEATHER]))
    calls = [block for block in message.content if block.type == "tool_use"]
    cities = {"tools": ["Paris"], "two": ["Berlin", "Rome"]}[name]
    assert [call.input["city"] for call in calls] == cities
    assert len({call.id for call in calls}) == len(calls)
    assert message.stop_reason == "tool_use"
    sent = server.chats()[0].json
    assert sent["tools"][0]["function"]["name"] == "get_weather"
    assert sent["options"]["num_predict"] == 1024
    assert sent["options"]["num_ctx"] == 65536


@both
@pytest.mark.req("PX-20", "PX-21", "PX-38", "PX-43")
async def test_thinking_of_a_recorded_ollama_arrives_first(answered):
    async with bridged(recorded("ollama/jinja/chat_thinktool_stream.txt")) as (url, server, _):
        thinking = {"type": "enabled", "budget_tokens": 1024}
        request = ask("x", tools=[WEATHER], thinking=thinking) | {"max_tokens": 4096}
        message = await answered(url, **request)
    assert [block.type for block in message.content] == ["thinking", "tool_use"]
    assert message.content[0].thinking == "I should answer briefly.\n\n"
    assert server.chats()[0].json["think"] is True
    assert message.usage.input_tokens == 219
    assert message.usage.output_tokens == 22


async def test_a_runner_that_was_killed_is_an_error_and_not_an_answer():
    async with bridged(recorded("ollama/midstream/api_chat_tiny.txt")) as (url, *_):
        with pytest.raises(anthropic.APIError, match="unexpected EOF"):
            await streamed(url, **ask("[[long]]"))


async def test_a_runner_that_was_killed_before_any_word_is_asked_again():
    answers = iter([replay({"error": "an error was encountered while running the model"}),
                    recorded("ollama/jinja/chat_stream.txt")])  # fmt: skip

    async def chat(heard, line):
        await next(answers)(heard, line)

    async with bridged(chat) as (url, server, _):
        message = await streamed(url, **ask("hi"))
    assert message.content[0].text == "Hello from the tiny test model."
    assert len(server.chats()) == 2
