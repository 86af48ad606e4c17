"""The path of a model request: from the body in the client's API to the response.

All endpoints that ask a model use `Gateway.converse`, streaming or not. An endpoint decodes nothing
itself: it passes an `ApiEndpoint` with its codec and the values from the path.
"""

import os
from collections.abc import Mapping
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Protocol

import msgspec

from toolbridge.codecs.ollama.shapes import LOAD
from toolbridge.config import Config, ProviderConfig, secret, secrets_of
from toolbridge.core import events as ev
from toolbridge.core.answer_losses import all_losses
from toolbridge.core.codec import AnswerContext, Codec, Encoder
from toolbridge.core.draft import Draft
from toolbridge.core.errors import ToolbridgeError
from toolbridge.core.fold import Fold, collect
from toolbridge.core.ids import Ids
from toolbridge.core.json import JsonObject
from toolbridge.core.messages import Loss, Message, Problem, Request
from toolbridge.core.redaction import Redactor
from toolbridge.policy.server_tools import forced_tool, refuse
from toolbridge.policy.thinking import attaches
from toolbridge.routing import Router
from toolbridge.routing.attempts import AnswerAttempts, Batch, KnownAnswer
from toolbridge.routing.models import Route
from toolbridge.routing.passthrough import PassedBytes
from toolbridge.routing.pricing import priced
from toolbridge.routing.providers import config_for, passes_through
from toolbridge.routing.translated import ClientSide
from toolbridge.server.caller_login import ClientHeaders
from toolbridge.server.carried_headers import UPSTREAM_ID, headers_of_provider
from toolbridge.server.http import HttpExchange
from toolbridge.server.opaque_tokens import OpaqueTokens
from toolbridge.server.passthrough import (
    PassthroughWriter,
    is_passed_through,
    passthrough_request,
    reply_as_provider,
)
from toolbridge.server.request_log import Entry
from toolbridge.server.rule_routes import choose_route, routing_headers
from toolbridge.server.stored_responses import StoredResponses, stateless
from toolbridge.server.streaming import StreamReply, TranslatedWriter, Writer
from toolbridge.state_dir import state_dir
from toolbridge.store.sqlite import STORE_FILE, SqliteStore
from toolbridge.upstream.http import Upstream

MAX_HEADER = 1000
_SESSIONS = ("x-claude-code-session-id", "session-id", "x-session-id", "x-session-affinity")


class DecodeBody(Protocol):
    def __call__(self, body: bytes, *, model: str = "", stream: bool | None = None) -> Request: ...


@dataclass(frozen=True)
class ApiEndpoint:
    """How an endpoint decodes a request: its codec, and the values from the path."""

    codec: Codec
    model: str = ""
    stream: bool | None = None
    decode: DecodeBody | None = None
    """Decodes the body in place of the codec's own function, for endpoints with another shape."""
    extra: JsonObject = field(default_factory=dict)

    def read(self, body: bytes) -> Request:
        decode = self.decode or self.codec.decode_request
        request = decode(body, model=self.model, stream=self.stream)
        if not self.extra:
            return request
        return msgspec.structs.replace(request, extra=request.extra | self.extra)


@dataclass(frozen=True)
class _Turn:
    """One client request, and what is needed to write its response."""

    exchange: HttpExchange
    entry: Entry
    codec: Codec
    asked: AnswerContext
    same_api: bool = False
    prompt_tokens: int = 0
    """The estimate by which the answer's token limit is set."""
    passed: PassedBytes | None = None
    """The provider's own bytes, in passthrough."""
    returned: dict[str, str] = field(default_factory=dict)
    """The provider's headers that are sent to the client."""

    def on_head(self, headers: Mapping[str, str]) -> None:
        """Send the headers of this attempt instead of those of the last one."""
        for name in self.returned:
            self.exchange.extra_headers.pop(name, None)
        self.returned.clear()
        self.returned.update(headers_of_provider(headers, same_api=self.same_api))
        self.exchange.extra_headers.update(self.returned)
        if id := self.returned.get(UPSTREAM_ID):
            self.entry.fields["upstream.request.id"] = id

    @property
    def from_agent(self) -> bool:
        """Whether the client is a coding agent that attaches options its user did not choose."""
        return attaches(self.exchange.header("user-agent"), self.exchange.header("x-app"))

    def lose(self, losses: tuple[Loss, ...]) -> None:
        """Report what the provider's API cannot express, in the log and in a header."""
        self.entry.losses = list(losses)
        self.exchange.extra_headers.pop("x-toolbridge-warning", None)
        if reported := [loss for loss in losses if not loss.minor]:
            self.exchange.extra_headers["x-toolbridge-warning"] = warning(reported)

    def lose_of_answer(self, message: Message) -> None:
        """Report what the client's API cannot express; in the header if it is not sent yet."""
        if lost := all_losses(message, self.codec.shows):
            self.lose(tuple(dict.fromkeys((*self.entry.losses, *lost))))

    def begin(self, batch: Batch) -> None:
        """Record the time of the first events, and put the losses among them into the header."""
        self.entry.note_first_token()
        if self.passed is not None or not batch:
            return  # in passthrough nothing is lost
        lost = tuple(event.loss for event in batch if isinstance(event, ev.Lost))
        last = batch[-1]
        finished = isinstance(last, ev.Finished)
        self.lose_of_answer(collect(batch) if finished else Message(losses=lost))


