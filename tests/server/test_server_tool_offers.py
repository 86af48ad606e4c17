"""Who gets the tools of MCP servers, after a reload too; and search by a model that searches."""

import asyncio
import os
import re
from contextlib import asynccontextmanager

import pytest
from msgspec.structs import replace
from tests.peers import model_server, whole
from tests.scripted_chat import call, chats, says, searching
from tests.server.test_server_tool_kinds import ANSWER, MCP, body
from tests.server.test_server_tool_loop import BODY, FOUND, SEARCH, ask
from tests.waiting import until

from toolbridge.config import ProviderConfig
from toolbridge.core.messages import Request, Tool
from toolbridge.core.server_tools import McpListing, McpTool
from toolbridge.policy.key_scopes import KeyScopes
from toolbridge.policy.server_tool_plan import permitted_plan, plan_server_tools
from toolbridge.server_tool_settings import ServerToolSettings

LISTED = {"all": McpListing((McpTool("read"), McpTool("write")))}


def names(asked: dict) -> list[str]:
    return [tool["function"]["name"] for tool in asked.get("tools", ())]


@pytest.mark.parametrize(
    ("models", "offered"), [((), True), (("own/*",), True), (("other/*",), False)]
)
async def test_a_server_is_offered_with_the_models_of_its_settings(models, offered):
    servers = {"all": replace(MCP, offer=True, offer_models=models)}
    async with searching(ANSWER, server_tools={"mcp": servers}) as (url, server, *_):
        await ask(url, body(), stream=True)
    assert ("all__echo" in names(chats(server)[0])) is offered


async def test_a_server_for_keys_is_not_offered_without_one():
    servers = {"all": replace(MCP, offer=True, offer_keys=("alice",))}
    async with searching(ANSWER, server_tools={"mcp": servers}) as (url, server, *_):
        await ask(url, body(), stream=True)
    assert names(chats(server)[0]) == []


def test_the_scopes_of_a_key_hold_for_tools_that_the_gateway_offers():
    runs = frozenset({"mcp"})
    plan = plan_server_tools(Request("m", tools=(Tool("Read"),)), frozenset(), runs, LISTED)
    assert set(plan.offered) == {"all__read", "all__write"}
    kept, losses = permitted_plan(plan, "alice", KeyScopes(tools=("Read", "all__read")))
    assert list(kept.offered) == ["all__read"]
    assert [tool.name for tool in kept.request.tools] == ["Read", "all__read"]
    assert "all__write" in losses[0].why
    assert permitted_plan(plan, "alice", KeyScopes(tools=("Read",)))[0] is None


def test_a_function_is_renamed_if_the_client_has_a_tool_of_its_name():
    tools = (Tool("all__read"), Tool("other"))
    plan = plan_server_tools(Request("m", tools=tools), frozenset(), frozenset({"mcp"}), LISTED)
    assert list(plan.offered) == ["all__read_2", "all__write"]
    assert plan.offered["all__read_2"].call_name == "read"


async def test_a_reload_changes_the_tools():
    async with searching(FOUND, ANSWER) as (url, _, double, app):
        off = replace(app.config, server_tools=ServerToolSettings())
        gateway = app.gateway.renewed(off)
        assert gateway.tools is not app.gateway.tools
        assert "web_search" not in gateway.tools.runner.kinds
        assert app.gateway.renewed(app.config).tools is app.gateway.tools
        await gateway.tools.close()
        await ask(url, BODY, stream=True)
    assert len(double.asked) == 1


EELS = {
    "type": "url_citation", "url": "https://example.org/eels", "title": "Eels",
    "start_index": 0, "end_index": 10,
}  # fmt: skip
FOUND_BY_MODEL = [
    {"type": "web_search_call", "id": "ws_1", "status": "completed",
     "action": {"type": "search", "query": "zürich"}},
    {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
     "content": [{"type": "output_text", "text": "Eels swim. More.", "annotations": [EELS]}]},
]  # fmt: skip


@asynccontextmanager
async def searching_by_model(*passes, **more):
    """Serve a gateway that searches with the model `finder/s`; yield its URL and both models."""

    async def searcher(_, line):
        await whole(
            line,
            {"id": "resp_1", "object": "response", "status": "completed", "model": "s",
             "output": FOUND_BY_MODEL, "usage": {"input_tokens": 500, "output_tokens": 6}},
        )  # fmt: skip

    async with model_server(searcher) as finder:
        provider = ProviderConfig(
            api="openai_responses", url=f"{finder.url}/v1", retries=0,
            server_tools=("web_search",),
        )  # fmt: skip
        settings = {"backend": "model", "model": "finder/s", "url": ""}
        async with searching(
            *passes, web_search=settings, providers={"finder": provider}, **more
        ) as (url, model, *_):
            yield url, model, finder


async def test_a_model_that_searches_itself_finds_pages_for_another():
    passes = says(call("web_search", query="zürich")), ANSWER
    async with searching_by_model(*passes) as (url, model, finder):
        message = await ask(url, BODY | {"tools": [SEARCH]}, stream=True)
    result = message.content[1]
    assert [hit.url for hit in result.content] == ["https://example.org/eels"]
    told = chats(model)[1]["messages"][-1]["content"]
    assert "Eels swim." in told
    assert chats(finder)[0]["tools"][0]["type"] == "web_search"


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def test_a_reload_ends_the_servers_of_old_settings_with_their_last_request():
    # The answer with the old settings waits for its search while the settings are reloaded.
    passes = says(call("all__env")), says(call("web_search", "c2", query="zürich")), ANSWER
    servers = {"mcp": {"all": replace(MCP, offer=True)}}
    async with searching(*passes, server_tools=servers) as (url, server, double, app):
        double.faults = ["hang"]
        asking = asyncio.create_task(ask(url, BODY | {"tools": [SEARCH]}, stream=True))
        await double.silent.wait()
        output = chats(server)[1]["messages"][-1]["content"]
        pid = int(re.search(r"pid&quot;: (\d+)|\"pid\": (\d+)", output)[0].rsplit(" ", 1)[1])
        old = app.gateway
        app.gateway = old.renewed(replace(app.config, server_tools=ServerToolSettings()))
        assert alive(pid)
        asking.cancel()
        await until(lambda: not alive(pid))
        await until(lambda: not old.tools.is_open)
