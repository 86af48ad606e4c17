"""The head of an HTTP/1.1 request: its request line and header fields (RFC 9112, RFC 9110).

Pure: bytes in, a `Head` or a `BadHttp` out. Parsing is strict. Servers and proxies that parse the
same bytes differently allow request smuggling (RFC 9112, section 11.2), so ambiguous input is
rejected: bare line feeds, folded fields, spaces before a colon, more than one Host or
Content-Length, a length beside a transfer coding.
"""

import re

import msgspec

from toolbridge.core.errors import BadHttp

MAX_TARGET = 8192
"""Bytes of a request target; RFC 9112 recommends at least 8000."""
MAX_HOST = 261
"""A DNS name has at most 254 bytes with its last dot, a port six with its colon."""
MAX_ORIGIN = 1024

_TOKEN = b"!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_VISIBLE = bytes(range(0x21, 0x7F))
_VALUE = bytes([0x09, *range(0x20, 0x7F), *range(0x80, 0x100)])
"""The allowed bytes of a name, a target and a value. `translate` removes them; anything left is
invalid. This takes a tenth of the time of a regular expression."""
_MODERN = {b"HTTP/1.1": True, b"HTTP/1.0": False}
_VERSION = re.compile(rb"HTTP/[0-9]\.[0-9]")
_HOST = re.compile(rb"[^\s,/?#@\\]*")
_LENGTH = re.compile(rb"[0-9]+")
_LONGEST_LENGTH = 18
_LENGTH_FIELD = re.compile(rb"\r\ncontent-length:[ \t]*([0-9]{1,18})[ \t]*\r\n", re.IGNORECASE)
_ABSOLUTE = re.compile(rb"https?://([^/?]*)(.*)", re.IGNORECASE)
_ESCAPE = re.compile(rb"%([0-9A-Fa-f]{2})")


class RequestLine(msgspec.Struct):
    """The parsed request line."""

    method: str
    path: str
    query: bytes
    modern: bool
    """True for HTTP/1.1, which has chunks and persistent connections; false for HTTP/1.0."""
    authority: bytes | None = None
    """The host of a target in absolute form; it replaces the Host field."""
    target: bytes = b""
    """Path and query as sent."""


class Head(msgspec.Struct, frozen=True):
    """The parsed head of a request; equal ones of a connection are one object."""

    method: str
    path: str
    query: bytes
    headers: dict[bytes, bytes]
    """By name in lower case; the values of a repeated field are joined (RFC 9110, section 5.3)."""
    modern: bool = True
    length: int | None = 0
    """Bytes of the body; None for a body in chunks."""
    keep_alive: bool = True
    expects: bool = False
    """Whether the client waits for `100 Continue` before it sends the body."""
    websocket: bool = False
    raw: bytes = b""
    """The bytes of the head for uvicorn's WebSocket protocol; empty for other requests."""


def read_line(line: bytes) -> RequestLine:
    """Parse a request line; raise `BadHttp`."""
    method, _, rest = line.partition(b" ")
    target, _, version = rest.partition(b" ")
    modern = _MODERN.get(version)
    if modern is None or not target or target.translate(None, _VISIBLE) or not _is_token(method):
        raise _bad_line(line, method, target, version)
    if len(target) > MAX_TARGET:
        raise long_target()
    authority = None
    if not target.startswith(b"/"):
        authority, target = _other_form(method, target)
    if b"#" in target:
        raise BadHttp("the target of the request has a fragment (#); send the path only")
    path, _, query = target.partition(b"?")
    return RequestLine(method.decode(), _plain(path), query, modern, authority, target)


def _is_token(name: bytes) -> bool:
    return bool(name) and not name.translate(None, _TOKEN)


def long_target() -> BadHttp:
    return BadHttp(f"the target of the request is longer than {MAX_TARGET} bytes", status=414)


def _bad_line(line: bytes, method: bytes, target: bytes, version: bytes) -> BadHttp:
    if line[:1] == b"\x16":
        return BadHttp("the client sent TLS, but this port serves plain HTTP; use an http:// URL")
    if _is_token(method) and target and not target.translate(None, _VISIBLE):
        if _VERSION.fullmatch(version) and version not in _MODERN:
            return _old_or_new(version.decode())
        if not version and method.isupper() and target.startswith(b"/"):
            return _old_or_new("a request without a version")  # as in HTTP/0.9
    return BadHttp("the request line is not HTTP/1.1; it looks like `POST /v1/messages HTTP/1.1`")


def _old_or_new(version: str) -> BadHttp:
    return BadHttp(f"{version} is not supported; send HTTP/1.1 or HTTP/1.0", status=505)


def _other_form(method: bytes, target: bytes) -> tuple[bytes | None, bytes]:
    """Return the authority and the path of a target that does not begin with a slash."""
    if method == b"CONNECT":
        raise BadHttp("CONNECT is not supported: this server is not a proxy", status=501)
    if target == b"*" and method == b"OPTIONS":
        return None, target
    found = _ABSOLUTE.fullmatch(target)
    if found is None:
        raise BadHttp("the target of the request must be a path, such as /v1/messages")
    rest = found[2]
    return found[1], rest if rest.startswith(b"/") else b"/" + rest


def _plain(path: bytes) -> str:
    if b"%" in path:
        path = _ESCAPE.sub(lambda found: bytes([int(found[1], 16)]), path)
    return path.decode("utf-8", "replace")


