"""A node as an ordinary provider: what a client of the gateway sees, and what the node is sent."""

import asyncio
import json

import aiohttp
import anthropic
import openai
import pytest
from tests.node.gateways import MODEL, WRITE, ask, body, bridged, provider
from tests.node.server import Node, Scene, running
from tests.peers import gateway
from tests.waiting import until

from toolbridge.config import Config, ModelConfig, ProviderConfig
from toolbridge.sdk import AsyncClient

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGNgYGD4DwABBAEAX+XDSwAAAABJRU5ErkJggg=="
CALL = '<tool_call>\n{"name": "Write", "arguments": {"file_path": "a.txt", "content": "x"}}\n</tool_call>'


def pieces(text: str, size: int = 5) -> tuple[str, ...]:
    return tuple(text[at : at + size] for at in range(0, len(text), size))


@pytest.mark.req("CB-13", "CB-23")
async def test_a_stream_from_a_node_has_the_order_that_clients_rely_on():
    async with bridged() as (url, node, _):
        reply = await ask(url)
    assert reply.kinds == [
        "message_start", "content_block_start", *["content_block_delta"] * 3,
        "content_block_stop", "message_delta", "message_stop",
    ]  # fmt: skip
    assert reply.text == "Hello, world"
    assert (reply.stop, reply.clean) == ("end_turn", True)
    assert reply.headers["x-toolbridge-model"] == f"mynode/{MODEL}"
    assert node.heard[0].prompt["model"] == MODEL
    assert node.heard[0].prompt["max_tokens"] == 64


async def test_every_api_is_served_by_a_node():
    async with bridged() as (url, _, _):
        sdk = openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0)
        async with sdk:
            said = await sdk.chat.completions.create(
                model="gpt-5", messages=[{"role": "user", "content": "hi"}]
            )
        assert said.choices[0].message.content == "Hello, world"
        assert (await ask(url, body(stream=False))).text == "Hello, world"


@pytest.mark.req("CB-09")
@pytest.mark.parametrize(
    ("quirks", "start"),
    [({}, "<|im_start|>system\nBe brief."), ({"framing": "labelled"}, "System:\nBe brief.")],
)
async def test_the_framing_of_turns_is_a_setting(quirks, start):
    async with bridged(quirks=quirks) as (url, node, _):
        await ask(url, body(system="Be brief."))
    assert node.heard[0].prompt["prompt"].startswith(start)


@pytest.mark.req("CB-29", "CB-32", "CB-33", "CB-14")
@pytest.mark.parametrize("stream", [True, False])
async def test_a_call_that_a_node_writes_as_text_is_a_call(stream):
    async with bridged() as (url, node, _):
        node.play(Scene(pieces(f"Sure.\n{CALL}")))
        reply = await ask(url, body("write a.txt", tools=[WRITE], stream=stream, max_tokens=900))
    assert reply.stop == "tool_use"
    if stream:
        starts = [e["content_block"] for e in reply.events if e["type"] == "content_block_start"]
        assert [(start["type"], start.get("input")) for start in starts] == [
            ("text", None),
            ("tool_use", {}),
        ]
        assert starts[1]["id"].startswith("toolu_")
        written = [e["delta"].get("partial_json", "") for e in reply.events if "delta" in e]
        assert json.loads("".join(written)) == {"file_path": "a.txt", "content": "x"}
    else:
        call = reply.body["content"][1]
        assert (call["name"], call["input"]) == ("Write", {"file_path": "a.txt", "content": "x"})
    told = node.heard[0].prompt["prompt"]
    assert "Writes a file." in told
    assert "tools" in reply.headers["x-toolbridge-warning"]


