"""The exceptions of structured streams."""

from toolbridge.core.errors import ToolbridgeError
from toolbridge.core.json import maybe_object
from toolbridge.structured.events import RunError

PASSING = frozenset({408, 425, 429})
_CODES = {"rate_limited": "too_many_runs", "unauthenticated": "not_allowed"}


class StreamFailed(ToolbridgeError):
    """A structured stream was rejected, lost its connection, or ended with an error.

    `code` is one of the codes of the wire, or `connection_lost`, `broken_stream`, `http_error`,
    `closed`, `degraded`.
    """

    kind = "stream_failed"
    status = 502

    def __init__(
        self,
        code: str,
        text: str,
        *,
        where: str = "",
        status: int = 0,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(text, where=where, status=status, retry_after=retry_after)
        self.code = code

    @property
    def http_status(self) -> int:
        """The HTTP status of a rejection; 0 for any other failure."""
        return self.problem.status

    @property
    def retry_after(self) -> float | None:
        return self.problem.retry_after

    @property
    def passing(self) -> bool:
        """Whether a retry may succeed."""
        status = self.http_status
        if status:
            return status >= 500 or status in PASSING
        return self.code in {"connection_lost", "broken_stream"}


def lost(text: str) -> StreamFailed:
    return StreamFailed("connection_lost", text)


def broken(text: str) -> StreamFailed:
    return StreamFailed("broken_stream", text)


def refusal_of(status: int, body: bytes, retry_after: str = "") -> StreamFailed:
    """Return the error for a response that is not a stream."""
    wait = float(retry_after) if retry_after.isdecimal() else None
    error = (maybe_object(body) or {}).get("error")
    if not isinstance(error, dict) or not isinstance(error.get("code"), str):
        shown = body[:200].decode("utf-8", "replace")
        text = f"the server answered {status}: {shown}".rstrip(": ")
        return StreamFailed("http_error", text, status=status, retry_after=wait)
    return StreamFailed(
        str(error["code"]),
        str(error.get("message") or error["code"]),
        where=str(error.get("where") or ""),
        status=status,
        retry_after=wait,
    )


def failure_of(error: ToolbridgeError) -> StreamFailed:
    """Return a toolbridge error as the failure of a stream."""
    if isinstance(error, StreamFailed):
        return error
    problem = error.problem
    return StreamFailed(
        _CODES.get(problem.kind, problem.kind),
        problem.text,
        where=problem.where,
        status=problem.status or error.status,
        retry_after=problem.retry_after,
    )


class StreamDegraded(StreamFailed):
    """The result is degraded: some members were invented so that it fits its schema.

    `value` is that result, `invented` the paths of the members that the model did not write.
    """

    def __init__(self, value: object, invented: tuple[str, ...], why: str = "") -> None:
        named = ", ".join(invented) or "nothing"
        text = f"the result is degraded; invented: {named}"
        hint = '. To accept it, pass on_degraded="accept"'
        super().__init__("degraded", f"{text}{f' ({why})' if why else ''}{hint}")
        self.value = value
        self.invented = invented


def failure_in(event: RunError) -> StreamFailed:
    return StreamFailed(event.code, event.message)
