"""What each dialect writes itself, it reads again: whatever the arguments, the company and the cut."""

from collections.abc import Iterable

import pytest
from tests.dialects.cases import CUTS, completed, pieces, same
from tests.tables import every_row

from toolbridge.core.fold import collect
from toolbridge.core.messages import Call, Tool
from toolbridge.dialects import load, names
from toolbridge.dialects.engines.mark_reader import MarkReader
from toolbridge.dialects.engines.partial_marks import STOPS
from toolbridge.dialects.reader import Reading, TextReader

SCHEMA = {
    "type": "object",
    "properties": {
        "city": {"type": "string"},
        "days": {"type": "integer"},
        "ratio": {"type": "number"},
        "metric": {"type": "boolean"},
        "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "tags": {"type": "array", "items": {"type": "string"}},
        "where": {
            "type": "object",
            "properties": {
                "lat": {"type": "number"},
                "deep": {
                    "type": "object",
                    "properties": {"a": {"type": "array", "items": {"type": "integer"}}},
                },
            },
        },
    },
}
TOOLS = [Tool("get_weather", schema=SCHEMA), Tool("get_time", schema={"type": "object"})]
ONLY_THOUGHTS = {"kimi_think", "think_tags"}
DIALECTS = [name for name in names() if name not in ONLY_THOUGHTS]
RUNNING = [name for name in DIALECTS if isinstance(load(name).reader, MarkReader)]
"""The dialects whose calls stand in running text; the others have frames around everything."""
ARGUMENTS = {
    "none": {},
    "one": {"city": "Paris"},
    "other scripts": {"city": "日本 🎌 é́ 👩‍👩‍👧 שלום"},
    "lines": {"city": "a\nb\n\nc"},
    "lines at the ends": {"city": "\n  a \n"},
    "spaces": {"city": "  x  "},
    "an empty text": {"city": ""},
    "every type": {
        "city": "x", "days": 3, "ratio": 0.5, "metric": True, "note": None, "tags": ["a", "b"],
        "where": {"lat": 1.5, "deep": {"a": [1, 2]}},
    },
    "below zero": {"city": "x", "days": -1, "ratio": -2.25e-7, "metric": False},
    "a large number": {"city": "x", "days": 12345678901234567890},
    "an empty list": {"city": "x", "tags": []},
    "a text like a number": {"city": "42"},
    "a text like a word": {"city": "true"},
    "a text like nothing": {"city": "null"},
    "a text like JSON": {"city": '{"a": 1}'},
    "quotes": {"city": "say \"hi\" \\ and 'bye'"},
    "a path": {"city": "C:\\new\\"},
    "entities": {"city": "a &lt; b &amp; c <b>x</b>"},
    "punctuation": {"city": "a, b: c=d) ] } ;"},
    "brackets": {"city": "}{][)("},
    "a fence": {"city": "```py\nx\n```"},
    "texts in a list": {"city": "x", "tags": ["a,b", 'c"d', "e'f", "<g>"]},
    "a tab and a return": {"city": "a\tb\r\nc"},
    "a long text": {"city": "x" * 700},
}  # fmt: skip
LONGEST_MARK = max(len(mark) for name in DIALECTS for mark in load(name).marks)
PARIS = Call("call00001", "get_weather", {"city": "Paris", "days": 2})
TWICE = Call("call00002", "get_weather", {"city": "Paris", "days": 2})
NOW = Call("call00003", "get_time", {})


def read(text: str, dialect: str, cut: str = "whole", reason: str = "end") -> Reading:
    return read_pieces(pieces(text, cut, text), dialect, reason)


def read_pieces(given: Iterable[str], dialect: str, reason: str = "end") -> Reading:
    reader = TextReader(TOOLS, dialect=dialect)
    events = [event for piece in given for event in reader.feed(piece)]
    message = collect(events + reader.close(reason))
    return Reading(message.text.strip(), message.thinking.strip(), message.calls)


def written(dialect: str, *calls: Call) -> str:
    return load(dialect).render.calls(calls)


def said(calls) -> list:
    return [(call.name, call.arguments, call.raw) for call in calls]


def own_marks(dialect: str) -> list[str]:
    found = load(dialect)
    marks = set(found.marks)
    if isinstance(found.reader, MarkReader):
        marks |= set(found.reader.drafts)
        readers = (reader for readers in found.reader.calls.values() for reader in readers)
        marks |= {mark for reader in readers for mark in reader.closing}
    return sorted(marks)


@pytest.mark.req("CB-30", "CB-31")
@pytest.mark.parametrize("dialect", DIALECTS)
def test_what_is_written_is_read_again_whatever_the_arguments(dialect):
    marked = {f"the mark {mark}": {"city": f"a {mark} b"} for mark in own_marks(dialect)}
    wrong = {
        (title, cut): reading
        for title, arguments in {**ARGUMENTS, **marked}.items()
        for cut in CUTS
        if not is_exactly(
            arguments,
            reading := read(
                written(dialect, Call("call00001", "get_weather", arguments)), dialect, cut
            ),
        )
    }
    assert wrong == {}


