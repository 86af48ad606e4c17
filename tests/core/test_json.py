import pytest
from hypothesis import given
from tests import strategies
from tests.tables import every_row

from toolbridge.core.json import (
    dump_bytes,
    dumps,
    loads,
    maybe_object,
    replace_lone_surrogates,
)


@given(strategies.json_values)
def test_what_is_written_reads_back(value):
    assert loads(dumps(value)) == value
    assert loads(dump_bytes(value)) == value


@every_row(
    ("value", "text"),
    [
        ({"b": 1, "a": [1, None, True]}, '{"b":1,"a":[1,null,true]}'),
        ("\xe9\U0001f600\u2028", '"\xe9\U0001f600\u2028"'),
        ('"\\\n', '"\\"\\\\\\n"'),
        ({}, "{}"),
        (10**30, "1" + "0" * 30),
        (1.0, "1.0"),
    ],
)
def test_json_is_compact_and_in_its_own_order(value, text):
    assert dumps(value) == text


@every_row(
    "text",
    [
        "",
        "{",
        "{'a':1}",
        '{"a":1,}',
        "NaN",
        "Infinity",
        "1e999",
        '"\\ud800"',
        '{"a":1} {"b":2}',
        b'"\xff"',
        "\ud800",
        "[" * 100_000,
    ],
)
def test_what_is_not_strict_json_is_a_value_error(text):
    with pytest.raises(ValueError, match=r".+"):
        loads(text)
    assert maybe_object(text) is None


@every_row("text", ["[]", "1", "null", '"{}"', " true "])
def test_only_an_object_is_an_object(text):
    assert maybe_object(text) is None


def test_white_space_around_an_object_is_nothing():
    assert maybe_object(b' \n{"a":1}\t') == {"a": 1}


@every_row(
    ("text", "whole"),
    [
        ("plain", "plain"),
        ("\xe9\U0001f600", "\xe9\U0001f600"),
        ("a\ud800b", "a\ufffdb"),
        ("c\udc00d", "c\ufffdd"),
        ("\ud83d\ude00", "\U0001f600"),
        ("\udc00\ud800", "\ufffd\ufffd"),
        ("\ufeffx\ud800", "\ufeffx\ufffd"),
    ],
)
def test_halves_that_stand_alone_are_replaced(text, whole):
    assert replace_lone_surrogates(text) == whole


def test_half_a_surrogate_pair_is_replaced_when_it_is_written():
    assert dumps({"a\ud800": ["\udfff", 1]}) == '{"a\ufffd":["\ufffd",1]}'
