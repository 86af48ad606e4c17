"""HTTP as bytes: what a client writes to a socket, and what it reads back."""

import asyncio
import json
from contextlib import suppress
from dataclasses import dataclass


@dataclass
class Answer:
    """One response, as it stood on the wire."""

    status: int
    headers: dict[str, str]
    body: bytes
    whole: bool
    """Whether the response ended as its framing said that it would."""

    @property
    def json(self):
        return json.loads(self.body)


async def connect(url: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    host, port = url.removeprefix("http://").split(":")
    return await asyncio.open_connection(host, int(port))


async def exchange(url: str, *pieces: bytes, pause: float = 0.0, wait: float = 60.0) -> bytes:
    """Write `pieces` and return all that came back until the server closed the connection."""
    reader, writer = await connect(url)
    with suppress(ConnectionError):
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(pause)
    try:
        return await read_all(reader, wait)
    finally:
        writer.close()


async def read_all(reader: asyncio.StreamReader, wait: float = 60.0) -> bytes:
    found = b""
    with suppress(ConnectionError):
        async with asyncio.timeout(wait):
            while piece := await reader.read(65536):
                found += piece
    return found


def answers(data: bytes, *, head: bool = False) -> list[Answer]:
    """Return the responses in `data`; `head` says that they answer HEAD and have no bodies."""
    found: list[Answer] = []
    while data:
        if data.startswith(b"HTTP/1.1 100 "):
            data = data.partition(b"\r\n\r\n")[2]
            continue
        answer, data = _first(data, head=head)
        found.append(answer)
    return found


def only(data: bytes, *, head: bool = False) -> Answer:
    found = answers(data, head=head)
    assert len(found) == 1, data
    return found[0]


def _first(data: bytes, *, head: bool) -> tuple[Answer, bytes]:
    top, mark, rest = data.partition(b"\r\n\r\n")
    assert mark, data
    first, *lines = top.decode("latin-1").split("\r\n")
    version, status, _ = first.split(" ", 2)
    assert version == "HTTP/1.1"
    headers = {name.lower(): value.strip() for name, _, value in (l.partition(":") for l in lines)}
    if head:
        return Answer(int(status), headers, b"", True), rest
    if "content-length" in headers:
        size = int(headers["content-length"])
        return Answer(int(status), headers, rest[:size], len(rest) >= size), rest[size:]
    if headers.get("transfer-encoding") == "chunked":
        body, whole, rest = _unchunked(rest)
        return Answer(int(status), headers, body, whole), rest
    return Answer(int(status), headers, rest, True), b""


def _unchunked(data: bytes) -> tuple[bytes, bool, bytes]:
    body = b""
    while True:
        line, mark, rest = data.partition(b"\r\n")
        if not mark:
            return body, False, b""
        size = int(line, 16)
        if size == 0:
            return body, rest.startswith(b"\r\n"), rest[2:]
        if len(rest) < size + 2:
            return body + rest[:size], False, b""
        body, data = body + rest[:size], rest[size + 2 :]


def error_text(answer: Answer) -> str:
    """Return the message of an error in any of the five APIs' envelopes."""
    assert answer.headers["content-type"].startswith("application/json"), answer
    error = answer.json["error"]
    return error if isinstance(error, str) else error["message"]
