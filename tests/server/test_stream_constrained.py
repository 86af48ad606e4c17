"""Structured streams over providers that constrain answers, and tools that run at the same time."""

import asyncio
import json
from contextlib import asynccontextmanager

import aiohttp
import pytest
from tests.peers import gateway, model_server, whole
from tests.streams import Said, ask, call, chunk, read, reply, say, scripted, streaming

from toolbridge.config import Config, ModelConfig, ProviderConfig, StreamConfig

CARD = {
    "type": "object",
    "properties": {"title": {"type": "string", "minLength": 1}, "stars": {"type": "integer"}},
    "required": ["title"],
}
BODY = {"prompt": "x", "schemas": {"Card": CARD}}
RESULT = '{"answer": "done", "citations": []}'
GOOD = f'{{"parts": [{{"text": "See:"}}, {{"Card": {{"title": "a"}}}}], "result": {RESULT}}}'


def names(events: list[Said]) -> list[str]:
    found: list[str] = []
    for event in events:
        if not (event.name.endswith(".delta") and found and found[-1] == event.name):
            found.append(event.name)
    return found


def status(events: list[Said], name: str) -> str:
    (found,) = [event.data.get("status", "valid") for event in events if event.name == name]
    return found


@asynccontextmanager
async def provided(provider: str, answer, model: str = "m", **stream):
    """Serve streams of a known provider whose URL is a scripted model."""
    async with model_server(answer) as server:
        config = Config(
            log="off",
            map={"default": f"{provider}/{model}"},
            providers={provider: ProviderConfig(url=server.url, retries=0, key="k")},
            models={f"{provider}/{model}": ModelConfig(window=8000)},
            stream=StreamConfig(**stream),
        )
        async with gateway(config) as (url, _):
            yield url, server


def bodies(server) -> list[dict]:
    return [heard.json for heard in server.heard if heard.method == "POST" and heard.body]


def schema_of(body: dict) -> dict:
    return body["response_format"]["json_schema"]["schema"]


async def test_objects_and_result_of_llama_cpp_are_one_constrained_document():
    async with provided("llamacpp", scripted(GOOD)) as (url, server):
        events = await ask(url, BODY)
    assert names(events) == [
        "text.delta", "json.begin", "json.delta", "json.end",
        "result.begin", "result.delta", "result.end", "done",
    ]  # fmt: skip
    assert (status(events, "json.end"), status(events, "result.end")) == ("valid", "valid")
    (body,) = bodies(server)
    assert "tools" not in body
    part = schema_of(body)["properties"]["parts"]["items"]
    assert part["properties"]["Card"]["properties"]["title"] == {"type": "string", "minLength": 1}


async def test_a_repair_is_constrained_to_the_schema_of_its_frame():
    bad = f'{{"parts": [{{"Card": {{"title": 5, "stars": "many"}}}}], "result": {RESULT}}}'
    mended = '{"title": "five", "stars": 3}'
    async with provided("llamacpp", scripted(bad, mended)) as (url, server):
        events = await ask(url, BODY)
    assert status(events, "json.end") == "repaired"
    first, repair = bodies(server)
    assert set(schema_of(first)["properties"]) == {"parts", "result"}
    assert schema_of(repair)["properties"]["title"] == {"type": "string", "minLength": 1}
    assert "tools" not in repair


async def test_a_result_alone_is_constrained_to_its_own_schema():
    async with provided("vllm", scripted(RESULT)) as (url, server):
        events = await ask(url, {"prompt": "x"})
    assert status(events, "result.end") == "valid"
    (body,) = bodies(server)
    assert schema_of(body)["required"] == ["answer", "citations"]


async def test_openai_gets_strict_schemas_and_null_is_taken_away_again():
    text = f'{{"parts": [{{"Card": {{"title": "a", "stars": null}}}}], "result": {RESULT}}}'
    async with streaming_openai(text) as (url, server):
        events = await ask(url, BODY)
    (end,) = [event.data for event in events if event.name == "json.end"]
    assert (end["status"], end["value"]) == ("healed", {"title": "a"})
    assert end["steps"][0]["what"] == "null for an optional key removed"
    (body,) = bodies(server)
    format = body["text"]["format"]
    assert format["strict"] is True
    card = format["schema"]["properties"]["parts"]["items"]["anyOf"][1]["properties"]["Card"]
    assert card["required"] == ["title", "stars"]
    assert card["additionalProperties"] is False


