"""Passthrough: a client of the provider's own API gets the provider's own bytes.

The request is sent as the client wrote it, apart from the model's name and from a parameter that the
provider has rejected. Of the answer, only whole
events are forwarded, as the exact bytes that arrived. A decoder reads a copy, so that a truncated,
broken or failed answer is detected, and retried before its first content, as for a translated
request.
"""

import asyncio
import re
from typing import Literal, TypeAlias

import msgspec

from toolbridge.core import events as ev
from toolbridge.core.errors import ToolbridgeError, Truncated, UpstreamError
from toolbridge.core.ids import Ids
from toolbridge.core.json import JsonObject, dump_bytes, maybe_object
from toolbridge.core.messages import Loss, Problem
from toolbridge.core.stage import Stage
from toolbridge.environment import CALLER
from toolbridge.history.prefix import BILLING
from toolbridge.policy.answer_stages import AnswerStages
from toolbridge.routing.providers import is_first_party
from toolbridge.routing.rejections import (
    MOST,
    empty_body,
    is_html,
    is_page,
    page_error,
    rejected,
    web_page,
)
from toolbridge.routing.request_corrections import RequestCorrections
from toolbridge.routing.route import Route
from toolbridge.routing.sources import END_WAIT, Batch, HttpRequest, RequestSender, Source
from toolbridge.routing.translated import ClientSide
from toolbridge.upstream.http import MAX_WHOLE, Incoming, Upstream
from toolbridge.wire.reply import complete_data, last_events
from toolbridge.wire.sse import BOM, SseReader
from toolbridge.wire.whole_events import WholeEvents, WholeLines

_PRELUDE = {
    "anthropic": (b"message_start", b"ping"),
    "openai_responses": (b"response.created", b"response.in_progress", b"response.queued"),
}
"""Events that carry no content, so that a retry is still possible after them. All other events of
these APIs are content, also those without an event of ours, such as the steps of a hosted search."""
_NAME = re.compile(rb"^event: ?([^\r\n]+)", re.MULTILINE)
# Inside a JSON string the closing quote would be escaped, so only a member's name matches.
_NUMBER = re.compile(rb'"sequence_number"\s*:\s*(\d+)')
_REPORT = re.compile(rb'"error"|^event: ?(error|response\.failed)\b', re.MULTILINE)
"""Matches an event in which the provider itself reports a failure."""
_LINE_END = {"ollama": b"\n"}
_MISSING_ENDS = ((b"\r\n", b"\r\n"), (b"\r", b"\n\r\n"), (b"\n", b"\n"), (b"", b"\n\n"))
_MARKS = {
    "anthropic": b'event: message_stop\ndata: {"type":"message_stop"}\n\n',
    "openai_chat": b"data: [DONE]\n\n",
}
"""The last events of APIs that send the stop reason before: nothing of the answer is missing without
them, but clients wait for them."""
Framing: TypeAlias = Literal["whole", "stream", "array"]
"""The response that the client asked for: a JSON body, a stream, or Gemini's JSON array."""
_members = msgspec.json.Decoder(dict[str, msgspec.Raw])
_blocks = msgspec.json.Decoder(list[msgspec.Raw])


class ProviderReply(msgspec.Struct, frozen=True):
    """A rejection as the provider sent it."""

    status: int
    body: bytes
    headers: dict[str, str]