class Gateway:
    """Answers model requests of all APIs: routing, passthrough, stored responses and losses."""

    def __init__(
        self, config: Config, upstream: Upstream, env: Mapping[str, str] = os.environ
    ) -> None:
        self.config = config
        self.router = Router(config, upstream, env)
        self.model_routes = self.router.model_routes
        self.client_headers = ClientHeaders(secret(config.key, env))
        self._opaque_tokens = OpaqueTokens()
        self.state = state_dir(env)
        self.redactor = Redactor(
            secrets_of(config, self.model_routes.provider_configs.values(), env)
        )
        path = self._store_file = self.state / STORE_FILE if self.state else None
        self.store = SqliteStore(path, redactor=self.redactor, size=config.store_bytes)
        self.router.sources.corrections.attach(
            self.store, has_values=path is not None and path.exists()
        )
        self.stored_responses = StoredResponses(self.store)

    async def open(self) -> None:
        """Load what earlier processes have learned about models, and find the default model."""
        # A file that does not exist is not created before there is something to store.
        stored = self._store_file is not None and self._store_file.exists()
        await self.router.tool_modes.open(self.store, load=stored)
        await self.model_routes.discover()

    async def close(self) -> None:
        await self.router.close()
        await self.store.close()

    async def converse(self, exchange: HttpExchange, entry: Entry, ask: ApiEndpoint) -> None:
        """Answer one request to a chat model."""
        body = entry.body = await exchange.body(self.config.max_body)
        request = ask.read(body)
        if not request.session and (session := _session(exchange)):
            request = msgspec.structs.replace(request, session=session)
        route = await choose_route(self.router, request, exchange, entry)
        route = route.serving(ask.codec.name, request)
        _note(entry, ask.codec, request, route)
        same_api = route.provider_config.api == ask.codec.name
        await self.router.sources.corrections.load()
        passes = is_passed_through(exchange, ask.codec.name, route)
        passes = passes and not self.router.sources.corrections.needs_other_api(route)
        passes = passes and not self.router.describes(request, route)
        if not passes:  # in passthrough the provider stores its own responses
            request = await self.stored_responses.resume(request, exchange.caller)
        exchange.extra_headers["x-toolbridge-model"] = route.address
        turn = _Turn(exchange, entry, ask.codec, AnswerContext(request, entry.at), same_api)
        try:
            await self._serve(turn, route, body if passes else None)
        except ToolbridgeError as error:
            in_stream = request.stream and error.problem.kind in ask.codec.fails_in_stream
            if exchange.status or not in_stream:
                raise
            await self._fail_in_stream(turn, error.problem)

    async def _serve(self, turn: _Turn, route: Route, passed: bytes | None) -> None:
        """Answer with translation, or in passthrough with the body `passed`."""
        exchange, entry = turn.exchange, turn.entry
        request = turn.asked.request
        if tool := forced_tool(request, route.provider_config.api, agent=turn.from_agent):
            turn.lose((Loss("tools", f"{tool.name} is not available with {route.address}"),))
            known = KnownAnswer(refuse(request, tool, turn.codec, Ids(os.urandom(16))))
            entry.finish(await self._answer(turn, known))
            return
        if request.extra.get(LOAD) is True and not turn.same_api:
            entry.finish(await self._answer(turn, KnownAnswer(_loaded(request))))
            return
        counted = self.router.admit(request, route)
        asked = AnswerContext(request, entry.at, counted.shown)
        exchange.extra_headers["x-toolbridge-token-count"] = counted.accuracy
        turn = replace(turn, asked=asked, prompt_tokens=counted.tokens)
        if passed is not None:
            message = await self._passed_through(turn, route, passed)
        else:
            message = await self._translated(turn, route)
        entry.losses += self.router.learn(message.usage, counted, route)
        entry.finish(await priced(message, route, entry.at))

    async def _fail_in_stream(self, turn: _Turn, problem: Problem) -> None:
        """Send an error as the only event of a stream, for clients that read errors only there."""
        turn.entry.note(error__type=problem.kind, error__message=problem.text)
        message = Message(id=Ids(os.urandom(16)).message(), stop="error", problem=problem)
        turn.entry.finish(message)
        writer = TranslatedWriter(turn.codec.stream_encoder(turn.asked))
        reply = self._reply(turn, writer)
        await reply.write(writer.write([ev.Failed(problem)]))
        await reply.finish()

    async def count_tokens(self, exchange: HttpExchange, entry: Entry, ask: ApiEndpoint) -> int:
        """Return the number of input tokens, counted by the provider's setting `counting`."""
        body = entry.body = await exchange.body(self.config.max_body)
        request = ask.codec.decode_request(body, model=ask.model, counting=True)
        entry.note(surface=ask.codec.name, gen_ai__request__model=request.model)
        address = await self.router.address(request, routing_headers(exchange))
        name, _, model = address.partition("/")
        provider_config = self.model_routes.provider_configs.get(name, ProviderConfig())
        provider_config = config_for(provider_config, model)
        if provider_config.api != ask.codec.name or not passes_through(provider_config):
            request = await self.stored_responses.resume(request, exchange.caller)
        headers = self.client_headers.of(exchange, provider_config, ask.codec.name)
        exact = await self.router.count_exactly(request, address, headers)
        if exact is not None:
            exchange.extra_headers["x-toolbridge-token-count"] = "exact"
            return exact
        counted = self.router.count(request, address)
        exchange.extra_headers["x-toolbridge-token-count"] = counted.accuracy
        return counted.shown

    async def _keep(self, turn: _Turn, message: Message, maker: str) -> None:
        """Store what the next request may refer to and its client cannot send back."""
        exchange, codec, asked = turn.exchange, turn.codec, turn.asked
        self._opaque_tokens.keep(message, exchange.caller, maker)
        if turn.passed is not None:
            return  # the provider stores its own responses
        if codec.name == "openai_responses":
            body = codec.encode_message(message, asked)
            id = msgspec.json.decode(body, type=_Identified).id
            await self.stored_responses.keep(id, asked.request, message, body, exchange.caller)

    async def _passed_through(self, turn: _Turn, route: Route, body: bytes) -> Message:
        exchange = turn.exchange
        headers = self.client_headers.of(exchange, route.provider_config, turn.codec.name)
        client = ClientSide(headers, turn.lose, turn.on_head)
        request = passthrough_request(
            self.router.sources, route, exchange, body, turn.asked.request, client
        )
        passing = replace(turn, passed=request.passed)
        try:
            return await self._answer(passing, AnswerAttempts(request))
        except ToolbridgeError:
            if request.needs_other_api and not exchange.status:
                return await self._translated(turn, route)
            if request.passed.rejection is not None and not exchange.status:
                await reply_as_provider(exchange, request.passed.rejection)
            raise  # for the log: the response was already sent

    async def _translated(self, turn: _Turn, route: Route) -> Message:
        exchange, asked = turn.exchange, turn.asked
        headers = self.client_headers.of(exchange, route.provider_config, turn.codec.name)
        routing = routing_headers(exchange) if route.slots > 1 else {}
        attempts = self.router.attempts(
            self._opaque_tokens.restore(stateless(asked.request), exchange.caller),
            route,
            turn.prompt_tokens,
            attaches=turn.from_agent,
            client=ClientSide(headers, turn.lose, turn.on_head, routing=routing),
        )
        return await self._answer(turn, attempts)

    async def _answer(self, turn: _Turn, attempts: AnswerAttempts | KnownAnswer) -> Message:
        answer = self._stream if turn.asked.request.stream else self._whole
        message = await answer(turn, attempts)
        if turn.passed is None:
            turn.lose_of_answer(message)
        return message

    async def _whole(self, turn: _Turn, attempts: AnswerAttempts | KnownAnswer) -> Message:
        message = await attempts.message()
        turn.entry.note_first_token()
        exchange, codec, asked = turn.exchange, turn.codec, turn.asked
        if turn.passed is not None and turn.passed.exact:
            await self._keep(turn, message, attempts.maker)
            await exchange.reply(200, turn.passed.take())
            return message
        turn.lose_of_answer(message)
        if message.healed:
            exchange.extra_headers["x-toolbridge-healed"] = _healed(message)
        await self._keep(turn, message, attempts.maker)
        await exchange.reply(200, codec.encode_message(message, asked))
        return message

    async def _stream(self, turn: _Turn, attempts: AnswerAttempts | KnownAnswer) -> Message:
        encoder = turn.codec.stream_encoder(turn.asked)
        writer: Writer = TranslatedWriter(encoder)
        if turn.passed is not None:
            writer = PassthroughWriter(encoder, turn.passed)
        reply = self._reply(turn, writer)
        fold = Fold()
        last: ev.Event | None = None
        try:
            async with aclosing(attempts.events()) as batches:
                async for batch in batches:
                    if last is None:
                        turn.begin(batch)
                    last = batch[-1] if batch else last
                    fold.feed_all(batch)
                    if batch and isinstance(
                        last, ev.Finished
                    ):  # store it before the client can refer to it
                        shown = _as_shown(fold.message, encoder)
                        await self._keep(turn, shown, attempts.maker)
                    if isinstance(last, ev.Failed) and attempts.aborts:
                        return fold.message
                    await reply.write(writer.write(batch))
        except ToolbridgeError as error:
            if not reply.opened:
                raise
            last = ev.Failed(error.problem)
            fold.feed(last)
            await reply.write(writer.write([last]))
        finally:
            reply.stop()
        if isinstance(last, ev.Failed):
            return fold.message  # the error was sent; the connection closes without a clean end
        if rest := writer.close():
            await reply.write(rest)
        await reply.finish()
        return fold.message if isinstance(last, ev.Finished) else Message()

    def _reply(self, turn: _Turn, writer: Writer) -> StreamReply:
        waits = (self.config.first_byte, self.config.keep_alive)
        array = turn.asked.request.extra.get("alt") == "json"
        kind = "application/json" if array else turn.codec.content_type
        return StreamReply(turn.exchange, kind, writer, waits)


