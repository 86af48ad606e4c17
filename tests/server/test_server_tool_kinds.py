"""Tool search, page fetch and MCP servers inside an answer."""

import json
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import anthropic
import pytest
from msgspec.structs import replace
from tests.peers import model_server
from tests.scripted_chat import call, chats, says, searching
from tests.server.test_server_tool_loop import ask

from toolbridge.server_tool_settings import McpServerSettings, WebFetchSettings

MCP = McpServerSettings(
    command=sys.executable, args=(str(Path(__file__).parents[1] / "mcp_program.py"),)
)
ANSWER = says("Done.", prompt=30, output=7)


def deferred(name: str, description: str) -> dict:
    schema = {"type": "object", "properties": {"city": {"type": "string"}}}
    return {
        "name": name,
        "description": description,
        "input_schema": schema,
        "defer_loading": True,
    }


MANY = [
    *(deferred(f"tool_{i}", f"Does thing number {i}") for i in range(40)),
    deferred("get_weather", "The weather forecast of a city"),
]


def body(*tools: dict, text: str = "How is the weather in Ulm?", **fields) -> dict:
    return {
        "model": "m",
        "max_tokens": 4000,
        "messages": [{"role": "user", "content": text}],
        "tools": list(tools),
        **fields,
    }


BM25 = {"type": "tool_search_tool_bm25_20251119", "name": "tool_search_tool_bm25"}
REGEX = {"type": "tool_search_tool_regex_20251119", "name": "tool_search_tool_regex"}


@pytest.mark.parametrize(("search", "query"), [(BM25, "weather forecast"), (REGEX, "wea.*er")])
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_a_deferred_tool_is_found_and_called_in_the_same_answer(search, query, stream):
    name = search["name"]
    passes = [says(call(name, query=query)), says(call("get_weather", "c2", city="Ulm")), ANSWER]
    asked = body(search, *MANY)
    async with searching(*passes) as (url, server, *_):
        message = await ask(url, asked, stream=stream)
        used, result, called = message.content
        assert (used.type, used.name) == ("server_tool_use", name)
        assert result.type == "tool_search_tool_result"
        assert result.content.tool_references[0].tool_name == "get_weather"
        assert (called.type, called.name, called.input) == (
            "tool_use", "get_weather", {"city": "Ulm"},
        )  # fmt: skip
        assert message.stop_reason == "tool_use"
        answered = {"type": "tool_result", "tool_use_id": called.id, "content": "sunny"}
        history = [
            *asked["messages"],
            {"role": "assistant", "content": [b.to_dict() for b in message.content]},
            {"role": "user", "content": [answered]},
        ]
        await ask(url, asked | {"messages": history}, stream=stream)
    first, second, third = chats(server)
    assert [tool["function"]["name"] for tool in first["tools"]] == [name]
    assert second["tools"][:1] == first["tools"]
    assert second["tools"][1]["function"]["name"] == "get_weather"
    assert third["tools"] == second["tools"]
    assert third["messages"][: len(second["messages"])] == second["messages"]


async def test_a_pattern_that_is_none_is_an_error_that_the_model_reads():
    async with searching(says(call(REGEX["name"], query="(")), ANSWER) as (url, *_):
        message = await ask(url, body(REGEX, *MANY), stream=True)
    assert message.content[1].content.error_code == "invalid_tool_input"
    assert message.content[2].text == "Done."


# ── pages ────────────────────────────────────────────────────────────────────

FETCH = {"type": "web_fetch_20250910", "name": "web_fetch"}


@asynccontextmanager
async def site(page: str):
    async def answer(_, line):
        await line.head(kind="text/html")
        await line.send(page)
        await line.end()

    async with model_server(answer, probes=True) as server:
        yield server


@asynccontextmanager
async def fetching(page: str, *passes, **more):
    """Serve a page and a gateway; `{url}` in the arguments of calls is the page's address."""
    async with site(page) as pages:
        port = int(pages.url.rsplit(":", 1)[1])
        settings = WebFetchSettings(allow_hosts=("127.0.0.1",), ports=(port,))
        made = json.loads(json.dumps(passes).replace("{url}", pages.url))
        tools = {"web_fetch": settings}
        async with searching(*made, server_tools=tools, **more) as (url, server, *_):
            yield url, server, pages


PAGE = (
    "<html><head><title>Eels</title></head><body><article><p>They swim.</p></article></body></html>"
)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_a_page_is_fetched_inside_the_answer(stream):
    passes = says(call("web_fetch", url="{url}/eels")), ANSWER
    async with fetching(PAGE, *passes) as (url, server, pages):
        text = f"Read {pages.url}/eels, please."
        message = await ask(url, body(FETCH, text=text), stream=stream)
    used, result, said = message.content
    assert used.input == {"url": f"{pages.url}/eels"}
    assert result.type == "web_fetch_tool_result"
    assert result.content.url == f"{pages.url}/eels"
    assert "They swim." in result.content.content.source.data
    assert said.text == "Done."
    told = chats(server)[1]["messages"][-1]["content"]
    assert "They swim." in told
    assert told.startswith("<untrusted_content")


async def test_an_address_that_did_not_occur_is_not_fetched():
    passes = says(call("web_fetch", url="{url}/?secret=1")), ANSWER
    async with fetching(PAGE, *passes) as (url, _, pages):
        message = await ask(url, body(FETCH, text=f"Read {pages.url}/eels"), stream=True)
    assert message.content[1].content.error_code == "url_not_in_prior_context"
    assert pages.heard == []
    assert message.content[2].text == "Done."


