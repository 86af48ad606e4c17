"""The ladder: what heals, what stays, what is refused, and what it costs."""

import json
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.examples import examples
from tests.tables import every_row
from tests.work import calls_made

from toolbridge.core.json import loads
from toolbridge.healing import Healing, heal, heal_name

OWN = Path(__file__).with_name("cases.json")
CASES = json.loads(OWN.read_text())
TEXTS = [case for case in CASES if case.get("kind") != "name"]
CONTROLS = [case for case in TEXTS if case["class"].endswith("_control")]
COMMAND = {
    "type": "object",
    "properties": {"command": {"type": "string"}},
    "required": ["command"],
}

MARKS = "\"'\\{}[]:,;/#`<>()=+-. \n\tab1é😀“"
nasty = st.lists(
    st.sampled_from([*MARKS, "true", '",', '":', '"}', "//", '", "a": "', "', 'a': '"]), max_size=10
).map("".join)
scalars = st.none() | st.booleans() | st.integers(-999, 10**20) | nasty
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["a", "b_c", "d-e"]), inner, max_size=3)
    ),
    max_leaves=6,
)
objects = st.dictionaries(st.sampled_from(["city", "days", "note", "x_y"]), values, max_size=4)


@pytest.mark.req("PX-24", "PX-25", "PX-26", "PX-27", "PX-28", "PX-X4")
@every_row("case", TEXTS, ids=lambda case: case["id"])
def test_case(case):
    assert heal(case["input"], case.get("schema")).value == case["expected"]


@every_row("value", [{"a\t: b": "x"}, {"a\n=b": 1}, {"a": "x\n, y"}, {"a": "x\t} y", "b": 2}])
def test_an_escape_before_a_separator_does_not_end_a_string(value):
    text = json.dumps(value)
    healing = heal(f"{text[:-1]},}}", None)
    assert (healing.value, [step.what for step in healing.steps]) == (
        value, ["trailing comma removed"],
    )  # fmt: skip
    escaped = json.dumps(f"{text[:-1]},}}")[1:-1]
    assert heal(escaped, None).value == value


SAVING = {"properties": {"path": {"type": "string"}, "content": {"type": "string"}}}


@every_row(
    ("text", "value"),
    [
        (r'{"path": "C:\tmp\", "content": "x"}', {"path": "C:\tmp\\", "content": "x"}),
        (r'{"path": "C:\tmp\" , "content": "x"}', {"path": "C:\tmp\\", "content": "x"}),
        # The name is not in the schema, or is escaped as well: the comma is part of the string.
        (r'{"path": "C:\tmp\", "other": "x"}', {"path": 'C:\tmp", "other": "x'}),
        (r'{"path": "C:\tmp\", "content\": "x"}', {"path": 'C:\tmp", "content": "x'}),
        (r'{"path": "a\" "content": "x"}', {"path": 'a" "content": "x'}),
        (r'{"path": "a\"; "content": "x"}', {"path": 'a"', "content": "x"}),
        (r'{"path\": "a"}', {"path": "a"}),
        (r"{\"path\": \"a\", \"content\": \"b\\", {"path": "a", "content": "b"}),
        ('{"path": "a\\', {"path": "a"}),
    ],
)
def test_a_quote_after_a_backslash_ends_a_string_before_a_known_key(text, value):
    assert heal(text, SAVING).value == value


@every_row(
    ("text", "value", "step"),
    [
        ('{"tags": {"a", "b"}, "n": 1}', {"tags": ["a", "b"], "n": 1}, "set converted to a list"),
        ('{"tags": {"a": 1, "b"}}', {"tags": {"a": 1}}, "key without a colon removed"),
        ('{"a", "b"}', {}, "key without a colon removed"),
    ],
)
def test_words_in_braces_are_a_set_where_a_value_can_stand(text, value, step):
    healing = heal(text, None)
    assert (healing.value, [found.what for found in healing.steps]) == (value, [step])


@every_row("case", [c for c in CASES if c.get("kind") == "name"], ids=lambda c: c["id"])
def test_name(case):
    assert heal_name(case["input"], case["tools"]) == case["expected"]


@every_row("case", CONTROLS, ids=lambda case: case["id"])
@every_row("level", [0, 1, 2, 3])
def test_controls_are_not_touched_at_any_level(case, level):
    healing = heal(case["input"], case.get("schema"), level=level)
    assert healing == Healing(loads(case["input"]))


@given(objects, st.integers(0, 3), st.sampled_from([None, {}, {"type": "object"}]))
def test_valid_json_comes_back_identical(value, level, schema):
    text = json.dumps(value)
    assert heal(text, schema, level=level) == Healing(value)


