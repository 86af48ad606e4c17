"""The real llama.cpp behind the gateway, the official SDKs in front of it.

The server's own window into its slots shows what the model really saw, so these tests hold the
whole way: from a client's call, through two translations, to the tokens.
"""

import asyncio
import base64
import itertools
import json
import time
from contextlib import asynccontextmanager

import aiohttp
import anthropic
import openai
import pytest
from tests.peers import gateway
from tests.real.llamacpp import engine
from tests.sdks import PNG, SDKS, WEATHER, Tool

from toolbridge import providers
from toolbridge.config import Config, ProviderConfig

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]

BEHIND = ("openai_chat", "anthropic", "openai_responses")
HELLO = "Hello from the tiny test model."
THOUGHT = "I should answer briefly."
CODE = "```python\nprint('hi')\n```"
PARIS = ("get_weather", {"city": "Paris"})
CITIES = [("get_weather", {"city": "Berlin"}), ("get_weather", {"city": "Rome"})]
TOOL = {"type": "function", "function": {"name": "get_weather", "parameters": WEATHER}}

every_sdk = pytest.mark.parametrize("sdk", SDKS.values(), ids=SDKS)
every_api = pytest.mark.parametrize("behind", BEHIND)


@asynccontextmanager
async def bridged(server, behind: str = "openai_chat", **place):
    """Serve a gateway in front of `server`, which is spoken to in the API `behind`."""
    known = providers.load("llamacpp")
    quirks = known.quirks if behind == "openai_chat" else {}
    url = server.url if behind == "anthropic" else f"{server.url}/v1"
    there = ProviderConfig(api=behind, url=url, quirks=quirks, **place)
    config = Config(log="off", map={"default": "there/tiny"}, providers={"there": there})
    async with gateway(config) as (found, _):
        yield found


def lines(stream: str) -> list[dict]:
    """Return the data of each event of a stream."""
    found = [line[6:] for line in stream.split("\n") if line.startswith("data: {")]
    return [json.loads(line) for line in found]


# ── each marker, from each SDK, over each API ────────────────────────────────

SAYS: dict[str, dict] = {
    "hello": {"text": HELLO},
    "[[think]]": {"thinking": THOUGHT, "text": HELLO},
    "[[unicode]]": {"text": "Emoji: 😀 ok"},
    "[[empty]]": {"text": ""},
    "[[json]]": {"text": '{"answer": "yes"}'},
    "[[code]]": {"text": CODE},
    "[[tool]]": {"calls": [PARIS]},
    "[[tool2]]": {"calls": CITIES},
    "[[texttool]]": {"text": "Let me check.", "calls": [PARIS]},
    "[[thinktool]]": {"thinking": THOUGHT, "calls": [PARIS]},
}


@every_api
@every_sdk
async def test_whatever_the_model_does_arrives(tiny, sdk, behind):
    async with bridged(tiny, behind) as url, sdk(url, tools=(Tool(),)) as talk:
        for marker, stream in itertools.product(SAYS, (True, False)):
            expected, where = SAYS[marker], f"{marker} stream={stream}"
            talk.begin()
            talk.think = "think" in marker
            said = await talk.ask(marker, stream=stream)
            assert said.text.strip() == expected.get("text", ""), where
            assert said.thinking.strip() == expected.get("thinking", ""), where
            assert said.calls == expected.get("calls", []), where
            assert said.stop == ("tool_use" if said.calls else "end"), where
            assert said.input > 100, where
            assert 0 < said.output < 30, where
            if said.calls:
                last = await talk.answer(*["warm"] * len(said.calls), stream=stream)
                assert (last.text, last.stop) == ("The result came back!", "end"), where


@pytest.mark.parametrize("behind", ["openai_chat", "anthropic"])
@every_sdk
async def test_an_answer_that_is_cut_by_the_limit_says_so(tiny, sdk, behind):
    async with bridged(tiny, behind) as url:
        for stream in (True, False):
            async with sdk(url, max_tokens=20) as talk:
                said = await talk.ask("[[long]]", stream=stream)
            assert said.stop == "length"
            assert said.text == " ".join(["one two three four five six seven eight nine ten"] * 2)
            assert said.output == 20


