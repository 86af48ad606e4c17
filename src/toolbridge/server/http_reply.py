"""The head of an HTTP/1.1 response as bytes, and the framing of its body.

Pure. HTTP/1.0 has no chunks: a body of unknown length ends when the connection closes.
"""

import re
from collections.abc import Mapping
from http import HTTPStatus

import msgspec

LONGEST_HEADER = 4000
_CONTROLS = re.compile(rb"[\x00-\x1f\x7f]")
_STATUS = {s.value: f"HTTP/1.1 {s.value} {s.phrase}\r\n".encode() for s in HTTPStatus}
_BODILESS = frozenset({204, 304})
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class BodyFraming(msgspec.Struct, frozen=True):
    """How the end of a response is marked on the wire."""

    chunked: bool
    keeps: bool
    """Whether the connection can serve another request afterwards."""
    bodiless: bool = False

    def frame(self, piece: bytes) -> bytes:
        """Return the wire bytes of a part of the body."""
        if self.bodiless or not piece:
            return b""
        return b"%x\r\n%b\r\n" % (len(piece), piece) if self.chunked else piece

    def last(self, piece: bytes = b"") -> bytes:
        """Return the wire bytes of the last part of the body, with the end mark."""
        if self.bodiless:
            return b""
        return self.frame(piece) + b"0\r\n\r\n" if self.chunked else piece


_FRAMINGS = {
    (chunked, keeps): BodyFraming(chunked, keeps)
    for chunked in (False, True)
    for keeps in (False, True)
}
NO_BODY_YET = _FRAMINGS[False, False]
"""The framing before a response begins."""


def framing(method: str, status: int, *, sized: bool, modern: bool, keeps: bool) -> BodyFraming:
    """Return the framing of a response to a request of HTTP/1.1 (`modern`) or HTTP/1.0."""
    if method == "HEAD" or status in _BODILESS:
        return BodyFraming(chunked=False, keeps=keeps, bodiless=True)
    return _FRAMINGS[modern and not sized, keeps and (sized or modern)]


def encode_head(
    status: int,
    headers: Mapping[str, str],
    framing: BodyFraming,
    defaults: bytes = b"",
) -> bytes:
    """Return the status line and header fields; `defaults` are the lines of every response."""
    first = _STATUS.get(status) or b"HTTP/1.1 %d \r\n" % status
    shown = "\r\n".join([*map(": ".join, headers.items()), ""])
    plain = shown.replace("\r\n", "")
    if (
        len(shown) <= LONGEST_HEADER
        and len(shown) - len(plain) == 2 * len(headers)  # no value has a line break
        and plain.isascii()
        and plain.isprintable()
    ):
        fields = shown.encode()
    else:
        safe = [b"%b: %b\r\n" % (k.encode("latin-1"), _made_safe(v)) for k, v in headers.items()]
        fields = b"".join(safe)
    last = b"transfer-encoding: chunked\r\n\r\n" if framing.chunked else b"\r\n"
    return first + defaults + fields + last


def _made_safe(value: str) -> bytes:
    """Return a header value that is short and ASCII without control characters.

    Many clients reject the whole response otherwise; model names and error texts may have any text.
    """
    safe = value[:LONGEST_HEADER].encode("ascii", "backslashreplace")[:LONGEST_HEADER]
    return _CONTROLS.sub(b" ", safe)
