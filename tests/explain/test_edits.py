"""Each edit between a request that came and the request that was sent, with its place."""

from msgspec.structs import replace
from tests.tables import every_row

from toolbridge.core.messages import (
    Call,
    Image,
    OutputFormat,
    Request,
    Result,
    Sampling,
    Text,
    Think,
    Tool,
    Turn,
)
from toolbridge.explain.answer_lines import event_lines, wire_lines
from toolbridge.explain.edits import find_edits
from toolbridge.explain.transcript import pretty

PLAIN = Request("m", turns=(Turn("user", (Text("Hi"),)),))


def user(*parts):
    return replace(PLAIN, turns=(Turn("user", parts),))


def tools(*names):
    return replace(PLAIN, tools=tuple(map(Tool, names)))


def image(data):
    return Image(data=data, media_type="image/png")


@every_row(
    ("came", "sent", "edits"),
    [
        (PLAIN, PLAIN, []),
        (PLAIN, replace(PLAIN, model="n"), [("model", "changed", "m", "n")]),
        (replace(PLAIN, max_tokens=5), PLAIN, [("max_tokens", "removed", 5, None)]),
        (PLAIN, replace(PLAIN, max_tokens=0), [("max_tokens", "added", None, 0)]),
        (replace(PLAIN, user=""), replace(PLAIN, stop=()), []),
        (PLAIN, replace(PLAIN, sampling=Sampling(temperature=1.0)), [("sampling.temperature", "added", None, 1.0)]),
        (replace(PLAIN, extra={"a": 1, "source": 2}), replace(PLAIN, extra={"a": True}), [("extra.a", "changed", 1, True)]),
        (replace(PLAIN, think=Think(effort="high")), replace(PLAIN, think=Think(effort="low")), [("think.effort", "changed", "high", "low")]),
        (user(Text("a")), user(Text("b")), [("turns.0.content.0.text", "changed", "a", "b")]),
        (user(Text("a b"), Text("c")), user(Text("ab c")), [("turns.0.content.0", "changed", ["a b", "c"], ["ab c"])]),
        (
            replace(PLAIN, turns=(Turn("user", (Text("a"),)), Turn("user", (Text("b"),)))),
            user(Text("a"), Text("b")),
            [("turns", "changed", ["user 1", "user 1"], ["user 2"])],
        ),
        (
            user(Text("a"), Text("b")),
            user(Text("a")),
            [("turns.0.content.1", "removed", {"role": "user", "type": "text", "text": "b"}, None)],
        ),
        (
            user(Text("a")),
            user(Text("a"), Text("b")),
            [("turns.0.content.1", "added", None, {"role": "user", "type": "text", "text": "b"})],
        ),
        (
            replace(PLAIN, system=(Text("s"),)),
            PLAIN,
            [("system.0", "removed", {"role": "system", "type": "text", "text": "s"}, None)],
        ),
        (
            user(Text("a"), Text("b")),
            user(Text("x")),
            [
                ("turns.0.content.0.text", "changed", "a", "x"),
                ("turns.0.content.1", "removed", {"role": "user", "type": "text", "text": "b"}, None),
            ],
        ),
        (
            user(Text("a")),
            replace(PLAIN, turns=(Turn("assistant", (Text("b"),)),)),
            [
                ("turns.0.content.0", "removed", {"role": "user", "type": "text", "text": "a"}, None),
                ("turns.0.content.0", "added", None, {"role": "assistant", "type": "text", "text": "b"}),
            ],
        ),
        (
            user(Text("ab"), Call("1", "f")),
            user(Text("a"), Text("b"), Result("1")),
            [
                ("turns.0.content.0.text", "changed", "ab", "a"),
                ("turns.0.content.1", "removed", {"role": "user", "type": "call", "id": "1", "name": "f"}, None),
                ("turns.0.content.1", "added", None, {"role": "user", "type": "text", "text": "b"}),
                ("turns.0.content.2", "added", None, {"role": "user", "type": "result", "call_id": "1"}),
            ],
        ),
        (PLAIN, replace(PLAIN, output=OutputFormat()), [("output", "added", None, {})]),
        (replace(PLAIN, output=OutputFormat()), PLAIN, [("output", "removed", {}, None)]),
        (replace(PLAIN, output=OutputFormat({})), replace(PLAIN, output=OutputFormat({"a": 1})), [("output.schema", "changed", {}, {"a": 1})]),
        (tools("a", "b", "c"), tools("c", "a"), [("tools.1", "removed", {"name": "b"}, None)]),
        # Calls and results are paired by their ids, in any order.
        (
            user(Result("1", (Text("a"),)), Result("2", (Text("b"),))),
            user(Result("2", (Text("c"),)), Result("1", (Text("d"),))),
            [
                ("turns.0.content.0.content", "changed", [{"type": "text", "text": "a"}], [{"type": "text", "text": "d"}]),
                ("turns.0.content.1.content", "changed", [{"type": "text", "text": "b"}], [{"type": "text", "text": "c"}]),
            ],
        ),
        (user(Call("1", "f")), user(Call("2", "f")), [("turns.0.content.0.id", "changed", "1", "2")]),
        # Another image is no change of an image.
        (
            user(image("aGk=")),
            user(image("aG8=")),
            [
                ("turns.0.content.0", "removed", {"role": "user", "type": "image", "data": "aGk=", "media_type": "image/png"}, None),
                ("turns.0.content.0", "added", None, {"role": "user", "type": "image", "data": "aG8=", "media_type": "image/png"}),
            ],
        ),
        (
            user(image("aGk=")),
            user(replace(image("aGk="), media_type="image/gif")),
            [("turns.0.content.0.media_type", "changed", "image/png", "image/gif")],
        ),
        (tools("a", "b"), tools("b", "a"), []),
        (tools("a"), tools("b"), [("tools.0.name", "changed", "a", "b")]),
        (tools("a", "b"), tools("b"), [("tools.0", "removed", {"name": "a"}, None)]),
        (tools("a"), tools("a", "b"), [("tools.1", "added", None, {"name": "b"})]),
        (tools("a", "b"), tools("a"), [("tools.1", "removed", {"name": "b"}, None)]),
    ],
)  # fmt: skip
def test_an_edit_has_its_place_and_both_values(came, sent, edits):
    found = [(edit.place, edit.kind, edit.before, edit.after) for edit in find_edits(came, sent)]
    assert found == edits