def is_exactly(arguments, reading: Reading) -> bool:
    return (
        not reading.content
        and not reading.reasoning
        and [call.name for call in reading.calls] == ["get_weather"]
        and same(arguments, reading.calls[0].arguments)
    )


def in_company(dialect: str) -> dict[str, tuple[str, str, str, list[Call]]]:
    """Return texts with what they say: the words, the thoughts and the calls."""
    call, now = written(dialect, PARIS), written(dialect, NOW)
    prose = load(dialect).reader
    assert isinstance(prose, MarkReader)
    spans = [span for span in prose.thoughts if not span.is_sentence]
    opens, closes = (spans[0].open, spans[0].close) if spans else ("", "")
    found = {
        "words before": (f"Let me check.\n{call}", "Let me check.", "", [PARIS]),
        "words after": (f"{call}\nDone.", "Done.", "", [PARIS]),
        "one after the other": (f"{call}\n\n{now}", "", "", [PARIS, NOW]),
        "words between": (f"{call}\nAnd also:\n{now}", "And also:", "", [PARIS, NOW]),
        "white space": (f"\n\n  {call}\n\n\n", "", "", [PARIS]),
        "in a fence": (
            f"So:\n\n```xml\n{call}\n```\nThat is all.",
            f"So:\n\n```xml\n{call}\n```\nThat is all.",
            "",
            [],
        ),
    }
    if dialect == "react":
        return found  # a line of thought belongs to its action
    return {
        **found,
        "a thought before": (f"{opens}I look.{closes}\n\n{call}", "", "I look.", [PARIS]),
        "all three": (f"{opens}I look.{closes}\n\nOh.\n{call}", "Oh.", "I look.", [PARIS]),
        "a draft": (
            f"{opens}Say {call} or so.{closes}Hello.", "Hello.", f"Say {call} or so.", [],
        ),
    }  # fmt: skip


@pytest.mark.req("CB-30", "CB-31")
@every_row("cut", CUTS)
@every_row("dialect", RUNNING)
def test_a_call_is_read_in_any_company(dialect, cut):
    wrong = {}
    for title, (text, words, thoughts, calls) in in_company(dialect).items():
        reading = read(text, dialect, cut)
        expected = (words, thoughts, said(calls))
        if (reading.content, reading.reasoning, said(reading.calls)) != expected:
            wrong[title] = reading
    assert wrong == {}


@every_row("cut", CUTS)
@every_row("dialect", DIALECTS)
def test_several_calls_are_several_calls(dialect, cut):
    reading = read(written(dialect, PARIS, TWICE, NOW), dialect, cut)
    assert (reading.content, said(reading.calls)) == ("", said([PARIS, TWICE, NOW]))
    assert len({call.id for call in reading.calls}) == 3


@every_row("name", ["Get_Weather", "functions.get_weather", "GET_WEATHER"])
@every_row("dialect", DIALECTS)
def test_a_name_may_differ_in_case_and_namespace(dialect, name):
    reading = read(written(dialect, Call("call00001", name, {"city": "Paris"})), dialect)
    assert said(reading.calls) == [("get_weather", {"city": "Paris"}, "")]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_tokens_that_end_a_turn_are_no_text_at_the_end(dialect):
    """The call comes in one piece; `test_several_calls_are_several_calls` cuts calls everywhere."""
    call = written(dialect, PARIS)
    wrong = {
        (stop, space): reading
        for stop in STOPS
        for space in ("", "\n")
        if (reading := read_pieces([call, *f"{space}{stop}{space}{stop}"], dialect)).content
        or said(reading.calls) != said([PARIS])
    }
    assert wrong == {}


@every_row("dialect", DIALECTS)
def test_a_token_in_a_sentence_is_text(dialect):
    for stop in STOPS:
        text = f'The tokens {stop} and `{stop}` end it, so does "{stop}".'
        assert read(text, dialect, "by char").content == text


def test_a_token_that_ends_a_turn_is_text_inside_of_one():
    text = "The token <|im_end|> ends a turn."
    assert read(text, "qwen3_xml").content == text
    assert read("This is <s>wrong</s>", "qwen3_xml").content == "This is <s>wrong</s>"


def begins(arguments, call: Call) -> bool:
    """Tell whether the text of a call that may be cut is one, as far as it came."""
    found = completed(call)
    city = found.get("city", "") if isinstance(found, dict) else ""
    return arguments["city"].startswith(city.split("]<]")[0])


