"""Parser for the requests of one connection, independent of how the network cuts the bytes.

Pure, as h11 is: `feed` takes bytes, `head` and `body` return what is complete. The connection reads
the next head only after the request before it was answered, so pipelined requests stay in the
buffer, whose size the connection limits.
"""

import re

from toolbridge.core.errors import BadHttp
from toolbridge.server.http_head import (
    MAX_TARGET,
    Head,
    KnownHead,
    RequestLine,
    known_head,
    long_target,
    read_head,
    read_line,
)

MAX_SIZE_LINE = 1024
"""Bytes of the line before a chunk: its size, and chunk extensions, which are ignored."""
MAX_TRAILERS = 8192
_LONGEST_LINE = MAX_TARGET + 64
"""Bytes of a request line: the target, and a method and a version."""
_SHOWN = 200
"""Bytes of a longer one that are read: its path names the API of the error response."""
_BLANK = re.compile(rb"(?:\r\n)*+")
_BARE = re.compile(rb"(?<!\r)\n")
_SIZE = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*+(?:;[^\x00-\x08\x0a-\x1f\x7f]*+)?")
_TRAILER = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]++:[^\x00-\x08\x0a-\x1f\x7f]*+")


class RequestReader:
    """Parses heads and bodies from the bytes of one connection."""

    def __init__(self, max_head: int, max_headers: int) -> None:
        self._max_head = max_head
        self._max_headers = max_headers
        self.rest = b""
        """The buffer: bytes that were not parsed yet."""
        self._scanned = 0
        """Bytes of the buffer that were searched for the end of a head."""
        self.line: RequestLine | None = None
        """The request line once it has arrived; it selects the API for an error response."""
        self._known: KnownHead | None = None
        self._left = 0
        self._chunks: _Chunks | None = None
        self.complete = True
        """Whether the body of the last request has arrived completely."""

    @property
    def waiting(self) -> int:
        """The number of bytes in the buffer."""
        return len(self.rest)

    @property
    def left(self) -> int | None:
        """The number of body bytes that are still to be read; None for a body in chunks."""
        return None if self._chunks is not None else self._left

    def feed(self, data: bytes) -> None:
        self.rest = self.rest + data if self.rest else data

    def take_rest(self) -> bytes:
        """Return and clear the buffer; its bytes are not parsed any more."""
        rest, self.rest = self.rest, b""
        return rest

    def head(self) -> Head | None:
        """Return the next head, None until it is complete; raise `BadHttp`."""
        if not self._scanned:
            self.line = None
            if not self.rest:
                return None
        # RFC 9112, section 2.2: a server ignores empty lines before the request line.
        if self.line is None and self.rest.startswith(b"\r\n"):
            self.rest = self.rest[_BLANK.match(self.rest).end() :]  # type: ignore[union-attr]
            self._scanned = 0
        rest = self.rest
        end = rest.find(b"\r\n\r\n", self._scanned - 3 if self._scanned > 3 else 0)
        if end < 0:
            self._check_part(rest)
            self._scanned = len(rest)
            return None
        self._scanned = 0
        raw = rest[: end + 2]
        known = self._known
        head = None if known is None or len(raw) + 2 > self._max_head else known.read(raw)
        if known is not None and head is not None:
            self.line = known.line
        else:
            head = self._read_head(raw)
        self.rest = rest[end + 4 :]
        self._left = head.length or 0
        self._chunks = _Chunks() if head.length is None else None
        self.complete = head.length == 0
        return head

    def _read_head(self, raw: bytes) -> Head:
        first = raw.find(b"\r\n")
        line = self.line = self.line or self._read_line(raw[:first])
        if len(raw) + 2 > self._max_head:
            raise self._long_head()
        head = read_head(line, raw[first + 2 :], self._max_headers)
        self._known = known_head(line, head, raw)
        return head

    def _check_part(self, rest: bytes) -> None:
        """Raise `BadHttp` for an incomplete head that cannot become valid."""
        if self.line is None and rest:
            first = rest.find(b"\r\n")
            if first >= 0:
                self.line = self._read_line(rest[:first])
            elif not rest[:1].isalpha() and rest != b"\r":
                read_line(rest)
            elif len(rest) > _LONGEST_LINE:
                self._read_line(rest)
        if _BARE.search(rest, max(0, self._scanned - 1)):
            raise BadHttp("a line of the head ends with a bare line feed; lines end with CRLF")
        if len(rest) > self._max_head:
            raise self._long_head()

    def _read_line(self, line: bytes) -> RequestLine:
        """Parse the request line; of one that is too long, keep what the error response needs."""
        try:
            if len(line) > _LONGEST_LINE:
                raise long_target()
            return read_line(line)
        except BadHttp as error:
            if error.problem.status == 414:
                method, _, target = line[:_SHOWN].partition(b" ")
                path = target.partition(b"?")[0].decode("latin-1")
                self.line = RequestLine(method.decode("latin-1"), path, b"", modern=True)
            raise

    def _long_head(self) -> BadHttp:
        text = f"the head of the request is longer than {self._max_head} bytes"
        return BadHttp(text, status=431)

    def whole_body(self) -> bytes:
        """Return the body if it is exactly what has arrived, as for nearly every request."""
        body = self.rest
        if not body or len(body) != self._left:  # `_left` is 0 for a body in chunks
            return b""
        self.rest, self._left, self.complete = b"", 0, True
        return body

    def body(self) -> bytes:
        """Return the part of the body that arrived since the last call; raise `BadHttp`."""
        if self.complete or not self.rest:
            return b""
        if self._chunks is not None:
            piece, used = self._chunks.read(self.rest)
            self.complete = self._chunks.complete
            self.rest = self.rest[used:]
            return piece
        piece = self.rest
        if len(piece) > self._left:
            piece = piece[: self._left]
        self.rest = self.rest[len(piece) :]
        self._left -= len(piece)
        self.complete = not self._left
        return piece


