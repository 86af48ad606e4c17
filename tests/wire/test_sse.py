from contextlib import suppress
from itertools import product

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.strategies import cuts
from tests.tables import every_row

from toolbridge.core.errors import BrokenWire
from toolbridge.wire.sse import SseEvent, SseReader, write_event

BOM = b"\xef\xbb\xbf"


def read(pieces, **limits):
    reader = SseReader(**limits)
    return [frame for piece in pieces for frame in reader.feed(piece)] + reader.close()


def outcome(pieces, **limits):
    """What is read before the fault, and whether there was one."""
    reader = SseReader(**limits)
    frames = []
    try:
        for piece in pieces:
            frames += reader.feed(piece)
        frames += reader.close()
    except BrokenWire:
        return frames, "broken"
    return frames, "whole"


def every_cut(data):
    yield [data]
    yield [bytes([byte]) for byte in data]
    for at in range(1, len(data)):
        yield [data[:at], data[at:]]
        yield [data[:at], b"", data[at:]]


CASES = [
    pytest.param(b"data: a\n\n", [SseEvent(b"a")], id="lf"),
    pytest.param(b"data: a\r\n\r\n", [SseEvent(b"a")], id="crlf"),
    pytest.param(b"data: a\r\r", [SseEvent(b"a")], id="cr"),
    pytest.param(b"data: a\r\ndata: b\r\n\r\n", [SseEvent(b"a\nb")], id="crlf-inside"),
    pytest.param(b"data: a\r\n\rdata: b\n\r\n", [SseEvent(b"a"), SseEvent(b"b")], id="mixed"),
    pytest.param(
        b"data: a\r\r\ndata: b\r\n\n", [SseEvent(b"a"), SseEvent(b"b")], id="cr-then-crlf"
    ),
    pytest.param(BOM + b"data: a\n\n", [SseEvent(b"a")], id="bom"),
    pytest.param(b"data: a\n\n" + BOM + b"data: b\n\n", [SseEvent(b"a")], id="bom-later-is-no-bom"),
    pytest.param(b": note\n\ndata: a\n: note\n\n", [SseEvent(b"a")], id="comments"),
    pytest.param(b"data: a\ndata: b\n\n", [SseEvent(b"a\nb")], id="two-data-lines"),
    pytest.param(b"data:a\ndata:  b\n\n", [SseEvent(b"a\n b")], id="one-space-is-taken"),
    pytest.param(b"data\n\n", [SseEvent(b"")], id="data-without-colon"),
    pytest.param(b"data:\n\n", [SseEvent(b"")], id="empty-data"),
    pytest.param(b"data:\ndata:\n\n", [SseEvent(b"\n")], id="two-empty-lines-of-data"),
    pytest.param(b"event: x\n\ndata: a\n\n", [SseEvent(b"a")], id="event-without-data"),
    pytest.param(b"event: x\ndata: a\n\n", [SseEvent(b"a", "x")], id="event"),
    pytest.param(b"data: a\nid: 7\nevent: x\n\n", [SseEvent(b"a", "x", "7")], id="any-order"),
    pytest.param(
        b"data: z\n\ndata: a\nid: 7\ndata: b\n\n",
        [SseEvent(b"z"), SseEvent(b"a\nb", "", "7")],
        id="fields-in-place-of-empty-lines",
    ),
    pytest.param(b"retry: 10\nfoo: bar\ndata: a\n\n", [SseEvent(b"a")], id="other-fields"),
    pytest.param(b"data: a: b\n\n", [SseEvent(b"a: b")], id="colon-in-data"),
    pytest.param(b"\n\n\r\n\r", [], id="only-line-ends"),
    pytest.param(b"", [], id="nothing"),
    pytest.param(BOM, [], id="only-bom"),
    pytest.param(
        'data: "\u2028\u2029\x85\x0b\x0c\x1c"\n\n'.encode(),
        [SseEvent('"\u2028\u2029\x85\x0b\x0c\x1c"'.encode())],
        id="other-separators-are-data",
    ),
    pytest.param(
        "data: \U0001f600\n\n".encode(), [SseEvent("\U0001f600".encode())], id="four-bytes"
    ),
    pytest.param(b"data: \xff\xfe\n\n", [SseEvent(b"\xff\xfe")], id="not-utf8-stays"),
    pytest.param(b"event: \xff\ndata: a\n\n", [SseEvent(b"a", "\ufffd")], id="event-not-utf8"),
    pytest.param(b"data: a\n", [SseEvent(b"a")], id="no-empty-line"),
    pytest.param(b"data: a\r", [SseEvent(b"a")], id="ends-in-cr"),
    pytest.param(b"data: a\n\ndata: b", [SseEvent(b"a"), SseEvent(b"b")], id="cut"),
    pytest.param(b"event: x\nda", [], id="cut-in-a-name"),
]


