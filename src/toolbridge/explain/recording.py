"""A recording: the bytes of both sides of one request, without secrets.

`toolbridge serve --record` writes one file per request, `toolbridge replay` reads it. Bytes are kept
as text with their times, so that a file can be read before it is sent with a bug report. Secrets
are masked before anything is written, also those that a stream splits between its events.
"""

from collections.abc import Sequence
from itertools import pairwise

import msgspec

from toolbridge.core.errors import MalformedRequest
from toolbridge.core.json import JsonObject, dumps, loads
from toolbridge.core.messages import Problem
from toolbridge.core.redacted_lines import redact_lines
from toolbridge.core.redaction import MASK, Redactor

FORMAT = 1
_HEADER_WORDS = ("key", "auth", "token", "secret", "cookie", "credential", "password")

_COUNTS = ("-token-count", "ratelimit", "rate-limit")
"""Names with `token` in them that are counts of tokens."""


class Piece(msgspec.Struct, frozen=True, omit_defaults=True):
    """Bytes that arrived or were sent at once."""

    at: float
    """Seconds since the client's request."""
    text: str
    keep_alive: bool = False


class RecordedBytes(msgspec.Struct, frozen=True, omit_defaults=True):
    """The body of a response in its pieces."""

    pieces: tuple[Piece, ...] = ()
    binary: bool = False
    """Whether a character stands for a byte (ISO 8859-1), because the bytes are not UTF-8."""

    def data(self) -> list[bytes]:
        """Return the bytes of each piece."""
        return [piece.text.encode("latin-1" if self.binary else "utf-8") for piece in self.pieces]


class RecordedAttempt(msgspec.Struct, frozen=True, omit_defaults=True):
    """One request to a provider, and its response."""

    at: float
    path: str
    body: str
    headers: dict[str, str] = {}
    status: int = 0
    """0 if no response arrived."""
    answered_at: float = 0.0
    response_headers: dict[str, str] = {}
    response: RecordedBytes = RecordedBytes()
    broken: Problem | None = None
    """Why the response did not arrive, or not to its end."""


class RecordedRoute(msgspec.Struct, frozen=True, omit_defaults=True):
    """A model of a chain that was tried."""

    route: JsonObject
    estimate: JsonObject = {}
    """The token count of the request for this model."""


class RecordedClient(msgspec.Struct, frozen=True, omit_defaults=True):
    """The client's request."""

    method: str
    path: str
    body: str
    query: str = ""
    headers: dict[str, str] = {}


class RecordedResponse(msgspec.Struct, frozen=True, omit_defaults=True):
    """The response that the client got."""

    status: int
    headers: dict[str, str] = {}
    body: RecordedBytes = RecordedBytes()
    client_left: bool = False
    """Whether the client closed the connection before the end."""


class Recording(msgspec.Struct, frozen=True, omit_defaults=True):
    """Both sides of one request."""

    toolbridge_recording: int
    """The version of this format."""
    id: str
    time: float
    seed: str
    """The seed of the ids in the answer, in hex."""
    client: RecordedClient
    response: RecordedResponse
    attempts: tuple[RecordedAttempt, ...] = ()
    api: str = ""
    """The API of the client."""
    model: str = ""
    """The model that the client asked for."""
    route: JsonObject = {}
    """The route that answered, or was tried last."""
    failed_routes: tuple[RecordedRoute, ...] = ()
    """The models of a chain that were tried before it, in order."""
    settings: JsonObject = {}
    """Settings of the gateway that the answer depends on."""
    estimate: JsonObject = {}
    """The token count of the request."""
    truncated: bool = False
    """Whether bytes were left out, because there were too many."""


def read_recording(data: bytes, name: str) -> Recording:
    """Return the recording in a file; raise `MalformedRequest` for another file."""
    try:
        found = msgspec.json.decode(data, type=Recording)
    except msgspec.DecodeError as error:
        raise MalformedRequest(
            f"{name} is not a recording ({error}); `toolbridge serve --record DIR` writes them"
        ) from None
    if found.toolbridge_recording != FORMAT:
        raise MalformedRequest(
            f"{name} has the format {found.toolbridge_recording} of another version of toolbridge; "
            f"this one reads {FORMAT}"
        )
    return found


# ── redaction ────────────────────────────────────────────────────────────────


def is_secret_header(name: str) -> bool:
    """Whether a header of this name may hold a key, a login or a cookie."""
    lower = name.lower()
    counts = any(word in lower for word in _COUNTS)
    return not counts and any(word in lower for word in _HEADER_WORDS)


def redact_headers(headers: Sequence[tuple[str, str]], redactor: Redactor) -> dict[str, str]:
    return {
        name: MASK if is_secret_header(name) and value else redactor.text(value)
        for name, value in headers
    }


def redact_body(data: bytes, redactor: Redactor) -> str:
    """Return a body without secrets; one without secrets keeps its bytes."""
    text = data.decode("utf-8", "replace")
    return _redact_json(text, redactor) or redactor.text(text)


def _redact_json(text: str, redactor: Redactor) -> str:
    """Return JSON without secrets, in its own spelling if it has none; empty for other text."""
    try:
        value = loads(text)
    except ValueError:
        return ""
    redacted = redactor.value(value)
    if redacted != value:
        return dumps(redacted)
    whole = redactor.text(text)
    return text if whole == text else dumps(redactor.value(loads(text)))


def redact_pieces(pieces: Sequence[tuple[float, bytes, bool]], redactor: Redactor) -> RecordedBytes:
    """Return the bytes of a response without secrets, also those that several events share."""
    data = b"".join(piece for _, piece, _ in pieces)
    try:
        text, binary = data.decode(), False
    except UnicodeDecodeError:
        text, binary = data.decode("latin-1"), True
    cuts = _cuts([piece for _, piece, _ in pieces], data, binary=binary)
    lines = text.splitlines(keepends=True)
    lines = [text] if _redact_json(text, redactor) else lines
    masked = redact_lines(lines, redactor)
    found = _cut(lines, masked, cuts)
    return RecordedBytes(
        tuple(
            Piece(round(at, 4), shown, beat)
            for (at, _, beat), shown in zip(pieces, found, strict=True)
        ),
        binary,
    )


def _cuts(pieces: Sequence[bytes], data: bytes, *, binary: bool) -> list[int]:
    """Return the character positions at which pieces end, after the character that is cut."""
    ends: list[int] = []
    at = 0
    for piece in pieces:
        at += len(piece)
        end = at
        while not binary and end < len(data) and data[end] & 0xC0 == 0x80:
            end += 1
        ends.append(end if binary else len(data[:end].decode()))
    return ends


def _cut(lines: Sequence[str], masked: Sequence[str], cuts: Sequence[int]) -> list[str]:
    """Return the masked text in pieces that end where the original pieces ended.

    A cut inside a line that was changed moves to the end of the line.
    """
    ends: list[int] = []
    starts, new_starts = [0], [0]
    for line, shown in zip(lines, masked, strict=True):
        starts.append(starts[-1] + len(line))
        new_starts.append(new_starts[-1] + len(shown))
    number = 0
    for cut in cuts:
        while number < len(lines) and starts[number + 1] <= cut:
            number += 1
        inside = cut - starts[number]
        if number < len(lines) and inside and lines[number] != masked[number]:
            ends.append(new_starts[number + 1])
        else:
            ends.append(new_starts[number] + inside)
    text = "".join(masked)
    return [text[start:end] for start, end in pairwise([0, *ends])]
