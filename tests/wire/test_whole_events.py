"""Whole events and lines are cut out of any stream without changing a byte."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.tables import every_row

from toolbridge.core.errors import BrokenWire
from toolbridge.wire.sse import MAX_EVENT, SseReader
from toolbridge.wire.whole_events import WholeEvents, WholeLines

pieces = st.lists(
    st.sampled_from([b"data: a", b"event: b", b"\n", b"\r", b"\r\n", b"\n\n", b":", b"x"])
)


@given(pieces)
def test_the_parts_are_the_stream(found):
    splitter = WholeEvents()
    parts = [part for piece in found for part in splitter.feed(piece)]
    whole = b"".join(parts)
    rest = b"".join(splitter.close())
    stream = b"".join(found)
    assert whole + rest == stream


@given(pieces)
def test_a_part_is_an_event_by_itself(found):
    """What a reader gets from the parts is what it gets from the stream."""
    stream = b"".join(found)
    splitter, reader, direct = WholeEvents(), SseReader(), SseReader()
    parts = [part for piece in found for part in splitter.feed(piece)]
    assert [f for part in parts for f in reader.feed(part)] == direct.feed(stream)


@every_row("end", [b"\n\n", b"\r\n\r\n", b"\r\r", b"\n\r\n", b"\r\n\n"])
@every_row("size", [1, 2, 3, 100])
def test_every_line_end_ends_an_event(end, size):
    stream = b"data: a" + end + b"data: b" + end + b"data: c"
    splitter = WholeEvents()
    parts = [p for i in range(0, len(stream), size) for p in splitter.feed(stream[i : i + size])]
    assert b"data: b" in b"".join(parts)
    assert [part.strip() for part in parts if part.strip()] == [b"data: a", b"data: b"]
    assert [rest.strip() for rest in splitter.close()] == [b"data: c"]


@given(st.lists(st.sampled_from([b'{"a":1}', b"\n", b"\r\n", b" ", b'{"b"'])))
def test_lines_are_whole(found):
    splitter = WholeLines()
    parts = [part for piece in found for part in splitter.feed(piece)]
    assert all(part.endswith(b"\n") and part.count(b"\n") == 1 for part in parts)
    stream = b"".join(found)
    assert b"".join(parts) == stream[: stream.rfind(b"\n") + 1]
    assert b"".join(splitter.close()) == stream[stream.rfind(b"\n") + 1 :]


@pytest.mark.parametrize("splitter", [WholeEvents(), WholeLines()], ids=["events", "lines"])
def test_what_never_ends_is_not_kept_for_ever(splitter):
    half = b"x" * (MAX_EVENT // 2 + 1)
    splitter.feed(half)
    with pytest.raises(BrokenWire, match="of more than"):
        splitter.feed(half)
