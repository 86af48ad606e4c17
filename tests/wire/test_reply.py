import pytest
from tests.tables import every_row

from toolbridge.core.errors import BrokenWire, Truncated
from toolbridge.wire import reply
from toolbridge.wire.reply import ReplyReader, WholeBody
from toolbridge.wire.sse import SseEvent

BOM = b"\xef\xbb\xbf"


def read(data: bytes, size: int, *, arrays: bool = False):
    reader = ReplyReader(arrays=arrays)
    pieces = [data[at : at + size] for at in range(0, len(data), size)]
    return [one for piece in pieces for one in reader.feed(piece)] + reader.close()


@every_row("size", [1, 2, 100])
@every_row(
    ("data", "arrays", "expected"),
    [
        (b"data: 1\n\ndata: 2\n\n", False, [SseEvent(b"1"), SseEvent(b"2")]),
        (b"\n\ndata: 1\n\n", False, [SseEvent(b"1")]),
        (b"data: 1\n\ndata: 2", False, [SseEvent(b"1"), SseEvent(b"2")]),
        (b' \n{"a":\n1}\n', False, [WholeBody(b'{"a":\n1}\n')]),
        (b'[{"a":1},{"b":2}]', True, [SseEvent(b'{"a":1}'), SseEvent(b'{"b":2}')]),
        (b"data: 1\n\ndata: [DONE]", False, [SseEvent(b"1"), SseEvent(b"[DONE]")]),
        (b"data: 1\n\nevent: x\ndata: 2\n", False, [SseEvent(b"1"), SseEvent(b"2", "x")]),
        (b"data: 1\n\n: still here", False, [SseEvent(b"1")]),
        (b" \n", True, []),
        (BOM + b'\n{"a":1}', False, [WholeBody(b'{"a":1}')]),
        (b" " + BOM + b'[{"a":1}]', True, [SseEvent(b'{"a":1}')]),
        (BOM + b"data: 1\n\n", False, [SseEvent(b"1")]),
        (BOM[:2], False, []),
        (BOM, False, []),
    ],
)
def test_the_first_byte_decides_what_a_reply_is(data, arrays, expected, size):
    assert read(data, size, arrays=arrays) == expected


@every_row("size", [1, 2, 100])
@every_row(
    ("data", "arrays"),
    [
        (b"data: 1\n\nd", False),
        (b"data: 1\n\ndata", False),
        (b"data: 1\n\ndata: ", False),
        (b'data: 1\n\ndata: {"a":', False),
        (b'data: 1\n\ndata: {"a":\n', False),
        (b"data: 1\n\ndata: [DON", False),
        (b"data: 1\n\nevent: x", False),
        (b"data: 1\n\nevent: x\n", False),
        (b"data: 1\n\nevent: x\nda", False),
        (b"data: 1\n\ndata: 2\ndat", False),
        (b'[{"a":1},{"b":', True),
        (b'[{"a":1},{"b":2}', True),
        (b'[{"a":1},', True),
        (b"[", True),
        (b'[{"a":1}]', False),
    ],
)
def test_half_an_event_is_a_truncation(data, arrays, size):
    with pytest.raises(Truncated, match="in the middle of"):
        read(data, size, arrays=arrays)


def test_a_whole_body_has_a_longest_size(monkeypatch):
    monkeypatch.setattr(reply, "MAX_BODY", 9)
    assert read(b'{"a": 12}', 2) == [WholeBody(b'{"a": 12}')]
    with pytest.raises(BrokenWire, match="an answer of more than 9 bytes"):
        read(b'{"a": 123}', 2)
