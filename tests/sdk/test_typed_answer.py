"""Answers as Python values."""

import asyncio
import json
from dataclasses import dataclass
from typing import Literal

import msgspec
import pytest
from tests.peers import Heard, Line
from tests.sdk.places import CHAT, QUIET, _chat, place, script, sse
from tests.tables import every_row

import toolbridge
from toolbridge import AsyncClient, Client
from toolbridge.config import Config
from toolbridge.core.errors import Incomplete, Overloaded, Refused, SchemaMismatch
from toolbridge.core.messages import Message, OutputFormat, Problem, Text
from toolbridge.sdk.client.typed_answer import AnswerType


class City(msgspec.Struct):
    name: str
    people: int = 0


@dataclass
class Tree:
    name: str
    branches: list["Tree"]


ROME = City("Rome", 3)


def read(text: str, into, **more):
    return AnswerType(into).read(Message(content=(Text(text),), stop="end", **more))


@every_row(
    ("text", "into", "expected"),
    [
        ('{"name":"Rome","people":3}', City, ROME),
        ('{"name":"Rome","people":"3"}', City, ROME),
        ('{"name":"Rome","people":null}', City, City("Rome")),
        ("Sure!\n```json\n{'name': 'Rome', 'people': 3,}\n```", City, ROME),
        ('{"value":[{"name":"Rome","people":3}]}', list[City], [ROME]),
        ('[{"name":"Rome","people":3}]', list[City], [ROME]),
        ('Here: [{"name":"Rome","people":"3",},]', list[City], [ROME]),
        ('{"value":{"name":"Rome","people":3}}', City | None, ROME),
        ('{"value": 42}', int, 42),
        ("42", int, 42),
        ('{"value":"yes"}', Literal["yes", "no"], "yes"),
        ("yes", Literal["yes", "no"], "yes"),
        ("just words", str, "just words"),
        ('{"value": "words"}', str, "words"),
        ('{"a": 1}', dict[str, int], {"a": 1}),
        ('{"name":"a","branches":[{"name":"b","branches":[]}]}', Tree, Tree("a", [Tree("b", [])])),
    ],
)
def test_the_value_is_found(text, into, expected):
    assert read(text, into) == expected


@every_row("into", [City, list[City], int, Tree, dict[str, int], str])
def test_every_schema_is_an_object(into):
    schema = AnswerType(into).schema
    assert schema.get("type") == "object" or "$ref" in schema
    assert AnswerType(into).output.schema == schema


@every_row(
    ("text", "into"),
    [
        ("I cannot do that.", City),
        ('{"people":3}', City),
        ('{"name":"Rome","people":', City),
        ("[1, 2", list[int]),
        ("many", int),
        ("", City),
        ("[1]", City),
    ],
)
def test_what_is_hopeless_is_raised_with_its_text(text, into):
    with pytest.raises(SchemaMismatch) as caught:
        read(text, into)
    assert text in str(caught.value)


def test_a_long_text_is_shown_in_part():
    with pytest.raises(SchemaMismatch) as caught:
        read("x" * 5000, City)
    assert len(str(caught.value)) < 2500


def test_an_answer_that_was_cut_says_so():
    message = Message(content=(Text('{"name": "Ro'),), stop="length")
    with pytest.raises(Incomplete, match="max_tokens"):
        AnswerType(City).read(message)


def test_a_problem_is_raised_as_it_is():
    with pytest.raises(Overloaded):
        read("{}", City, problem=Problem("overloaded", "busy"))


def test_the_demo_model_answers_in_shape():
    with Client(Config(), env=QUIET) as client:
        cities = client.ask("demo", "Two cities, as JSON.", into=list[City])
        assert isinstance(cities[0], City)
        assert client.ask("demo", "5 + 5") == "5 + 5 = 10"
        with pytest.raises(toolbridge.UpstreamError, match="asked to fail"):
            client.ask("demo", "[[error]]")


async def test_those_who_await_ask_as_well():
    async with AsyncClient(Config(), env=QUIET) as client:
        assert isinstance(await client.ask("demo", "a city", into=City), City)
        assert await client.ask("demo", "5 + 5") == "5 + 5 = 10"


JSON = sse(_chat({"content": '{"name":"Rome","people":3}'}), _chat({}, "stop"), CHAT[-2], "[DONE]")


async def test_the_schema_reaches_the_place():
    answer = script("openai_chat", JSON[:2] + CHAT[-2:])
    async with place("openai_chat", answer) as (server, config), AsyncClient(config) as client:
        assert await client.ask("there/m", "Rome?", into=City) == ROME
    wanted = server.heard[-1].json["response_format"]["json_schema"]["schema"]
    assert wanted["properties"]["name"] == {"type": "string"}


