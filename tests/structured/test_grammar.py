"""The sentinels of a stream, however the text is cut."""

import tracemalloc
from itertools import combinations, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import examples
from tests.tables import every_row
from tests.work import calls_made

from toolbridge.structured.grammar import RESYNC, Grammar
from toolbridge.structured.limits import Limits
from toolbridge.structured.pieces import (
    FrameClosed,
    FrameFault,
    FrameOpened,
    FrameText,
    Piece,
    PlainText,
    join_pieces,
)

B = "⟦BEGIN_OBJECT id=O1 schema=Action⟧"
E = "⟦END_OBJECT id=O1⟧"
SMALL = Limits(frame=60, depth=3, arguments=20)


def read(*cuts: str, limits: Limits = SMALL) -> list[Piece]:
    grammar = Grammar(limits)
    return join_pieces([p for cut in cuts for p in grammar.feed(cut)] + grammar.close())


def whole(
    body: str, kind: str = "object", id: str = "O1", name: str = "Action", **more: object
) -> list[Piece]:
    bodies = [FrameText(id, body)] if body else []
    return [FrameOpened(kind, id, name), *bodies, FrameClosed(kind, id, name, body, **more)]


CUT = {"whole": False}
LOST = {"ended": False, "whole": False}


def fault(code: str, id: str = "O1") -> tuple[str, str]:
    return code, id


