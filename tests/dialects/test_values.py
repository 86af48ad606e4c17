"""Raw texts, by the schema of their parameter, and literals as models write them."""

import pytest
from tests.tables import every_row

from toolbridge.core.messages import Tool
from toolbridge.dialects.engines.literals import Unreadable, literal
from toolbridge.dialects.engines.toolbox import Toolbox
from toolbridge.dialects.engines.values import typed, types_of

ROOT = {"$defs": {"n": {"type": "integer"}}}


@every_row(
    ("schema", "types"),
    [
        ({"type": "string"}, {"string"}),
        ({"type": ["integer", "null"]}, {"integer", "null"}),
        ({"type": "int32"}, {"integer"}),
        ({"type": "dict[str, int]"}, {"object"}),
        ({"$ref": "#/$defs/n"}, {"integer"}),
        ({"$ref": "#/$defs/none"}, set()),
        ({"anyOf": [{"type": "string"}, {"$ref": "#/$defs/n"}]}, {"string", "integer"}),
        ({"enum": ["a", 1]}, {"string", "integer"}),
        ({"const": True}, {"boolean"}),
        ({"properties": {}}, {"object"}),
        ({"items": {}}, {"array"}),
        ({}, set()),
        (None, set()),
    ],
)
def test_a_schema_says_which_types_it_allows(schema, types):
    assert types_of(schema, ROOT) == types


def test_a_reference_to_itself_says_nothing():
    assert types_of({"$ref": "#/a"}, {"a": {"$ref": "#/a"}}) == frozenset()


@every_row(
    ("raw", "types", "value"),
    [
        ("123", {"string"}, "123"),
        ("null", {"string"}, "null"),
        ("null", {"string", "null"}, None),
        ("none", {"string", "null"}, "none"),
        ("null", {"integer"}, "null"),
        ("None", {"integer", "null"}, None),
        (" 420 ", {"integer"}, 420),
        ("+7", {"integer"}, 7),
        ("5.0", {"number"}, 5),
        ("0.5", {"number"}, 0.5),
        ("1.5e10", {"number"}, 1.5e10),
        ("1e999", {"number"}, "1e999"),
        ("abc", {"integer"}, "abc"),
        ("True", {"boolean"}, True),
        ('["a"]', {"array"}, ["a"]),
        ("['a', None]", {"array"}, ["a", None]),
        ('{\\"a\\": 1}', {"object"}, {"a": 1}),
        ("[1", {"array"}, "[1"),
        ('{"a": 1}', {"array"}, '{"a": 1}'),
        ("5", set(), 5),
        ("true", set(), True),
        ("next tuesday", set(), "next tuesday"),
        ('{"a": 1}', set(), {"a": 1}),
        ("{invalid json: no quotes}", set(), "{invalid json: no quotes}"),
        ('"quoted"', set(), '"quoted"'),
        ("", set(), ""),
        ("123abc", set(), "123abc"),
    ],
)
def test_a_raw_text_becomes_what_its_type_says(raw, types, value):
    found = typed(raw, frozenset(types))
    assert found == value
    assert type(found) is type(value)


@every_row(
    ("text", "value"),
    [
        ("'it\\'s'", "it's"),
        ('"a\\u00e9\\ud83c\\udf8c"', "aé🎌"),
        ("'''a'b'''", "a'b"),
        ("r'\\d'", "\\d"),
        ("f'x'", "x"),
        ("'\\d'", "\\d"),
        ("(800, 600)", [800, 600]),
        ("{1, 2}", [1, 2]),
        ("{'a': [True, none], b: null}", {"a": [True, None], "b": None}),
        ("{1: 'x', None: 2}", {"1": "x", "None": 2}),
        ("07", 7),
        ("1_000", 1000),
        ("0x1F", 31),
        ("1e999", "1e999"),
        ("-3.5", -3.5),
        ("Paris", "Paris"),
        ("[]", []),
    ],
)
def test_a_literal_is_read_without_running_it(text, value):
    assert literal(text) == value


@every_row("text", ["", "['a' 2]", "'open", "f(x)", "[" * 99, "1, 2"])
def test_what_is_no_literal_is_said_to_be_none(text):
    with pytest.raises(Unreadable):
        literal(text)


def test_bare_words_may_be_forbidden():
    with pytest.raises(Unreadable):
        literal("{a b}", words=False)


@every_row(
    ("name", "found"),
    [
        ("get_weather", "get_weather"),
        ("Get-Weather", "get_weather"),
        ("functions.get_weather", "get_weather"),
        ("a:b/get_weather", "get_weather"),
        ("mcp__x__get_weather", "get_weather"),
        ("get_weather__now", None),
        ("weather", None),
        ("", None),
    ],
)
def test_a_name_is_found_exactly_then_without_case_or_namespace(name, found):
    assert Toolbox([Tool("get_weather")]).resolve(name) == found


def test_the_tools_of_an_offered_server_are_offered():
    tools = Toolbox([Tool("mcp__desk"), Tool("get_weather")])
    assert tools.resolve("mcp__desk__open") == "mcp__desk__open"
    assert tools.resolve("mcp__door__open") is None


def test_two_tools_that_differ_in_case_are_told_apart():
    box = Toolbox([Tool("Read"), Tool("read")])
    assert box.resolve("Read") == "Read"
    assert box.resolve("read") == "read"


def test_unknown_tools_take_every_name():
    assert Toolbox(None).resolve("anything") == "anything"
    assert Toolbox(None).offered
    assert not Toolbox([]).offered