class PassedBytes:
    """The bytes of the current attempt that may be forwarded."""

    def __init__(self) -> None:
        self.reset()

    def reset(self, *, exact: bool = True) -> None:
        """Start a new attempt; drop the bytes of one that failed before its content."""
        self._chunks: list[bytes] = []
        self.exact = exact
        """False if the events have to be encoded, because the provider did not send what the client
        asked for: one JSON body instead of a stream, or a stream instead of a body."""
        self.next_number = 0
        """The number that follows the last event, in an API that numbers its events."""
        self.line_open = False
        """Whether the last byte is a CR, perhaps the first half of a line end; an LF completes it."""
        self.failure_passed = False
        """Whether the last forwarded event is the provider's own report of its failure."""
        self.rejection: ProviderReply | None = None

    def add(self, chunk: bytes) -> None:
        self._chunks.append(chunk)
        self.line_open = chunk.endswith(b"\r")
        if numbers := _NUMBER.findall(chunk):
            self.next_number = int(numbers[-1]) + 1

    def take(self) -> bytes:
        """Return the bytes that were added since the last call."""
        taken, self._chunks = b"".join(self._chunks), []
        return taken


class PassthroughRequest:
    """A request that is sent as the client wrote it."""

    retries_empty = False

    def __init__(
        self,
        upstream: Upstream,
        route: Route,
        request: HttpRequest,
        framing: Framing,
        client: ClientSide,
        corrections: RequestCorrections | None = None,
    ) -> None:
        self.route = route
        self.passed = PassedBytes()
        self.needs_other_api = False
        """Whether the provider has rejected the request because of its API."""
        self._upstream = upstream
        self._request = request
        self._framing = framing
        self.streams = framing != "whole"
        self._client = client
        self._corrections = corrections
        self._losses: tuple[Loss, ...] = ()
        self._body = self._corrected()

    def source(self, seed: bytes) -> Source:
        self.passed.reset(exact=self._framing != "array")
        request = msgspec.structs.replace(self._request, body=self._body)
        trace = self._client.trace
        if trace is not None:
            attempt = trace.begin(self.route)
            attempt.passed_through = True
            attempt.losses = self._losses
        opening = RequestSender(self._upstream, self.route, request, self._client.head, trace)
        source = PassthroughSource(opening, Ids(seed), self.passed, stream=self.streams)
        return source if self._corrections is None else self._corrections.confirming(source)

    def stages(self, _: bytes) -> AnswerStages:
        return AnswerStages((), ())

    def rescue(self, _problem: Problem, _seed: bytes) -> None:
        return None  # the client gets the provider's own error

    def downgrade(self, problem: Problem) -> bool:
        """Correct a parameter that the provider rejected; the other members keep their bytes."""
        sent = maybe_object(self._body)
        if self._corrections is None or sent is None:
            return False  # the request is sent as the client wrote it
        if not self._corrections.find(problem, sent):
            return False
        self.needs_other_api = self._corrections.route is not self.route
        self._body = self._corrected()
        return not self.needs_other_api

    def _corrected(self) -> bytes:
        """Return the body with the known corrections, and report them."""
        body = self._request.body
        known = self._corrections
        if known is None or not (known.active or known.losses):
            return body
        given = maybe_object(body)
        if given is None:
            return body
        corrected, losses = known.apply(given)
        if losses:
            self._losses = losses
            self._client.losses(losses)
        return body if corrected is given else replace_members(body, given, corrected)