CASES: dict[str, tuple[str, list[object]]] = {
    "nothing but text": ("Hello, world.", [PlainText("Hello, world.")]),
    "an object": (f'a {B}{{"x":1}}{E} b', [PlainText("a "), *whole('{"x":1}'), PlainText(" b")]),
    "a tool": (
        '⟦BEGIN_TOOL_CALL id=T.1-a name=a.b:c/d⟧{"q":1}⟦END_TOOL_CALL id=T.1-a⟧',
        whole('{"q":1}', "tool", "T.1-a", "a.b:c/d"),
    ),
    "a result": (
        "⟦BEGIN_RESULT id=R1 schema=AssistantReply⟧[]⟦END_RESULT id=R1⟧",
        whole("[]", "result", "R1", "AssistantReply"),
    ),
    "white space is kept": (f"{B}\n {{}}\n{E}\n", [*whole("\n {}\n"), PlainText("\n")]),
    "an empty frame is not whole": (f"{B}{E}", whole("", **CUT)),
    "an end in a string is text": (
        f'{B}{{"x":"a {E} b"}}{E}!',
        [*whole(f'{{"x":"a {E} b"}}'), PlainText("!")],
    ),
    "an end at the end of a string is text": (f'{B}["{E}"]{E}', whole(f'["{E}"]')),
    "a beginning in a string is text": (f'{B}["{B}"]{E}', whole(f'["{B}"]')),
    "another end in a string is text": (
        f'{B}["⟦END_OBJECT id=O2⟧"]{E}',
        whole('["⟦END_OBJECT id=O2⟧"]'),
    ),
    "an escaped quote ends no string": (rf'{B}["\"{E}"]{E}', whole(rf'["\"{E}"]')),
    "an escaped backslash escapes no quote": (rf'{B}["\\"]{E}', whole(r'["\\"]')),
    "a bracket after a backslash is text": (rf'{B}["\{E}"]{E}', whole(rf'["\{E}"]')),
    "an escaped bracket is a string like any other": (
        rf'{B}["\u27E6END_OBJECT id=O1\u27E7"]{E}',
        whole(r'["\u27E6END_OBJECT id=O1\u27E7"]'),
    ),
    "an end before the brackets close": (f"{B}[[1],[2{E}.", [*whole("[[1],[2", **CUT), PlainText(".")]),
    "a string that never closes ends with the answer": (
        f'{B}{{"x":"a{E} and so on',
        [*whole('{"x":"a', **CUT), PlainText(" and so on")],
    ),
    "a string that never closes ends before a line": (
        f'{B}{{"x":"a{E}\nNow "b", then',
        [*whole('{"x":"a', **CUT), PlainText('\nNow "b", then')],
    ),
    "a string that never closes ends before other quotes": (
        f'{B}{{"x":"a{E} he said "no" and',
        [*whole('{"x":"a', **CUT), PlainText(' he said "no" and')],
    ),
    "a string that never closes ends before a frame": (
        f'{B}{{"x":"a{E} ⟦BEGIN_OBJECT id=O2 schema=B⟧1⟦END_OBJECT id=O2⟧',
        [*whole('{"x":"a', **CUT), PlainText(" "), *whole("1", id="O2", name="B")],
    ),
    "a string that goes on after two ends": (f'{B}["{E}{E}"]{E}', whole(f'["{E}{E}"]')),
    "an escaped quote does not close a string after an end": (
        rf'{B}["{E}\",x"]{E}',
        whole(rf'["{E}\",x"]'),
    ),
    "an escaped quote after an end is a part of the string": (
        rf'{B}["{E}\"x"]{E}',
        whole(rf'["{E}\"x"]'),
    ),
    "an end of another id": (
        f"{B}[1]⟦END_OBJECT id=O2⟧x",
        [FrameOpened("object", "O1", "Action"), FrameText("O1", "[1]"), fault("unexpected_end"),
         FrameClosed("object", "O1", "Action", "[1]"), PlainText("x")],
    ),
    "an end of another kind": (
        f"{B}[1⟦END_RESULT id=O1⟧x",
        [FrameOpened("object", "O1", "Action"), FrameText("O1", "[1"), fault("unexpected_end"),
         FrameClosed("object", "O1", "Action", "[1", whole=False), PlainText("x")],
    ),
    "an end that is misspelt": (
        f"{B}[1] ⟦ END_OBJECT  id=O1⟧x",
        [FrameOpened("object", "O1", "Action"), FrameText("O1", "[1] "), fault("unexpected_end"),
         FrameClosed("object", "O1", "Action", "[1] "), PlainText("x")],
    ),
    "an end of nothing": (f"a{E}b", [PlainText("a"), fault("unexpected_end"), PlainText("b")]),
    "no end at all": (
        f"{B}[1] thanks",
        [FrameOpened("object", "O1", "Action"), FrameText("O1", "[1] thanks"), fault("unclosed_frame"),
         FrameClosed("object", "O1", "Action", "[1] thanks", ended=False)],
    ),
    "the next frame instead of an end": (
        f"{B}[1]⟦BEGIN_OBJECT id=O2 schema=B⟧2⟦END_OBJECT id=O2⟧",
        [FrameOpened("object", "O1", "Action"), FrameText("O1", "[1]"), fault("unclosed_frame"),
         FrameClosed("object", "O1", "Action", "[1]", ended=False), *whole("2", id="O2", name="B")],
    ),
    "a frame inside a frame": (
        f"{B}[1,⟦BEGIN_OBJECT id=O2 schema=B⟧2⟦END_OBJECT id=O2⟧]{E}",
        [FrameOpened("object", "O1", "Action"), FrameText("O1", "[1,"), fault("nested_frame"),
         FrameClosed("object", "O1", "Action", "[1,", **LOST), *whole("2", id="O2", name="B"),
         PlainText("]"), fault("unexpected_end")],
    ),
    "an id that was used before": (
        f"{B}1{E}{B}2{E}{B}3{E}",
        [*whole("1"), fault("duplicate_id"), *whole("2", id="O1.2"),
         fault("duplicate_id"), *whole("3", id="O1.3")],
    ),
    "a cut string": (
        f'{B}["a',
        [FrameOpened("object", "O1", "Action"), FrameText("O1", '["a'), fault("unclosed_frame"),
         FrameClosed("object", "O1", "Action", '["a', **LOST)],
    ),
    "a cut escape": (
        f'{B}["a\\',
        [FrameOpened("object", "O1", "Action"), FrameText("O1", '["a\\'), fault("unclosed_frame"),
         FrameClosed("object", "O1", "Action", '["a\\', **LOST)],
    ),
    "as long as allowed": (f'{B}"{"é" * 29}"{E}', whole(f'"{"é" * 29}"')),
    "too long": (
        f'{B}"{"é" * 40}"{E}x',
        [FrameOpened("object", "O1", "Action"), FrameText("O1", '"' + "é" * 29), fault("frame_too_large"),
         FrameClosed("object", "O1", "Action", '"' + "é" * 29, trouble="frame_too_large", **LOST),
         PlainText("x")],
    ),
    "arguments too long": (
        '⟦BEGIN_TOOL_CALL id=T1 name=a⟧{"q":"0123456789012345"}⟦END_TOOL_CALL id=T1⟧',
        [FrameOpened("tool", "T1", "a"), FrameText("T1", '{"q":"01234567890123'),
         fault("arguments_too_large", "T1"),
         FrameClosed("tool", "T1", "a", '{"q":"01234567890123', trouble="arguments_too_large", **LOST)],
    ),
    "too deep": (
        f"{B}[[[[1]]]]{E}x",
        [FrameOpened("object", "O1", "Action"), FrameText("O1", "[[["), fault("frame_too_deep"),
         FrameClosed("object", "O1", "Action", "[[[", trouble="frame_too_deep", **LOST), PlainText("x")],
    ),
    "as deep as allowed": (f"{B}[[[1]]]{E}", whole("[[[1]]]")),
    "brackets in strings are not deep": (f'{B}["[[[[{{"]{E}', whole('["[[[[{"]')),
    "after the limit another frame": (
        f"{B}[[[[1⟦BEGIN_OBJECT id=O2 schema=B⟧2⟦END_OBJECT id=O2⟧",
        [FrameOpened("object", "O1", "Action"), FrameText("O1", "[[["), fault("frame_too_deep"),
         FrameClosed("object", "O1", "Action", "[[[", trouble="frame_too_deep", **LOST),
         *whole("2", id="O2", name="B")],
    ),
    "after the limit an end in a string": (
        f'{B}[[[["{E}"]]]]{E}x',
        [FrameOpened("object", "O1", "Action"), FrameText("O1", "[[["), fault("frame_too_deep"),
         FrameClosed("object", "O1", "Action", "[[[", trouble="frame_too_deep", **LOST), PlainText("x")],
    ),
}  # fmt: skip