@asynccontextmanager
async def streaming_openai(text: str):
    """Serve streams of a Responses API that says `text`."""

    async def answer(_, line) -> None:
        item = {"type": "message", "id": "m", "role": "assistant", "status": "completed"}
        item["content"] = [{"type": "output_text", "text": text, "annotations": []}]
        done = {"id": "r", "object": "response", "status": "completed", "output": [item]}
        await line.head(kind="text/event-stream")
        data = json.dumps({"type": "response.completed", "response": done, "sequence_number": 0})
        await line.send(f"event: response.completed\ndata: {data}\n\n")
        await line.end()

    async with model_server(answer) as server:
        provider = ProviderConfig(api="openai_responses", url=server.url, retries=0)
        config = Config(log="off", map={"default": "there/m"}, providers={"there": provider})
        async with gateway(config) as (url, _):
            yield url, server


TOOL = {
    "name": "lamp.set",
    "parameters": {"type": "object", "properties": {"on": {"type": "boolean"}}},
    "client": True,
}


async def test_where_a_schema_excludes_tools_the_tools_come_first():
    async with provided("llamacpp", scripted("It is on already.", GOOD)) as (url, server):
        events = await ask(url, {**BODY, "tools": [TOOL]})
    first, last = bodies(server)
    assert [tool["function"]["name"][:8] for tool in first["tools"]] == ["lamp_set"]
    assert "response_format" not in first
    assert "tools" not in last
    assert set(schema_of(last)["properties"]) == {"parts", "result"}
    assert last["messages"][-2]["content"] == "It is on already."
    assert status(events, "result.end") == "valid"


async def test_a_schema_that_cannot_be_constrained_leaves_the_sentinels():
    """Anthropic has no objects with free keys: the stream works as for any text model."""
    free = {"type": "object", "additionalProperties": {"type": "string"}}

    async def answer(_, line) -> None:
        await whole(line, {"error": {"type": "api_error", "message": "no"}}, 500)

    async with provided("anthropic", answer) as (url, server):
        await ask(url, {"prompt": "x", "schemas": {"Free": free}})
        await ask(url, BODY)
    loose, bound = bodies(server)
    assert "output_config" not in loose
    assert "BEGIN_OBJECT" in json.dumps(loose["system"])
    assert bound["output_config"]["format"]["schema"]["additionalProperties"] is False


async def test_the_mode_that_works_is_chosen_after_failures():
    """A server that ignores the schema: its native answers fail, so sentinels are tried."""

    async def answer(heard, line) -> None:
        sentinel = "BEGIN_RESULT" in heard.body.decode()
        await say(line, reply() if sentinel else "I would rather talk.")

    async with provided("llamacpp", answer) as (url, server):
        modes = []
        for _ in range(8):
            before = len(server.heard)
            events = await ask(url, {"prompt": "x"})
            body = server.heard[before].json
            modes.append("native" if "response_format" in body else "sentinel")
    assert modes[0] == "native"
    assert modes[-1] == "sentinel"
    assert status(events, "result.end") == "valid"


# Tools of one answer.

MEETING = '''
import asyncio
from toolbridge import tool

together = asyncio.Event()
here = []

@tool
async def meet(name: str) -> str:
    """Wait until two are here."""
    here.append(name)
    if len(here) == 2:
        together.set()
    await asyncio.wait_for(together.wait(), 20)
    if name == "first":
        await asyncio.sleep(0.05)
    return name
'''


@pytest.fixture
def meeting(tmp_path):
    path = tmp_path / "meeting.py"
    path.write_text(MEETING)
    return str(path)


