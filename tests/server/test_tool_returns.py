"""`returns`, the schema of a tool's result: checked for the caller's own tools and for those at a URL."""

import json

import aiohttp
import pytest
import websockets
from tests.peers import model_server, whole
from tests.server.test_stream import LAMP, names, one
from tests.server.test_stream_ws import at, told
from tests.streams import Said, ask, call, read, refused, reply, scripted, streaming

LIT = {"type": "object", "properties": {"lit": {"type": "boolean"}}, "required": ["lit"]}
CHECKED = {**LAMP, "returns": LIT}
ANSWERS = (call("T1", "lamp.set", {"on": True}), reply())


@pytest.mark.parametrize("wrong", [{"lit": "yes"}, {}, None, "lit", [True]])
async def test_a_result_that_does_not_fit_is_rejected_and_the_call_goes_on_waiting(wrong):
    seen: list[Said] = []
    async with (
        streaming(scripted(*ANSWERS)) as (url, _, _),
        aiohttp.ClientSession() as client,
        client.post(f"{url}/v1/stream", json={"prompt": "x", "tools": [CHECKED]}) as response,
    ):
        back = f"{url}/v1/stream/{response.headers['x-toolbridge-run']}/results"
        async for said in read(response):
            seen.append(said)
            if said.name == "tool.call":
                async with client.post(back, json={"id": "T1", "result": wrong}) as answer:
                    assert answer.status == 400
                    error = (await answer.json())["error"]
                async with client.post(back, json={"id": "T1", "result": {"lit": True}}) as answer:
                    assert await answer.json() == {"accepted": True}
    assert (error["code"], error["where"]) == ("invalid_result", "result")
    assert error["message"].startswith("the result of lamp.set does not fit `returns`: ")
    assert error["message"].endswith(". Send another result, or an `error`")
    assert one(seen, "tool.result")["result"] == {"lit": True}


async def test_the_fault_names_its_place():
    async with streaming(scripted(*ANSWERS)) as (url, _, _), websockets.connect(at(url)) as line:
        await line.send(json.dumps({"type": "start", "prompt": "x", "tools": [CHECKED]}))
        seen: list[Said] = []
        async for message in line:
            seen.append(told(message))
            if seen[-1].name == "tool.call":
                wrong = {"type": "tool.result", "id": "T1", "result": {"lit": "yes"}}
                await line.send(json.dumps(wrong))
            elif seen[-1].name == "rejected":
                failed = {"type": "tool.result", "id": "T1", "error": "no bulb"}
                await line.send(json.dumps(failed))
    error = one(seen, "rejected")["error"]
    assert error["code"] == "invalid_result"
    assert "lit" in error["message"]
    assert "boolean" in error["message"]
    told_model = one(seen, "tool.result")["result"]
    assert told_model == {"error": {"code": "tool_failed", "message": "no bulb"}}


@pytest.mark.parametrize(("lit", "valid"), [(True, True), ("yes", False)])
async def test_the_result_of_a_tool_at_a_url_is_checked_and_not_asked_for_again(lit, valid):
    async def tool(_, line) -> None:
        await whole(line, {"lit": lit})

    async with model_server(tool) as host:
        there = {"name": "lamp.set", "parameters": LAMP["parameters"], "returns": LIT}
        there["url"] = f"{host.url}/lamp"
        hosts = [host.url.removeprefix("http://")]
        async with streaming(scripted(*ANSWERS), tool_hosts=hosts) as (url, server, _):
            events = await ask(url, {"prompt": "x", "tools": [there], "tool_retries": 3})
    result = one(events, "tool.result")["result"]
    if valid:
        assert result == {"lit": True}
    else:
        assert result["error"]["code"] == "invalid_result"
        assert "the result of lamp.set does not fit `returns`: .lit" in result["error"]["message"]
        assert "does not fit" in json.dumps(server.heard[-1].json["messages"])
    assert len(host.heard) == 1
    assert names(events)[-1] == "done"


async def test_a_schema_that_cannot_be_used_is_rejected_with_its_place():
    broken = {**LAMP, "name": "other", "returns": {"type": "nonsense"}}
    async with streaming(scripted(*ANSWERS)) as (url, server, _):
        status, error = await refused(url, {"prompt": "x", "tools": [LAMP, broken]})
        assert server.heard == []
    assert (status, error["code"], error["where"]) == (400, "invalid_schema", "tools.1.returns")