TEXTS = [
    "⟦BEGIN_OBJECT  id=O1 schema=Action⟧",
    "⟦BEGIN_OBJECT id=O1  schema=Action⟧",
    "⟦BEGIN_OBJECT id=O1 schema=Action ⟧",
    "⟦ BEGIN_OBJECT id=O1 schema=Action⟧",
    "⟦BEGIN_OBJECT id=O1 name=Action⟧",
    "⟦BEGIN_OBJECT schema=Action id=O1⟧",
    "⟦BEGIN_OBJECT id= schema=Action⟧",
    "⟦BEGIN_OBJECT id=O1 schema=⟧",
    "⟦BEGIN_OBJECT id=Ö1 schema=Action⟧",
    "⟦BEGIN_TOOL_CALL id=T1 schema=a⟧",
    "⟦BEGIN_THING id=O1 schema=Action⟧",
    "⟦begin_object id=O1 schema=Action⟧",
    "⟦END_OBJECT id=O1 ⟧",
    "⟦END_OBJECT⟧",
    "⟦END_OBJECT id=O1",
    "[BEGIN_OBJECT id=O1 schema=Action]",
    "[[BEGIN_OBJECT id=O1 schema=Action]]",
    "⟦",
    "⟦⟦⟧⟧",
    "⟦BEGIN_OBJECT id=O1 schema=Action",
    "x ⟦a, b⟧ = {n | a ≤ n ≤ b}",
    f"⟦BEGIN_OBJECT id={'x' * 65} schema=A⟧",
    f"⟦BEGIN_OBJECT id=x schema={'x' * 129}⟧",
]


