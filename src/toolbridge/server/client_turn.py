"""One request of a client, and what is needed to write its response.

A turn outlives the failures of its providers: `serve_by` is called for each address of a chain that
the request is prepared for, and replaces what the address before it has set.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence

import msgspec

from toolbridge.core import events as ev
from toolbridge.core.answer_losses import all_losses
from toolbridge.core.codec import AnswerContext, Codec
from toolbridge.core.fold import Fold
from toolbridge.core.messages import Loss, Message, Request
from toolbridge.core.usage import Usage
from toolbridge.policy.failover import TriedAddress, chain_loss
from toolbridge.routing.charge import Charge, RequestSize
from toolbridge.routing.passthrough import PassedBytes, PassthroughRequest
from toolbridge.routing.route import Route
from toolbridge.routing.router import TokenCount
from toolbridge.routing.sources import Batch
from toolbridge.server.carried_headers import UPSTREAM_ID, headers_of_provider
from toolbridge.server.http import HttpExchange
from toolbridge.server.kept_requests import KeptRequest
from toolbridge.server.request_fields import note_model
from toolbridge.server.request_log import Entry

MAX_HEADER = 1000
TRIED = "x-toolbridge-tried"
WARNING = "x-toolbridge-warning"


class ClientTurn(msgspec.Struct, eq=False):
    """One client request: how it is served at this moment, and what is reported about it."""

    exchange: HttpExchange
    entry: Entry
    codec: Codec
    request: Request
    """The request as the client sent it, without what its key may not use."""
    kept: KeptRequest
    edits: tuple[Loss, ...]
    """What the gateway itself has changed in the request, by scopes and by the loop guard."""
    from_agent: bool
    """Whether the client is a coding agent that attaches options its user did not choose."""
    asked: AnswerContext
    charge: Charge | None = None
    counted: TokenCount | None = None
    """The tokens of the prompt; None for an answer that needs no model."""
    passing: PassthroughRequest | None = None
    """The request in passthrough; None for a translated one."""
    passes: int = 1
    """Requests to the model for the answer; more than one if the gateway runs tools."""
    same_api: bool = False
    tried: Sequence[TriedAddress] = ()
    _address: str = ""
    _returned: dict[str, str] = {}
    """The provider's headers that are sent to the client."""

    @property
    def passed(self) -> PassedBytes | None:
        """The provider's own bytes, in passthrough."""
        return None if self.passing is None else self.passing.passed

    def serve_by(self, route: Route, tried: Sequence[TriedAddress]) -> None:
        """Note the route that is tried now."""
        self.same_api = route.provider_config.api == self.codec.name
        note_model(self.entry, self.codec.name, self.request, route)
        self.kept.route = route
        self.exchange.extra_headers["x-toolbridge-model"] = route.address
        self._address = route.address
        if tried:
            self.note_tried(tried)
            self.entry.fields["routes.tried"] = [*(one.address for one in tried), route.address]
            self.on_head({})
        if tried or self.edits:
            self.lose(())

    def reserve(self, route: Route) -> Awaitable[None] | None:
        """Reserve for `route` what the request may use; raise if the key has too little left.

        Return what the caller must await, None if nothing has to be reserved.
        """
        charge, counted = self.charge, self.counted
        if charge is None:
            return None
        if counted is None:
            charge.leave()
            return None
        asked = self.asked.request
        size = RequestSize(counted.tokens, asked.max_tokens, asked.sampling.n or 1)
        # The bytes of other exchanges go elsewhere than to a connection.
        waits = type(self.exchange) is HttpExchange
        if charge.key is not None:
            return charge.fit(route, size, waits=waits)
        charge.use(route, size, waits=waits)
        return None

    def note_tried(self, tried: Sequence[TriedAddress]) -> None:
        """Report the addresses that did not answer, in the log and in a header."""
        self.tried = tuple(tried)
        self.entry.fields["routes.tried"] = [one.address for one in tried]
        self.entry.tried = [f"{one} {one.problem.text}".strip() for one in tried]
        self.entry.tried_providers = [
            (one.address.partition("/")[0], "passed over" if one.passed_over else one.failure)
            for one in tried
        ]
        self.exchange.extra_headers[TRIED] = shortened("; ".join(map(str, tried)), len(tried))

    def note_failed(self, tried: Sequence[TriedAddress]) -> None:
        """Report the addresses of a chain that failed; none of them answered instead of another."""
        instead = chain_loss(self.tried, self._address) if self.tried else None
        self.note_tried(tried)
        if self._address in {one.address for one in tried}:
            self._address = ""
            self.lose(tuple(loss for loss in self.entry.losses if loss != instead))

    def on_head(self, headers: Mapping[str, str]) -> None:
        """Send the headers of this attempt instead of those of the last one."""
        for name in self._returned:
            self.exchange.extra_headers.pop(name, None)
        self._returned = headers_of_provider(headers, same_api=self.same_api)
        self.exchange.extra_headers.update(self._returned)
        if id := self._returned.get(UPSTREAM_ID):
            self.entry.fields["upstream.request.id"] = id

    def lose(self, losses: tuple[Loss, ...]) -> None:
        """Report what the provider's API cannot express, in the log and in a header."""
        if not (losses or self.edits or self.tried or self.entry.losses):
            return
        losses = tuple(dict.fromkeys((*self.edits, *losses)))
        if self.tried and self._address:
            instead = chain_loss(self.tried, self._address)
            losses = (instead, *(loss for loss in losses if loss != instead))
        self.entry.losses = list(losses)
        self.exchange.extra_headers.pop(WARNING, None)
        if reported := [loss for loss in losses if not loss.minor]:
            self.exchange.extra_headers[WARNING] = warning(reported)

    def lose_of_answer(self, message: Message) -> None:
        """Report what the client's API cannot express; in the header if it is not sent yet."""
        if lost := all_losses(message, self.codec.shows):
            self.lose(tuple(dict.fromkeys((*self.entry.losses, *lost))))

    def follow(self, fold: Fold) -> None:
        """Charge for the answer in `fold` if it is not read to its end."""
        if self.charge is not None:
            self.charge.reading = fold

    def charging_passes(self, count: Callable[[Request], int]) -> "TurnPasses":
        """Return the charges of an answer with several requests to the model; `count` its tokens."""
        return TurnPasses(self, count)

    def begin(self, batch: Batch, fold: Fold) -> None:
        """Record the time of the first events, and put the losses among them into the header.

        `fold` has these events.
        """
        self.entry.note_first_token()
        if self.passing is not None or not batch:
            return  # in passthrough nothing is lost
        if isinstance(batch[-1], ev.Finished):
            self.lose_of_answer(fold.message)
        elif ev.Lost in map(type, batch):
            self.lose_of_answer(Message(losses=tuple(fold.losses)))


