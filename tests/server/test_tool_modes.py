"""The three tool modes through the gateway: whatever the model is asked, the client sees its calls."""

import json
from contextlib import asynccontextmanager

import jsonschema_rs
import pytest
from tests.asking import ask, request
from tests.peers import bridged, gateway, line_of, model_server, ollama, replay, whole
from tests.streams import chunk

from toolbridge import codecs
from toolbridge.config import Config, ModelConfig, ProviderConfig

PARIS = ("get_weather", {"city": "Paris"})
JSON_CALL = '{"name": "get_weather", "parameters": {"city": "Paris"}}'
TAGGED = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>'

every_api = pytest.mark.parametrize("api", codecs.names())
both = pytest.mark.parametrize("stream", [True, False])


def says(text: str):
    """Return a Chat Completions server whose model writes `text`, three characters at a time."""

    async def answer(_, line) -> None:
        await line.head(kind="text/event-stream")
        for at in range(0, len(text), 3):
            await line.send(chunk({"content": text[at : at + 3]}))
        await line.send(chunk({}, "stop") + "data: [DONE]\n\n")
        await line.end()

    return answer


@asynccontextmanager
async def chat(answer, mode=None, *, tools=None, **place):
    async with model_server(answer) as server:
        there = ProviderConfig(api="openai_chat", url=server.url, retries=0, **place)
        config = Config(
            log="off",
            map={"default": "there/m"},
            providers={"there": there},
            models={"there/m": ModelConfig(tool_mode=mode, tools=tools)},
        )
        async with gateway(config) as (url, _):
            yield url, server


def sent(server) -> dict:
    (heard,) = [one for one in server.heard if one.method == "POST"]
    return json.loads(heard.body)


@every_api
@both
async def test_in_constrained_mode_json_becomes_a_call(api, stream):
    async with chat(says(JSON_CALL), "constrained") as (url, server):
        found = await ask(url, api, request(), stream=stream)
    assert found.calls == [PARIS]
    assert found.seen.text == ""
    body = sent(server)
    assert "tools" not in body
    assert "get_weather" in body["messages"][0]["content"]
    schema = body["response_format"]["json_schema"]["schema"]
    assert [form["type"] for form in schema["anyOf"]] == ["object", "array", "object"]
    assert "constrained" in found.headers["x-toolbridge-warning"]


@every_api
@both
async def test_in_constrained_mode_text_is_text(api, stream):
    async with chat(says('{"text": "Hello!\\nI am \\"m\\"."}'), "constrained") as (url, _):
        found = await ask(url, api, request("hi"), stream=stream)
    assert found.seen.text == 'Hello!\nI am "m".'
    assert found.calls == []


@every_api
async def test_in_prompt_mode_the_text_is_free(api):
    async with chat(says(TAGGED), "prompt") as (url, server):
        found = await ask(url, api, request(), stream=True)
    assert found.calls == [PARIS]
    body = sent(server)
    assert "tools" not in body
    assert "response_format" not in body
    assert "<tool_call>" in body["messages"][0]["content"]


async def test_in_native_mode_the_tools_are_in_their_field():
    async with chat(says("hi"), "native") as (url, server):
        await ask(url, "anthropic", request(), stream=True)
    assert sent(server)["tools"][0]["function"]["name"] == "get_weather"


async def test_a_provider_sets_the_mode_of_its_models():
    async with chat(says(JSON_CALL), tool_mode="constrained") as (url, server):
        found = await ask(url, "openai_chat", request(), stream=True)
    assert found.calls == [PARIS]
    assert "response_format" in sent(server)


async def test_without_a_constraint_the_prompt_must_do():
    async with chat(says(TAGGED), "constrained", constraint="") as (url, server):
        found = await ask(url, "openai_chat", request(), stream=True)
    assert found.calls == [PARIS]
    assert "response_format" not in sent(server)
    assert "no constraint" in found.headers["x-toolbridge-warning"]


@pytest.mark.parametrize("api", [name for name in codecs.names() if name != "ollama"])
@pytest.mark.parametrize("choice", ["required", "get_weather"])
@pytest.mark.parametrize("tools", [True, False])
async def test_a_call_that_must_be_made_is_constrained_on_ollama(api, choice, tools):
    """Ollama has no tool choice, whether the model's template has tools or not."""
    show = {"capabilities": ["completion", *(["tools"] if tools else [])]}
    answer = replay(line_of(JSON_CALL[:9]), line_of(JSON_CALL[9:]), line_of("", done=True))
    async with bridged(answer, show=show) as (url, server, _):
        found = await ask(url, api, request(choice=choice), stream=True)
    assert found.calls == [PARIS]
    body = server.chats()[-1].json
    names = body["format"]["anyOf"][0]["properties"]["name"]["enum"]
    assert names == ["get_weather"]
    assert "tools" not in body