@pytest.mark.req("CL-04")
@every_sdk
async def test_a_client_that_hangs_up_stops_the_model(tiny, sdk):
    async with bridged(tiny) as url, sdk(url, max_tokens=30000) as talk:
        asking = asyncio.create_task(talk.ask("[[long]] " + "go on " * 50))
        until = time.monotonic() + 10
        while not await asyncio.to_thread(tiny.busy):
            assert time.monotonic() < until, "the model never began"
            assert not asking.done(), asking.result()
        asking.cancel()
        left = time.monotonic()
        with pytest.raises(asyncio.CancelledError):
            await asking
        while await asyncio.to_thread(tiny.busy):
            assert time.monotonic() - left < 1.0, "the model goes on for nobody"
            await asyncio.sleep(0.02)


# ── what the model saw ───────────────────────────────────────────────────────


@every_api
@every_sdk
async def test_the_model_sees_the_whole_conversation(tiny, sdk, behind):
    mark = f"{sdk.api}/{behind}"
    async with (
        bridged(tiny, behind) as url,
        sdk(url, tools=(Tool(),), system=f"You are {mark}.") as talk,
    ):
        await talk.ask("[[tool2]] now")
        await talk.answer("snow in Berlin", "sun in Rome")
    prompt = tiny.prompt_with(f"You are {mark}.")
    assert prompt.count(f"You are {mark}.") == 1
    tools = prompt.partition("<tools>\n")[2].partition("\n</tools>")[0]
    offered = json.loads(tools)["function"]
    assert (offered["name"], offered["description"]) == ("get_weather", "The weather in a city.")
    assert offered["parameters"]["properties"].keys() == {"city", "unit"}
    talked = prompt.partition("<|user|>")[2]
    order = ["[[tool2]] now", "Berlin", "Rome", "snow in Berlin", "sun in Rome"]
    places = [talked.index(words) for words in order]
    assert places == sorted(places)
    assert talked.count("<tool_call>") == 2
    assert talked.count("<tool_response>") == 2


@every_sdk
async def test_tokens_are_the_servers_own(tiny, sdk):
    async with bridged(tiny) as url, sdk(url, system=f"Counted for {sdk.api}.") as talk:
        said = await talk.ask("how many?")
    turns = [
        {"role": "system", "content": f"Counted for {sdk.api}."},
        {"role": "user", "content": "how many?"},
    ]
    _, direct = tiny.post("/v1/chat/completions", {"messages": turns})
    usage = json.loads(direct)["usage"]
    assert (said.input, said.output) == (usage["prompt_tokens"], usage["completion_tokens"])


@pytest.mark.parametrize("name", [name for name in SDKS if name != "ollama"])
@pytest.mark.parametrize("stream", [True, False])
async def test_the_same_request_again_reads_its_prefix_from_the_cache(tiny, name, stream):
    asked = f"cached {name} {stream}: " + "many words " * 100
    async with bridged(tiny) as url:
        found = []
        for _ in range(2):
            async with SDKS[name](url, tools=(Tool(),)) as talk:
                found.append(await talk.ask(asked, stream=stream))
    assert found[0].input == found[1].input
    assert found[1].cached == found[1].input - 1


async def test_a_conversation_that_grows_reads_its_past_from_the_cache(tiny):
    async with bridged(tiny) as url:
        for name in ("anthropic", "openai_chat", "openai_responses", "gemini"):
            async with SDKS[name](url, tools=(Tool(),), system=f"Growing, {name}.") as talk:
                first = await talk.ask("[[tool]] " + "so many words " * 80)
                last = await talk.answer("warm")
            assert last.cached >= first.input - 2, name


# ── refusals ─────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def narrow():
    with engine("--ctx", "2048", "--parallel", "1") as server:
        yield server


@pytest.fixture(scope="module")
def locked():
    with engine("--api-key", "open-sesame") as server:
        yield server


@pytest.fixture(scope="module")
def toolless(tmp_path_factory):
    """A model whose template knows nothing of tools."""
    template = tmp_path_factory.mktemp("template") / "plain.jinja"
    template.write_text(
        "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}<|assistant|>"
    )
    with engine("--template", str(template)) as server:
        yield server


@pytest.mark.req("CL-09")
@every_api
@every_sdk
async def test_a_prompt_that_is_too_long_is_refused_in_the_words_clients_know(narrow, sdk, behind):
    async with bridged(narrow, behind) as url:
        for stream in (True, False):
            async with sdk(url) as talk:
                with pytest.raises(Exception, match=r"prompt is too long: \d+ tokens > 2048 max"):
                    await talk.ask("word " * 3000, stream=stream)


