"""Tokens, counted without a tokenizer."""

from base64 import b64encode
from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.tables import every_row
from tests.work import calls_made

from toolbridge.accounting.count import count_simply, estimate_request, estimate_text
from toolbridge.core.messages import (
    Audio,
    Call,
    Document,
    Foreign,
    Image,
    OutputFormat,
    Reference,
    Request,
    Result,
    Text,
    Thinking,
    Tool,
    Turn,
)


@pytest.mark.req("PX-29")
@every_row(
    ("text", "tokens"),
    [
        ("", 0),
        ("hi", 1),
        ("four", 1),
        ("hello", 2),
        ("hello world", 4),
        ("abcd efgh", 2),
        ("abcdefgh", 2),
        ("abcdefghi", 3),
        ("  multiple   spaces  ", 4),
        ("tab\tand\nline", 3),
    ],
)
def test_words_are_counted_in_fours(text, tokens):
    assert count_simply(asking(Text(text)), "words4") == tokens


@pytest.mark.req("CB-12")
@every_row(("text", "tokens"), [("", 0), ("a", 1), ("four", 1), ("hello", 2), ("hello world", 3)])
def test_characters_are_counted_in_fours(text, tokens):
    assert count_simply(asking(Text(text)), "chars4") == tokens


@given(st.text())
def test_characters_in_fours_are_rounded_up(text):
    assert count_simply(asking(Text(text)), "chars4") == ceil(len(text) / 4)


def asking(*parts, **fields):
    return Request("m", (Turn("user", parts),), **fields)


REQUEST = Request(
    "m",
    (
        Turn("user", (Text("look at this"), Image(data="aGk="))),
        Turn("assistant", (Text("I do"), Call("a", "Read", {"path": "x y", "n": 1}))),
        Turn("user", (Result("a", (Text("found it"), Text("twice"))), Text("thanks"))),
    ),
    (Text("be kind"), Text("be brief")),
    (Tool("Read", "Reads."),),
)


@pytest.mark.req("PX-30", "PX-32", "PX-33")
def test_system_text_inputs_and_results_are_counted_joined_by_spaces():
    text = 'be kind be brief look at this I do {"path":"x y","n":1} found it twice thanks'
    assert count_simply(REQUEST, "chars4") == ceil(len(text) / 4)
    assert count_simply(REQUEST, "words4") == sum(ceil(len(word) / 4) for word in text.split())
    assert count_simply(Request("m"), "words4") == count_simply(Request("m"), "chars4") == 0
    system_only = Request("m", system=(Text("hello world"),))
    assert count_simply(system_only, "words4") == 4


@pytest.mark.req("PX-32")
def test_arguments_that_are_not_json_are_counted_as_written():
    assert count_simply(asking(Call("a", "T", raw="not json")), "words4") == 2


def saying(*parts, **fields):
    return estimate_request(asking(*parts, **fields))


NOTHING = saying()


def test_latin_text_has_more_characters_per_token_than_chinese():
    assert saying(Text("a" * 3600)) - NOTHING == 1000
    assert saying(Text("汉" * 1300)) - NOTHING == 1000
    assert saying(Text("д" * 1300)) - NOTHING == 650
    assert saying(Text("a" * 3600 + "汉" * 1300)) - NOTHING == 2000


PNG = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + (300).to_bytes(4, "big") + (500).to_bytes(4, "big")


@every_row(
    ("part", "tokens"),
    [
        (Image(data=b64encode(PNG + b"\x08" * 50).decode()), 200),
        (Image(data=b64encode(b"\xff\xd8\xff" * 50).decode()), 1600),
        (Image(data=b64encode(PNG[:10]).decode()), 1600),
        (Image(data="%%% not base64"), 1600),
        (Image(data="aGk="), 1600),
        (Image(url="http://example.org/a.png"), 1600),
        (Document(text="a" * 360), 100),
        (Document(data="a" * 480, media_type="text/plain"), 100),
        (Document(data="a" * 40_000, media_type="application/pdf"), 2700),
        (Document(url="http://example.org/a.pdf", title="a" * 36), 1510),
        (Audio(data="a" * 40_000), 30),
        (Thinking("a" * 36), 10),
        (Reference("a" * 36), 10),
        (Foreign("anthropic", "x", {"a": "b" * 28}), 10),
        (Call("a", "Read", {"path": "a" * 21}), 14),
        (Call("a", "Read", raw="a" * 32), 14),
        (Result("a", (Text("a" * 36), Image(url="u"))), 1614),
    ],
)
def test_every_part_weighs_something(part, tokens):
    assert saying(part) - NOTHING == tokens


def test_tools_and_schemas_weigh_too():
    tool = Tool("Read", "a" * 25, {"type": "object"})
    assert saying(tools=(tool, tool)) - NOTHING == 2 * (8 + round((4 + 25 + 17) / 3.6))
    assert saying(tools=(Tool("web", hosted={"type": "web"}),)) > NOTHING
    assert saying(output=OutputFormat({"type": "object"})) - NOTHING == 5


def test_a_family_has_its_own_ratio_and_overhead():
    request = Request("m", (Turn("user", (Text("a" * 6000),)),), tools=(Tool("T"),))
    counts = {name: estimate_request(request, family=name) for name in ("openai", "", "anthropic")}
    assert counts["openai"] < counts[""] < counts["anthropic"]
    assert estimate_request(request, family="martian") == counts[""]


IDEOGRAPHS = [("\u1100", "\u11ff"), ("\u2e80", "\u9fff"), ("\uac00", "\ud7ff")]
IDEOGRAPHS += [("\uf900", "\ufaff"), ("\uff00", "\uffef"), ("\U00020000", "\U0003ffff")]
MIXED = "aZ 0\n\x7f\x80é\ud800\udfff日本\u10ff\u1100\u9fff\ua000\uffef\ufff0\U0001f600\U00020000\U00040000"


@given(st.text(st.sampled_from(MIXED)))
def test_each_character_is_counted_by_its_script(text):
    def weight(character):
        if character.isascii():
            return 1 / 3.6
        return 1 / 1.3 if any(a <= character <= b for a, b in IDEOGRAPHS) else 1 / 2

    assert estimate_text(text) == pytest.approx(sum(map(weight, text)))


@given(st.lists(st.text(max_size=40), max_size=5), st.text(max_size=40))
def test_saying_more_never_weighs_less(texts, more):
    parts = tuple(map(Text, texts))
    assert saying(*parts, Text(more)) >= saying(*parts)


def _big(text):
    tool = Tool(
        "T" * 10, "d" * 1000, {"properties": {f"p{n}": {"type": "string"} for n in range(60)}}
    )
    turns = (Turn("user", (Text(text * 500),)), Turn("assistant", (Call("a", "T", {"a": text}),)))
    return Request("m", turns * 10, tools=(tool,) * 12)


@pytest.mark.req("CL-10")
@pytest.mark.parametrize("text", ["some words ", "汉字 слово "])
def test_a_large_request_is_counted_at_once(text):
    assert calls_made(lambda: estimate_request(_big(text))) < 20_000  # not one per character
