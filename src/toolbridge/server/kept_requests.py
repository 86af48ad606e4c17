"""Past requests in memory, for `toolbridge explain`.

A `KeptRequest` holds references to the client's body, to the bodies that were sent, to the answer
without its media, and to the log entry. Nothing is compared or copied while a request is served:
`explanations.py` does that when it is asked. The oldest requests are dropped first.
"""

from collections import deque
from collections.abc import Callable
from functools import partial
from random import getrandbits

import msgspec

from toolbridge.core.caller import owner_of
from toolbridge.core.messages import Call, Message, Part, Text, Thinking
from toolbridge.routing.exchange_trace import ExchangeTrace
from toolbridge.routing.route import Route
from toolbridge.routing.router import TokenCount
from toolbridge.server.api_endpoint import ApiEndpoint
from toolbridge.server.http import HttpExchange
from toolbridge.server.request_log import Entry

_BASE = 2048
"""Bytes that a request takes besides its bodies."""
_WITH_TEXT = (Text, Thinking)
MOST = 1000
"""Requests that are kept, however small they are."""


class KeptRequest(msgspec.Struct, eq=False):
    """One request of a client, and what is needed to explain it."""

    id: str
    owner: str
    path: str
    ask: ApiEndpoint
    body: bytes
    entry: Entry
    trace: ExchangeTrace
    request_model: str = ""
    session: str = ""
    route: Route | None = None
    estimate: TokenCount | None = None
    estimates: dict[str, TokenCount] = {}
    """Address → the token count of the request there."""
    on_finish: Callable[["KeptRequest"], None] | None = None
    """Called once at the end, with the request."""
    status: int = 0
    duration: float = 0.0
    _answer_size: int = 0

    def finish(self, status: int) -> None:
        """Note the end of the request, and drop the media of its answer."""
        self.status = status
        entry = self.entry
        self.duration = entry.seconds if entry.took is None else entry.took
        entry.on_end = None
        if (message := entry.message) is not None:
            entry.message = self._without_media(message)
        on_finish, self.on_finish = self.on_finish, None
        if on_finish is not None:
            on_finish(self)

    def _without_media(self, message: Message) -> Message:
        """Return what is kept of an answer, and note its size."""
        kept: list[Part] = []
        for part in message.content:
            if isinstance(part, _WITH_TEXT):
                self._answer_size += len(part.text)
            elif isinstance(part, Call):
                self._answer_size += len(part.raw) + len(msgspec.json.encode(part.arguments))
            else:  # images and audio are too large
                continue
            kept.append(part)
        rest = message.alternatives or message.logprobs or message.envelope
        if len(kept) == len(message.content) and not rest:
            return message
        return msgspec.structs.replace(
            message, content=tuple(kept), alternatives=(), logprobs=(), envelope=None
        )

    @property
    def address(self) -> str:
        return self.route.address if self.route else ""

    @property
    def sent(self) -> bytes:
        """The body of the last request to a provider."""
        return self.trace.attempts[-1].body if self.trace.attempts else b""

    @property
    def size(self) -> int:
        size = _BASE + len(self.body) + self._answer_size
        for attempt in self.trace.attempts:
            size += len(attempt.body)
        for report in self.entry.healed:
            for step in report.steps:
                size += len(step.before) + len(step.after)
        return size


class KeptRequests:
    """The last requests, limited by their size in bytes."""

    def __init__(self, limit: int, seed: bytes = b"") -> None:
        self._limit = limit
        self._seed = seed
        """The seed of every answer's ids in a replay; otherwise each answer has its own."""
        self._kept: deque[KeptRequest] = deque()
        self._sizes: deque[int] = deque()
        self._size = 0

    def begin(
        self, exchange: HttpExchange, ask: ApiEndpoint, body: bytes, entry: Entry
    ) -> KeptRequest:
        """Return a new request, which is kept from its end on."""
        owner = owner_of(exchange.caller) if exchange.caller else ""
        # The default of the seed, without the calls of Python's `randbytes`.
        trace = ExchangeTrace(self._seed or getrandbits(128).to_bytes(16, "little"))
        kept = KeptRequest(exchange.id, owner, exchange.path, ask, body, entry, trace)
        entry.on_end = partial(self.add, kept)
        return kept

    def add(self, kept: KeptRequest, status: int) -> None:
        """Keep a request that has ended with `status`."""
        kept.finish(status)
        size = kept.size
        self._kept.append(kept)
        self._sizes.append(size)
        self._size += size
        while self._kept and (self._size > self._limit or len(self._kept) > MOST):
            self._kept.popleft()
            self._size -= self._sizes.popleft()

    def find(self, id: str, owner: str) -> KeptRequest | None:
        """Return a request of an owner by its id, or the newest one for `last`."""
        for kept in reversed(self._kept):
            if kept.owner == owner and id in {kept.id, "last"}:
                return kept
        return None

    def newest(self) -> list[KeptRequest]:
        """Return the requests of all callers, the newest first."""
        return list(reversed(self._kept))

    def before(self, kept: KeptRequest) -> list[KeptRequest]:
        """Return earlier requests of the same conversation to the same model, newest first.

        A client that names no conversation has one for each API and model.
        """
        wanted = (kept.owner, kept.session, kept.address, kept.path)
        return [
            one
            for one in reversed(self._kept)
            if one.entry.at < kept.entry.at
            and one.sent
            and (one.owner, one.session, one.address, one.path) == wanted
        ]