@every_sdk
async def test_an_image_for_a_model_that_cannot_see_is_refused_at_once(tiny, sdk):
    async with bridged(tiny, "anthropic") as url, sdk(url) as talk:
        began = time.monotonic()
        with pytest.raises(Exception, match="image input is not supported") as caught:
            await talk.ask("what is this?", image=PNG)
        assert time.monotonic() - began < 2, "it was asked again, in vain"
    status = getattr(caught.value, "status_code", None) or getattr(caught.value, "code", None)
    assert status == 400


@pytest.mark.parametrize("behind", ["openai_chat", "openai_responses"])
async def test_an_image_is_left_out_where_the_server_reports_that_it_cannot_see(tiny, behind):
    image = {"type": "base64", "media_type": "image/png", "data": base64.b64encode(PNG).decode()}
    parts = [{"type": "text", "text": "@hello"}, {"type": "image", "source": image}]
    ask = {"model": "m", "max_tokens": 99, "messages": [{"role": "user", "content": parts}]}
    async with (
        bridged(tiny, behind) as url,
        aiohttp.ClientSession() as session,
        session.post(f"{url}/v1/messages", json=ask) as reply,
    ):
        assert reply.status == 200, await reply.text()
        assert "content.1" in reply.headers["x-toolbridge-warning"]


@every_sdk
async def test_a_refused_key_is_said_to_be_the_providers(locked, sdk):
    async with bridged(locked, key="wrong") as url, sdk(url) as talk:
        with pytest.raises(Exception, match="rejected the API key"):
            await talk.ask("hi")
    async with bridged(locked, key="open-sesame") as url, sdk(url) as talk:
        assert (await talk.ask("hi")).text == HELLO


# ── the facts of a real server ───────────────────────────────────────────────


@pytest.mark.req("CL-03")
@pytest.mark.parametrize("marker", ["[[texttool]]", "[[thinktool]]", "[[tool2]]"])
async def test_fact_1_blocks_that_all_end_at_the_end_are_put_in_order(tiny, marker):
    body = {
        "model": "any name", "max_tokens": 200, "stream": True,
        "messages": [{"role": "user", "content": marker}],
        "tools": [{"name": "get_weather", "input_schema": WEATHER}],
    }  # fmt: skip
    theirs = lines(tiny.post("/v1/messages", body)[1])
    kinds = [(e["type"], e.get("index")) for e in theirs if "content_block_st" in e["type"]]
    assert kinds.index(("content_block_start", 1)) < kinds.index(("content_block_stop", 0))
    assert not any("input" in e["content_block"] for e in theirs
                   if e["type"] == "content_block_start" and e["content_block"]["type"] == "tool_use")  # fmt: skip
    async with (
        bridged(tiny, "anthropic") as url,
        aiohttp.ClientSession() as http,
        http.post(f"{url}/v1/messages", json=body) as reply,
    ):
        ours = lines(await reply.text())
    open_block = None
    for event in ours:
        if event["type"] == "content_block_start":
            assert open_block is None
            open_block = event["index"]
            if event["content_block"]["type"] == "tool_use":
                assert event["content_block"]["input"] == {}
        elif event["type"] == "content_block_stop":
            assert event["index"] == open_block
            open_block = None
    assert ours[0]["message"]["id"].startswith("msg_")
    assert ours[-2]["usage"]["input_tokens"] > 0
    assert ours[-1]["type"] == "message_stop"


@pytest.mark.parametrize("stream", [True, False])
async def test_fact_1_a_stop_sequence_is_called_one(tiny, stream):
    body = {
        "model": "tiny", "max_tokens": 50, "stop_sequences": ["tiny"],
        "messages": [{"role": "user", "content": "hi"}],
    }  # fmt: skip
    theirs = json.loads(tiny.post("/v1/messages", body)[1])
    assert (theirs["stop_reason"], theirs["stop_sequence"]) == ("end_turn", "tiny")
    async with (
        bridged(tiny, "anthropic") as url,
        anthropic.AsyncAnthropic(base_url=url, api_key="none", max_retries=0) as sdk,
    ):
        if stream:
            async with sdk.messages.stream(**body) as streaming:
                message = await streaming.get_final_message()
        else:
            message = await sdk.messages.create(**body)
    assert (message.stop_reason, message.stop_sequence) == ("stop_sequence", "tiny")
    assert message.content[0].text == "Hello from the "