async def test_a_host_without_a_dot_is_fetched_if_the_settings_allow_it():
    async with site(PAGE) as pages:
        address = f"http://localhost:{pages.url.rsplit(':', 1)[1]}/eels"
        passes = says(call("web_fetch", url=address)), ANSWER
        settings = WebFetchSettings(allow_hosts=(address[7:].removesuffix("/eels"),))
        async with searching(*passes, server_tools={"web_fetch": settings}) as (url, *_):
            message = await ask(url, body(FETCH, text=f"看{address}。"), stream=True)
    assert "They swim." in message.content[1].content.content.source.data


@pytest.mark.parametrize(
    ("address", "code"),
    [
        ("http://wiki/page", "url_not_allowed"),  # a name of the private network
        ("http://[::1]:80/page", "url_not_allowed"),
        ("ftp://files.example/page", "invalid_tool_input"),
        ("files", "invalid_tool_input"),
    ],
)
async def test_the_error_of_a_fetch_names_the_reason(address, code):
    passes = says(call("web_fetch", url=address)), ANSWER
    async with searching(*passes) as (url, *_):
        message = await ask(url, body(FETCH, text=f"read {address} please"), stream=True)
    assert message.content[1].content.error_code == code


async def test_a_private_address_is_refused():
    async with site(PAGE) as pages:
        passes = says(call("web_fetch", url=pages.url)), ANSWER
        async with searching(*passes) as (url, *_):
            message = await ask(url, body(FETCH, text=pages.url), stream=True)
    assert message.content[1].content.error_code == "url_not_allowed"
    assert pages.heard == []


# ── MCP ──────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_a_server_of_the_settings_is_offered_to_a_client_that_does_not_know_it(stream):
    passes = says(call("all__echo", text="hi")), ANSWER
    tools = {"mcp": {"all": replace(MCP, offer=True)}}
    async with searching(*passes, server_tools=tools) as (url, server, *_):
        message = await ask_beta(url, body(), stream=stream)
    used, result, said = message.content
    assert (used.type, used.name, used.server_name) == ("mcp_tool_use", "echo", "all")
    assert used.input == {"text": "hi"}
    assert result.type == "mcp_tool_result"
    assert result.is_error is False
    assert json.loads(result.content[0].text) == {"text": "hi"}
    assert said.text == "Done."
    offered = [tool["function"]["name"] for tool in chats(server)[0]["tools"]]
    assert "all__echo" in offered


async def ask_beta(url: str, asked: dict, *, stream: bool):
    async with anthropic.AsyncAnthropic(base_url=url, api_key="k", max_retries=0) as client:
        if not stream:
            return await client.beta.messages.create(**asked)
        async with client.beta.messages.stream(**asked) as answer:
            return await answer.get_final_message()


async def post(url: str, asked: dict) -> tuple[list[dict], str]:
    """Return the blocks of an answer, and its warnings."""
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{url}/v1/messages", json=asked) as answer,
    ):
        content = (await answer.json())["content"]
        return content, answer.headers.get("x-toolbridge-warning", "")


async def test_a_toolset_names_a_server_of_the_settings_and_chooses_its_tools():
    toolset = {
        "type": "mcp_toolset",
        "mcp_server_name": "all",
        "default_config": {"enabled": False},
        "configs": {"image": {"enabled": True}, "fail": {"enabled": True}},
    }
    made = call("all__image"), call("all__fail", "c2")
    settings = {"mcp": {"all": MCP}}
    async with searching(says(*made), ANSWER, server_tools=settings) as (url, server, *_):
        content, warned = await post(url, body(toolset))
    assert [block["type"] for block in content] == [
        "mcp_tool_use", "mcp_tool_use", "mcp_tool_result", "mcp_tool_result", "text",
    ]  # fmt: skip
    assert [block.get("is_error") for block in content[2:4]] == [False, True]
    assert "mcp_servers" not in warned
    first, second = chats(server)
    assert [tool["function"]["name"] for tool in first["tools"]] == ["all__image", "all__fail"]
    shown = json.dumps(second["messages"])
    assert "iVBORw0KGgo=" in shown  # the image reaches the model


UNKNOWN = {"type": "mcp_toolset", "mcp_server_name": "tikets"}
LISTED = [{"type": "url", "name": "tikets", "url": "http://127.0.0.1:9/mcp"}]


@pytest.mark.parametrize(
    ("settings", "fields", "reason"),
    [
        ({}, {}, "there is no MCP server 'tikets' in [server_tools.mcp]"),
        ({"tickets": MCP}, {}, "did you mean 'tickets'?"),
        ({"files": MCP}, {}, "configured: files"),
        ({}, {"mcp_servers": LISTED}, "add it to `server_tools.mcp_urls`"),
        ({"tickets": MCP}, {"mcp_servers": LISTED}, "http://127.0.0.1:9/mcp"),
    ],
)
async def test_a_warning_names_the_server_that_is_missing(settings, fields, reason):
    async with searching(ANSWER, server_tools={"mcp": settings}) as (url, server, *_):
        content, warned = await post(url, body(UNKNOWN, **fields))
    assert content[0]["text"] == "Done."
    assert reason in warned
    assert "run by Anthropic" not in warned
    assert "has no field" not in warned
    told = json.dumps(chats(server)[0]["messages"])
    assert "Not available in this conversation: the MCP server tikets." in told


async def test_a_server_that_does_not_start_is_a_warning():
    broken = McpServerSettings(command="/nonexistent/program", offer=True)
    async with searching(ANSWER, server_tools={"mcp": {"broken": broken}}) as (url, *_):
        content, warned = await post(url, body())
    assert content[0]["text"] == "Done."
    assert "broken" in warned
