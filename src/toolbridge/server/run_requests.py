"""The last requests of clients to structured streams, and the model calls of their runs.

A response of `/v1/stream` has the id of a request that calls no model itself. `explain` leads from
it to the calls of the run, which have rows of their own. The body of a request is not kept here.
"""

from collections import deque

import msgspec

from toolbridge.server.request_log import Entry

_MOST = 1000
"""Requests that are kept, and calls of models."""


class RunRequest(msgspec.Struct, frozen=True):
    """One request that has started or followed a run."""

    id: str
    owner: str
    path: str
    run: str
    at: float
    status: int


class RunRequests:
    """The requests to structured streams of one process."""

    def __init__(self) -> None:
        self._requests: deque[RunRequest] = deque(maxlen=_MOST)
        self._calls: deque[tuple[str, Entry]] = deque(maxlen=_MOST)

    def add(self, entry: Entry, owner: str, run: str, status: int = 200) -> None:
        """Keep a request of a client whose response is a run."""
        path = str(entry.fields.get("url.path", ""))
        self._requests.append(RunRequest(entry.id, owner, path, run, entry.at, status))

    def add_call(self, run: str, entry: Entry) -> None:
        """Keep a call of the model, which begins now."""
        self._calls.append((run, entry))

    def find(self, id: str, owner: str) -> RunRequest | None:
        """Return a request of an owner by its id, or the newest one for `last`."""
        for one in reversed(self._requests):
            if one.owner == owner and id in {one.id, "last"}:
                return one
        return None

    def calls_of(self, run: str) -> list[Entry]:
        """Return the entries of the model calls of a run; none if another process runs it."""
        return [entry for one, entry in self._calls if one == run]