class PassthroughSource:
    """A source that keeps the bytes of whole events beside the events decoded from them."""

    def __init__(
        self, opening: RequestSender, ids: Ids, passed: PassedBytes, *, stream: bool
    ) -> None:
        self._opening = opening
        self._codec = opening.route.codec
        self._decoder = self._codec.stream_decoder(ids)
        self._passed = passed
        self._stream = stream
        self._splitter: Stage[bytes, bytes] | None = None
        self._incoming: Incoming | None = None
        self._begun = False
        self._finished = False
        self._ends = 0.0
        """When the end of the bytes is no longer waited for, after the end of the answer."""
        self._over = False
        self.passing = False

    async def read(self) -> Batch | None:
        if self._over:
            return None
        if self._incoming is None:
            self._incoming = await self._open()
        try:
            piece = await self._next(self._incoming)
        except ToolbridgeError as error:
            self._over = True
            return self._cut(error.problem)
        if not piece:
            self._over = True
            if not self._begun:
                raise empty_body(self._incoming, self._opening.route.provider)
            return self._end()
        if not self._begun and is_page(piece):
            raise page_error(piece, self._incoming.status, self._opening.route.provider)
        return self._forward(piece)

    async def close(self) -> None:
        if self._incoming is not None:
            await self._incoming.release()

    async def _open(self) -> Incoming:
        """Return the response; keep the bytes of a rejection, and raise it."""
        incoming = await self._opening.send()
        provider = self._opening.route.provider
        try:
            if incoming.status >= 400:
                body = await incoming.read_some(MOST)
                if not is_page(body) and _is_json(body):
                    reply = ProviderReply(incoming.status, body, dict(incoming.headers))
                    self._passed.rejection = reply
                raise rejected(incoming, body, self._opening.route)
            if is_html(incoming.headers):
                raise await web_page(incoming, provider)
        except ToolbridgeError:
            await incoming.release()
            raise
        return incoming

    async def _next(self, incoming: Incoming) -> bytes:
        if not self._stream:
            return await incoming.read_whole(MAX_WHOLE)
        if not self._finished:
            return await incoming.read()
        # A provider may leave the body open after its answer.
        loop = asyncio.get_running_loop()
        self._ends = self._ends or loop.time() + END_WAIT
        try:
            async with asyncio.timeout_at(self._ends):
                return await incoming.read()
        except TimeoutError:
            return b""

    def _forward(self, piece: bytes) -> Batch:
        if not self._begun:
            if self._codec.name in _LINE_END or not self._stream:
                piece = piece.removeprefix(BOM)  # only server-sent events may begin with one
            self._begun = bool(piece.strip())
            self._choose_framing(piece.strip())
        if self._splitter is None:
            if self._passed.exact:
                self._passed.add(piece)
            return self._decoded(piece)
        batch: Batch = []
        for whole in self._splitter.feed(piece):
            batch += self._watched(whole)
            if self._over:
                break
        return batch

    def _choose_framing(self, begin: bytes) -> None:
        """Choose the splitter by the first byte; a JSON body has to be encoded as a stream."""
        if not self._passed.exact:
            return
        first = begin.removeprefix(BOM)[:1]
        if not self._stream:
            # Ollama's body is one line; whatever follows it is no part of the answer.
            lines = self._codec.name == "ollama" and b"\n" in begin
            self._passed.exact = first == b"{" and not lines
        elif self._codec.name == "ollama":
            self._splitter = WholeLines()
        elif first in {b"{", b"["}:
            self._passed.exact = False
        else:
            self._splitter = WholeEvents()

    def _watched(self, whole: bytes) -> Batch:
        """Return the events of one whole wire event, and forward its bytes if they may pass."""
        if self._finished:  # it is no part of the answer
            return []
        batch = self._decoded(whole)
        self._release(whole, batch)
        return batch

    def _release(self, whole: bytes, batch: Batch) -> None:
        if batch and isinstance(batch[-1], ev.Failed):
            self._over = True
            # An event that cannot be decoded, or reports success after a failure, is not forwarded.
            passed = not _is_unreadable(batch) and _REPORT.search(whole) is not None
            self._passed.failure_passed = passed
            if not passed:
                return
        self._passed.add(whole)
        self.passing = self.passing or self._is_content(whole, batch)

    def _is_content(self, whole: bytes, batch: Batch) -> bool:
        if any(not isinstance(event, ev.Started | ev.UsageReported) for event in batch):
            return True
        prelude = _PRELUDE.get(self._codec.name)
        name = _NAME.search(whole) if prelude else None
        return bool(prelude and name and name[1].strip() not in prelude)

    def _decoded(self, data: bytes) -> Batch:
        batch = self._decoder.feed(data)
        self._finished = self._finished or any(isinstance(e, ev.Finished) for e in batch)
        return batch

    def _end(self) -> Batch | None:
        """Return the events at the end of the bytes; a failure if the answer is truncated."""
        batch: Batch = []
        for rest in self._splitter.close() if self._splitter else []:
            if not rest.strip():
                self._passed.add(rest)  # the second half of a CRLF
            elif not self._finished:
                # The last event may lack its empty line; half an event is a truncation.
                if not self._is_complete(rest):
                    return self._cut(self._half_event())
                whole = rest + self._missing_end(rest)
                batch = self._decoded(whole)
                self._release(whole, batch)
        closing = self._decoder.close()
        mark = _MARKS.get(self._codec.name) if self._splitter else None
        if mark and closing and isinstance(closing[-1], ev.Finished):
            self._passed.add(b"\n" * self._passed.line_open + mark)
        return batch + closing or None

    def _is_complete(self, rest: bytes) -> bool:
        """Return whether the bytes after the last whole event are one that lacks its line ends."""
        try:
            if self._codec.name in _LINE_END:
                complete_data(rest)
            else:
                reader = SseReader()
                reader.feed(rest)
                last_events(reader)
        except UpstreamError:
            return False
        return True

    def _missing_end(self, rest: bytes) -> bytes:
        """Return the line ends that complete the last event, of the kind that it has."""
        if self._codec.name in _LINE_END:
            return _LINE_END[self._codec.name]
        return next(missing for begun, missing in _MISSING_ENDS if rest.endswith(begun))

    def _half_event(self) -> Problem:
        provider = self._opening.route.provider
        return Truncated(
            f"{provider} closed the connection in the middle of an event", provider=provider
        ).problem

    def _cut(self, problem: Problem) -> Batch | None:
        """Return the failure of a truncated answer."""
        if self._finished:
            return None  # the answer is complete; a connection that breaks afterwards is no loss
        return [ev.Failed(problem)]


