import pytest
from tests.tables import every_row

from toolbridge.core.errors import BrokenWire
from toolbridge.wire import reply
from toolbridge.wire.reply import ReplyReader, WholeBody
from toolbridge.wire.sse import SseEvent


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
        (b"data: 1\n\ndata: 2", False, [SseEvent(b"1"), SseEvent(b"2", whole=False)]),
        (b' \n{"a":\n1}\n', False, [WholeBody(b'{"a":\n1}\n')]),
        (b'[{"a":1},{"b":2}]', True, [SseEvent(b'{"a":1}'), SseEvent(b'{"b":2}')]),
        (b'[{"a":1},{"b":', True, [SseEvent(b'{"a":1}'), SseEvent(b'{"b":', whole=False)]),
        (b'[{"a":1}]', False, []),
        (b" \n", True, []),
    ],
)
def test_the_first_byte_decides_what_a_reply_is(data, arrays, expected, size):
    assert read(data, size, arrays=arrays) == expected


def test_a_whole_body_has_a_longest_size(monkeypatch):
    monkeypatch.setattr(reply, "MAX_BODY", 9)
    assert read(b'{"a": 12}', 2) == [WholeBody(b'{"a": 12}')]
    with pytest.raises(BrokenWire, match="an answer of more than 9 bytes"):
        read(b'{"a": 123}', 2)
