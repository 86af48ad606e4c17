"""Serves kept answers over HTTP: new ones, repeats, and the rest of one that broke off."""

from contextlib import aclosing
from typing import TYPE_CHECKING

import msgspec

from toolbridge import codecs
from toolbridge.core import events as ev
from toolbridge.core.codec import AnswerContext, NumberedEncoder
from toolbridge.core.errors import MalformedRequest, Overloaded, Truncated, UnknownAnswer
from toolbridge.core.json import JsonObject, maybe_object
from toolbridge.core.messages import Problem, Request
from toolbridge.server.answer_log import AnswerEnd, AnswerEntry, AnswerHead, end_of, head_of
from toolbridge.server.http import HttpExchange
from toolbridge.server.kept_answers import FollowedAnswer, Produce
from toolbridge.server.request_log import Entry
from toolbridge.server.resume_wishes import ANSWER, parse_event_id, wish_of

if TYPE_CHECKING:
    from toolbridge.server.app import App

_GONE = (
    "the gateway process that read this answer was stopped; the answer is incomplete. "
    "Send the request again"
)
_CUT = "the rest of the answer was not kept: it has more than `resume_bytes`"


async def serve(
    app: "App", exchange: HttpExchange, entry: Entry, api: str, produce: Produce
) -> None:
    """Answer a request whose answer is kept, or continue one after `Last-Event-ID`."""
    if last := exchange.header("last-event-id"):
        await _continue(app, exchange, entry, api, last)
        return
    body = await exchange.body(app.config.max_body)
    wish = wish_of(exchange, app.config, api, body)
    while True:
        followed = await app.answers.open(exchange, wish, body, produce)
        if followed.repeats:
            _note_repeat(app, entry, api, followed.id)
        else:
            entry.handed_over = True
            app.release(exchange)  # the task that makes the answer counts instead
        try:
            await AnswerSender(exchange, entry, followed, ids=wish.ids).send()
        except AnswerLost:
            if not followed.repeats:
                raise
            del entry.fields["toolbridge.repeat_of"]
        else:
            return


async def _continue(app: "App", exchange: HttpExchange, entry: Entry, api: str, last: str) -> None:
    id, after = parse_event_id(last)
    wish = wish_of(exchange, app.config, api)
    followed = await app.answers.follow(id, exchange.caller, wish)
    _note_repeat(app, entry, api, id)
    sender = AnswerSender(exchange, entry, followed, ids=True)
    sender.api = api
    sender.after = after
    await sender.send()


async def continue_response(
    app: "App", exchange: HttpExchange, entry: Entry, response: str
) -> None:
    """`GET /v1/responses/{id}?stream=true&starting_after=N`: the events after that number."""
    given = exchange.query("starting_after")
    if given and not given.isdigit():
        raise MalformedRequest("must be the number of an event", where="starting_after")
    id = await app.answers.answer_of(response, exchange.caller)
    if not id:
        raise UnknownAnswer(
            f"the events of the response {response!r} are not kept; ask for a resumable answer "
            "with the header X-Toolbridge-Resume",
            where="stream",
        )
    api = "openai_responses"
    followed = await app.answers.follow(id, exchange.caller, wish_of(exchange, app.config, api))
    _note_repeat(app, entry, api, id)
    sender = AnswerSender(exchange, entry, followed, ids=False)
    sender.after_sequence = int(given) if given else -1
    await sender.send()


def _note_repeat(app: "App", entry: Entry, api: str, id: str) -> None:
    """Record a request that needed no model."""
    entry.note(surface=api)
    entry.fields["toolbridge.repeat_of"] = id
    app.metrics.add("toolbridge_repeats_total", 1, ("surface", api))


class _AnnouncedResponse(msgspec.Struct, frozen=True):
    """The response of the Responses API whose events are kept."""

    id: str = ""
    created_at: float = 0.0


class AnswerLost(Overloaded):
    """The process that made an answer died before the client got anything of it."""