def read_head(line: RequestLine, block: bytes, max_headers: int) -> Head:
    """Return the head with the fields in `block`, each ended by CRLF; raise `BadHttp`."""
    headers = _read_fields(block, max_headers)
    _check_host(line, headers)
    connection = headers.get(b"connection", b"").lower()
    tokens = [token.strip() for token in connection.split(b",")] if connection else []
    websocket = b"upgrade" in tokens and headers.get(b"upgrade", b"").lower() == b"websocket"
    return Head(
        method=line.method,
        path=line.path,
        query=line.query,
        headers=headers,
        modern=line.modern,
        length=_length(line, headers),
        keep_alive=b"close" not in tokens and (line.modern or b"keep-alive" in tokens),
        expects=_expects(line, headers),
        websocket=websocket,
        raw=_again(line, block) if websocket else b"",
    )


class KnownHead(msgspec.Struct):
    """The last head of a connection: the next one mostly differs in the length of its body alone."""

    line: RequestLine
    head: Head
    raw: bytes
    before: bytes
    """The bytes before the number of Content-Length."""
    after: bytes

    def read(self, raw: bytes) -> Head | None:
        """Return the head in `raw` if it differs in that number alone, else None."""
        if raw == self.raw:
            return self.head
        before, after = self.before, self.after
        if not (raw.startswith(before) and raw.endswith(after)):
            return None
        number = raw[len(before) : len(raw) - len(after)]
        if not number.isdigit() or len(number) > _LONGEST_LENGTH:
            return None
        headers = self.head.headers.copy()
        headers[b"content-length"] = number
        self.head = msgspec.structs.replace(self.head, headers=headers, length=int(number))
        self.raw = raw
        return self.head


def known_head(line: RequestLine, head: Head, raw: bytes) -> KnownHead | None:
    """Return what is needed to read the next head like `raw`; None if it has no Content-Length."""
    found = None if head.websocket else _LENGTH_FIELD.search(raw)
    if found is None:
        return None
    return KnownHead(line, head, raw, raw[: found.start(1)], raw[found.end(1) :])


def _read_fields(block: bytes, max_headers: int) -> dict[bytes, bytes]:
    lines = block.split(b"\r\n")
    lines.pop()  # the empty string after the last CRLF
    if len(lines) > max_headers:
        text = f"the request has {len(lines)} header fields; the limit is {max_headers}"
        raise BadHttp(text, status=431)
    if block.replace(b"\r\n", b"").translate(None, _VALUE):
        raise _bad_field(lines)
    headers: dict[bytes, bytes] = {}
    for line in lines:
        name, colon, value = line.partition(b":")
        name, value = name.lower(), value.strip(b" \t")
        if not colon:
            raise _bad_field(lines)
        if name in headers:
            if name == b"host":
                raise BadHttp("the request has more than one Host field")
            value = b"%b, %b" % (headers[name], value)
        headers[name] = value
    if b"" in headers or b"".join(headers).translate(None, _TOKEN):
        raise _bad_field(lines)
    return headers


def _again(line: RequestLine, block: bytes) -> bytes:
    version = b"1.1" if line.modern else b"1.0"
    return b"%b %b HTTP/%b\r\n%b\r\n" % (line.method.encode(), line.target, version, block)


def _bad_field(lines: list[bytes]) -> BadHttp:
    """Return the error for the first malformed field."""
    for line in lines:
        name, colon, value = line.partition(b":")
        if colon and _is_token(name) and not value.translate(None, _VALUE):
            continue
        if line[:1] in {b" ", b"\t"}:
            return BadHttp("a header field is folded over two lines, which RFC 9112 forbids")
        if b"\n" in line:
            return BadHttp("a line of the head ends with a bare line feed; lines end with CRLF")
        shown = name[:40].decode("ascii", "backslashreplace")
        text = f"the header field that begins with {shown!r} is not `name: value`"
        return BadHttp(f"{text}, or has a control character")
    return BadHttp("the header fields cannot be read")


def _check_host(line: RequestLine, headers: dict[bytes, bytes]) -> None:
    """Check Host and Origin, which `auth.Guard` relies on."""
    host = headers.get(b"host")
    if host is None:
        if line.modern:
            raise BadHttp("the Host field is missing; HTTP/1.1 requires one")
    elif len(host) > MAX_HOST:
        raise BadHttp(f"the Host field is longer than {MAX_HOST} bytes", status=431)
    elif _HOST.fullmatch(host) is None:
        raise BadHttp("the Host field is not a host with an optional port")
    if line.authority is not None and line.authority.lower() != (host or b"").lower():
        raise BadHttp("the target of the request names another host than the Host field")
    if len(headers.get(b"origin", b"")) > MAX_ORIGIN:
        raise BadHttp(f"the Origin field is longer than {MAX_ORIGIN} bytes", status=431)


def _length(line: RequestLine, headers: dict[bytes, bytes]) -> int | None:
    """Return the length of the body, None for chunks (RFC 9112, section 6.3)."""
    coding = headers.get(b"transfer-encoding")
    declared = headers.get(b"content-length")
    if coding is None:
        if declared is None:
            return 0
        if _LENGTH.fullmatch(declared) is None:
            raise BadHttp("Content-Length must be one number of bytes")
        # One of more digits is above every limit, and `int` takes long for thousands of them.
        return int(declared.lstrip(b"0")[: _LONGEST_LENGTH + 1] or b"0")
    if declared is not None:
        raise BadHttp("the request has both Content-Length and Transfer-Encoding")
    if not line.modern:
        raise BadHttp("HTTP/1.0 has no Transfer-Encoding; send Content-Length")
    if coding.lower() != b"chunked":
        raise BadHttp("the only supported Transfer-Encoding is `chunked`", status=501)
    return None


def _expects(line: RequestLine, headers: dict[bytes, bytes]) -> bool:
    expected = headers.get(b"expect", b"").lower()
    if not expected or not line.modern:
        return False
    if expected != b"100-continue":
        raise BadHttp("the Expect field can only be `100-continue`", status=417)
    return True