async def test_fact_1_an_error_in_another_apis_shape_becomes_the_clients(tiny):
    source = {"type": "base64", "media_type": "image/png", "data": base64.b64encode(PNG).decode()}
    turns = [{"role": "user", "content": [{"type": "image", "source": source}]}]
    status, theirs = tiny.post("/v1/messages", {"max_tokens": 5, "messages": turns})
    assert status == 500
    assert json.loads(theirs).keys() == {"error"}
    async with (
        bridged(tiny, "anthropic") as url,
        anthropic.AsyncAnthropic(base_url=url, api_key="none", max_retries=0) as sdk,
    ):
        with pytest.raises(anthropic.BadRequestError) as caught:
            await sdk.messages.create(model="x", max_tokens=5, messages=turns)
    assert caught.value.body["type"] == "error"
    assert caught.value.body["error"]["type"] == "invalid_request_error"


async def test_fact_1_thinking_is_turned_off_where_the_client_says_so(tiny):
    async with (
        bridged(tiny) as url,
        anthropic.AsyncAnthropic(base_url=url, api_key="none", max_retries=0) as sdk,
    ):
        message = await sdk.messages.create(
            model="x", max_tokens=50, thinking={"type": "disabled"},
            messages=[{"role": "user", "content": "[[think]]"}],
        )  # fmt: skip
    assert [block.type for block in message.content] == ["text"]


@pytest.mark.parametrize("name", [name for name in SDKS if name != "ollama"])
async def test_fact_2_a_named_tool_is_called_although_the_server_ignores_names(tiny, name):
    body = {
        "messages": [{"role": "user", "content": "hi"}], "tools": [TOOL],
        "tool_choice": {"type": "function", "function": {"name": "get_weather"}},
    }  # fmt: skip
    theirs = json.loads(tiny.post("/v1/chat/completions", body)[1])["choices"][0]
    assert (theirs["finish_reason"], theirs["message"]["content"]) == ("stop", HELLO)
    other = Tool("other", "Something else.", {"type": "object", "properties": {}})
    async with (
        bridged(tiny) as url,
        SDKS[name](url, tools=(other, Tool()), choice="get_weather") as talk,
    ):
        said = await talk.ask("hi")
    assert [call[0] for call in said.calls] == ["get_weather"]


def test_fact_3_the_first_delta_has_no_content(tiny):
    body = {"messages": [{"role": "user", "content": "hi"}], "stream": True}
    first = lines(tiny.post("/v1/chat/completions", body)[1])[0]["choices"][0]["delta"]
    assert first == {"role": "assistant", "content": None}


async def test_fact_3_a_tool_that_cannot_be_read_is_refused_at_once(tiny):
    body = {"messages": [{"role": "user", "content": "hi"}], "tools": [{"bad": 1}]}
    assert tiny.post("/v1/chat/completions", body)[0] == 500
    async with (
        bridged(tiny) as url,
        aiohttp.ClientSession() as http,
        http.post(f"{url}/v1/chat/completions", json={"model": "x", **body}) as reply,
    ):
        assert reply.status == 400
        assert (await reply.json())["error"]["param"] == "tools.0.function"


@pytest.mark.parametrize("behind", ["openai_chat", "openai_responses"])
async def test_fact_3_an_answer_that_was_begun_is_gone_on_with(tiny, behind):
    begun = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": "Hello from"},
    ]
    _, theirs = tiny.post("/v1/chat/completions", {"messages": begun})
    assert json.loads(theirs)["choices"][0]["message"]["content"] == HELLO
    async with (
        bridged(tiny, behind) as url,
        anthropic.AsyncAnthropic(base_url=url, api_key="none", max_retries=0) as sdk,
    ):
        message = await sdk.messages.create(model="x", max_tokens=50, messages=begun)
    assert message.content[0].text.endswith("the tiny test model.")
    assert message.usage.output_tokens == 6


@every_sdk
async def test_fact_4_two_calls_come_although_nobody_asked_for_several(tiny, sdk):
    async with bridged(tiny) as url, sdk(url, tools=(Tool(),)) as talk:
        said = await talk.ask("[[tool2]]")
    assert said.calls == CITIES
    assert len(set(said.ids)) == 2


@pytest.mark.parametrize("stream", [True, False])
async def test_fact_5_half_a_call_is_never_one_that_runs(tiny, stream):
    async with (
        bridged(tiny) as url,
        anthropic.AsyncAnthropic(base_url=url, api_key="none", max_retries=0) as sdk,
    ):
        request = {
            "model": "x", "max_tokens": 5, "messages": [{"role": "user", "content": "[[tool]]"}],
            "tools": [{"name": "get_weather", "input_schema": WEATHER}],
        }  # fmt: skip
        if stream:
            async with sdk.messages.stream(**request) as streaming:
                message = await streaming.get_final_message()
        else:
            message = await sdk.messages.create(**request)
    assert message.stop_reason == "max_tokens"
    calls = [block.input for block in message.content if block.type == "tool_use"]
    assert all(call != {"city": "Paris"} for call in calls)


