"""Commands from stdin to stdout, in this process: their options."""

import io
import json
import sys

import pytest

from toolbridge.cli import main

SCHEMA = {
    "type": "object",
    "properties": {"command": {"type": "string"}, "count": {"type": "integer"}},
    "required": ["command"],
}
ONLY_TEXT = {"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]}


@pytest.fixture
def command(monkeypatch, capsys):
    def run(text, *arguments):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
        status = main([*arguments])
        return status, capsys.readouterr()

    return run


@pytest.mark.parametrize(
    ("text", "options", "schema", "value", "status"),
    [
        ('{"command": "ls", "count": "5"}', [], SCHEMA, {"command": "ls", "count": 5}, 0),
        ('{"command": "ls", "count": "5"}', ["--level", "0"], SCHEMA, {"command": "ls", "count": "5"}, 0),
        ("{'command': 'ls'}", ["--level", "1"], None, {"command": "ls"}, 0),
        ("{'command': 'ls'}", ["--level", "0"], None, {"raw": "{'command': 'ls'}"}, 1),
        ("plain words", ["--level", "3"], ONLY_TEXT, {"q": "plain words"}, 0),
        ("plain words", ["--level", "3", "--no-words"], ONLY_TEXT, {"raw": "plain words"}, 1),
    ],
)  # fmt: skip
def test_heal(command, tmp_path, text, options, schema, value, status):
    if schema is not None:
        file = tmp_path / "schema.json"
        file.write_text(json.dumps(schema))
        options = [*options, "--schema", str(file)]
    found, shown = command(text, "heal", *options)
    assert json.loads(shown.out)["value"] == value
    assert found == status


def test_heal_names_a_schema_that_is_no_object(command, tmp_path):
    file = tmp_path / "schema.json"
    file.write_text("[]")
    status, shown = command("{}", "heal", "--schema", str(file))
    assert status == 1
    assert f"{file}: the file is not a JSON object" in shown.err


CALL = '<tool_call>{"name":"w","arguments":{"a":1}}</tool_call>'


@pytest.mark.parametrize(
    ("tools", "names"),
    [
        (None, ["w"]),
        ([{"name": "w", "input_schema": {"type": "object"}}], ["w"]),
        ({"tools": [{"name": "w", "input_schema": {"type": "object"}}]}, ["w"]),
        ([{"name": "other", "input_schema": {"type": "object"}}], []),
    ],
)
def test_read(command, tmp_path, tools, names):
    options = []
    if tools is not None:
        file = tmp_path / "tools.json"
        file.write_text(json.dumps(tools))
        options = ["--tools", str(file)]
    status, shown = command(f"Sure. {CALL}", "read", *options)
    found = json.loads(shown.out)
    assert status == 0
    assert [call["name"] for call in found["calls"]] == names
    assert found["content"].startswith("Sure.")


@pytest.mark.parametrize(
    ("content", "words"), [("5", "not a JSON list"), ("{", ""), (None, "there is no file")]
)
def test_read_names_a_file_that_has_no_tools(command, tmp_path, content, words):
    file = tmp_path / "tools.json"
    if content is not None:
        file.write_text(content)
    status, shown = command(CALL, "read", "--tools", str(file))
    assert status == 1
    assert str(file) in shown.err
    assert words in shown.err
