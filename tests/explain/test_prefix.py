"""How much of a prompt is the same as in an earlier request, and where the first change is."""

from tests.tables import every_row

from toolbridge.explain.prefix import compare_prompts

SYSTEM = {"type": "text", "text": "Be brief."}
MARKED = SYSTEM | {"cache_control": {"type": "ephemeral"}}
FIRST = {"role": "user", "content": "Hello"}
SECOND = {"role": "assistant", "content": "Hi"}
THIRD = {"role": "user", "content": "Bye"}


def body(*messages, **fields):
    return {"model": "m", "messages": list(messages), **fields}


@every_row(
    ("before", "after", "parts", "messages", "extends", "place"),
    [
        (body(FIRST), body(FIRST), (1, 1), (1, 1), True, ""),
        (body(FIRST), body(FIRST, SECOND), (1, 2), (1, 2), True, ""),
        (body(FIRST, SECOND), body(FIRST), (1, 1), (1, 1), False, "messages.1"),
        (body(FIRST, SECOND), body(FIRST, THIRD), (1, 2), (1, 2), False, "messages.1"),
        (body(FIRST, system="a"), body(FIRST, system="b"), (0, 2), (0, 1), False, "system"),
        (body(FIRST, system=[SYSTEM]), body(FIRST, system=[MARKED]), (2, 2), (1, 1), True, ""),
        (body(FIRST, tools=[]), body(FIRST), (1, 1), (1, 1), True, ""),
        (body(FIRST, tools=[{}]), body(FIRST, tools=[{}, {}]), (1, 3), (0, 1), False, "tools.1"),
        ({"contents": [FIRST]}, {"contents": [THIRD]}, (0, 1), (0, 1), False, "contents.0"),
        ({"input": "a"}, {"input": "ab"}, (0, 1), (0, 1), False, "input"),
        ({}, body(FIRST), (0, 1), (0, 1), True, ""),
        (body(FIRST), {}, (0, 0), (0, 0), False, "messages.0"),
    ],
)
def test_the_first_part_that_changed_is_named(before, after, parts, messages, extends, place):
    found = compare_prompts(before, after, "req_1")
    assert found.against == "req_1"
    assert (found.unchanged_parts, found.of_parts) == parts
    assert (found.unchanged_messages, found.of_messages) == messages
    assert (found.extends, found.place) == (extends, place)


@every_row(
    ("before", "after", "same"),
    [
        # A text alone is the same as a list of one text, with or without cache marks.
        ("Hi", [{"type": "text", "text": "Hi"}], True),
        ("Hi", [{"type": "text", "text": "Hi", "cache_control": {"type": "ephemeral"}}], True),
        ("Hi", [{"type": "text", "text": "Hi", "citations": []}], False),
        ("Hi", [{"type": "text", "text": "Hi"}, {"type": "text", "text": "Hi"}], False),
        ("Hi", ["Hi"], False),
        ([{"a": 1, "cachePoint": {}}, 2], [{"a": 1}, 2], True),
        ([{"a": {"cache_control": 1}}, 2], [{"a": {}}, 2], True),
        ([{"a": 1}, 2], [{"a": 2}, 2], False),
    ],
)
def test_a_cache_mark_is_not_part_of_the_prompt(before, after, same):
    old, new = (body({"role": "user", "content": content}) for content in (before, after))
    assert compare_prompts(old, new, "req_1").extends is same


def test_the_size_of_the_prefix_is_estimated():
    old, new = body(FIRST, SECOND), body(FIRST, SECOND | {"content": "Ho"})
    whole = len('{"role":"user","content":"Hello"}')
    inside = len('{"role":"assistant","content":"H')
    found = compare_prompts(old, new, "req_1")
    assert found.characters == whole + inside
    assert found.tokens == round((whole + inside) / 4)
    total = whole + len('{"role":"assistant","content":"Ho"}')
    counted = compare_prompts(old, new, "req_1", tokens=1000)
    assert counted.tokens == round((whole + inside) * 1000 / total)
    assert compare_prompts({}, {}, "req_1", tokens=1000).tokens == 0


def test_the_text_around_the_change_is_shown_and_redacted():
    long = "x" * 100
    old, new = ({"input": f"{long}{word}{long}"} for word in ("old", "new"))
    found = compare_prompts(old, new, "req_1")
    assert found.before == f"…{'x' * 60}old{'x' * 57}…"
    assert found.after == f"…{'x' * 60}new{'x' * 57}…"
    short = compare_prompts({"input": "ab"}, {"input": "ac"}, "req_1")
    assert (short.before, short.after) == ('"ab"', '"ac"')
    exact = compare_prompts({"input": "a" * 59 + "b" * 59}, {"input": "a" * 59 + "c"}, "req_1")
    assert exact.before == '"' + "a" * 59 + "b" * 59 + '"'
    hidden = compare_prompts(
        {"input": "key sk-1"},
        {"input": "key sk-2"},
        "req_1",
        redact=lambda text: text.replace("sk-", "***"),
    )
    assert (hidden.before, hidden.after) == ('"key ***1"', '"key ***2"')
    shorter = compare_prompts(body(FIRST, SECOND), body(FIRST), "req_1")
    assert shorter.before == '{"role":"assistant","content":"Hi"}'
    assert shorter.after == ""


def test_settings_that_make_a_cache_invalid_are_named():
    old = body(FIRST, thinking={"type": "enabled"}, temperature=1)
    new = body(FIRST, tool_choice="auto", temperature=0) | {"model": "n"}
    found = compare_prompts(old, new, "req_1")
    assert found.settings == ("model", "tool_choice", "thinking")
    assert found.sentence == (
        "prefix unchanged: the whole prompt of the earlier request, 1 of 1 messages, about 8 tokens"
        "; also changed: model, tool_choice, thinking"
    )
    changed = compare_prompts(body(FIRST, SECOND), body(FIRST, THIRD), "req_1")
    assert changed.sentence == (
        "prefix unchanged up to message 1 of 2, about 10 tokens; the first change is at messages.1"
    )
