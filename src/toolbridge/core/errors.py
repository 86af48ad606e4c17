"""Errors, grouped by who can correct them.

    ToolbridgeError
    ├── ClientError                 the caller can correct it
    │   ├── MalformedRequest        malformed_request      400
    │   ├── BadHttp                 bad_http               400
    │   ├── Unsupported             unsupported            400
    │   │   ├── ThinkingUnsupported thinking_not_supported 400
    │   │   └── UnknownEncoding     unknown_encoding       415
    │   ├── LoopDetected            loop_detected          400
    │   ├── Overflow                context_overflow       400
    │   ├── TooLarge                too_large              413
    │   ├── UnknownModel            unknown_model          404
    │   ├── UnknownRoute            unknown_route          404
    │   ├── UnknownAnswer           unknown_answer         404
    │   ├── IdempotencyConflict     idempotency_conflict   409
    │   ├── WrongMethod             wrong_method           405
    │   └── NotAllowed              not_allowed            403
    │       └── Unauthenticated     unauthenticated        401
    ├── UpstreamError               the provider failed
    │   ├── Rejected                rejected               its own status
    │   │   ├── RateLimited         rate_limited           429
    │   │   └── Overloaded          overloaded             529
    │   ├── BrokenWire              broken_wire            502
    │   ├── Truncated               truncated              502
    │   ├── Unreachable             unreachable            502
    │   └── TimedOut                timed_out              504
    ├── ModelError                  broken_call            502
    │   ├── SchemaMismatch          schema_mismatch        502
    │   ├── Refused                 refused                502
    │   └── Incomplete              incomplete             502
    ├── ConfigError                 config                 500
    ├── Busy                        busy                   503
    └── Aborted                     aborted                499

Before the first byte of a response, an error is an HTTP status with the error body of the client's
API; after it, the error is the last event of the stream. Both are encoded from a `Problem`.
"""

import re
from typing import ClassVar

from msgspec.structs import replace

from toolbridge.core.messages import Problem

COMMAND_LINE = "the command line"
"""Where a wrong value is that the user has given with a command."""


class ToolbridgeError(Exception):
    kind: ClassVar[str] = "internal"
    status: ClassVar[int] = 500

    def __init__(
        self,
        text: str,
        *,
        where: str = "",
        status: int = 0,
        retry_after: float | None = None,
        provider: str = "",
        permanent: bool = False,
    ) -> None:
        super().__init__(text)
        self.problem = Problem(
            kind=self.kind,
            text=text,
            where=where,
            status=status,
            retry_after=retry_after,
            provider=provider,
            permanent=permanent,
        )

    def __str__(self) -> str:
        where = self.problem.where
        return f"{where}: {self.problem.text}" if where else self.problem.text


class ClientError(ToolbridgeError):
    kind = "malformed_request"
    status = 400


class MalformedRequest(ClientError):
    pass


class IdempotencyConflict(ClientError):
    """An `Idempotency-Key` was used before with another request."""

    kind = "idempotency_conflict"
    status = 409


class UnknownAnswer(ClientError):
    """There is no kept answer with the id in `Last-Event-ID`."""

    kind = "unknown_answer"
    status = 404


class BadHttp(ClientError):
    """The bytes are not a valid HTTP/1.1 request, or exceed a limit of the head.

    `status` is the HTTP status to answer with: 400, 408, 414, 417, 431, 501 or 505.
    """

    kind = "bad_http"


class Unsupported(ClientError):
    kind = "unsupported"


class ThinkingUnsupported(Unsupported):
    kind = "thinking_not_supported"


class UnknownEncoding(Unsupported):
    """The body has a `Content-Encoding` that this server does not read."""

    kind = "unknown_encoding"
    status = 415


class LoopDetected(ClientError):
    """The conversation repeats one call with the same result, more often than `loop_guard` allows."""

    kind = "loop_detected"


class Overflow(ClientError):
    kind = "context_overflow"


class TooLarge(ClientError):
    kind = "too_large"
    status = 413


class UnknownModel(ClientError):
    kind = "unknown_model"
    status = 404

    def __init__(
        self, text: str, *, where: str = "", provider: str = "", nearest: tuple[str, ...] = ()
    ) -> None:
        super().__init__(text, where=where, provider=provider)
        if nearest:
            self.problem = replace(self.problem, nearest=nearest)

    @property
    def nearest(self) -> tuple[str, ...]:
        """The known model names that are most similar to the requested one."""
        return self.problem.nearest


class UnknownRoute(ClientError):
    kind = "unknown_route"
    status = 404


class WrongMethod(ClientError):
    kind = "wrong_method"
    status = 405


class NotAllowed(ClientError):
    kind = "not_allowed"
    status = 403


class Unauthenticated(NotAllowed):
    kind = "unauthenticated"
    status = 401


class UpstreamError(ToolbridgeError):
    kind = "rejected"
    status = 502


class Rejected(UpstreamError):
    pass


class RateLimited(Rejected):
    kind = "rate_limited"
    status = 429


class Overloaded(Rejected):
    kind = "overloaded"
    status = 529


class BrokenWire(UpstreamError):
    kind = "broken_wire"


class Truncated(UpstreamError):
    kind = "truncated"


class Unreachable(UpstreamError):
    kind = "unreachable"


class TimedOut(UpstreamError):
    kind = "timed_out"
    status = 504


class ModelError(ToolbridgeError):
    """The model wrote something unusable."""

    kind = "broken_call"
    status = 502


class SchemaMismatch(ModelError):
    kind = "schema_mismatch"


class Refused(ModelError):
    """The model refused to answer. Raised by `Client.ask` only; in responses it is a stop reason."""

    kind = "refused"


class Incomplete(ModelError):
    """The answer was cut off. Raised by `Client.ask` only; in responses it is a stop reason."""

    kind = "incomplete"


class ConfigError(ToolbridgeError):
    kind = "config"


class Busy(ToolbridgeError):
    """The server has reached its limit of connections."""

    kind = "busy"
    status = 503


class Aborted(ToolbridgeError):
    """The client disconnected or aborted the request."""

    kind = "aborted"
    status = 499


def _leaves(root: type[ToolbridgeError]) -> dict[str, type[ToolbridgeError]]:
    found = {root.kind: root}
    for child in root.__subclasses__():
        found |= _leaves(child)
    return found


KINDS = _leaves(ToolbridgeError)


def _class_of(kind: str) -> type[ToolbridgeError]:
    """Return the class of `kind`; other packages define further classes."""
    return KINDS.get(kind) or _leaves(ToolbridgeError).get(kind, ToolbridgeError)


def error_of(problem: Problem) -> ToolbridgeError:
    """Return `problem` as an exception of its class."""
    error = _class_of(problem.kind)(problem.text)
    error.problem = problem
    return error


def name_provider(problem: Problem, provider: str) -> Problem:
    """Return `problem` with the name of its provider, also in the text."""
    if problem.provider:
        return problem
    text = problem.text
    if not mentions(text, provider):
        text = f"{provider}: {text}"
    return replace(problem, provider=provider, text=text)


def mentions(text: str, provider: str) -> bool:
    """Return whether `text` contains the provider's name as a separate word."""
    return re.search(rf"(?<![\w-]){re.escape(provider)}(?![\w-])", text) is not None


def status_of(problem: Problem) -> int:
    """Return the HTTP status for `problem`."""
    if problem.kind in {"rejected", "bad_http"} and problem.status >= 400:
        return problem.status
    return _class_of(problem.kind).status