@pytest.mark.req("PX-24")
def test_an_object_is_the_same_object():
    value = {"command": "ls", "more": [1]}
    assert heal(value).value is value
    assert heal(value, COMMAND).value is value


# One fault at a time, around strings that hold everything that could mislead a reader.


@given(objects)
def test_python_literals_mean_what_they_say(value):
    assert heal(repr(value)).value == value


@given(objects)
def test_a_trailing_comma_changes_nothing(value):
    text = json.dumps(value)
    text = text[:-1] + ",}" if value else text
    assert heal(text).value == value


@given(objects, st.sampled_from(["\n", "</s>", "<|im_end|>", "\n```", "}", "]}", "</tool_call>"]))
def test_what_follows_is_left_out(value, after):
    assert heal(json.dumps(value) + after).value == value


@given(
    objects, st.sampled_from(["```json\n", "```\n", "Sure: ", "<tool_call>", "\ufeff", "args = "])
)
def test_what_comes_before_is_left_out(value, before):
    assert heal(before + json.dumps({"q": 1, **value})).value == {"q": 1, **value}


@pytest.mark.req("PX-26")
@given(objects.filter(bool), st.integers(1, 3))
def test_escaping_again_is_undone(value, times):
    text = json.dumps(value)
    for _ in range(times):
        text = json.dumps(text)[1:-1]
    assert heal(text).value == value


@pytest.mark.req("PX-25")
@given(objects, st.integers(1, 3))
def test_encoding_again_is_undone(value, times):
    text = json.dumps(value)
    for _ in range(times):
        text = json.dumps(text)
    assert heal(text).value == value


@given(objects)
def test_raw_line_ends_are_kept(value):
    text = json.dumps(value).replace("\\n", "\n").replace("\\t", "\t")
    if "\\" not in text:
        assert heal(text).value == value


@given(objects, st.integers(0, 400))
def test_a_prefix_is_always_marked(value, at):
    text = json.dumps({"q": "1", **value})
    prefix = text[: at % len(text)]
    healing = heal(prefix, COMMAND)
    if prefix.strip():
        assert healing.cut or healing.open or healing.hopeless


@given(objects.filter(bool), st.integers(1, 400))
def test_only_brackets_are_added_where_nothing_else_is_missing(value, at):
    text = json.dumps(value)
    healing = heal(text[: -(1 + at % 3)])
    if not healing.cut and not healing.hopeless:
        assert all(_begins(healing.value[key], value[key]) for key in healing.value)


def _begins(found: object, whole: object) -> bool:
    """Whether `found` is `whole`, but for elements that a cut list has lost."""
    if isinstance(found, dict) and isinstance(whole, dict):
        return all(key in whole and _begins(found[key], whole[key]) for key in found)
    if isinstance(found, list) and isinstance(whole, list):
        return all(_begins(a, b) for a, b in zip(found, whole, strict=False))
    return found == whole


@given(st.text(st.characters(), max_size=60) | nasty)
@settings(max_examples=examples(300))
def test_nothing_makes_it_raise_and_the_result_is_json(text):
    for schema in (None, COMMAND):
        healing = heal(text, schema)
        assert isinstance(healing.value, dict)
        json.dumps(healing.value, allow_nan=False)


# Code that was put into a string as it is. To refuse it is allowed, to change it is not.

CODE = [
    'def f(x):\n    """Say "hi"."""\n    return {"a": x, "b": [1, "two"]}["a"]\n',
    'if (a == "b") { return "c" } else { log("x, y", {"k": "v"}); }\n',
    '<a href="x.html" class="y">z</a>, <b id="q">w</b>\n',
    '{\n  "name": "demo",\n  "scripts": {"test": "pytest", "n": 1},\n  "files": ["a", "b"]\n}\n',
    'echo "a" && grep -c "b" f.txt | awk "{print $1}"; if [ "$x" = "y" ]; then echo "z"; fi\n',
    'sign = "+" if x else "-"\nrow = f"{a}: {b}"\nmarks = ("<|im_end|>", "</s>"),\nurl = "//x"\n',
    'match word:\n    case "a" | "b":  # "both"\n        call("x", key="y", more=["", ""],)\n',
]
FILE = {
    "type": "object",
    "properties": {"file_path": {"type": "string"}, "content": {"type": "string"}},
    "required": ["file_path", "content"],
}


@given(st.sampled_from(CODE), st.integers(0, 90), st.integers(10, 200), st.booleans())
@settings(max_examples=examples(400))
def test_unescaped_code_is_healed_or_refused_but_never_changed(code, start, size, first):
    content = code[start : start + size]
    body = content.replace("\n", "\\n")
    assume(
        not content.startswith('""')
    )  # with the quotes around it, that is a text in three quotes
    text = f'{{"content": "{body}", "file_path": "a"}}'
    if not first:
        text = f'{{"file_path": "a", "content": "{body}"}}'
    healing = heal(text, FILE)
    refused = healing.hopeless or healing.cut
    assert refused or healing.value == {"content": content, "file_path": "a"}


