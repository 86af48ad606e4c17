"""The reader of requests: any cut, any bytes, and never anything that another parser reads otherwise."""

import time

import httptools
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.examples import examples
from tests.tables import every_row

from toolbridge.core.errors import BadHttp
from toolbridge.server.http_head import Head
from toolbridge.server.http_reader import RequestReader

Read = list[tuple[Head, bytes]]


def read(*pieces: bytes, max_head: int = 32768) -> tuple[Read, BadHttp | None]:
    """Return the requests in `pieces`, one after the other, and the fault that ended the reading."""
    reader = RequestReader(max_head, 100)
    found: list[tuple[Head, bytes]] = []
    try:
        for piece in pieces:
            reader.feed(piece)
            _read_on(reader, found)
    except BadHttp as error:
        return found, error
    return found, None


def _read_on(reader: RequestReader, found: Read) -> None:
    while True:
        if not reader.complete:
            head, body = found[-1]
            found[-1] = (head, body + reader.body())
            if not reader.complete:
                return
        head = reader.head()
        if head is None:
            return
        found.append((head, b""))


TOKENS = st.sampled_from(
    [b"GET", b"POST", b"PRI", b"HEAD", b"x-a", b"Host", b"content-length", b"G T"]
)
TARGETS = st.sampled_from(
    [b"/", b"/v1/messages", b"/a?b=c", b"*", b"http://h/x", b"h:1", b"/%41%zz"]
)
NAMES = st.sampled_from(
    [b"Host", b"A", b"content-length", b"Content-Length", b"transfer-encoding", b"Connection",
     b"Expect", b"x y", b"", b"Upgrade", b" A"]
)  # fmt: skip
VALUES = st.sampled_from(
    [b"h", b"", b"5", b"5, 5", b"0", b"chunked", b"close", b"Keep-Alive", b"upgrade", b"100-continue",
     b"a\x00b", b"a\rb", b"a\nb", b"\tx ", b"\xff", b"websocket"]
)  # fmt: skip
ENDS = st.sampled_from([b"\r\n"] * 12 + [b"\n", b"\r"])
BODIES = st.sampled_from(
    [b"", b"hello", b"5\r\nhello\r\n0\r\n\r\n", b"5;x\r\nhello\r\n0\r\na: b\r\n\r\n", b"0\r\n\r\n",
     b"3\r\nhello\r\n0\r\n\r\n", b"5\nhello\n0\n\n", b"\r\n", b"zz\r\n"]
)  # fmt: skip


@st.composite
def requests(draw) -> bytes:
    version = draw(st.sampled_from([b"HTTP/1.1"] * 6 + [b"HTTP/1.0", b"HTTP/2.0", b"http/1.1"]))
    lines = [b" ".join([draw(TOKENS), draw(TARGETS), version]) + draw(ENDS)]
    if draw(st.booleans()):
        lines.append(b"Host: h\r\n")
    for _ in range(draw(st.integers(0, 3))):
        lines.append(draw(NAMES) + b": " + draw(VALUES) + draw(ENDS))
    return b"".join([*lines, draw(ENDS), draw(BODIES)])


streams = st.lists(requests(), max_size=3).map(b"".join)


