import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests import strategies
from tests.properties.grammar import run
from tests.tables import every_row

from toolbridge.core.errors import BrokenWire
from toolbridge.core.json import dump_bytes, loads
from toolbridge.wire.json_array import ArrayReader


@every_row(
    ("data", "elements"),
    [
        (b"[]", []),
        (b" [ ] ", []),
        (b"[{}]", [b"{}"]),
        (b'[{"a":[1,{"b":2}]}\n,\n{"c":"]},{["}]\n', [b'{"a":[1,{"b":2}]}', b'{"c":"]},{["}']),
        (b'["a\\"]","\\\\",1,null ]', [b'"a\\"]"', b'"\\\\"', b"1", b"null"]),
        (b"[[1],[2]]", [b"[1]", b"[2]"]),
        (b'[{"a":1},{"b', [b'{"a":1}', b'{"b']),
        (b"[{}", [b"{}"]),
        (b"", []),
    ],
)
def test_elements_come_one_by_one(data, elements):
    assert run(ArrayReader(), [data]) == elements
    assert run(ArrayReader(), [bytes([byte]) for byte in data]) == elements


def test_an_element_comes_before_what_follows_it():
    reader = ArrayReader()
    assert reader.feed(b'[{"a":1}') == [b'{"a":1}']
    assert reader.feed(b',{"b":') == []
    assert reader.feed(b"2}") == [b'{"b":2}']


@given(st.lists(strategies.json_objects, max_size=3), st.data())
def test_any_cut_gives_the_same_elements(values, data):
    written = dump_bytes(values)
    pieces = data.draw(strategies.cuts(written))
    assert [loads(element) for element in run(ArrayReader(), pieces)] == values


def test_more_than_an_array_is_a_fault():
    with pytest.raises(BrokenWire):
        ArrayReader().feed(b"[]]")


def test_what_came_before_a_fault_is_told_first():
    reader = ArrayReader()
    assert reader.feed(b"[{}]]") == [b"{}"]
    for ask in (lambda: reader.feed(b"x"), reader.close):
        with pytest.raises(BrokenWire):
            ask()


@pytest.mark.parametrize("pieces", [[b'["' + b"x" * 30], [b'["', *[b"x"] * 30]])
def test_an_element_has_a_bound(pieces):
    with pytest.raises(BrokenWire, match="more than 20"):
        run(ArrayReader(max_element=20), pieces)
