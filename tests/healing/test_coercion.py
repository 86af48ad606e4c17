"""By schema: what is changed into what, and what is left alone."""

import pytest
from tests.tables import every_row

from toolbridge.healing import heal
from toolbridge.healing.names import heal_choice, heal_key, heal_name
from toolbridge.healing.schema import Schema, is_plain


def tool(required=("a",), **properties) -> dict:
    return {"type": "object", "properties": properties, "required": list(required)}


INTEGER, NUMBER, BOOLEAN, TEXT = (
    {"type": name} for name in ("integer", "number", "boolean", "string")
)
LIST = {"type": "array", "items": TEXT}
OBJECT = {"type": "object", "properties": {"n": INTEGER, "s": TEXT}, "required": ["n"]}
UNIT = {"type": "string", "enum": ["celsius", "fahrenheit", "none"]}


@pytest.mark.req("PX-X4")
@every_row(
    ("schema", "before", "after"),
    [
        (INTEGER, "3", 3),
        (INTEGER, " 3.0 ", 3),
        (INTEGER, "-7", -7),
        (INTEGER, "3.5", "3.5"),
        (INTEGER, "three", "three"),
        (INTEGER, [3], 3),
        (INTEGER, 3.0, 3),
        (INTEGER, True, True),
        (INTEGER, 9007199254740993, 9007199254740993),
        (NUMBER, "0.5", 0.5),
        (NUMBER, "1e3", 1000.0),
        (BOOLEAN, "False", False),
        (BOOLEAN, "yes", True),
        (BOOLEAN, 1, True),
        (BOOLEAN, 0, False),
        (BOOLEAN, 2, 2),
        (BOOLEAN, "maybe", "maybe"),
        (TEXT, 5, "5"),
        (TEXT, True, "true"),
        (TEXT, ["x"], "x"),
        (TEXT, ["x", "y"], ["x", "y"]),
        (TEXT, {"k": [1, 2]}, '{"k": [1, 2]}'),
        (TEXT, "5", "5"),
        (TEXT, '{"k": 1}', '{"k": 1}'),
        (UNIT, "Celsius", "celsius"),
        (UNIT, " 'CELSIUS' ", "celsius"),
        (UNIT, "kelvin", "kelvin"),
        (UNIT, "None", "none"),
        ({"enum": [1, 2]}, "2", 2),
        ({"enum": ["1", "2"]}, 2, "2"),
        ({"const": "on"}, "ON", "on"),
        (LIST, "x", ["x"]),
        (LIST, "x, y", ["x, y"]),
        (LIST, '["x", "y"]', ["x", "y"]),
        (LIST, "['x', 'y']", ["x", "y"]),
        (LIST, [1, "y"], ["1", "y"]),
        (LIST, {"item": ["x"]}, ["x"]),
        ({"type": "array", "items": INTEGER}, "[1, 2]", [1, 2]),
        ({"type": "array", "items": INTEGER}, "5", [5]),
        ({"type": "array", "items": OBJECT}, {"n": 1}, [{"n": 1}]),
        ({"type": "array", "items": OBJECT}, ['{"n": "1"}'], [{"n": 1}]),
        (OBJECT, '{"n": "1"}', {"n": 1}),
        (OBJECT, [{"n": 1}], {"n": 1}),
        (OBJECT, '"{\\"n\\": 1}"', {"n": 1}),
        (OBJECT, "no object", "no object"),
        (OBJECT, {"n": "1", "S": "x"}, {"n": 1, "s": "x"}),
        ({"type": ["integer", "null"]}, "3", 3),
        ({"type": ["integer", "null"]}, "null", None),
        ({"type": ["string", "null"]}, "null", "null"),
        ({"anyOf": [INTEGER, {"type": "null"}]}, "3", 3),
        ({"anyOf": [TEXT, {"type": "null"}]}, "null", "null"),
        ({"oneOf": [BOOLEAN, INTEGER]}, "true", True),
        ({"anyOf": [OBJECT, LIST]}, '{"n": 1}', {"n": 1}),
        ({"anyOf": [OBJECT, TEXT]}, '{"n": 1}', '{"n": 1}'),
        ({"allOf": [{"type": "object"}, OBJECT]}, {"n": "1"}, {"n": 1}),
        ({"$ref": "#/$defs/n"}, "3", 3),
        ({"$ref": "#/$defs/missing"}, "3", "3"),
        ({"type": "INTEGER"}, "3", 3),
        ({"type": "integer", "nullable": True}, None, None),
        ({"type": "object", "additionalProperties": INTEGER}, {"x": "1"}, {"x": 1}),
        ({}, "3", "3"),
        (True, "3", "3"),
    ],
)
def test_a_value_becomes_what_is_wanted_or_stays(schema, before, after):
    full = {**tool(a=schema), "$defs": {"n": INTEGER}}
    healing = heal({"a": before}, full)
    assert healing.value == {"a": after}
    assert type(healing.value["a"]) is type(after) or before == after
    assert bool(healing.steps) == (before != after or type(before) is not type(after)) or (
        schema is INTEGER and before == 3.0
    )