@pytest.mark.req("TF-32")
@pytest.mark.parametrize("mode", ["sentinel", "native"])
async def test_tools_of_one_answer_run_at_the_same_time(meeting, mode):
    calls = [("T1", "first"), ("T2", "second")]
    asked: list[object] = []

    async def answer(heard, line) -> None:
        asked.append(heard)
        if len(asked) == 2:
            await say(line, reply() if mode == "sentinel" else RESULT)
        elif mode == "sentinel":
            await say(line, "".join(call(id, "meet", {"name": name}) for id, name in calls))
        else:
            await line.head(kind="text/event-stream")
            for at, (id, name) in enumerate(calls):
                function = {"name": "meet", "arguments": json.dumps({"name": name})}
                tool = {"index": at, "id": id, "type": "function", "function": function}
                await line.send(chunk({"tool_calls": [tool]}))
            await line.send(chunk({}, "tool_calls") + "data: [DONE]\n\n")
            await line.end()

    async with streaming(answer, tools=(meeting,)) as (url, _, _):
        body = {"prompt": "x", "tools": ["meet"], "mode": mode}
        events = await asyncio.wait_for(ask(url, body), 20)
    assert names(events)[:4] == ["tool.call", "tool.call", "tool.result", "tool.result"]
    results = [e.data["result"] for e in events if e.name == "tool.result"]
    assert results == ["first", "second"], "the second ended first"


async def test_two_client_tools_may_be_answered_in_any_order():
    lamp = {**TOOL, "parameters": {"type": "object", "properties": {"n": {"type": "integer"}}}}
    text = call("T1", "lamp.set", {"n": 1}) + "\n" + call("T2", "lamp.set", {"n": 2})
    async with (
        streaming(scripted(text, reply())) as (url, server, _),
        aiohttp.ClientSession() as client,
        client.post(f"{url}/v1/stream", json={"prompt": "x", "tools": [lamp]}) as response,
    ):
        back = f"{url}/v1/stream/{response.headers['x-toolbridge-run']}/results"
        events = []
        async for event in read(response):
            events.append(event)
            if event.name == "tool.call" and event.data["id"] == "T2":
                for id in ("T2", "T1"):
                    async with client.post(back, json={"id": id, "result": id}) as told:
                        assert told.status == 200
    assert [e.data["result"] for e in events if e.name == "tool.result"] == ["T1", "T2"]
    prompt = server.heard[1].body.decode()
    assert prompt.index("tool call T1") < prompt.index("tool call T2")


async def test_a_call_does_not_wait_long_for_a_model_that_stays_silent():
    async def answer(heard, line) -> None:
        if b"Result of tool call" in heard.body:
            await say(line, reply())
            return
        await line.head(kind="text/event-stream")
        await line.send(chunk({"content": call("T1", "time.now", {})}))
        await line.gone()

    async with streaming(answer) as (url, server, _):
        events = await asyncio.wait_for(ask(url, {"prompt": "x", "tools": ["time.now"]}), 20)
    assert names(events)[:2] == ["tool.call", "tool.result"]
    assert len(server.heard) == 2


async def test_an_abort_cancels_every_tool_that_runs(tmp_path):
    path = tmp_path / "slow.py"
    path.write_text(
        "import asyncio\nfrom toolbridge import tool\n\n@tool\nasync def slow(n: int) -> int:\n"
        '    """Never end."""\n    await asyncio.sleep(60)\n    return n\n'
    )
    text = call("T1", "slow", {"n": 1}) + call("T2", "slow", {"n": 2})
    async with (
        streaming(scripted(text), tools=(str(path),)) as (url, _, _),
        aiohttp.ClientSession() as client,
        client.post(f"{url}/v1/stream", json={"prompt": "x", "tools": ["slow"]}) as response,
    ):
        run = response.headers["x-toolbridge-run"]
        events = []
        async for event in read(response):
            events.append(event)
            if event.name == "tool.call" and event.data["id"] == "T2":
                async with client.delete(f"{url}/v1/stream/{run}") as told:
                    assert told.status == 200
    assert names(events) == [
        "tool.call", "tool.call", "tool.result", "tool.result", "error", "done",
    ]  # fmt: skip
    assert {e.data["result"]["error"]["code"] for e in events if e.name == "tool.result"} == {
        "aborted"
    }
