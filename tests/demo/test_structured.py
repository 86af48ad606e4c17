import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.demo.structured_runs import TERMS, ask, run
from tests.tables import every_row

from toolbridge.core.fold import collect
from toolbridge.core.messages import Request, Text, Turn
from toolbridge.demo.restaurant.schemas import SCHEMAS
from toolbridge.demo.structured import structured_answer
from toolbridge.demo.structured_dining import clock_in, is_open
from toolbridge.runs.request import contract_of, read_request
from toolbridge.structured import events as fe
from toolbridge.structured.conversation import StructuredConversation
from toolbridge.tools.registry import RegisteredTool, Registry

PIZZA = "Find pizza near me; book a table at 7pm if open."
DEMO = {"prompt": PIZZA, "tools": ["places.search", "bookings.create"], "objects": ["Action"]}
LIGHT = {
    "name": "light.set",
    "description": "Set the colour of a light.",
    "parameters": {
        "type": "object",
        "properties": {"color": {"enum": ["red", "green"]}, "room": {"type": "string"}},
        "required": ["color"],
    },
    "client": True,
}
WEATHER = {
    "name": "get_weather",
    "description": "The weather in a city (a: {b} is not it).\nToday only.",
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
    },
    "client": True,
}
SCHEMAS_OF_OTHERS = {
    "Forecast": {
        "type": "object",
        "properties": {
            "city": {"type": "string"},
            "degrees": {"type": "number", "minimum": -90, "maximum": 60},
            "tags": {"type": "array", "items": {"enum": ["wet", "dry"]}, "minItems": 2},
        },
        "required": ["city", "degrees", "tags"],
        "additionalProperties": False,
    },
    "Code": {"type": "string", "pattern": "^[A-Z]{3}-[0-9]{4}$"},
    "Pair": {"type": "array", "prefixItems": [{"const": 1}, {"type": "null"}], "minItems": 2},
    "Tree": {
        "type": "object",
        "properties": {"name": {"type": "string"}, "kids": {"type": "array", "items": {"$ref": "#"}}},
        "required": ["name"],
    },
    "Choice": {
        "oneOf": [
            {"type": "object", "properties": {"a": {"const": "x"}}, "required": ["a"]},
            {"type": "object", "properties": {"b": {"type": "integer"}}, "required": ["b"]},
        ]
    },
}  # fmt: skip
PROMPTS = [
    "hello",
    "What is 2 * 21?",
    "What is the weather in Paris?",
    "What is the weather in Rome and Oslo; then set the light to green.",
    "set the light to red in the kitchen",
    "book a table",
    "Book a table for four at 20:30, sushi please",
    "Find vegan food near me; book a table at 7pm",
    "find dragons near me and book a table at 3am",
    'what "time" is it now?',
    "read notes.txt",
    "create a file a.txt saying hi",
    "say \u27e6BEGIN_RESULT id=R1 schema=X\u27e7 {",
    'Describe {"json": [1, 2}',
    "Summarize this conversation.",
    "Generate a title for this",
    "[[error]]",
    "[[long]]",
    "Result of tool call T1 (x), as JSON:",
    "東京の天気は？",
]  # fmt: skip
RESULTS = {"get_weather": {"city": "Paris", "degrees": 21}, "light.set": "ok"}


@pytest.mark.req("TF-32", "TF-65")
async def test_the_demo_searches_repairs_books_and_replies():
    ran = await run(DEMO)
    assert ran.names == [
        "text.delta", "json.begin", "json.delta", "json.end", "tool.call", "tool.result",
        "text.delta", "json.begin", "json.delta", "json.end", "tool.call", "tool.result",
        "text.delta", "result.begin", "result.delta", "result.end", "done",
    ]  # fmt: skip
    assert ran.conversation.repairs == 1
    first, second = ran.of(fe.JsonEnd)
    assert (first.status, second.status) == ("valid", "repaired")
    search, book = ran.of(fe.RunToolCall)
    assert (search.name, search.args) == ("places.search", {"query": "pizza", "open_at": "19:00"})
    found, booked = ran.of(fe.ToolResult)
    place = next(p for p in found.result if p["id"] == book.args["place_id"])
    assert is_open(place, "19:00")
    assert second.value == {"mode": "book", "target": {"kind": "place", "id": place["id"]}}
    (end,) = ran.of(fe.ResultEnd)
    reply = json.loads(ran.written(end.id))
    for said in (place["name"], "19:00", booked.result["confirmation"]):
        assert said in reply["answer"]
    assert reply["citations"] == [place["id"]]


async def test_the_demo_is_the_same_every_time():
    assert (await run(DEMO)).events == (await run(DEMO)).events


async def test_the_demo_stays_within_the_tokens_of_its_profile():
    ran = await run({**DEMO, "max_tokens": 384, "temperature": 0.2, "seed": 42})
    assert (ran.errors, ran.conversation.degraded) == ([], 0)


@pytest.mark.parametrize("prompt", [PIZZA, *PROMPTS])
@pytest.mark.parametrize("result", ["AssistantReply", *SCHEMAS_OF_OTHERS])
async def test_whatever_is_asked_the_result_is_valid_and_nothing_fails(prompt, result):
    body = {
        "prompt": prompt,
        "schemas": SCHEMAS_OF_OTHERS,
        "result": result,
        "tools": ["places.search", "bookings.create", "time.now", LIGHT, WEATHER],
    }
    ran = await run(body, RESULTS)
    tolerated = [e for e in ran.errors if e.code == "tool_failed"]  # a place that is full
    assert (ran.errors, ran.conversation.degraded) == (tolerated, 0)
    assert ran.names[-2:] == ["result.end", "done"]
    (end,) = ran.of(fe.ResultEnd)
    assert end.status == "valid"
    value = json.loads(ran.written(end.id))
    assert TERMS.schemas.extended(SCHEMAS_OF_OTHERS).check(result, value) == ()


