"""The head of a response: the quick way for plain values is the way for all values."""

from hypothesis import example, given
from hypothesis import strategies as st

from toolbridge.server.http_protocol import ServerState
from toolbridge.server.http_reply import LONGEST_HEADER, encode_head, framing

FRAMED = framing("POST", 200, sized=True, modern=True, keeps=True)
NAMES = st.sampled_from(
    ["content-type", "x-toolbridge-model", "x-toolbridge-warning", "request-id"]
)
VALUES = st.one_of(
    st.sampled_from(["application/json", "a\r\nb: c", "\r", "\n", "a\r", "\nb", "ü", "", "a\0b"]),
    st.text(max_size=20),
    st.integers(LONGEST_HEADER - 100, LONGEST_HEADER + 10).map(lambda size: "x" * size),
)


def one_by_one(headers: dict[str, str]) -> bytes:
    """Return the lines of `headers`, each safe by itself."""
    found = b""
    for name, value in headers.items():
        safe = value[:LONGEST_HEADER].encode("ascii", "backslashreplace")[:LONGEST_HEADER]
        safe = bytes(0x20 if byte < 0x20 or byte == 0x7F else byte for byte in safe)
        found += name.encode() + b": " + safe + b"\r\n"
    return found


@example({"request-id": "a\r\nb: c"})
@example({"request-id": "a\r"})
@given(st.dictionaries(NAMES, VALUES, min_size=1))
def test_no_value_adds_a_line_or_is_changed_without_need(headers):
    head = encode_head(200, headers, FRAMED)
    assert head == b"HTTP/1.1 200 OK\r\n" + one_by_one(headers) + b"\r\n"


def test_the_date_of_each_second_is_sent():
    state = ServerState()
    for date in (b"one", b"two"):
        state.set_date(date)
        head = encode_head(200, {}, FRAMED, state.default_lines)
        assert head.split(b"\r\n")[1] == b"date: " + date
        assert state.default_headers == [(b"date", date)]