@every_row("code", CODE)
def test_whole_pieces_of_unescaped_code_are_healed(code):
    body = code.replace("\n", "\\n")
    healing = heal(f'{{"file_path": "a", "content": "{body}"}}', FILE)
    assert healing.value == {"file_path": "a", "content": code}


# Levels.


@every_row(
    ("text", "schema", "level"),
    [
        ('{"a": 1}', None, 0),
        ("{'a': 1}", None, 1),
        ('{"a": 1,}', None, 1),
        ('"{\\"a\\": 1}"', None, 1),
        ('{"command": 5}', COMMAND, 2),
        ('{"Command": "ls"}', COMMAND, 2),
        ('{"arguments": {"command": "ls"}}', COMMAND, 2),
        ('{"a": 1}{"b": 2}', None, 2),
    ],
)
def test_each_repair_has_its_level(text, schema, level):
    healing = heal(text, schema)
    assert healing.level == level
    assert bool(healing.steps) == bool(level)
    if level:
        below = heal(text, schema, level=level - 1)
        assert below.value != healing.value or below.level < level


def test_each_step_says_what_was_and_what_is():
    (step,) = heal('{"command": 5}', COMMAND).steps
    assert (step.what, step.level, step.before, step.after) == (
        "converted to string: command",
        2,
        "5",
        '"5"',
    )


def test_steps_are_short_however_long_the_text():
    for step in heal("{'a': '" + "x" * 5000 + "'}").steps:
        assert len(step.before) <= 60
        assert len(step.after) <= 60


@pytest.mark.req("PX-27")
@every_row("text", ["not-json", "I am sorry.", "{{{[", "<x>", "42", '"text"', "[1, 2]"])
def test_the_hopeless_is_kept_as_it_is(text):
    healing = heal(text)
    assert healing.value == {"raw": text} or healing.cut or healing.open


def test_a_guess_needs_level_three():
    text = '{"days": 1,000}'
    assert heal(text).value == {"raw": text}
    assert heal(text, level=3).level == 3


@pytest.mark.parametrize("level", [2, 3])
def test_no_quote_is_guessed_about_in_a_long_string(level):
    text = '{"content": "' + "x" * 3000 + 'say "hi" to "her", "file_path": "a"}'
    assert heal(text, level=level).hopeless


def test_a_cut_text_is_read_but_marked():
    healing = heal('{"command": "rm -rf /tmp/x', COMMAND)
    assert healing.cut
    assert healing.value == {"command": "rm -rf /tmp/x"}


@every_row(
    ("text", "cut"),
    [
        ('{"a": "x"', False),
        ('{"a": [true', False),
        ('{"a": {"b": null}', False),
        ('{"a": "x",', True),
        ('{"a": 12', True),
        ('{"a": tr', True),
        ('{"a": "x', True),
        ('{"a": "x", "b', True),
        ('{"a": "x", "b"', True),
        ('{"a":', True),
        ('{"a": "say "hi"', True),
    ],
)
def test_missing_brackets_are_told_from_missing_values(text, cut):
    healing = heal(text)
    assert healing.open
    assert healing.cut == cut


# Cost: no text may take more than its length allows.