def comparable(pieces: list[object]) -> list[object]:
    """Return `pieces` with the wording of faults left out."""
    return [(p.code, p.id) if isinstance(p, FrameFault) else p for p in pieces]


@pytest.mark.req("TF-12", "TF-13", "TF-14", "TF-16", "TF-17", "TF-18", "TF-20", "TF-21", "TF-22")
@every_row("name", CASES)
def test_the_text_is_read_as_the_rules_say(name):
    text, wanted = CASES[name]
    assert comparable(read(text)) == wanted


@pytest.mark.req("TF-19", "TF-23")
@every_row("name", CASES)
def test_no_cut_in_two_or_three_changes_what_is_read(name):
    text = CASES[name][0]
    pieces = read(text)
    assert read(*text) == pieces
    for at in range(1, len(text)):
        assert read(text[:at], text[at:]) == pieces
    edges = range(1, len(text), max(1, len(text) // 12))
    for a, b in combinations(edges, 2):
        assert read(text[:a], text[a:b], text[b:]) == pieces


@pytest.mark.req("TF-15", "TF-16")
@every_row("text", TEXTS)
def test_what_is_nearly_a_sentinel_is_text(text):
    assert read(text) == [PlainText(text)]
    assert read(*text) == [PlainText(text)]
    assert read(f"a{text}b") == [PlainText(f"a{text}b")]


def test_an_id_and_a_name_may_be_as_long_as_the_grammar_says():
    id, name = "i" * 64, "n" * 128
    text = f"⟦BEGIN_OBJECT id={id} schema={name}⟧1⟦END_OBJECT id={id}⟧"
    assert read(*text) == whole("1", id=id, name=name)


def test_nothing_is_held_back_that_cannot_become_a_sentinel():
    grammar = Grammar()
    assert grammar.feed("a ⟦BE") == [PlainText("a ")]
    assert grammar.feed("T") == [PlainText("⟦BET")]


def test_text_inside_a_frame_is_told_as_it_comes():
    grammar = Grammar()
    grammar.feed(B)
    assert grammar.feed('{"a') == [FrameText("O1", '{"a')]
    assert grammar.feed('": "b ⟦') == [FrameText("O1", '": "b ')]
    assert grammar.feed("x") == [FrameText("O1", "⟦x")]


def test_a_long_string_after_its_own_end_is_text_by_the_rule():
    body = f'["{E}{"x" * (RESYNC + 10)}"]'
    assert read(f"{B}{body}{E}", limits=Limits()) == whole(body)
    assert read(*f"{B}{body}{E}", limits=Limits()) == whole(body)


def test_white_space_behind_a_string_decides_nothing_however_it_is_cut():
    body = f'["{E}"{" " * (RESYNC + 10)}]'
    assert read(f"{B}{body}{E}", limits=Limits()) == whole(body)
    assert read(*f"{B}{body}{E}", limits=Limits()) == whole(body)


def test_what_stands_beyond_the_edge_behind_a_string_is_not_looked_at():
    body = f'["{E}"{" " * (RESYNC + 10)}x]'
    assert read(f"{B}{body}{E}", limits=Limits()) == whole(body)
    assert read(*f"{B}{body}{E}", limits=Limits()) == whole(body)


def test_ids_are_unique_over_all_answers_of_a_stream():
    used: set[str] = set()
    Grammar(used=used).feed(f"{B}1{E}")
    pieces = Grammar(used=used).feed(f"{B}1{E}")
    assert comparable(pieces)[:2] == [
        ("duplicate_id", "O1"),
        FrameOpened("object", "O1.2", "Action"),
    ]


def test_a_frame_that_expires_is_closed_and_the_rest_of_it_passed_over():
    grammar = Grammar()
    grammar.feed(f"{B}[1,")
    assert grammar.open_id == "O1"
    assert comparable(grammar.expire()) == [
        ("frame_timeout", "O1"),
        FrameClosed("object", "O1", "Action", "[1,", trouble="frame_timeout", **LOST),
    ]
    assert grammar.open_id == ""
    assert grammar.expire() == []
    assert grammar.feed(f"2]{E} x") == [PlainText(" x")]
    assert grammar.close() == []


def test_after_the_end_nothing_is_read():
    grammar = Grammar()
    grammar.feed("a")
    grammar.close()
    assert grammar.feed("b") == []
    assert grammar.close() == []


PARTS = st.sampled_from(
    [
        B, E, "⟦BEGIN_TOOL_CALL id=T1 name=a⟧", "⟦END_TOOL_CALL id=T1⟧", "⟦END_RESULT id=R1⟧",
        "⟦BEGIN_RESULT id=R1 schema=A⟧", '"', "\\", "{", "}", "[", "]", "⟦", "⟧", "⟦END", " ", "\n",
        ",", ":", "é", "😀", "a", "1", "⟦BEGIN_OBJECT ", "\ud800",
    ]
)  # fmt: skip
RUBBISH = st.lists(PARTS | st.text(max_size=3), max_size=30).map("".join)


@pytest.mark.req("TF-19")
@settings(max_examples=examples(300), deadline=None)
@given(RUBBISH, st.lists(st.integers(0, 300), max_size=8))
def test_no_cut_of_any_text_changes_what_is_read(text, cuts):
    edges = sorted({0, len(text), *(cut % (len(text) + 1) for cut in cuts)})
    pieces = read(text)
    assert read(*(text[a:b] for a, b in pairwise(edges))) == pieces
    assert read(*text) == pieces


@settings(max_examples=examples(300), deadline=None)
@given(RUBBISH)
def test_frames_follow_one_another_and_bodies_are_told_whole(text):
    opened: FrameOpened | None = None
    told: list[str] = []
    ids: set[str] = set()
    for piece in read(text):
        match piece:
            case FrameOpened(_, id, _):
                assert opened is None
                assert id not in ids
                ids.add(id)
                opened, told = piece, []
            case FrameText(id, chunk):
                assert opened is not None
                assert opened.id == id
                told.append(chunk)
            case FrameClosed(kind, id, name, body):
                assert opened == FrameOpened(kind, id, name)
                assert "".join(told) == body
                opened = None
            case PlainText():
                assert opened is None
    assert opened is None


@settings(max_examples=examples(200), deadline=None)
@given(st.text(st.characters(exclude_characters="⟦")))
def test_text_without_brackets_passes_as_it_is(text):
    assert read(text) == ([PlainText(text)] if text else [])


def feed_endless(grammar: Grammar, piece: str, times: int) -> None:
    for _ in range(times):
        grammar.feed(piece)


@pytest.mark.req("TF-21")
@pytest.mark.parametrize("opening", ["[", '["', f'["{E}', "⟦"])
def test_an_endless_frame_takes_no_more_memory_than_its_limit(opening):
    grammar = Grammar(Limits(frame=1000))
    grammar.feed(B + opening)
    feed_endless(grammar, "x, ⟦y" * 20, 50)
    tracemalloc.start()
    try:
        feed_endless(grammar, "x, ⟦y" * 20, 600)
        assert tracemalloc.get_traced_memory()[1] < 60_000
    finally:
        tracemalloc.stop()


@every_row("part", ["a", '"', "[", "]", "\\", "⟦", E, "⟦BEGIN_OBJECT id=", f'"{E}"', " "])
@every_row("frame", ["", B, f'{B}"'])
def test_twice_the_text_is_twice_the_work(part, frame):
    def work(times: int) -> int:
        text = frame + part * times
        return calls_made(lambda: read(*text, limits=Limits()))

    assert work(400) < 2.4 * work(200) + 250