def _is_unreadable(batch: Batch) -> bool:
    last = batch[-1] if batch else None
    return isinstance(last, ev.Failed) and last.problem.kind == "broken_wire"


def _is_json(body: bytes) -> bool:
    try:
        msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError):
        return False
    return True


# ── the request ──────────────────────────────────────────────────────────────


def passthrough_body(body: bytes, route: Route) -> bytes:
    """Return `body` with the provider's name of the model; other members keep their bytes.

    Claude Code's billing line is removed for providers other than Anthropic: it is the first text
    of the prompt and changes between requests, so a model server could not reuse its prefix cache.
    """
    members = _members.decode(body)
    changed: dict[str, msgspec.Raw] = {}
    if "model" in members and bytes(members["model"]) != (name := dump_bytes(route.target.model)):
        changed["model"] = msgspec.Raw(name)
    config = route.provider_config
    vendor = config.key == CALLER or is_first_party(config)
    if BILLING.encode() in body and "system" in members and not vendor:
        changed["system"] = _without_billing_line(members["system"])
    return msgspec.json.encode(members | changed) if changed else body


def replace_members(body: bytes, given: JsonObject, changed: JsonObject) -> bytes:
    """Return `changed` as JSON; a member that is the same object in `given` keeps its bytes."""
    members = _members.decode(body)
    return msgspec.json.encode(
        {
            name: members[name]
            if name in members and value is given.get(name)
            else msgspec.Raw(dump_bytes(value))
            for name, value in changed.items()
        }
    )


def _without_billing_line(system: msgspec.Raw) -> msgspec.Raw:
    try:
        blocks = _blocks.decode(system)
    except msgspec.DecodeError:
        return system
    kept = [block for block in blocks if not _is_billing_line(block)]
    return msgspec.Raw(msgspec.json.encode(kept))


def _is_billing_line(block: msgspec.Raw) -> bool:
    found = maybe_object(bytes(block)) or {}
    text = found.get("text")
    return isinstance(text, str) and text.startswith(BILLING) and "\n" not in text.strip()