class _Chunks:
    """A body in chunks (RFC 9112, section 7.1). Extensions and trailers are read and dropped."""

    def __init__(self) -> None:
        self._left = 0
        self._step = self._read_size
        self._pieces: list[bytes] = []
        self._trailers = 0
        self.complete = False

    def read(self, data: bytes) -> tuple[bytes, int]:
        """Return the body bytes at the beginning of `data`, and the number of bytes used."""
        at = 0
        while at < len(data) and not self.complete and (used := self._step(data, at)):
            at += used
        pieces, self._pieces = self._pieces, []
        return pieces[0] if len(pieces) == 1 else b"".join(pieces), at

    def _read_size(self, data: bytes, at: int) -> int:
        end = data.find(b"\r\n", at, at + MAX_SIZE_LINE + 2)
        if end < 0:
            if len(data) - at > MAX_SIZE_LINE:
                raise BadHttp(f"the line before a chunk is longer than {MAX_SIZE_LINE} bytes")
            if b"\n" in data[at:]:
                raise BadHttp("the line before a chunk ends with a bare line feed")
            return 0
        found = _SIZE.fullmatch(data, at, end)
        if found is None:
            raise BadHttp("a chunk of the body does not begin with its size in hexadecimal digits")
        self._left = int(found[1], 16)
        self._step = self._read_data if self._left else self._read_trailer
        return end + 2 - at

    def _read_data(self, data: bytes, at: int) -> int:
        piece = data[at : at + self._left]
        self._pieces.append(piece)
        self._left -= len(piece)
        if not self._left:
            self._step = self._read_mark
        return len(piece)

    def _read_mark(self, data: bytes, at: int) -> int:
        mark = data[at : at + 2]
        if mark == b"\r":
            return 0
        if mark != b"\r\n":
            raise BadHttp("a chunk of the body is longer than its size line")
        self._step = self._read_size
        return 2

    def _read_trailer(self, data: bytes, at: int) -> int:
        end = data.find(b"\r\n", at)
        size = (end if end >= 0 else len(data)) - at
        if self._trailers + size > MAX_TRAILERS:
            raise BadHttp(f"the trailers are longer than {MAX_TRAILERS} bytes", status=431)
        if end < 0:
            return 0
        self._trailers += size + 2
        if end == at:
            self.complete = True
        elif _TRAILER.fullmatch(data, at, end) is None:
            raise BadHttp("a trailer of the body is not `name: value`")
        return size + 2