@pytest.mark.req("CB-35")
@pytest.mark.parametrize(
    ("model", "written"),
    [
        ("someone/Tiny-GGUF:Tiny-Q4.gguf", '"arguments": {"file_path": "a.txt"'),
        (MODEL, "<arg_key>file_path</arg_key><arg_value>a.txt</arg_value>"),
    ],
)
async def test_calls_and_results_of_the_past_reach_the_node_as_its_model_writes_them(
    model, written
):
    use = {"type": "tool_use", "id": "toolu_1", "name": "Write", "input": {"file_path": "a.txt"}}
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "written to a.txt"}
    turns = [
        {"role": "user", "content": "write a.txt"},
        {"role": "assistant", "content": [use]},
        {"role": "user", "content": [result]},
    ]
    async with bridged(model=model) as (url, node, _):
        await ask(url, body(tools=[WRITE]) | {"messages": turns})
    told = node.heard[0].prompt["prompt"]
    assert written in told
    assert told.index("write a.txt") < told.rindex(written) < told.index("written to a.txt")


async def test_a_thought_between_tags_is_a_thinking_block():
    async with bridged() as (url, node, _):
        node.play(Scene(("<thi", "nk>let me", " see</think>", "Done.")))
        reply = await ask(url, body(thinking={"type": "enabled", "budget_tokens": 1024}))
    blocks = [
        e["content_block"]["type"] for e in reply.events if e["type"] == "content_block_start"
    ]
    assert blocks == ["thinking", "text"]
    assert reply.text == "Done."
    assert node.heard[0].prompt["thinking"] == "enabled"


@pytest.mark.req("CB-03", "CB-10")
async def test_a_picture_is_an_attachment():
    source = {"type": "base64", "media_type": "image/png", "data": PIXEL}
    content = [{"type": "text", "text": "what is it?"}, {"type": "image", "source": source}]
    async with bridged() as (url, node, _):
        reply = await ask(url, body(content))
    assert reply.text == "Hello, world"
    assert node.heard[0].prompt["images"] == [{"data": PIXEL, "format": "png"}]
    assert PIXEL not in node.heard[0].prompt["prompt"]


@pytest.mark.req("CB-36")
async def test_tokens_that_reading_a_picture_took_stand_in_the_log(capsys):
    async with bridged(log="json") as (url, node, _):
        node.play(Scene(vlm_tokens=1234))
        source = {"type": "base64", "media_type": "image/png", "data": PIXEL}
        counted = (await ask(url, body([{"type": "image", "source": source}]))).usage
    line = json.loads(capsys.readouterr().err.splitlines()[-1])
    assert line["gen_ai.usage.vision.tokens"] == 1234
    assert (line["gen_ai.usage.output_tokens"], counted["output_tokens"]) == (3, 3)


@pytest.mark.parametrize("stream", [True, False])
async def test_a_stop_sequence_cuts_the_answer_and_stops_the_node(stream):
    async with bridged() as (url, node, _):
        node.play(Scene(("one ", "two ", "thr", "ee ", *["four "] * 200), pause=0.01))
        reply = await ask(url, body(stop_sequences=["three"], max_tokens=900, stream=stream))
        assert (reply.text, reply.stop) == ("one two ", "stop_sequence")
        assert reply.usage["output_tokens"] == 4
        await until(lambda: node.cancelled)
        assert (await ask(url)).text == "Hello, world"


async def test_a_stop_sequence_in_a_thought_or_in_a_call_cuts_nothing():
    async with bridged() as (url, node, _):
        said = "<think>no END yet</think>Well.\n" + CALL.replace('"x"', '"END"')
        node.play(Scene(pieces(said)))
        asked = body(tools=[WRITE], stop_sequences=["END"], max_tokens=900, stream=False)
        reply = await ask(url, asked)
    assert reply.stop == "tool_use"
    assert reply.body["content"][-1]["input"] == {"file_path": "a.txt", "content": "END"}


@pytest.mark.req("CB-36")
@pytest.mark.parametrize("stream", [True, False])
async def test_the_counts_of_the_node_are_told_and_an_estimate_where_it_has_none(stream):
    async with bridged() as (url, node, _):
        node.play(Scene(), Scene(counts=False))
        counted = (await ask(url, body(stream=stream))).usage
        assert (counted["input_tokens"], counted["output_tokens"]) == (11, 3)
        uncounted = (await ask(url, body("word " * 400, stream=stream))).usage
    assert uncounted["input_tokens"] > 200
    assert uncounted["output_tokens"] == 3


async def test_an_answer_that_reached_its_limit_says_so():
    async with bridged() as (url, node, _):
        node.play(Scene(("a",) * 20))
        reply = await ask(url, body(max_tokens=5))
    assert (reply.stop, reply.text) == ("max_tokens", "aaaaa")