@given(streams, st.data())
def test_any_cut_gives_the_same_requests_and_the_same_fault(stream, data):
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    pieces = [stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    whole, fault = read(stream)
    cut, same_fault = read(*[piece for piece in pieces if piece])
    bytewise, third_fault = read(*[bytes([byte]) for byte in stream])
    assert cut == whole == bytewise
    # A fault is found as early as the bytes allow, so its words may differ with the cut.
    assert (fault is None) == (same_fault is None) == (third_fault is None)


def test_an_empty_line_between_requests_may_be_cut():
    stream = b"GET / HTTP/1.1\r\nHost: h\r\n\r\n\r\n"
    pair = stream * 2
    for text, count in ((stream, 1), (pair, 2)):
        for pieces in ([text], [bytes([byte]) for byte in text]):
            found, fault = read(*pieces)
            assert (len(found), fault) == (count, None)


class Reference:
    """llhttp, the parser of Node and of uvicorn, as it reads the same bytes."""

    def __init__(self) -> None:
        self.found: list[tuple[bytes, bytes, dict[bytes, list[bytes]], bytes]] = []
        self.whole = 0
        self.parser = httptools.HttpRequestParser(self)

    def on_message_begin(self):
        self._url, self._fields = b"", {}

    def on_url(self, url):
        self._url += url

    def on_header(self, name, value):
        self._fields.setdefault(name.lower(), []).append(value.rstrip(b" \t"))

    def on_headers_complete(self):
        self.found.append((self.parser.get_method(), self._url, dict(self._fields), b""))

    def on_body(self, body):
        method, url, fields, before = self.found[-1]
        self.found[-1] = (method, url, fields, before + body)

    def on_message_complete(self):
        self.whole += 1


@given(requests())
@example(b"GET / HTTP/1.0\r\nA: h\r\nA: \r\n\r\n")
@example(b"GET / HTTP/1.0\r\nA: h\r\nA: \r\nA: h\r\n\r\n")
@settings(max_examples=examples(500))
def test_what_is_accepted_means_the_same_to_another_parser(stream):
    """A request that two parsers read differently can be smuggled past one of them."""
    ours, fault = read(stream)
    # llhttp knows a list of methods, and ends HTTP where it sees an upgrade.
    if not ours or ours[0][0].method not in {"GET", "POST"} or b"upgrade" in ours[0][0].headers:
        return
    head, body = ours[0]
    reference = Reference()
    try:
        reference.parser.feed_data(stream)
    except httptools.HttpParserError:
        if fault is None and len(ours) == 1 and reference.whole == 0:
            raise
    method, url, fields, their_body = reference.found[0]
    assert method.decode() == head.method
    joined = {name: b", ".join(values).rstrip(b" ") for name, values in fields.items()}
    assert joined == {name: value.rstrip(b" ") for name, value in head.headers.items()}
    assert url.endswith(head.query)
    if fault is None:
        assert their_body == body


@given(st.lists(st.binary(max_size=200), max_size=20))
def test_random_bytes_are_a_fault_or_wait_for_more(pieces):
    _, fault = read(*pieces)
    assert fault is None or fault.problem.status in {0, 414, 417, 431, 501, 505}


@pytest.mark.parametrize(
    ("piece", "status"),
    [(b"a", 414), (b"a: b\r\n", 400), (b"GET / HTTP/1.1\r\nh: x", 431), (b"\r\n", 0)],
)
def test_a_head_without_an_end_costs_linear_time_and_bounded_memory(piece, status):
    """httptools keeps the name of a field for as long as it comes; empty lines are forgotten."""
    reader = RequestReader(32768, 100)
    started, found = time.process_time(), 0
    for _ in range(40_000):
        reader.feed(piece)
        try:
            reader.head()
        except BadHttp as error:
            found = error.problem.status or 400
            break
        assert reader.waiting <= 32768
    assert found == status
    assert time.process_time() - started < 10


def test_chunks_of_one_byte_cost_linear_time():
    reader = RequestReader(32768, 100)
    reader.feed(b"POST / HTTP/1.1\r\nhost: h\r\ntransfer-encoding: chunked\r\n\r\n")
    assert reader.head() is not None
    started = time.process_time()
    size = 0
    for _ in range(20):
        reader.feed(b"1\r\nx\r\n" * 10_000)
        size += len(reader.body())
    assert size == 200_000
    assert time.process_time() - started < 5


def test_a_head_is_read_as_it_was_meant():
    data = (
        b"POST /v1/m%C3%BCller?a=b&c HTTP/1.1\r\nHOST:127.0.0.1:3456\r\nX-A: 1 \r\nx-a:\t2\r\n"
        b"Content-Length: 3\r\nConnection: x, Close\r\nExpect: 100-Continue\r\n\r\nabcGET"
    )
    [(head, body)], fault = read(data)
    assert fault is None
    assert (head.method, head.path, head.query, body) == ("POST", "/v1/müller", b"a=b&c", b"abc")
    assert head.headers[b"x-a"] == b"1, 2"
    assert head.headers[b"host"] == b"127.0.0.1:3456"
    assert (head.keep_alive, head.expects, head.length, head.modern) == (False, True, 3, True)


_FIRST = b"POST /v1/messages HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nX-A: b\r\n\r\nhello"


@every_row(
    "second",
    [
        _FIRST,
        _FIRST.replace(b": 5", b": 3").replace(b"hello", b"abc"),
        _FIRST.replace(b": 5", b": 05"),
        _FIRST.replace(b": 5", b":  5 "),
        _FIRST.replace(b": 5", b": " + b"9" * 18),
        _FIRST.replace(b": 5", b": " + b"9" * 19),
        _FIRST.replace(b": 5", b": -5"),
        _FIRST.replace(b": 5", b": "),
        _FIRST.replace(b": 5", b": 5, 5"),
        _FIRST.replace(b": 5", b": 5\r\nContent-Length: 5"),
        _FIRST.replace(b": 5", b": 5\r\nTransfer-Encoding: chunked"),
        _FIRST.replace(b": 5", b": 5\nX-B: c"),
        _FIRST.replace(b"messages", b"responses"),
        _FIRST.replace(b"X-A: b", b"X-A: c"),
        _FIRST.replace(b"X-A: b", b"X-A: b\r\nConnection: close"),
        _FIRST.replace(b"Host: h\r\n", b""),
        b"GET / HTTP/1.1\r\nHost: h\r\n\r\n",
    ],
)
def test_a_head_like_the_one_before_it_is_read_as_on_a_new_connection(second):
    after, fault = read(_FIRST, second)
    alone, alone_fault = read(second)
    assert after[1:] == alone
    assert str(fault) == str(alone_fault)
    assert after[0] == read(_FIRST)[0][0], "the head before it stays as it is"


def test_the_limit_of_a_head_counts_for_one_like_the_head_before_it():
    longer = _FIRST.replace(b": 5", b": " + b"0" * 17 + b"5")
    size = longer.index(b"\r\n\r\n") + 4
    assert read(_FIRST, longer, max_head=size)[1] is None
    _, fault = read(_FIRST, longer, max_head=size - 1)
    assert str(fault) == f"the head of the request is longer than {size - 1} bytes"