async def test_fact_5_a_model_that_talks_past_its_limit_was_cut_and_called_nothing(tiny):
    async with (
        bridged(tiny) as url,
        SDKS["anthropic"](url, tools=(Tool(),), choice="required", max_tokens=6) as talk,
    ):
        said = await talk.ask("hi")
    assert (said.calls, said.stop) == ([], "length")


@pytest.mark.parametrize("stream", [True, False])
async def test_fact_7_thoughts_go_back_to_the_model_where_it_looks_for_them(tiny, stream):
    async with bridged(tiny) as url, SDKS["anthropic"](url, tools=(Tool(),), think=True) as talk:
        await talk.ask("[[thinktool]]", stream=stream)
        await talk.answer(f"thought of, stream={stream}", stream=stream)
    prompt = tiny.prompt_with(f"thought of, stream={stream}")
    assert f"<think>\n{THOUGHT}" in prompt


async def test_fact_8_the_server_has_trimmed_what_leads(tiny):
    _, theirs = tiny.post(
        "/v1/chat/completions",
        {"messages": [{"role": "user", "content": "[[long]]"}], "max_tokens": 3},
    )
    assert json.loads(theirs)["choices"][0]["message"]["content"] == "one two three"
    async with bridged(tiny) as url, SDKS["openai_chat"](url, max_tokens=3) as talk:
        assert (await talk.ask("[[long]]")).text == "one two three"


async def test_a_template_without_tools_calls_them_all_the_same(toolless):
    """The server itself ignores the tools, and `tool_choice` as well."""
    async with (
        bridged(toolless) as url,
        SDKS["openai_chat"](url, tools=(Tool(),), choice="required") as talk,
    ):
        said = await talk.ask("hi")
    assert [name for name, _ in said.calls] == ["get_weather"]


async def test_a_schema_binds_the_answer(tiny):
    schema = {
        "type": "object", "properties": {"n": {"type": "integer"}, "ok": {"type": "boolean"}},
        "required": ["n", "ok"], "additionalProperties": False,
    }  # fmt: skip
    async with (
        bridged(tiny, "openai_chat") as url,
        openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as sdk,
    ):
        reply = await sdk.responses.create(
            model="x", input="hi", max_output_tokens=200,
            text={"format": {"type": "json_schema", "name": "x", "schema": schema, "strict": True}},
        )  # fmt: skip
    assert json.loads(reply.output_text).keys() == {"n", "ok"}


# ── what the server reports about itself ─────────────────────────────────────


async def test_the_gateway_knows_what_the_server_reports(tiny):
    props = await asyncio.to_thread(tiny.get, "/props")
    there = ProviderConfig(api="openai_chat", url=f"{tiny.url}/v1")
    async with gateway(Config(log="off", providers={"there": there})) as (url, app):
        route = await app.gateway.model_routes.route("tiny")
        async with aiohttp.ClientSession() as session, session.get(f"{url}/v1/models") as reply:
            listed = {row["id"]: row for row in (await reply.json())["data"]}
    assert (route.address, route.engine) == ("there/tiny", "llama.cpp")
    assert route.target.window == props["default_generation_settings"]["n_ctx"]
    assert route.target.can("tools") is props["chat_template_caps"]["supports_tools"]
    assert len(route.template) == 16
    assert listed["there/tiny"]["context_length"] == route.target.window


async def test_count_tokens_is_the_servers_own_count(tiny):
    async with bridged(tiny) as url, aiohttp.ClientSession() as session:
        ask = {
            "model": "tiny",
            "max_tokens": 40,
            "messages": [{"role": "user", "content": "@hello"}],
        }
        async with session.post(f"{url}/v1/messages/count_tokens", json=ask) as reply:
            assert reply.headers["x-toolbridge-token-count"] == "exact"
            counted = (await reply.json())["input_tokens"]
        async with session.post(f"{url}/v1/messages", json=ask) as reply:
            usage = (await reply.json())["usage"]
    assert counted == usage["input_tokens"] + usage.get("cache_read_input_tokens", 0)