HOSTILE = {
    "cut string with escaped quotes": lambda n: '{"content": "' + '\\"a\\", ' * (n // 7),
    "cut string with bare quotes": lambda n: '{"content": "' + '"a", ' * (n // 5),
    "quotes": lambda n: '{"content": ' + '"' * n,
    "single quotes": lambda n: "{'content': " + "'" * n,
    "backslashes": lambda n: '{"content": "' + "\\" * n,
    "commas": lambda n: '{"content": 1' + "," * n,
    "newlines": lambda n: '{"content": x' + "\n" * n + "y",
    "spaces": lambda n: '{"content": "x"' + " " * n + "y",
    "brackets": lambda n: "[" * n,
    "closers": lambda n: '{"a": 1' + "}" * n,
    "comments": lambda n: '{"a": 1, ' + "/*" * (n // 2),
    "hashes after quotes": lambda n: '{"a": "' + '"#' * (n // 2),
    "escaped line ends": lambda n: '{"a": "x"' + "\\n" * (n // 2),
    "colons": lambda n: '{"a": "' + '"b":' * (n // 4),
    "half keys": lambda n: '{"a: ' * (n // 5),
    "restarts": lambda n: '{"content": "a"' * (n // 15),
    "objects": lambda n: '{"a":1}' * (n // 7),
    "bare words": lambda n: "{a: " + "b, " * (n // 3),
    "bare braces": lambda n: "{a: " + "{b}, " * (n // 5),
    "plus": lambda n: '{"a": ' + '"x" + ' * (n // 6),
    "digits": lambda n: '{"a": ' + "1" * n,
    "valid": lambda n: json.dumps({"content": 'x = "y"\n' * (n // 10)}),
}


def _work(text: str) -> int:
    schema = {"type": "object", "properties": {"content": {"type": "string"}}}
    heal(text, schema)  # the first call in a process also compiles regular expressions
    return calls_made(lambda: heal(text, schema))


@every_row("name", HOSTILE)
def test_twice_the_text_takes_about_twice_the_work(name):
    assert _work(HOSTILE[name](16_000)) <= 2.3 * _work(HOSTILE[name](8_000)) + 100


def test_valid_json_of_any_length_takes_the_same_few_calls():
    assert _work(HOSTILE["valid"](1_000_000)) < 100


def test_ten_thousand_brackets_do_not_crash():
    assert heal("[" * 10_000).hopeless
    assert heal('{"a":' * 10_000).hopeless
    assert heal('{"a":' * 10_000 + "1" + "}" * 10_000, COMMAND).hopeless


@pytest.mark.parametrize(
    "text",
    [
        '{"content": "say "hi" now", "file_path": "a"} and "more',
        '{"content": "say "hi" now", "file_path": \'a\'}',
        '{"content": "say "hi" now", "file_path": "a",, "file_path" => "b"}',
    ],
)
def test_after_quotes_inside_a_string_nothing_else_may_be_odd(text):
    assert heal(text, FILE).hopeless


def test_half_a_surrogate_pair_is_replaced_and_reported():
    healing = heal('{"a": "x\\ud83d y"}')
    assert healing.value == {"a": "x\ufffd y"}
    assert [step.what for step in healing.steps] == ["invalid escape corrected"]


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("""{"long_first_key": 1, 'b': 2}""", "'b'"),
        ("""{"long_first_key": 1, b: 2}""", "b: 2"),
        ("""{"long_first_key": 1,  "b": '2'}""", '"b"'),
    ],
)
def test_a_step_shows_the_place_of_odd_quotes(text, key):
    at = text.index(key)
    assert heal(text).steps[0].before == text[at - 12 :]


def test_a_small_repair_costs_few_calls():
    schema = {
        "type": "object",
        "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
        "required": ["city"],
    }
    assert calls_made(lambda: heal('{"city": "Paris", "days": 2,}', schema)) < 130
    assert calls_made(lambda: heal('{"city": "Paris", "days": 2}', schema)) < 45


def test_words_fill_the_only_string_unless_they_may_not():
    schema = {
        "type": "object",
        "properties": {"command": {"type": "string"}},
        "required": ["command"],
    }
    assert heal("ls -la", schema).value == {"command": "ls -la"}
    for words in ("ls -la", '"ls -la"', '["ls -la"]', "42"):
        healing = heal(words, schema, words=False)
        assert healing.hopeless
        assert healing.value == {"raw": words}


def test_a_lone_number_still_finds_its_parameter():
    schema = {"type": "object", "properties": {"count": {"type": "integer"}}, "required": ["count"]}
    assert heal("42", schema, words=False).value == {"count": 42}


@every_row(
    ("text", "value"),
    [
        ('{"a": 1, </tool_call>', {"a": 1}),
        ('{"a": {"b": 1}, </function>', {"a": {"b": 1}}),
        ('{"a": [1, ```', {"a": [1]}),
        ('{"a": [</tool_call>', {"a": []}),
        ("{</tool_call>", {}),
    ],
)
def test_a_closing_tag_in_place_of_brackets_ends_the_call(text, value):
    healing = heal(text, None)
    assert healing.value == value
    steps = [step.what for step in healing.steps]
    assert steps == ["closing tag removed", "missing bracket added"]


def test_a_tag_that_ends_no_call_ends_no_object():
    text = '{"a": 1, <b'
    assert heal(text, None).value == {"raw": text}


@every_row(
    ("text", "value"),
    [
        ('{"a": "\ud800x"}', {"a": "\ufffdx"}),
        ('{"a": "\ud800x",}', {"a": "\ufffdx"}),
        ('{"a\udfff": 1,}', {"a\ufffd": 1}),
        ('{"a": "\ud83d\ude00",}', {"a": "😀"}),
    ],
)
def test_half_a_surrogate_pair_is_replaced(text, value):
    assert heal(text, None).value == value
