from contextlib import suppress

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.strategies import cuts
from tests.tables import every_row

from toolbridge.core.errors import BrokenWire
from toolbridge.wire.ndjson import LineReader


def read(pieces, **limits):
    reader = LineReader(**limits)
    return [line for piece in pieces for line in reader.feed(piece)] + reader.close()


def outcome(pieces, **limits):
    """What is read before the fault, and whether there was one."""
    reader = LineReader(**limits)
    lines = []
    try:
        for piece in pieces:
            lines += reader.feed(piece)
        lines += reader.close()
    except BrokenWire:
        return lines, "broken"
    return lines, "whole"


CASES = [
    (b'{"a":1}\n{"b":2}\n', [b'{"a":1}', b'{"b":2}']),
    (b'{"a":1}\r\n{"b":2}\r\n', [b'{"a":1}', b'{"b":2}']),
    (b'{"a":1}', [b'{"a":1}']),
    (b'\n\n \t\r\n{"a":1}\n\n', [b'{"a":1}']),
    (b' {"a":1}\t', [b'{"a":1}']),
    ('{"a":"\u2028\x85\x0b"}\n'.encode(), ['{"a":"\u2028\x85\x0b"}'.encode()]),
    ("\U0001f600\n\U0001f600".encode(), ["\U0001f600".encode()] * 2),
    (b"\xff\xfe\n", [b"\xff\xfe"]),
    (b"", []),
    (b"\n", []),
]


@every_row(("data", "lines"), CASES)
def test_lines_are_the_same_however_the_network_cuts(data, lines):
    assert read([data]) == lines
    assert read([bytes([byte]) for byte in data]) == lines
    for at in range(len(data)):
        assert read([data[:at], b"", data[at:]]) == lines


@given(st.data())
def test_any_cut_of_any_bytes_gives_the_same_lines(data):
    whole = b"".join(
        data.draw(st.lists(st.sampled_from([b"\n", b"\r", b" ", b"xxx"]), max_size=20))
    )
    expected = outcome([whole], max_line=8)
    assert outcome(data.draw(cuts(whole)), max_line=8) == expected
    assert outcome([bytes([byte]) for byte in whole], max_line=8) == expected


@pytest.mark.parametrize("end", [b"", b"\n", b"\nshort\n"])
def test_a_line_that_is_too_long_breaks_the_wire(end):
    data = b"x" * 9 + end
    for pieces in ([data], [data[:5], data[5:]], [bytes([byte]) for byte in data]):
        with pytest.raises(BrokenWire, match="more than 8 bytes"):
            read(pieces, max_line=8)


def test_what_came_before_a_long_line_is_told_first():
    reader = LineReader(max_line=8)
    assert reader.feed(b"a\nb\n" + b"x" * 9 + b"\nc\n") == [b"a", b"b"]
    for read_on in (lambda: reader.feed(b"\n"), reader.close):
        with pytest.raises(BrokenWire):
            read_on()


def test_what_is_closed_holds_nothing_back():
    reader = LineReader()
    assert reader.feed(b"a") == []
    assert reader.close() == [b"a"]
    assert reader.close() == []


_lines = st.lists(st.sampled_from([b"{}", b'{"a":1}', b"\n", b"\r", b" ", b"x" * 30]), max_size=4)


@given(before=_lines.map(b"".join), piece=_lines.map(b"".join) | st.just(b"{}\n"))
@example(before=b"{}\n" + b"x" * 30 + b"\n", piece=b"{}\n")
def test_an_only_line_is_what_is_read(before, piece):
    reader, asked = LineReader(max_line=24), LineReader(max_line=24)
    for one in (reader, asked):
        with suppress(BrokenWire):
            one.feed(before)
    found = asked.only_line(piece)
    try:
        read_whole = reader.feed(piece)
    except BrokenWire:
        read_whole = []
    assert not found or read_whole == [found]