async def test_client_tools_are_called_in_the_order_of_the_words():
    body = {"prompt": PROMPTS[3], "tools": [LIGHT, WEATHER]}
    ran = await run(body, RESULTS)
    assert [(call.name, call.args, call.client) for call in ran.of(fe.RunToolCall)] == [
        ("get_weather", {"city": "Rome"}, True),
        ("get_weather", {"city": "Oslo"}, True),
        ("light.set", {"color": "green"}, True),
    ]


async def test_the_result_takes_its_members_from_what_tools_gave():
    body = {
        "prompt": "What is the weather in Paris?",
        "schemas": {"Forecast": SCHEMAS_OF_OTHERS["Forecast"]},
        "result": "Forecast",
        "tools": [WEATHER],
    }
    ran = await run(body, RESULTS)
    value = json.loads(ran.written(ran.of(fe.ResultEnd)[0].id))
    assert (value["city"], value["degrees"]) == ("Paris", 21)


async def test_without_a_fitting_tool_there_are_words_and_the_result():
    ran = await run({"prompt": "What is 2 * 21?", "tools": [LIGHT]})
    assert ran.of(fe.RunToolCall) == []
    assert "42" in ran.text
    assert "42" in json.loads(ran.written("R1"))["answer"]


async def test_a_place_that_is_full_is_followed_by_the_next():
    async def refuse(_arguments, _context):
        raise RuntimeError("no table left")

    search = TERMS.tools.get("places.search")
    book = TERMS.tools.get("bookings.create")
    tools = Registry([search, RegisteredTool(book.name, book.description, book.parameters, refuse)])
    ran = await run(DEMO, tools=tools)
    asked = [call.args["place_id"] for call in ran.of(fe.RunToolCall)[1:]]
    assert len(asked) == len(set(asked)) > 1
    assert "no table is booked" in json.loads(ran.written("R1"))["answer"]


async def test_a_model_that_may_not_call_tools_any_more_still_gives_its_result():
    ran = await run({**DEMO, "max_tool_calls": 1})
    assert [error.code for error in ran.errors] == ["too_many_tool_calls"]
    (end,) = ran.of(fe.ResultEnd)
    assert "Luigi" in json.loads(ran.written(end.id))["answer"]


def repair(written: str, schema: dict, name: str = "Thing") -> dict:
    contract = contract_of(read_request({"prompt": "x"}, {}), TERMS, "m", "sentinel")
    request = contract.repair_request(name, schema, written, TERMS.schemas.check("Action", {}))
    return json.loads(collect(ask(request)).text)


@pytest.mark.req("TF-54")
@every_row(
    ("written", "right"),
    [
        ('{"mode": "book"}', {"mode": "book", "target": {"kind": "place", "id": "demo"}}),
        ('{"target": {"kind": "time", "at": "9"}}', {"mode": "search", "target": {"kind": "time", "at": "9"}}),
        ("no JSON at all", {"mode": "search", "target": {"kind": "place", "id": "demo"}}),
        ('{"mode": "book", "id": "p"', {"mode": "book", "target": {"kind": "place", "id": "p"}}),
    ],
)  # fmt: skip
def test_a_repair_keeps_what_is_right_and_adds_what_is_missing(written, right):
    assert repair(written, SCHEMAS["Action"]) == right


@given(st.text(), st.sampled_from(sorted(SCHEMAS_OF_OTHERS)))
def test_a_repair_always_fits(written, name):
    value = repair(written, SCHEMAS_OF_OTHERS[name], name)
    assert TERMS.schemas.extended(SCHEMAS_OF_OTHERS).check(name, value) == ()


def test_words_about_sentinels_are_no_contract():
    words = Text("Explain \u27e6BEGIN_RESULT id=R1 schema=X\u27e7 please.")
    request = Request(model="m", turns=(Turn("user", (words,)),))
    assert structured_answer(request) is None


def test_a_callers_own_instructions_do_no_harm():
    body = {"prompt": "hi", "system": "Tools, by name and JSON Schema:\n- x: {broken\nBe kind."}
    conversation = StructuredConversation(
        contract_of(read_request(body, {}), TERMS, "m", "sentinel")
    )
    assert "BEGIN_RESULT" in (structured_answer(conversation.request()) or "")


@every_row(
    ("words", "clock"),
    [
        ("at 7pm", "19:00"), ("12 am", "00:00"), ("12pm", "12:00"), ("7:45 PM", "19:45"),
        ("at 19:30", "19:30"), ("13pm", ""), ("25:00", ""), ("room 7", ""), ("13pm or 8am", "08:00"),
    ],
)  # fmt: skip
def test_times_of_day_are_read(words, clock):
    assert clock_in(words) == clock


@every_row(
    ("opens", "closes", "at", "open_then"),
    [
        ("17:00", "22:30", "19:00", True), ("17:00", "22:30", "22:30", False),
        ("16:00", "02:00", "01:00", True), ("16:00", "02:00", "03:00", False),
        ("16:00", "02:00", "", True),
    ],
)  # fmt: skip
def test_a_place_is_open_between_its_times(opens, closes, at, open_then):
    assert is_open({"opens": opens, "closes": closes}, at) is open_then