def _as_shown(message: Message, encoder: Encoder) -> Message:
    """Return `message` with the id that the client got: a keep-alive may have been sent first."""
    id = getattr(encoder, "id", "")
    return msgspec.structs.replace(message, id=id) if id else message


class _Identified(msgspec.Struct):
    id: str = ""


def _loaded(request: Request) -> list[ev.Event]:
    """Return the empty answer to an Ollama request without messages, which loads the model.

    Ollama API: `ollama run` begins with such a request. Other APIs have none and reject it.
    """
    ids = Ids(os.urandom(16))
    draft = Draft(ids)
    return draft.start(id=ids.message(), model=request.model) + draft.finish("end")


def _session(exchange: HttpExchange) -> str:
    """Return the client's name of the conversation; providers use it to find their prompt cache."""
    for name in _SESSIONS:
        if found := exchange.header(name):
            return found
    return ""


def _note(entry: Entry, codec: Codec, request: Request, route: Route) -> None:
    entry.fields |= {
        "surface": codec.name,
        "gen_ai.provider.name": route.provider,
        "gen_ai.request.model": request.model,
        "gen_ai.response.model": route.target.model,
        "stream": request.stream,
    }
    if request.session:
        entry.fields["session.id"] = request.session


def warning(losses: list[Loss]) -> str:
    text = "; ".join(dict.fromkeys(str(loss) for loss in losses))
    return text if len(text) <= MAX_HEADER else f"{text[:MAX_HEADER]}… ({len(losses)} in all)"


def _healed(message: Message) -> str:
    steps = [f"{r.name}: {s.what} (level {s.level})" for r in message.healed for s in r.steps]
    return "; ".join(steps)[:MAX_HEADER]
