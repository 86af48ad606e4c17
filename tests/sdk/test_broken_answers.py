"""An answer that breaks, or that is none, is told as what it is, with all that had come before."""

import asyncio
from contextlib import asynccontextmanager

import pytest
from tests.peers import Heard, Line, model_server
from tests.sdk.places import QUIET
from tests.streams import chunk
from tests.tables import every_row

import toolbridge
from toolbridge.config import Config, ProviderConfig

PAGE = (
    "\n <!DOCTYPE html><html><head><title>Sign in</title></head><body>to the network</body></html>"
)
APIS = ["openai_chat", "anthropic", "openai_responses", "gemini", "ollama"]


@asynccontextmanager
async def client_of(api: str, answer):
    async with model_server(answer) as server:
        provider = ProviderConfig(api=api, url=server.url, retries=0)
        async with toolbridge.AsyncClient(
            Config(providers={"there": provider}), env=QUIET
        ) as client:
            yield client


@pytest.mark.parametrize("tools", [[], [toolbridge.Tool("look", "Look.", {"type": "object"})]])
async def test_a_connection_that_breaks_is_a_failure_with_what_had_come(tools):
    async def breaks(_: Heard, line: Line) -> None:
        await line.head(kind="text/event-stream")
        await line.send(chunk({"content": "Half of"}))
        await asyncio.sleep(0.05)
        line.cut()

    async with client_of("openai_chat", breaks) as client:
        stream = client.stream("there/m", "hi", tools=tools)
        events = [event async for event in stream]
        message = stream.message
        assert isinstance(events[-1], toolbridge.Failed)
        assert events[-1].message == message
        assert (message.stop, message.text) == ("error", "Half of")
        assert message.problem == events[-1].problem
        assert (message.problem.kind, message.problem.provider) == ("truncated", "there")
        assert (await client.complete("there/m", "hi", tools=tools)).problem is not None
        with pytest.raises(toolbridge.ToolbridgeError, match="there closed the connection"):
            await client.ask("there/m", "hi", tools=tools)


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("kind", ["text/event-stream", "application/json", "text/plain"])
@pytest.mark.parametrize("size", [1, 30, 1000])
async def test_a_web_page_under_another_type_is_called_a_web_page(api, kind, size):
    async def page(heard: Heard, line: Line) -> None:
        await line.head(kind=kind)
        for at in range(0, len(PAGE), size):
            await line.send(PAGE[at : at + size])
        await line.end()

    async with client_of(api, page) as client:
        problem = (await client.complete("there/m", "hi")).problem
    assert problem.kind == "broken_wire"
    assert problem.text.startswith("there answered 200 with a web page")
    assert problem.provider == "there"


async def test_a_failure_before_the_first_word_names_its_provider():
    async def empty(_: Heard, line: Line) -> None:
        await line.head(kind="text/event-stream")
        await line.end()

    async with client_of("openai_chat", empty) as client:
        problem = (await client.complete("there/m", "hi")).problem
    assert problem.provider == "there"
    assert problem.text == "there answered with status 200 and an empty body; check its `url`"


@every_row(
    ("option", "value"),
    [
        ("temperature", "hot"), ("temperature", float("nan")), ("temperature", -1), ("temperature", True),
        ("top_p", 7), ("seed", "a"), ("seed", 1.5), ("stop", 5), ("stop", ["a", 3]), ("system", 5),
        ("session_id", 5), ("user", 5), ("tool_choice", 5), ("output", "xml"),
    ],
)  # fmt: skip
def test_a_value_that_nobody_can_mean_raises_and_names_the_option(option, value):
    with (
        toolbridge.Client(env=QUIET) as client,
        pytest.raises(toolbridge.ClientError, match=f"{option}: must be"),
    ):
        client.complete("demo", "hi", **{option: value})


async def test_a_structured_stream_names_the_provider_that_broke_off():
    async def ends(_: Heard, line: Line) -> None:
        await line.head(kind="text/event-stream")
        await line.send(chunk({"content": "Half of"}))
        await line.end()

    async with model_server(ends) as server:
        provider = ProviderConfig(api="openai_chat", url=server.url, retries=0)
        config = Config(providers={"there": provider}, map={"default": "there/m"})
        with pytest.raises(toolbridge.StreamFailed, match=r"^there: the provider's answer ended"):
            await toolbridge.astart_stream("hi", config=config, keep=False).result()


@every_row(
    ("option", "value"),
    [
        ("frame_timeout", -1), ("request_timeout", "x"), ("idle_timeout", 0), ("tool_timeout", float("inf")),
        ("attempts", -1), ("on_text", 5), ("tools", 5), ("tools", "time.now"), ("schemas", 5),
    ],
)  # fmt: skip
def test_a_structured_stream_with_a_value_that_nobody_can_mean_raises(option, value):
    with pytest.raises((TypeError, ValueError), match=f"{option} is"):
        toolbridge.start_stream("hi", keep=False, **{option: value}).result()


def test_a_structured_stream_without_a_prompt_raises():
    with pytest.raises(TypeError, match="a prompt must be a string"):
        toolbridge.start_stream(None, keep=False).result()