class AnswerSender:
    """Sends an answer to one client."""

    def __init__(
        self, exchange: HttpExchange, entry: Entry, followed: FollowedAnswer, *, ids: bool
    ) -> None:
        self._exchange = exchange
        self._entry = entry
        self._followed = followed
        self._ids = ids
        self.api = ""
        """The only API whose answers are sent; empty for any."""
        self.after = 0
        """The number of the last event that the client has."""
        self.after_sequence = -1
        """Its own number, in the Responses API."""
        self._number = 0
        self._response = _AnnouncedResponse()
        """In the Responses API."""
        self._started = False
        self._head: AnswerHead | None = None
        self._end: AnswerEnd | None = None
        self._body = b""
        self._last = b""
        """The last event that is known."""

    async def send(self) -> None:
        lost: Problem | None = None
        try:
            async with aclosing(self._followed.batches) as batches:
                async for batch in batches:
                    await self._take(batch)
        except Truncated as error:
            # The client reads more slowly than others, and the rest is not kept.
            if self._head is None or self._head.whole:
                raise
            lost = error.problem
        head, end = self._head, self._end
        if head is None:
            raise AnswerLost("the answer ended before it began; send the request again")
        if self._number < self.after and end is not None and not end.cut:
            text = f"the answer has {self._number} events, and ended"
            raise MalformedRequest(text, where="Last-Event-ID")
        if head.whole:
            await self._exchange.reply(head.status, self._body, self._headers(head))
            return
        await self._start(head)
        if lost is not None or end is None or end.cut:
            problem = lost or Truncated(_GONE if end is None else _CUT).problem
            await self._exchange.write(self._failure(head, problem))
        elif end.finished:
            await self._exchange.finish()
        # Otherwise the connection closes without a clean end, as it did for the first client.

    async def _take(self, batch: list[AnswerEntry]) -> None:
        pieces: list[bytes] = []
        for entry in batch:
            if entry.kind == "head":
                self._head = self._accepted(head_of(entry))
            elif entry.kind == "end":
                self._end = end_of(entry)
            else:
                pieces.append(self._shown(entry.data))
        if self._head is None:
            return
        self._entry.note_first_token()
        data = b"".join(pieces)
        if self._head.whole:
            self._body += data
        elif self._number >= self.after:
            await self._start(self._head)
            if data:
                await self._exchange.write(data)

    def _accepted(self, head: AnswerHead) -> AnswerHead:
        """Return the head of an answer in the API of the request; raise `MalformedRequest`."""
        if self.api and head.api != self.api:
            text = f"this answer belongs to a request to {head.path}; continue it there"
            raise MalformedRequest(text, where="Last-Event-ID")
        return head

    async def _start(self, head: AnswerHead) -> None:
        """Send the head of a stream, once the answer is known to have the client's last event."""
        if not self._started:
            self._started = True
            await self._exchange.start(head.status, self._headers(head))

    def _headers(self, head: AnswerHead) -> dict[str, str]:
        return {**head.headers, ANSWER: self._followed.id}

    def _shown(self, event: bytes) -> bytes:
        """Return the event as this client gets it; nothing if it has the event."""
        self._number += 1
        self._last = event
        if self._head is None or not self._head.is_sse:
            return event if self._number > self.after else b""
        if self._head.api == "openai_responses" and not self._response.id:
            self._response = _announced(event)
        if self._number <= self.after:
            return b""
        if self.after_sequence >= 0 and _sequence(event) <= self.after_sequence:
            return b""
        id = f"id: {self._followed.id}:{self._number}\n".encode() if self._ids else b""
        return id + event

    def _failure(self, head: AnswerHead, problem: Problem) -> bytes:
        """Return the event that ends an incomplete stream, in the client's API."""
        array = head.content_type.startswith("application/json")
        extra: JsonObject = {"alt": "json"} if array else {}
        request = Request(model=head.model, stream=True, extra=extra)
        context = AnswerContext(request, self._response.created_at)
        encoder = codecs.load(head.api).stream_encoder(context)
        if isinstance(encoder, NumberedEncoder):
            encoder.feed(ev.Started(self._response.id, head.model))
            encoder.continue_from(max(_sequence(self._last), self.after_sequence) + 1)
        written = b"".join(encoder.feed(ev.Failed(problem)))
        return b",\n" + written[1:] if array and self._last else written


def _data(event: bytes) -> JsonObject:
    return maybe_object(event.partition(b"data:")[2].strip()) or {}


def _sequence(event: bytes) -> int:
    """Return the number of an event of the Responses API; -1 for a comment."""
    number = _data(event).get("sequence_number")
    return number if isinstance(number, int) else -1


def _announced(event: bytes) -> _AnnouncedResponse:
    """Return the response that an event of the Responses API announces."""
    try:
        return msgspec.convert(_data(event).get("response"), _AnnouncedResponse)
    except msgspec.ValidationError:
        return _AnnouncedResponse()  # an event without one