async def test_a_place_that_cannot_be_held_to_a_schema_is_told_it_in_words():
    answer = script("openai_chat", JSON[:2] + CHAT[-2:])
    quirks = {"json_schema": False}
    async with (
        place("openai_chat", answer, quirks=quirks) as (server, config),
        AsyncClient(config) as client,
    ):
        assert await client.ask("there/m", "Rome?", into=City) == ROME
    (system,) = [m for m in server.heard[-1].json["messages"] if m["role"] == "system"]
    assert '"people"' in str(system["content"])


async def test_a_place_that_knows_no_json_mode_is_told_in_words():
    async with place("anthropic") as (server, config), AsyncClient(config) as client:
        await client.complete("there/m", "Rome?", output=OutputFormat(), cache_retention="none")
    assert server.heard[-1].json["system"] in (
        "Answer with JSON only.",
        [{"type": "text", "text": "Answer with JSON only."}],
    )


async def never(_: Heard, line: Line) -> None:
    line.cut()


async def test_a_failure_is_raised_because_there_is_no_value():
    async with place("openai_chat", never, retries=0) as (_, config), AsyncClient(config) as client:
        with pytest.raises(toolbridge.UpstreamError):
            await client.ask("there/m", "Rome?", into=City)


def chat(text: str, finish: str) -> list[str]:
    return sse(_chat({"role": "assistant", "content": text}), _chat({}, finish), "[DONE]")


@pytest.mark.parametrize(
    ("finish", "error", "words"),
    [
        ("length", Incomplete, "max_tokens"),
        ("content_filter", Refused, "declined"),
    ],
)
@pytest.mark.parametrize("into", [None, str])
async def test_ask_never_returns_a_refusal_or_the_beginning_of_an_answer(
    finish, error, words, into
):
    pieces = chat("I would rather", finish)
    async with (
        place("openai_chat", script("openai_chat", pieces)) as (_, config),
        AsyncClient(config, env=QUIET) as client,
    ):
        with pytest.raises(error, match=words) as caught:
            await client.ask("m", "hi", **({} if into is None else {"into": into}))
        # The words of it are in the message for whoever wants them.
        assert (await client.complete("m", "hi")).text == "I would rather"
    assert "I would rather" in str(caught.value)


async def test_ask_with_a_call_instead_of_an_answer_raises():
    async with (
        place("openai_chat", script("openai_chat", CHAT)) as (_, config),
        AsyncClient(config, env=QUIET) as client,
    ):
        with pytest.raises(Incomplete, match="run"):
            await client.ask("m", "hi", tools=[toolbridge.Tool("look")])


async def test_the_schema_is_strict_for_openai_and_its_null_is_the_default():
    answer = script("openai_chat", chat('{"name":"Rome","people":null}', "stop"))
    quirks = {"schema_subset": "openai"}
    async with (
        place("openai_chat", answer, quirks=quirks) as (server, config),
        AsyncClient(config, env=QUIET) as client,
    ):
        assert await client.ask("m", "Rome?", into=City) == City("Rome")
    wanted = server.heard[-1].json["response_format"]["json_schema"]
    assert wanted["strict"] is True
    assert wanted["schema"]["required"] == ["name", "people"]
    assert wanted["schema"]["properties"]["people"]["type"] == ["integer", "null"]


@pytest.mark.parametrize("blocking", [False, True])
async def test_where_tools_exclude_the_schema_it_is_asked_for_once_more(blocking):
    answers = iter(["Rome has three million people.", '{"name":"Rome","people":3}'])

    async def answer(_: Heard, line: Line) -> None:
        await script("openai_chat", chat(next(answers), "stop"))(_, line)

    quirks = {"schema_subset": "llamacpp", "schema_with_tools": False}
    look = toolbridge.Tool("look")
    async with place("openai_chat", answer, quirks=quirks) as (server, config):
        if blocking:
            with Client(config, env=QUIET) as client:
                asking = asyncio.to_thread(client.ask, "m", "Rome?", into=City, tools=[look])
                assert await asking == ROME
        else:
            async with AsyncClient(config, env=QUIET) as client:
                assert await client.ask("m", "Rome?", into=City, tools=[look]) == ROME
    first, second = (heard.json for heard in server.heard)
    assert "response_format" not in first
    assert "people" in json.dumps(first["messages"])
    assert "tools" not in second
    assert second["response_format"]["json_schema"]["schema"]["required"] == ["name"]
    assert second["messages"][-2]["content"] == "Rome has three million people."
