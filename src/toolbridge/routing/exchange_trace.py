"""What was sent to providers for one request, and what came back.

`AnswerAttempts` and the requests that it sends fill an `ExchangeTrace` while they run. It holds
references to bytes that exist anyway and compares nothing: `toolbridge explain` does that when it
is asked, and `toolbridge serve --record` writes the bytes to a file. Without a trace nothing is kept.
"""

import random
import time
from collections.abc import Callable, Mapping

from toolbridge.core.messages import Loss, Problem
from toolbridge.routing.models import Route
from toolbridge.translate import PreparedRequest


class TracedAttempt:
    """One request to a provider."""

    def __init__(self, route: Route, at: float) -> None:
        self.route = route
        self.at = at
        """Seconds since the client's request."""
        self.path = ""
        self.body = b""
        self.headers: Mapping[str, str] = {}
        """The headers of the request without the provider's credentials."""
        self.ready: PreparedRequest | None = None
        """The prepared request of an attempt without a body of its own: a node or the demo model."""
        self.passed_through = False
        self.tool_mode = ""
        self.dialect = ""
        self.names: Mapping[str, str] = {}
        """Names of tools at the target → the client's names."""
        self.losses: tuple[Loss, ...] = ()
        self.status = 0
        self.response_headers: Mapping[str, str] = {}
        self.pieces: list[tuple[float, bytes]] = []
        """The bytes of the response with their times, if the trace records."""
        self.problem: Problem | None = None
        self.outcome = ""
        """Why the request was sent again; empty for the last attempt."""


class ExchangeTrace:
    """The attempts to answer one request of a client."""

    def __init__(
        self,
        *,
        records: bool = False,
        seed: bytes = b"",
        on_bytes: Callable[[int], None] | None = None,
    ) -> None:
        self.records = records
        """Whether the bytes of responses are kept."""
        self.seed = seed or random.randbytes(16)  # noqa: S311  ids need to differ, not to be secret
        """The seed of the ids in the answer; a replay with the same seed writes the same ids."""
        self.started = time.monotonic()
        self.attempts: list[TracedAttempt] = []
        self._on_bytes = on_bytes
        """Called with the size of each recorded piece."""

    def begin(self, route: Route) -> TracedAttempt:
        """Return a new attempt."""
        attempt = TracedAttempt(route, self.elapsed)
        self.attempts.append(attempt)
        return attempt

    @property
    def elapsed(self) -> float:
        return time.monotonic() - self.started

    def sent(self, path: str, body: bytes, headers: Mapping[str, str]) -> None:
        """Note the bytes of the current attempt."""
        if self.attempts:
            current = self.attempts[-1]
            current.path, current.body, current.headers = path, body, headers

    def answered(self, status: int, headers: Mapping[str, str]) -> None:
        """Note the head of the response to the current attempt."""
        if self.attempts:
            self.attempts[-1].status = status
            self.attempts[-1].response_headers = headers

    def received(self, piece: bytes) -> None:
        """Keep a piece of the response."""
        if self.attempts and piece:
            self.attempts[-1].pieces.append((self.elapsed, piece))
            if self._on_bytes is not None:
                self._on_bytes(len(piece))

    def failed(self, problem: Problem, outcome: str = "") -> None:
        """Note how the current attempt failed, and why the request is sent again."""
        if self.attempts:
            self.attempts[-1].problem = problem
            self.attempts[-1].outcome = outcome