@pytest.mark.req("CB-01")
async def test_what_a_node_cannot_be_told_is_said():
    async with bridged() as (url, _, _):
        reply = await ask(url, body(top_k=5, top_p=0.3))
    warning = reply.headers["x-toolbridge-warning"]
    assert "top_k" in warning
    assert "top_p" in warning


async def test_the_model_is_listed_by_its_file_and_asked_for_by_any_name():
    async with bridged() as (url, node, _), aiohttp.ClientSession() as session:
        async with session.get(f"{url}/v1/models") as answer:
            listed = [model["id"] for model in (await answer.json())["data"]]
        assert listed == ["GLM-4.7-Flash-UD-Q8_K_XL"]
        for name in ("claude-opus-5", listed[0], f"mynode/{MODEL}", f"mynode/{listed[0].lower()}"):
            reply = await ask(url, body() | {"model": name})
            assert reply.status == 200, reply.body
        assert {heard.prompt["model"] for heard in node.heard} == {MODEL}


async def test_another_model_than_the_one_that_is_paid_for_is_not_found():
    async with bridged() as (url, node, _):
        reply = await ask(url, body() | {"model": "mynode/llama"})
        assert (reply.status, reply.error["type"]) == (404, "not_found_error")
        assert MODEL in reply.error["message"]
        assert not node.inits


async def test_the_window_of_a_model_is_a_setting_and_a_longer_prompt_is_refused():
    models = {f"mynode/{MODEL}": ModelConfig(window=1000)}
    async with bridged(models=models) as (url, node, _):
        reply = await ask(url, body("word " * 9000))
        assert reply.status == 400
        assert "too long" in reply.error["message"]
        assert not node.heard


@pytest.mark.req("CB-15")
async def test_one_session_serves_every_request_and_ends_with_the_gateway():
    async with bridged() as (url, node, _):
        assert node.connections == 0
        await asyncio.gather(*(ask(url) for _ in range(4)))
        assert (node.connections, node.most_at_once, len(node.heard)) == (1, 1, 4)
        assert node.closed == []
        kept = node
    assert kept.closed == [1000]


async def test_several_sessions_answer_at_the_same_time_when_asked_for():
    async with bridged(sessions=3) as (url, node, _):
        node.play(*[Scene(pause=0.05) for _ in range(3)])
        await asyncio.gather(*(ask(url) for _ in range(3)))
        assert node.connections == 3


async def test_the_library_uses_a_node_and_hangs_up_when_it_is_closed():
    async with running() as node:
        async with AsyncClient(Config(providers={"mynode": provider(node)}), env={}) as client:
            assert await client.ask("", "hi") == "Hello, world"
            assert not node.closed
        await until(lambda: node.closed)
        assert node.closed == [1000]


async def test_a_node_beside_other_providers_is_asked_only_for_its_own():
    node = Node()
    node.url = "http://127.0.0.1:1"
    places = {"demo": ProviderConfig(api="demo"), "mynode": provider(node)}
    async with gateway(Config(log="off", providers=places)) as (url, app):
        reply = await ask(url, body(stream=False))
        assert reply.status == 200
        assert reply.headers["x-toolbridge-model"].startswith("demo/")
        route = await app.gateway.model_routes.route(f"mynode/{MODEL}")
    assert (route.retries, route.target.capabilities) == (0, frozenset({"thinking"}))


async def test_anthropics_sdk_talks_to_a_node():
    async with bridged() as (url, node, _):
        node.play(Scene(pieces(CALL)))
        sdk = anthropic.AsyncAnthropic(base_url=url, api_key="none", max_retries=0)
        async with sdk, sdk.messages.stream(
            model="claude-sonnet-5-5", max_tokens=500, tools=[WRITE],
            messages=[{"role": "user", "content": "write a.txt"}],
        ) as stream:  # fmt: skip
            message = await stream.get_final_message()
    assert [block.type for block in message.content] == ["tool_use"]
    assert message.content[0].input == {"file_path": "a.txt", "content": "x"}
    assert message.stop_reason == "tool_use"