@pytest.mark.parametrize("dialect", DIALECTS)
def test_wherever_the_stream_is_cut_no_half_call_is_whole(dialect):
    """A call that comes out whole is one that was written whole; nothing else of it is text."""
    calls = [Call("call00001", "get_weather", {"city": "Paris, France", "days": 2}), NOW]
    text = written(dialect, *calls)
    for end in range(len(text)):
        reading = read(text[:end], dialect, reason="length")
        whole = [call for call in said(reading.calls) if not call[2]]
        assert whole == said(calls)[: len(whole)], text[:end]
        assert all(begins(calls[0].arguments, call) for call in reading.calls[:1]), text[:end]
        assert not reading.calls or not reading.content, text[:end]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_wherever_the_stream_is_cut_the_pieces_change_nothing(dialect):
    """Only the last characters come one by one: more than the longest mark, which a reader may hold.

    What came before is certain, and `test_several_calls_are_several_calls` cuts it everywhere.
    """
    text = written(dialect, PARIS, NOW)
    for end in range(len(text)):
        whole = read(text[:end], dialect)
        late = max(0, end - LONGEST_MARK - 1)
        by_char = read_pieces([text[:late], *text[late:end]], dialect)
        assert (by_char.content, said(by_char.calls)) == (whole.content, said(whole.calls))


@every_row("dialect", RUNNING)
def test_a_call_in_a_thought_that_nothing_closes_is_a_call(dialect):
    prose = load(dialect).reader
    mark = next((m for m in prose.drafts if m in written(dialect, PARIS)), "")
    spans = [span for span in prose.thoughts if span.close != "\n"]
    if not mark or not spans:
        return  # bare forms mean nothing in a thought
    text = f"{spans[0].open}I speak of {mark} first.\n{written(dialect, PARIS)}"
    for words in ("", "Done.", "It is done."):
        reading = read(f"{text}\n{words}", dialect)
        assert said(reading.calls) == said([PARIS])
        assert reading.content == words
        assert reading.reasoning.endswith(f"I speak of {mark} first.")


@every_row("dialect", RUNNING)
def test_an_unknown_tool_behind_a_call_is_text(dialect):
    text = written(dialect, PARIS)
    other = written(dialect, Call("call00009", "no_such_tool", {"city": "Rome"}))
    reading = read(f"{text}\nOr this:\n{other}", dialect)
    assert said(reading.calls)[:1] == said([PARIS])
    assert reading.content.startswith("Or this:")
    assert "Rome" in reading.content or len(reading.calls) == 2


FOREIGN = [
    "</parameter>", "</function>", "</tool_call>", "</arg_value>", "</invoke>", "</param>", "```",
    '"}}', "}]", "')", '")', "<|call|>", "<|end|>", "<|im_end|>", "]]>", "<|sep|>", "[ARGS]",
    "<|close|>argument<|sep|>", "{key:", "call:", "<tool_call>", "<think>", "</think>",
    "\nObservation:", "\nAction:", "✿RESULT✿",
]  # fmt: skip


@pytest.mark.req("CB-30", "CB-31")
@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_marks_of_any_dialect_are_text_in_a_text(dialect):
    """The mark comes one character at a time; the test of all arguments cuts what is around it."""
    wrong = {}
    for mark in FOREIGN:
        for space in (" ", "", "\n"):
            arguments = {"city": f"before{space}{mark}{space}after"}
            text = written(dialect, Call("call00001", "get_weather", arguments))
            start, end = text.index("fore"), text.index("after") + 1
            reading = read_pieces([text[:start], *text[start:end], text[end:]], dialect)
            if not is_exactly(arguments, reading):
                wrong[mark, space] = reading
    assert wrong == {}


@pytest.mark.parametrize("dialect", RUNNING)
def test_the_beginning_of_a_mark_in_a_sentence_is_text(dialect):
    prose = load(dialect).reader
    spans = [span for span in prose.thoughts if span.close != "\n" and not span.is_sentence]
    for mark in {*load(dialect).marks, *prose.drafts}:
        for size in range(1, len(mark)):
            text = f"Compare {mark[:size]} with x < y and [1] {{2}}."
            assert read(text, dialect, "by char") == Reading(text)
            for span in spans[:1]:
                thought = f"{span.open}{text}{span.close}Hello."
                assert read(thought, dialect, "by char") == Reading("Hello.", text)


@every_row("dialect", RUNNING)
def test_a_call_that_lacks_nothing_but_its_end_mark_is_one(dialect):
    text = written(dialect, Call("call00001", "get_weather", {"city": "Paris"})).rstrip()
    readers = (reader for readers in load(dialect).reader.calls.values() for reader in readers)
    for end in {mark for reader in readers for mark in reader.closing if text.endswith(mark)}:
        reading = read(text.removesuffix(end), dialect, "by char")
        assert reading.content == ""
        assert [(c.name, completed(c)) for c in reading.calls] == [
            ("get_weather", {"city": "Paris"})
        ]


@every_row("cut", CUTS)
@every_row("dialect", DIALECTS)
def test_a_text_that_is_cut_is_kept_as_far_as_it_came(dialect, cut):
    text = written(dialect, Call("call00001", "get_weather", {"city": "hello world"}))
    reading = read(text[: text.rindex("rld")], dialect, cut)
    assert reading.content == ""
    assert [(c.name, completed(c)) for c in reading.calls] == [
        ("get_weather", {"city": "hello wo"})
    ]
    assert reading.calls[0].raw
