"""The incremental JSON reader."""

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.tables import every_row
from tests.work import calls_made

from toolbridge.core.json import dumps, loads
from toolbridge.wire.json_stream import JsonReader

scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text('ab\\"\n😀é', max_size=4), inner, max_size=4)
    ),
    max_leaves=12,
)


def read(text: str, cuts: list[int] | None = None) -> JsonReader:
    reader = JsonReader()
    places = sorted({0, len(text), *(cut % (len(text) + 1) for cut in cuts or [])})
    for start, end in pairwise(places):
        reader.feed(text[start:end])
    return reader


@given(values, st.lists(st.integers(0, 500)), st.booleans(), st.sampled_from([None, 1]))
def test_any_cut_of_valid_json_gives_its_value(value, cuts, ascii_only, indent):
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent)
    assert read(text, cuts).close() == loads(text)


@given(values)
def test_one_character_at_a_time_gives_the_value(value):
    text = json.dumps(value)
    assert read(text, list(range(len(text)))).close() == loads(text)


@given(st.text('{}[]",:\\u0d8c1e-.tfn \n', max_size=12))
def test_accepts_exactly_what_strict_json_accepts(text):
    try:
        expected = loads(text)
    except ValueError:
        with pytest.raises(ValueError):
            read(text).close()
    else:
        assert read(text).close() == expected


@given(values, st.integers(0, 200))
def test_a_prefix_is_never_whole(value, at):
    text = json.dumps({"a": value})
    prefix = text[: at % len(text)]
    reader = read(prefix)
    assert not reader.fault
    assert not reader.complete
    with pytest.raises(ValueError):
        reader.close()


def test_value_and_path_are_there_at_any_time():
    reader = JsonReader()
    reader.feed('{"path": "a", "edits": [{"old": "x"}, {"old": "y\\')
    assert reader.path == ("edits", 1, "old")
    assert reader.in_string
    assert reader.in_escape == 1
    assert reader.value == {"path": "a", "edits": [{"old": "x"}, {"old": "y"}]}
    reader.feed('n"')
    assert reader.value == {"path": "a", "edits": [{"old": "x"}, {"old": "y\n"}]}
    assert not reader.in_string


def test_members_are_listed_when_they_are_whole():
    reader = JsonReader()
    text = '{"a": 12, "b": {"c": []}, "d": "x", "e": tru'
    reader.feed(text)
    assert [(m.key, m.value, text[: m.end].rsplit(" ", 1)[-1]) for m in reader.members] == [
        ("a", 12, "12"),
        ("b", {"c": []}, "[]}"),
        ("d", "x", '"x"'),
    ]


def test_a_number_is_whole_only_at_its_delimiter():
    reader = JsonReader()
    reader.feed('{"a": 1')
    reader.feed("2")
    assert reader.members == []
    reader.feed("}")
    assert reader.close() == {"a": 12}


def test_the_reader_stops_at_the_first_character_that_cannot_follow():
    reader = JsonReader()
    assert reader.feed('{"a": "x\ny"}') == 8
    assert reader.fault
    assert reader.feed("more") == 0


def test_a_character_at_fault_can_be_replaced():
    reader = JsonReader()
    text = '{"a": "x\ny"}'
    at = reader.feed(text)
    reader.forgive()
    reader.feed("\\n")
    reader.feed(text[at + 1 :])
    assert reader.close() == {"a": "x\ny"}


@every_row("text", ['"\\ud83d"', '"\\ude00"', '"\\ud83dx"', '"\\ud83d\\u0041"', '"\ud83d"'])
def test_half_a_surrogate_pair_is_a_fault(text):
    assert read(text, list(range(len(text)))).fault


def test_depth_is_limited():
    reader = JsonReader(max_depth=3)
    assert reader.feed("[[[[") == 3
    assert "3 deep" in reader.fault


def test_ten_thousand_brackets_do_not_crash():
    assert "deep" in read("[" * 10_000).fault
    assert "deep" in read('{"a":' * 10_000).fault


def test_size_is_limited_before_anything_is_read():
    reader = JsonReader(max_size=4)
    assert reader.feed("[1,2]") == 0
    assert "4 characters" in reader.fault


def test_a_document_may_be_as_long_as_the_limit():
    reader = JsonReader(max_size=5)
    assert reader.feed("[1,") + reader.feed("2]") == 5
    assert reader.close() == [1, 2]
    assert reader.feed(" ") == 0
    assert "5 characters" in reader.fault


def test_a_root_scalar_is_read():
    assert read("12").close() == 12
    assert read(' "a" ').close() == "a"


def _read_in_tens(text: str) -> None:
    reader = JsonReader()
    for at in range(0, len(text), 10):
        reader.feed(text[at : at + 10])
        assert reader.value is not None


@pytest.mark.parametrize(
    "make",
    [
        lambda n: dumps({"content": 'line "one"\n' * (n // 14)}),
        lambda n: dumps({"content": "é" * n}),
        lambda n: dumps([{"id": i, "ok": True} for i in range(n // 20)]),
        lambda n: '{"a": "' + '\\"' * (n // 2),
    ],
)
def test_twice_the_input_takes_about_twice_the_work(make):
    once, twice = (calls_made(lambda n=n: _read_in_tens(make(n))) for n in (10_000, 20_000))
    assert twice <= 2.2 * once


def state(reader: JsonReader) -> tuple:
    """Return all that a reader says of itself."""
    return (
        reader.value, reader.path, reader.members, reader.value_start, reader.taken, reader.fault,
        reader.complete, reader.in_string, reader.in_member, reader.in_escape,
    )  # fmt: skip


@given(values, st.integers(0, 200), st.sampled_from(["", ",", "}", '"', "\\", "0", " ", "\n", "x"]))
def test_what_comes_whole_is_read_as_what_comes_letter_by_letter(value, at, noise):
    text = json.dumps(value, ensure_ascii=False, indent=1)
    text = text[:at] + noise + text[at:]
    assert state(read(text)) == state(read(text, list(range(len(text)))))


def test_ten_characters_of_records_cost_few_calls():
    text = dumps([{"id": i, "ok": True} for i in range(1000)])
    made = calls_made(lambda: read(text, list(range(0, len(text), 10))))
    assert made / (len(text) / 10) < 45
