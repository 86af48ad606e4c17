"""`approval` in the settings of an MCP server holds for every request."""

import json

import aiohttp
import pytest
from msgspec.structs import replace
from tests.scripted_chat import call, chats, says, searching
from tests.server.test_server_tool_kinds import ANSWER, MCP, body, post
from tests.server.test_server_tool_offers import names

ECHO, FAIL = says(call("all__echo", text="hi")), says(call("all__fail"))


async def respond(url: str, **fields) -> dict:
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{url}/v1/responses", json={"model": "m", **fields}) as answer,
    ):
        return await answer.json()


def server(approval: str, *, offer: bool = False) -> dict:
    return {"mcp": {"all": replace(MCP, approval=approval, offer=offer)}}


@pytest.mark.parametrize(
    ("approval", "passes", "kinds"),
    [
        ("always", ECHO, ["mcp_approval_request"]),
        ("writes", ECHO, ["mcp_call", "message"]),  # echo is read-only
        ("writes", FAIL, ["mcp_approval_request"]),
        ("never", FAIL, ["mcp_call", "message"]),
    ],
)
@pytest.mark.parametrize("offer", [False, True])
async def test_responses_asks_for_the_approval_that_the_settings_require(
    approval, passes, kinds, offer
):
    named = [{"type": "mcp", "server_label": "all", "require_approval": "never"}]
    tools = [] if offer else named
    async with searching(passes, ANSWER, server_tools=server(approval, offer=offer)) as (url, *_):
        first = await respond(url, input="go", tools=tools)
        shown = [item["type"] for item in first["output"] if item["type"] != "mcp_list_tools"]
        assert shown == kinds
        if kinds != ["mcp_approval_request"]:
            return
        answered = {
            "type": "mcp_approval_response",
            "approval_request_id": first["output"][-1]["id"],
            "approve": True,
        }
        second = await respond(url, input=[answered], tools=tools, previous_response_id=first["id"])
    assert [item["type"] for item in second["output"]] == ["mcp_call", "message"]


@pytest.mark.parametrize(
    ("approval", "offered"), [("always", []), ("writes", ["all__echo"]), ("never", None)]
)
async def test_a_client_that_cannot_approve_does_not_get_the_tools(approval, offered):
    passes = (ANSWER,)
    async with searching(*passes, server_tools=server(approval, offer=True)) as (url, model, *_):
        content, warned = await post(url, body())
    assert content[0]["text"] == "Done."
    found = names(chats(model)[0])
    if offered is None:
        assert {"all__echo", "all__fail"} <= set(found)
        assert "approved" not in warned
        return
    assert found == offered
    assert "must be approved by the client" in warned
    assert "fail" in warned


async def test_a_request_that_names_the_server_does_not_avoid_the_approval():
    toolset = {"type": "mcp_toolset", "mcp_server_name": "all"}
    async with searching(FAIL, ANSWER, server_tools=server("always")) as (url, model, *_):
        content, warned = await post(url, body(toolset))
    assert not any(block["type"] == "mcp_tool_use" for block in content)
    assert "must be approved" in warned
    assert "all__fail" not in json.dumps(chats(model)[0].get("tools", []))