@every_row("word", [None, "null", "None", " undefined "])
def test_nothing_for_an_optional_member_is_left_out(word):
    assert heal({"a": "x", "b": word}, tool(a=TEXT, b=INTEGER)).value == {"a": "x"}


def test_nothing_for_a_required_member_is_not_made_up():
    assert heal({"a": None}, tool(a=INTEGER)).value == {"a": None}


def test_null_is_kept_where_it_is_allowed():
    schema = tool(a=TEXT, b={"anyOf": [INTEGER, {"type": "null"}]})
    assert heal({"a": "x", "b": None}, schema).steps == ()


@pytest.mark.req("PX-X4")
@every_row(
    ("schema", "before", "after"),
    [
        (tool(["file_path"], file_path=TEXT), {"filePath": "x"}, {"file_path": "x"}),
        (tool(["file_path"], file_path=TEXT), {"file-path ": "x"}, {"file_path": "x"}),
        (tool(["file_path"], file_path=TEXT), {"path": "x"}, {"file_path": "x"}),
        (tool(["city"], city=TEXT), {"location": "x"}, {"city": "x"}),
        (tool(["city"], city=TEXT), {"location": 5, "z": 1}, {"location": 5, "z": 1}),
        (tool(["a", "b"], a=TEXT, b=TEXT), {"c": "x"}, {"c": "x"}),
        (tool(["file_path"], file_path=TEXT), {"file_path": "x", "filePath": "y"}, None),
        (tool(["file_path"], file_path=TEXT), {"FilePath": "x", "filePath": "y"}, None),
        (tool(["a"], a=TEXT), {"a": "x", "extra": 1}, None),
        (tool(["a"], a=TEXT, b=TEXT), {"a": "x", "B": "y"}, None),
    ],
)
def test_a_key_is_renamed_only_to_the_one_parameter_that_it_can_mean(schema, before, after):
    healing = heal(dict(before), schema)
    assert healing.value == (before if after is None else after)
    assert list(healing.value) == list(before if after is None else after)


def test_a_closed_schema_renames_optional_members_too():
    schema = {**tool(a=TEXT, b_c=TEXT), "additionalProperties": False}
    assert heal({"a": "x", "bC": "y"}, schema).value == {"a": "x", "b_c": "y"}


def test_a_member_that_is_not_allowed_goes_only_by_a_guess():
    schema = {**tool(a=TEXT), "additionalProperties": False}
    assert heal({"a": "x", "z": 1}, schema).value == {"a": "x", "z": 1}
    assert heal({"a": "x", "z": 1}, schema, level=3).value == {"a": "x"}


def test_a_number_becomes_the_text_that_was_written():
    schema = tool(a=TEXT, b={"type": "array", "items": TEXT})
    assert heal('{"a": 1.10, "b": [1e2]}', schema).value == {"a": "1.10", "b": ["1e2"]}
    assert heal("{'a': 007}", schema).value == {"a": "007"}
    assert heal('{"arguments": {"a": 2.50}}', schema).value == {"a": "2.50"}


@every_row(
    "wrapped",
    [
        '{"arguments": {"a": 1}}',
        '{"args": "{\\"a\\": 1}"}',
        '{"name": "t", "parameters": {"a": 1}}',
        '{"type": "function", "function": {"name": "t", "arguments": "{\\"a\\": \\"1\\"}"}}',
        '{"t": {"a": 1}}',
        '[{"input": {"a": 1}}]',
        '{"tool_calls": [{"name": "t", "arguments": {"a": 1}}]}',
    ],
)
def test_arguments_are_taken_out_of_what_is_around_them(wrapped):
    assert heal(wrapped, tool(a=INTEGER)).value == {"a": 1}


@every_row(
    ("value", "schema"),
    [
        ({"input": {"a": 1}}, tool(["input"], input={"type": "object"}, a=INTEGER)),
        ({"arguments": {"b": 1}}, tool([], a=INTEGER)),
        ({"name": "x", "input": {"z": 1}}, tool(["name"], name=TEXT)),
        ({"query": {"a": 1}, "other": 2}, tool([], a=INTEGER)),
    ],
)
def test_a_parameter_is_not_taken_for_a_wrapper(value, schema):
    assert heal(value, schema).value == value