def test_a_tool_is_recognized_by_its_name_at_the_target():
    came, sent = tools("a.b", "c"), tools("c", "a_b")
    (edit,) = find_edits(came, sent, {"a_b": "a.b"})
    assert (edit.place, edit.before, edit.after) == ("tools.0.name", "a.b", "a_b")


@every_row(
    ("text", "lines"),
    [
        ('{"a":[1]}', ["{", ' "a": [', "  1", " ]", "}"]),
        ("event: x\r\ndata: 1\r\n\r\ndata: 2\r\n\r\n", ["event: x data: 1", "data: 2"]),
        ("one\n\ntwo\n", ["one", "two"]),
        ("", []),
    ],
)
def test_a_response_has_one_line_for_each_event(text, lines):
    assert wire_lines(200, text) == ["HTTP 200", *lines]


def test_the_pieces_of_a_text_are_one_line():
    def piece(**message):
        return (
            '{"model":"m","message":'
            + pretty({"role": "assistant", **message})
            + ',"done":false}\n'
        )

    end = '{"model":"m","done":true,"done_reason":"stop","eval_count":3}\n'
    split = [
        piece(content="", thinking="a"), piece(content="", thinking="b"), piece(content="c"), piece(content="d"), end,
    ]  # fmt: skip
    whole = [piece(content="", thinking="ab"), piece(content="cd"), end]
    lines = event_lines("ollama", 200, "".join(split))
    assert lines == event_lines("ollama", 200, "".join(whole))
    assert lines[0] == "HTTP 200"
    assert not any("msg_" in line or line.startswith("usage") for line in lines)
    assert event_lines("ollama", 400, '{"error":"no"}') == ["HTTP 400", "rejected no"]
    assert event_lines("ollama", 404, '{"error":"no model"}') == ["HTTP 404", "rejected no model"]


def test_json_is_on_one_line_where_it_fits():
    assert pretty({"a": [1, 2]}) == '{"a":[1,2]}'
    exact = "x" * 98
    assert pretty([exact[:96]]) == f'["{exact[:96]}"]'
    assert pretty([exact[:97]]) == f'[\n  "{exact[:97]}"\n]'
    assert pretty(exact * 2) == f'"{exact * 2}"'
    assert pretty({"a": exact, "b": {"c": exact}}) == (
        f'{{\n  "a": "{exact}",\n  "b": {{\n    "c": "{exact}"\n  }}\n}}'
    )
