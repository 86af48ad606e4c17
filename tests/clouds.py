"""Fake clouds on loopback: AWS event streams, and a server that verifies real signatures."""

import hashlib
import hmac
import json
import re
import struct
from base64 import b64encode
from collections.abc import Callable
from urllib.parse import quote
from zlib import crc32

from tests.peers import Answer, Heard, Line, whole

ACCESS, SECRET, SESSION = (
    "AKIDEXAMPLE",
    "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY",
    "IQoJb3JpZ2luEX",
)
AWS_ENV = {
    "AWS_ACCESS_KEY_ID": ACCESS,
    "AWS_SECRET_ACCESS_KEY": SECRET,
    "AWS_REGION": "us-east-1",
}
STREAM = "application/vnd.amazon.eventstream"
_AUTHORIZATION = re.compile(
    r"AWS4-HMAC-SHA256 Credential=([^/]+)/(\d{8})/([^/]+)/([^/]+)/aws4_request, ?"
    r"SignedHeaders=([^,]+), ?Signature=([0-9a-f]{64})"
)


def message(
    payload: bytes,
    raw: dict[str, tuple[int, bytes]] | None = None,
    *,
    headers_length: int | None = None,
    total: int | None = None,
) -> bytes:
    """Return a message of an event stream; the lengths can be wrong on purpose."""
    headers = b"".join(
        bytes([len(name)]) + name.encode() + bytes([kind]) + value
        for name, (kind, value) in (raw or {}).items()
    )
    length = len(headers) if headers_length is None else headers_length
    prelude = struct.pack(">II", total or length + len(payload) + 16, length)
    prelude += struct.pack(">I", crc32(prelude))
    body = prelude + headers + payload
    return body + struct.pack(">I", crc32(body))


def _texts(**headers: str) -> dict[str, tuple[int, bytes]]:
    return {
        ":" + name.replace("_", "-"): (7, struct.pack(">H", len(value)) + value.encode())
        for name, value in headers.items()
    }


def event(type: str, payload: dict) -> bytes:
    """Return an event of an event stream, with Bedrock's padding."""
    headers = _texts(event_type=type, content_type="application/json", message_type="event")
    return message(json.dumps(payload | {"p": "abcdefgh"}).encode(), headers)


def exception(type: str, text: str) -> bytes:
    headers = _texts(exception_type=type, content_type="application/json", message_type="exception")
    return message(json.dumps({"message": text}).encode(), headers)


def chunk(payload: dict) -> bytes:
    """Return an event of InvokeModelWithResponseStream."""
    return event("chunk", {"bytes": b64encode(json.dumps(payload).encode()).decode()})


def fault(heard: Heard, *, service: str = "bedrock", region: str = "us-east-1") -> str:
    """Return the error type for a request with a wrong signature or key; empty for a right one.

    Amazon, "Create a signed AWS API request": the canonical request is built from what arrived.
    """
    headers = heard.headers
    authorization = headers.get("authorization", "")
    if authorization.startswith("Bearer "):
        return "" if authorization == "Bearer ABSK-good-key" else "UnrecognizedClientException"
    found = _AUTHORIZATION.fullmatch(authorization)
    if found is None:
        return "MissingAuthenticationTokenException"
    access, day, signed_region, signed_service, signed, signature = found.groups()
    if access != ACCESS:
        return "UnrecognizedClientException"
    if headers.get("x-amz-security-token") == "expired":
        return "ExpiredTokenException"
    if (signed_region, signed_service) != (region, service):
        return "InvalidSignatureException"
    names = signed.split(";")
    if not {"host", "x-amz-date"} <= {*names}:
        return "InvalidSignatureException"
    path, _, query = heard.path.partition("?")
    digest = hashlib.sha256(heard.body).hexdigest()
    canonical = "\n".join(
        [
            heard.method,
            quote(path, safe="/~"),
            "&".join(sorted(filter(None, query.split("&")))),
            *(f"{name}:{' '.join(headers.get(name, '').split())}" for name in names),
            "",
            signed,
            headers.get("x-amz-content-sha256") or digest,
        ]
    )
    scope = f"{day}/{region}/{service}/aws4_request"
    hashed = hashlib.sha256(canonical.encode()).hexdigest()
    text = f"AWS4-HMAC-SHA256\n{headers['x-amz-date']}\n{scope}\n{hashed}"
    key = f"AWS4{SECRET}".encode()
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    expected = hmac.new(key, text.encode(), "sha256").hexdigest()
    return "" if hmac.compare_digest(expected, signature) else "InvalidSignatureException"


async def aws_error(line: Line, type: str, text: str, status: int) -> None:
    """Send a rejection as AWS does: the type in a header, the text in the body."""
    await line.head(status, "application/json", x_amzn_ErrorType=f"{type}:http://x/", x_amzn_RequestId="r-1")  # fmt: skip
    await line.send(json.dumps({"message": text}))
    await line.end()


def aws(answer: Answer, **expected: str) -> Answer:
    """Return `answer` behind the verification of signatures."""

    async def verified(heard: Heard, line: Line) -> None:
        if wrong := fault(heard, **expected):
            await aws_error(line, wrong, "The request is not authorized.", 403)
        else:
            await answer(heard, line)

    return verified


def streams(*messages: bytes) -> Answer:
    """Return an answer that is an event stream, cut into pieces of 37 bytes."""

    async def answer(_: Heard, line: Line) -> None:
        await line.head(kind=STREAM)
        data = b"".join(messages)
        for at in range(0, len(data), 37):
            await line.send(data[at : at + 37])
        await line.end()

    return answer


def paths(**answers: Answer) -> Answer:
    """Return an answer by the end of the path: `converse_stream` for `/converse-stream`."""

    async def answer(heard: Heard, line: Line) -> None:
        name = re.split(r"[/:]", heard.path.partition("?")[0])[-1].replace("-", "_")
        if name not in answers:
            await whole(line, {"message": f"no {heard.path}"}, 404)
        else:
            await answers[name](heard, line)

    return answer


def replies(body: dict | Callable[[Heard], dict], status: int = 200) -> Answer:
    async def answer(heard: Heard, line: Line) -> None:
        await whole(line, body(heard) if callable(body) else body, status)

    return answer


def sse(*events: dict, named: bool = False) -> Answer:
    """Return an answer of server-sent events."""

    async def answer(_: Heard, line: Line) -> None:
        await line.head(kind="text/event-stream")
        for one in events:
            name = f"event: {one['type']}\n" if named else ""
            await line.send(f"{name}data: {json.dumps(one)}\n\n")
        await line.end()

    return answer
