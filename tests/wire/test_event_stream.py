"""AWS event streams: messages in, checked and decoded; test vectors decoded by botocore 1.44."""

import pytest
from tests.clouds import message
from tests.tables import every_row

from toolbridge.core.errors import BrokenWire, Truncated
from toolbridge.wire.event_stream import MAX_HEADERS, EventMessage, EventStreamReader

DELTA = bytes.fromhex(
    "0000009f00000057c37babff0b3a6576656e742d74797065070011636f6e74656e74426c6f636b44656c7461"
    "0d3a636f6e74656e742d747970650700106170706c69636174696f6e2f6a736f6e0d3a6d6573736167652d74"
    "7970650700056576656e747b22636f6e74656e74426c6f636b496e646578223a302c2264656c7461223a7b22"
    "74657874223a224869227d2c2270223a2261626364227df2ace5ff"
)
CHUNK = bytes.fromhex(
    "000000e10000004b9198a91e0b3a6576656e742d747970650700056368756e6b0d3a636f6e74656e742d7479"
    "70650700106170706c69636174696f6e2f6a736f6e0d3a6d6573736167652d747970650700056576656e747b"
    "226279746573223a2265794a306558426c496a6f695932397564475675644639696247396a6131396b5a5778"
    "3059534973496d6c755a475634496a6f774c434a6b5a5778305953493665794a306558426c496a6f69644756"
    "346446396b5a57783059534973496e526c654851694f694a4961534a3966513d3d222c2270223a2261626322"
    "7d45ce27e5"
)
EXCEPTION = bytes.fromhex(
    "000000b0000000614f5086b30f3a657863657074696f6e2d747970650700137468726f74746c696e67457863"
    "657074696f6e0d3a636f6e74656e742d747970650700106170706c69636174696f6e2f6a736f6e0d3a6d6573"
    "736167652d74797065070009657863657074696f6e7b226d657373616765223a22546f6f206d616e7920746f"
    "6b656e732c20706c656173652077616974206265666f726520747279696e6720616761696e2e227df70ae57f"
)
ERROR = bytes.fromhex(
    "000000750000006569c825010d3a6d6573736167652d747970650700056572726f720b3a6572726f722d636f"
    "646507000d496e7465726e616c4572726f720e3a6572726f722d6d657373616765070021416e20696e746572"
    "6e616c20736572766572206572726f72206f6363757272656444197ec0"
)
VECTORS = {
    "delta": (DELTA, "event", "contentBlockDelta"),
    "chunk": (CHUNK, "event", "chunk"),
    "exception": (EXCEPTION, "exception", "throttlingException"),
    "error": (ERROR, "error", "InternalError"),
}
EVERY = pytest.mark.parametrize(("data", "type", "name"), VECTORS.values(), ids=VECTORS)


def read(*pieces: bytes) -> list[EventMessage]:
    reader = EventStreamReader()
    found = [message for piece in pieces for message in reader.feed(piece)]
    return found + reader.close()


@EVERY
def test_a_message_is_decoded(data, type, name):
    (found,) = read(data)
    assert (found.type, found.name) == (type, name)


def test_headers_and_payload():
    (delta,) = read(DELTA)
    assert delta.headers[":content-type"] == "application/json"
    assert delta.payload == b'{"contentBlockIndex":0,"delta":{"text":"Hi"},"p":"abcd"}'
    (error,) = read(ERROR)
    assert error.headers[":error-message"] == "An internal server error occurred"
    assert error.payload == b""


def test_every_cut_gives_the_same_messages():
    whole = b"".join(data for data, _, _ in VECTORS.values())
    expected = read(whole)
    assert len(expected) == 4
    for cut in range(len(whole) + 1):
        assert read(whole[:cut], whole[cut:]) == expected
    assert read(*(whole[i : i + 1] for i in range(len(whole)))) == expected


@EVERY
def test_half_a_message_is_none(data, type, name):
    for cut in range(1, len(data)):
        reader = EventStreamReader()
        assert reader.feed(data[:cut]) == []
        with pytest.raises(Truncated, match="in the middle of an event"):
            reader.close()


@EVERY
@pytest.mark.parametrize("flip", [0x01, 0x80, 0xFF, 0x20])
def test_a_damaged_byte_never_becomes_a_message(data, type, name, flip):
    for at in range(len(data)):
        damaged = bytearray(data)
        damaged[at] ^= flip
        with pytest.raises(BrokenWire):
            read(bytes(damaged), data)  # a longer length would wait for more bytes


def test_messages_before_a_damaged_one_come_first():
    damaged = DELTA[:-1] + bytes([DELTA[-1] ^ 1])
    for pieces in ([CHUNK + damaged], [CHUNK, damaged]):
        reader = EventStreamReader()
        found = reader.feed(pieces[0])
        assert [m.name for m in found] == ["chunk"]
        with pytest.raises(BrokenWire, match="checksum"):
            reader.feed(b"".join(pieces[1:]))
        with pytest.raises(BrokenWire):
            reader.close()


def test_values_of_every_type_are_skipped_and_texts_kept():
    values = {
        0: b"", 1: b"", 2: b"a", 3: b"ab", 4: b"abcd", 5: b"abcdefgh", 6: b"\x00\x02hi",
        8: b"abcdefgh", 9: b"0123456789abcdef", 7: b"\x00\x02ok",
    }  # fmt: skip
    data = message(b"{}", raw={f"h{kind}": (kind, value) for kind, value in values.items()})
    assert read(data) == [EventMessage({"h7": "ok"}, b"{}")]


@every_row(
    "raw",
    [{"a": (11, b"")}, {"a": (7, b"\x00\x09ok")}, {"a": (5, b"ab")}, {"a": (7, b"\x00\x01\xff")}],
)
def test_invalid_headers_are_an_error(raw):
    with pytest.raises(BrokenWire, match="invalid headers"):
        read(message(b"{}", raw=raw))


def test_sizes_are_limited_before_the_bytes_arrive():
    reader = EventStreamReader(max_payload=10)
    with pytest.raises(BrokenWire, match="not allowed"):
        reader.feed(message(b"x" * 11)[:12])
    with pytest.raises(BrokenWire, match="not allowed"):
        read(message(b"", headers_length=MAX_HEADERS + 1)[:12])
    with pytest.raises(BrokenWire, match="not allowed"):
        read(message(b"", total=12)[:12])


def test_a_message_may_be_as_long_as_the_limits():
    reader = EventStreamReader(max_payload=10)
    assert reader.feed(message(b"x" * 10)) == [EventMessage({}, b"x" * 10)]
    longest = message(b"", headers_length=MAX_HEADERS, total=MAX_HEADERS + 16)
    assert reader.feed(longest[:12]) == []  # the rest of it is awaited