@pytest.mark.parametrize(("constraint", "constrained"), [(None, True), ("", False)])
@pytest.mark.parametrize("choice", ["required", "get_weather"])
async def test_an_ollama_of_another_name_is_constrained_too(choice, constraint, constrained):
    answer = ollama(replay(line_of(JSON_CALL), line_of("", done=True)))
    async with model_server(answer) as server:
        gpu = ProviderConfig(api="ollama", url=server.url, constraint=constraint)
        config = Config(log="off", map={"default": "gpu/tiny"}, providers={"gpu": gpu})
        async with gateway(config) as (url, _):
            await ask(url, "openai_chat", request(choice=choice), stream=True)
    (heard,) = [one for one in server.heard if one.path == "/api/chat"]
    assert ("format" in heard.json) is constrained
    assert ("tools" in heard.json) is not constrained


async def test_a_call_that_may_be_made_stays_native_on_ollama():
    async with bridged(replay(line_of("hi", done=True))) as (url, server, _):
        await ask(url, "anthropic", request(), stream=True)
    assert "format" not in server.chats()[-1].json
    assert server.chats()[-1].json["tools"]


async def test_a_server_that_rejects_tools_is_asked_in_the_next_mode():
    async def answer(heard, line) -> None:
        if "tools" in heard.json:
            await line.head(400, "application/json")
            await line.send('{"error": {"message": "m does not support tools", "code": 400}}')
            await line.end()
        else:
            await says(JSON_CALL)(heard, line)

    async with chat(answer) as (url, server):
        found = await ask(url, "anthropic", request(choice="required"), stream=True)
    assert found.calls == [PARIS]
    assert "response_format" in server.heard[-1].json
    assert len(server.heard) == 2


async def test_a_mode_that_contradicts_tools_is_a_config_error():
    models = {"there/m": ModelConfig(tool_mode="native", tools=False)}
    providers = {"there": ProviderConfig(api="openai_chat", url="http://127.0.0.1:1")}
    with pytest.raises(Exception, match=r"models\.there/m\.tool_mode: .*tools = false"):
        async with gateway(Config(log="off", providers=providers, models=models)):
            pass


# ── calls in a text, constrained by tags ─────────────────────────────────────

BINDS = {"structural_tags": True, "schema_subset": "xgrammar"}


@every_api
@both
async def test_calls_in_a_text_are_constrained_where_the_provider_has_tags(api, stream):
    async with chat(says(f"I look. {TAGGED}"), "prompt", quirks=BINDS) as (url, server):
        found = await ask(url, api, request(), stream=stream)
    assert found.calls == [PARIS]
    assert found.seen.text.strip() == "I look."
    body = sent(server)
    assert "tools" not in body
    form = body["response_format"]
    assert (form["type"], form["triggers"]) == ("structural_tag", ["<tool_call>"])
    (structure,) = form["structures"]
    assert structure["begin"].startswith(form["triggers"][0])
    example = json.loads(TAGGED.removeprefix(structure["begin"]).removesuffix(structure["end"]))
    wrong = ({**example, "name": "other"}, {**example, "arguments": {"city": 1}})
    valid = [jsonschema_rs.is_valid(structure["schema"], one) for one in (example, *wrong)]
    assert valid == [True, False, False]


async def test_small_talk_is_free_beside_tags():
    async with chat(says("Hello!"), "prompt", quirks=BINDS) as (url, _):
        found = await ask(url, "anthropic", request(), stream=True)
    assert (found.calls, found.seen.text) == ([], "Hello!")


async def test_a_server_without_tags_is_asked_without_them_from_then_on():
    """vLLM, structured outputs: the text of its rejection."""
    text = "Invalid response_format structural_tag specification."

    async def answer(heard, line) -> None:
        if "response_format" in heard.json:
            await whole(line, {"error": {"message": text, "code": 400}}, 400)
        else:
            await says(TAGGED)(heard, line)

    async with chat(answer, tools=False, quirks=BINDS) as (url, server):
        for _ in range(2):
            found = await ask(url, "openai_chat", request(), stream=True)
            assert found.calls == [PARIS]
    bodies = [one.json for one in server.heard if one.method == "POST"]
    assert ["response_format" in body for body in bodies] == [True, False, False]


async def test_a_schema_of_the_client_comes_before_tags():
    form = {"type": "json_schema", "json_schema": {"name": "a", "schema": {"type": "object"}}}
    async with chat(says("{}"), "prompt", quirks=BINDS) as (url, server):
        await ask(url, "openai_chat", request(), stream=True, response_format=form)
    assert sent(server)["response_format"]["type"] == "json_schema"