@every_row(("data", "frames"), CASES)
def test_frames_are_the_same_however_the_network_cuts(data, frames):
    for pieces in every_cut(data):
        assert read(pieces) == frames, pieces


_soup = st.lists(
    st.sampled_from([b"data: x", b"data:", b"event: e", b": c", b"\n", b"\r", b"\r\n", b"x", BOM]),
    max_size=30,
).map(b"".join)


@given(st.data())
def test_any_cut_of_any_bytes_gives_the_same_frames(data):
    whole = data.draw(_soup)
    expected = outcome([whole], max_event=40)
    assert outcome(data.draw(cuts(whole)), max_event=40) == expected
    assert outcome([bytes([byte]) for byte in whole], max_event=40) == expected


@every_row(
    "data",
    [
        b"data: " + b"x" * 30,
        b"data: " + b"x" * 30 + b"\n\n",
        b"data: 1234567890\ndata: 1234567890\n\n",
        b": " + b"x" * 30,
        b"data:\n" * 30,
    ],
)
def test_an_event_that_is_too_long_breaks_the_wire(data):
    for pieces in every_cut(data):
        with pytest.raises(BrokenWire, match="more than 24 bytes"):
            read(pieces, max_event=24)


def test_many_short_events_in_one_piece_are_not_one_long_event():
    assert len(read([b"data: 12345678\n\n" * 100], max_event=24)) == 100


def test_what_came_before_a_long_event_is_told_first():
    reader = SseReader(max_event=24)
    assert reader.feed(b"data: a\n\ndata: " + b"x" * 30) == [SseEvent(b"a")]
    for read_on in (lambda: reader.feed(b"\n\n"), reader.close):
        with pytest.raises(BrokenWire):
            read_on()
    reader = SseReader(max_event=24)
    reader.feed(b": first\n")
    assert reader.feed(b"data: a\n\ndata: " + b"x" * 30 + b"\n\n") == [SseEvent(b"a")]


def test_frames_come_as_soon_as_they_are_whole():
    reader = SseReader()
    assert reader.feed(b"data: a\n") == []
    assert reader.feed(b"\n") == [SseEvent(b"a")]
    assert reader.feed(b"data: b\r") == []
    assert reader.feed(b"\r") == [SseEvent(b"b")]


def test_what_is_closed_holds_nothing_back():
    reader = SseReader()
    reader.feed(b"data: a")
    assert reader.close() == [SseEvent(b"a")]
    assert reader.close() == []


@pytest.mark.parametrize(("data", "event"), [(b'{"a":1}', b""), (b'{"a":1}', b"ping")])
def test_a_written_frame_reads_back(data, event):
    assert read([write_event(data, event)]) == [SseEvent(data, event.decode())]


@given(
    before=st.lists(_soup, max_size=3),
    piece=_soup | st.sampled_from([b"data: a\n\n", b"data: a\r\n\n", b"data: \n\n"]),
)
@example(before=[b"data: z\n\n"], piece=b"data: a\rdata: b\n\n")
@example(before=[b"data: z\n\ndata: " + b"x" * 50 + b"\n\n"], piece=b"data: a\n\n")
@example(before=[b"data: z\n\n", b"data: " + b"x" * 50 + b"\n\n"], piece=b"data: a\n\n")
def test_the_data_of_an_only_event_is_what_is_read(before, piece):
    reader, asked = SseReader(max_event=40), SseReader(max_event=40)
    for one, earlier in product((reader, asked), before):
        with suppress(BrokenWire):
            one.feed(earlier)
    found = asked.only_data(piece)
    try:
        read_whole = reader.feed(piece)
    except BrokenWire:
        read_whole = []
    assert not found or read_whole == [SseEvent(found)]
