"""What was sent to providers for one request, and what came back.

`AnswerAttempts` and the requests that it sends fill an `ExchangeTrace` while they run. It holds
references to bytes that exist anyway and compares nothing: `toolbridge explain` does that when it
is asked, and `toolbridge serve --record` writes the bytes to a file. Without a trace nothing is kept.
"""

import random
import time
from collections.abc import Mapping
from functools import partial
from types import MappingProxyType

import msgspec

from toolbridge.core.json import JsonObject
from toolbridge.core.messages import Loss, Problem
from toolbridge.core.server_tool_text import outcome_summary
from toolbridge.core.server_tools import ServerToolOutcome
from toolbridge.routing.route import Route
from toolbridge.translate import PreparedRequest

MAX_RECORDED = 16 * 1024 * 1024
"""Bytes of the responses of one request that a recording holds."""
_NOTHING: Mapping[str, str] = MappingProxyType({})
"""A default that msgspec does not copy for each object, as it does with a dictionary."""


class TracedAttempt(msgspec.Struct, eq=False):
    """One request to a provider."""

    route: Route
    at: float
    """Seconds since the client's request."""
    path: str = ""
    body: bytes = b""
    headers: Mapping[str, str] = _NOTHING
    """The headers of the request without the provider's credentials."""
    ready: PreparedRequest | None = None
    """The prepared request of an attempt without a body of its own: a node or the demo model."""
    passed_through: bool = False
    tool_mode: str = ""
    dialect: str = ""
    names: Mapping[str, str] = _NOTHING
    """Names of tools at the target → the client's names."""
    losses: tuple[Loss, ...] = ()
    status: int = 0
    response_headers: Mapping[str, str] = _NOTHING
    pieces: list[tuple[float, bytes]] = []
    """The bytes of the response with their times, if the trace records."""
    answered_at: float = 0.0
    broken: Problem | None = None
    """Why the response did not arrive, or not to its end."""
    problem: Problem | None = None
    outcome: str = ""
    """Why the request was sent again; empty for the last attempt."""


class TracedToolRun:
    """One run of a server tool by the gateway."""

    def __init__(self, name: str, server: str, arguments: JsonObject, at: float) -> None:
        self.name = name
        self.server = server
        """The label of the MCP server; empty for other tools."""
        self.arguments = arguments
        self.at = at
        """Seconds since the client's request."""
        self.seconds = 0.0
        self.result = "it has not ended"

    def ended(self, at: float, outcome: ServerToolOutcome) -> None:
        """Note the end of the run; the texts of results are not kept."""
        self.seconds = at - self.at
        self.result = outcome_summary(outcome)


class ExchangeTrace(msgspec.Struct, eq=False):
    """The attempts to answer one request of a client."""

    # Ids need to differ, not to be secret.
    seed: bytes = msgspec.field(default_factory=partial(random.randbytes, 16))
    """The seed of the ids in the answer; a replay with the same seed writes the same ids."""
    records: bool = False
    """Whether the bytes of responses are kept."""
    started: float = msgspec.field(default_factory=time.monotonic)
    attempts: list[TracedAttempt] = []
    tool_runs: list[TracedToolRun] = []
    """The server tools that the gateway ran, in the order of their beginnings."""
    _room: int = MAX_RECORDED
    truncated: bool = False
    """Whether bytes were left out, because the request has too many."""

    def begin(self, route: Route) -> TracedAttempt:
        """Return a new attempt."""
        attempt = TracedAttempt(route, time.monotonic() - self.started)
        self.attempts.append(attempt)
        return attempt

    def ran(self, name: str, server: str, arguments: JsonObject) -> TracedToolRun:
        """Note the beginning of a run of a server tool."""
        run = TracedToolRun(name, server, arguments, self.elapsed)
        self.tool_runs.append(run)
        return run

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
            current = self.attempts[-1]
            current.status = status
            current.answered_at = time.monotonic() - self.started
            current.response_headers = headers

    def received(self, piece: bytes) -> None:
        """Keep a piece of the response."""
        if self.attempts and piece and self.take_room(len(piece)):
            self.attempts[-1].pieces.append((self.elapsed, piece))

    def broke(self, problem: Problem) -> None:
        """Note that the response to the current attempt did not arrive or was cut."""
        if self.attempts:
            self.attempts[-1].broken = problem

    def take_room(self, size: int) -> bool:
        """Return whether `size` further bytes may be kept."""
        self._room -= size
        self.truncated = self.truncated or self._room < 0
        return not self.truncated

    def failed(self, problem: Problem, outcome: str = "") -> None:
        """Note how the current attempt failed, and why the request is sent again."""
        if self.attempts:
            self.attempts[-1].problem = problem
            self.attempts[-1].outcome = outcome