@every_row(
    ("text", "schema", "after"),
    [
        ('"ls"', tool(a=TEXT), {"a": "ls"}),
        ("ls -la", tool(a=TEXT), {"a": "ls -la"}),
        ("5", tool(a=INTEGER, b=TEXT), {"a": 5}),
        ("[1, 2]", tool(["a", "b"], a=INTEGER, b=INTEGER), {"a": 1, "b": 2}),
        ('["x", 2]', tool(["a", "b"], a=INTEGER, b=INTEGER), {"raw": '["x", 2]'}),
        ("[1, 2, 3]", tool(["a", "b"], a=INTEGER, b=INTEGER), {"raw": "[1, 2, 3]"}),
        ("hello", tool(["a", "b"], a=TEXT, b=TEXT), {"raw": "hello"}),
        ("hello", tool(a=INTEGER), {"raw": "hello"}),
        ("null", tool([], a=TEXT), {}),
    ],
)
def test_values_without_names_go_where_only_they_can(text, schema, after):
    assert heal(text, schema).value == after


def test_a_recursive_schema_is_no_danger():
    schema = {
        "type": "object",
        "properties": {"child": {"$ref": "#"}, "n": INTEGER},
        "required": ["n"],
    }
    value: dict = {"n": "1"}
    for _ in range(300):
        value = {"n": "1", "child": value}
    assert heal(value, schema).value
    loop = {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}}
    assert heal({"x": 1}, loop).value == {"x": 1}


def test_nested_unions_do_not_explode():
    schema: dict = {"type": "integer"}
    for _ in range(12):
        options = [
            {"type": "object", "properties": {"a": schema}, "required": ["a", k]} for k in "bcd"
        ]
        schema = {"anyOf": options}
    value: dict = {"a": "x"}
    for _ in range(12):
        value = {"a": value}
    rules = Schema({"type": "object", "properties": {"a": schema}})
    assert heal(value, rules.root).value == value


@every_row(
    ("name", "tools", "found"),
    [
        ("Write", ["Write", "write"], "Write"),
        ("wRITE", ["Write", "write"], None),
        ("functions.Write", ["Write"], "Write"),
        ("function/Write", ["Write"], "Write"),
        ("Write()", ["Write"], "Write"),
        ("read", ["mcp__a__read", "mcp__b__read"], None),
        ("mcp__a__read", ["mcp__b__read"], None),
        ("mcp__a__read", ["read"], "read"),
        ("weather", ["get_weather"], None),
        ("get_wether", ["get_weather"], None),
        ("", ["a"], None),
        ("Write", [], None),
    ],
)
def test_a_tool_is_found_by_its_name_and_not_by_likeness(name, tools, found):
    assert heal_name(name, tools) == found


def test_a_choice_or_key_with_two_meanings_is_left():
    assert heal_choice("AB", ["ab", "Ab"]) is None
    assert heal_key("AB", ["a_b", "ab"]) is None


SHORT_CUTS = [
    *(INTEGER, NUMBER, BOOLEAN, TEXT, LIST, OBJECT, UNIT),
    *({}, True, False, None, {"type": ["string", "null"]}, {"type": "STRING"}),
    {"type": "integer", "nullable": True},
    {"type": "string", "const": "x"},
    {"type": "string", "$ref": "#/nowhere"},
]


@every_row("schema", SHORT_CUTS)
@every_row("value", ["x", "none", 3, 3.0, 3.5, True, None, [], ["x"], {}, {"n": 1}])
def test_the_short_cut_never_says_more_than_the_long_way(schema, value):
    assert not is_plain(value, schema) or Schema({}).fits(value, schema)


def test_a_plain_value_takes_the_short_cut():
    assert is_plain("x", TEXT)
    assert is_plain(3, INTEGER)
    assert not is_plain(True, INTEGER)
    assert not is_plain("x", UNIT)


@every_row(
    ("key", "name"),
    [
        ("enable", "disable"), ("exclude", "include"), ("from", "to"), ("dst", "src"), ("max", "min"),
        ("old_string", "new_string"), ("endLine", "startLine"), ("user_id", "user_ip"), ("z", "y"),
        ("MaxValue", "min_value"), ("start_time", "end"),
    ],
)  # fmt: skip
def test_a_key_with_another_meaning_is_not_renamed(key, name):
    healed = heal({key: "v"}, tool((name,), **{name: TEXT}))
    assert healed.value == {key: "v"}
    assert healed.level < 2 or not healed.steps


@pytest.mark.req("PX-X4")
@every_row(("key", "name"), [("location", "city"), ("cmd", "command"), ("file_name", "file_path")])
def test_the_only_unknown_key_is_the_only_missing_parameter(key, name):
    healed = heal({key: "v"}, tool((name,), **{name: TEXT}))
    assert healed.value == {name: "v"}
    assert [step.what for step in healed.steps] == ["key renamed"]
