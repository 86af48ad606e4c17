"""How the answer to one request is kept: by its headers and the settings."""

import re
from hashlib import blake2b

import msgspec

from toolbridge.core.errors import MalformedRequest
from toolbridge.policy.repeats import REPEAT_HEADERS, is_retry
from toolbridge.server.http import IncomingRequest
from toolbridge.server.kept_paths import RESUME
from toolbridge.server_settings import ServerSettings
from toolbridge.tools.keys import canonical

ANSWER = "x-toolbridge-answer"
"""The header with the id of a kept answer."""
GRACE = 30.0
"""Seconds for which an answer is read on if the client asks for it without a number."""
LONGEST_GRACE = 600.0
LONGEST_KEY = 255
_VARYING = ("anthropic-version", "anthropic-beta", "openai-beta", *REPEAT_HEADERS[1:])
"""Headers that a retry sends as the first request did."""


class AnswerWish(msgspec.Struct, frozen=True):
    """How one answer is kept."""

    keep: float
    """Seconds for which the answer can be repeated after its end."""
    most: int
    """The most bytes of the answer that are kept."""
    api: str = ""
    key: str = ""
    """The `Idempotency-Key`."""
    request: str = ""
    """The hash of the request."""
    print: str = ""
    """The hash by which a retry without a key finds an answer whose client has left."""
    retries: bool = False
    """Whether this request may be such a retry."""
    grace: float = 0.0
    """Seconds for which the answer is read on after its client has left."""
    ids: bool = False
    """Whether the events of a stream get ids."""


def wish_of(
    request: IncomingRequest, config: ServerSettings, api: str, body: bytes = b""
) -> AnswerWish:
    """Return how the answer to a request is kept; raise `MalformedRequest`."""
    key = request.header("idempotency-key").strip()
    if not key and b"idempotency-key" in request.head.headers:
        raise MalformedRequest("must not be empty", where="Idempotency-Key")
    if len(key) > LONGEST_KEY:
        text = f"may have at most {LONGEST_KEY} characters"
        raise MalformedRequest(text, where="Idempotency-Key")
    grace = _grace(request.header(RESUME), config)
    asked = _hash(request.path, request.query("alt"), _canonical(body))
    fixed = (request.header(name) for name in _VARYING)
    follows = bool(grace) and config.resume_repeats != "off"
    return AnswerWish(
        config.resume_keep,
        config.resume_bytes,
        api,
        key,
        asked,
        _hash(asked, *fixed) if follows and not key else "",
        follows and (config.resume_repeats == "any" or is_retry(_headers(request))),
        grace,
        bool(request.header(RESUME) or request.header("last-event-id")),
    )


def parse_event_id(event_id: str) -> tuple[str, int]:
    """Return the answer and the number in an event id; raise `MalformedRequest`."""
    form = re.fullmatch(r"(req_[0-9a-f]{16}):([0-9]{1,9})", event_id)
    if form is None:
        text = (
            f"{event_id[:80]!r} is not an event id of this gateway; ids look like "
            "req_0123456789abcdef:17"
        )
        raise MalformedRequest(text, where="Last-Event-ID")
    return form[1], int(form[2])


def _grace(asked: str, config: ServerSettings) -> float:
    word = asked.strip().lower()
    if word in {"off", "0"}:
        return 0.0
    if word in {"", "on", "true"}:
        return config.resume_grace or (GRACE if word else 0.0)
    if re.fullmatch(r"[0-9]{1,6}(\.[0-9]{1,3})?", word) is None:
        text = "must be a number of seconds, `on` or `off`"
        raise MalformedRequest(text, where="X-Toolbridge-Resume")
    return min(float(word), max(LONGEST_GRACE, config.resume_grace))


def _headers(request: IncomingRequest) -> dict[str, str]:
    return {name: value for name in REPEAT_HEADERS if (value := request.header(name))}


def _canonical(body: bytes) -> str:
    """Return the body as canonical JSON, so that a client may write it in another order."""
    try:
        return canonical(msgspec.json.decode(body)).decode()
    except msgspec.DecodeError:
        return body.decode("latin-1")


def _hash(*parts: str) -> str:
    return blake2b("\0".join(parts).encode(), digest_size=16).hexdigest()