class TurnPasses:
    """The requests to the model for one answer, while the gateway runs tools."""

    def __init__(self, turn: ClientTurn, count: Callable[[Request], int]) -> None:
        self._turn = turn
        self._count = count

    async def next_pass(self, usage: Usage, request: Request) -> None:
        """Charge for a pass, and reserve for the next one, of which the results are missing yet."""
        self._turn.passes += 1
        if (charge := self._turn.charge) is not None:
            await charge.next_pass(usage, self._asked(request, usage.output))

    async def refit(self, request: Request) -> None:
        """Reserve for the next pass, whose request is now known."""
        if (charge := self._turn.charge) is not None:
            await charge.refit(self._asked(request))

    def _asked(self, request: Request, more: int = 0) -> RequestSize:
        return RequestSize(self._count(request) + more, request.max_tokens)


def warning(losses: list[Loss]) -> str:
    """Return the text of the header for `losses`."""
    return shortened("; ".join(dict.fromkeys(str(loss) for loss in losses)), len(losses))


def shortened(text: str, count: int) -> str:
    """Return `text` for a header, cut if it is too long."""
    return text if len(text) <= MAX_HEADER else f"{text[:MAX_HEADER]}… ({count} in all)"


def healed_header(message: Message) -> str:
    """Return the header that lists what was healed in the calls of an answer."""
    steps = [
        f"{r.name or 'answer'}: {s.what} (level {s.level})" for r in message.healed for s in r.steps
    ]
    return "; ".join(steps)[:MAX_HEADER]
