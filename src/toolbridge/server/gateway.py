"""The path of a model request: from the body in the client's API to the response.

All endpoints that ask a model use `Gateway.converse`, streaming or not. An endpoint decodes nothing
itself: it passes an `ApiEndpoint` with its codec and the values from the path.
"""

import asyncio
import os
from collections.abc import Awaitable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from toolbridge.accounting.spent import with_output
from toolbridge.config import Config, ProviderConfig, secret, secrets_of
from toolbridge.core import events as ev
from toolbridge.core.codec import AnswerContext, Codec, Encoder
from toolbridge.core.errors import Aborted, NotAllowed, ToolbridgeError
from toolbridge.core.fold import Fold
from toolbridge.core.ids import Ids
from toolbridge.core.messages import Message, Problem, Request
from toolbridge.core.redaction import Redactor
from toolbridge.core.steps import steps_of
from toolbridge.dialects.auto import auto_reader
from toolbridge.policy.key_scopes import check_model
from toolbridge.routing import Router
from toolbridge.routing.charges import Charges
from toolbridge.routing.failover import AnswerChain
from toolbridge.routing.loop_turns import LARGE, in_turns, next_turn
from toolbridge.routing.providers import config_for, passes_through
from toolbridge.routing.sources import Batch
from toolbridge.server.api_endpoint import ApiEndpoint
from toolbridge.server.caller_login import ClientHeaders
from toolbridge.server.client_turn import ClientTurn, healed_header
from toolbridge.server.created_keys import permitted_request
from toolbridge.server.http import HttpExchange, IncomingRequest
from toolbridge.server.keep_alive import KeepAliveTimer
from toolbridge.server.kept_requests import KeptRequests
from toolbridge.server.opaque_tokens import OpaqueTokens
from toolbridge.server.opening import open_answer
from toolbridge.server.passthrough import (
    TurnWriter,
    reply_as_provider,
)
from toolbridge.server.request_fields import is_agent, note_client
from toolbridge.server.request_log import Entry
from toolbridge.server.rule_routes import choose_addresses, key_name, routing_headers
from toolbridge.server.server_tool_turns import GatewayTools
from toolbridge.server.shared_facts import SharedFacts
from toolbridge.server.stored_responses import KeptSearches, StoredResponses
from toolbridge.server.streaming import StreamReply, TranslatedWriter, Writer
from toolbridge.state_dir import state_dir
from toolbridge.store.engines import Engines
from toolbridge.upstream.http import Upstream

if TYPE_CHECKING:
    from toolbridge.server.exchange_recorder import ExchangeRecorder


class Gateway:
    """Answers model requests of all APIs: routing, passthrough, stored responses and losses."""

    def __init__(
        self, config: Config, upstream: Upstream, env: Mapping[str, str] = os.environ
    ) -> None:
        self.config = config
        self._env = env
        self.router = Router(config, upstream, env)
        self.model_routes = self.router.model_routes
        self.client_headers = ClientHeaders(secret(config.key, env))
        self.state = state_dir(env)
        self.secrets = secrets_of(config, self.model_routes.provider_configs.values(), env)
        self.redactor = Redactor(self.secrets)
        self.engines = Engines(config, self.state, env)
        self.store = self.engines.store(self.redactor)
        self.router.sources.corrections.attach(self.store, has_values=self.engines.has_values)
        self.is_shared = self.engines.is_shared or config.workers > 1
        """Whether other processes use the store at the same time."""
        self.opaque_tokens = OpaqueTokens(self.store if self.is_shared else None)
        self.learned = SharedFacts(self.router, self.store)
        self.stored_responses = StoredResponses(self.store)
        self.searches = KeptSearches(self.store)
        self.tools = GatewayTools(config, env, self.state, self.router.ask_searcher)
        self.charges = Charges(self.engines.budgets, config.limits_offline)
        self.kept_requests = KeptRequests(config.explain_bytes)
        self._keep_alives = KeepAliveTimer()
        self._recorder = _recorder(config, self.secrets) if config.record else None
        self.answers_in: Codec | None = None
        """The API of every answer, in place of the client's own; a replay may set it."""

    def renewed(self, config: Config) -> "Gateway":
        """Return a gateway with other settings, and the state of this one."""
        gateway = copy(self)
        gateway.config = config
        gateway.router = self.router.renewed(config)
        gateway.model_routes = gateway.router.model_routes
        gateway.tools = self.tools.renewed(config, gateway.router.ask_searcher)
        gateway.client_headers = ClientHeaders(secret(config.key, self._env))
        providers = gateway.model_routes.provider_configs.values()
        # Answers by earlier settings are still under way, so their secrets are masked as well. The
        # recorder holds the same list.
        secrets = secrets_of(config, providers, self._env)
        self.secrets += [one for one in secrets if one not in self.secrets]
        gateway.redactor = Redactor(gateway.secrets)
        return gateway

    async def open(self) -> None:
        """Load what earlier processes have learned about models, and find the default model."""
        await self.engines.check(self.store)
        await self.learned.open(has_values=self.engines.has_values, shared=self.is_shared)
        await self.model_routes.discover()

    async def close(self) -> None:
        if self._recorder is not None:
            await self._recorder.close()
        await self.tools.close()
        await self.charges.close()
        await self.learned.close()
        await self.opaque_tokens.close()
        await self.router.close()
        await self.store.close()

    async def converse(self, exchange: HttpExchange, entry: Entry, ask: ApiEndpoint) -> None:
        """Answer one request to a chat model."""
        most = self.config.max_body
        body = entry.body = exchange.whole_body(most) or await exchange.body(most)
        if self.answers_in is not None:
            ask = _answered_in(self.answers_in, ask)
        kept = self.kept_requests.begin(exchange, ask, body, entry)
        if self._recorder is not None:
            self._recorder.attach(exchange, kept)
        entry.fields["surface"] = ask.codec.name
        session = note_client(entry, exchange)  # before the first error
        if len(body) > LARGE:
            request = await in_turns(ask.reading(body))
            await next_turn()
        else:
            request = ask.read(body)
        entry.asks_model = True
        if session and not request.session:
            request = msgspec.structs.replace(request, session=session)
        request, edits = permitted_request(request, exchange.access, self.config.loop_guard)
        kept.request_model = request.model
        kept.session = request.session or request.user  # Claude Code's user id names its session
        asked = AnswerContext(request, entry.at, times=entry)
        agent = is_agent(exchange)
        turn = ClientTurn(exchange, entry, ask.codec, request, kept, edits, agent, asked)
        lacks_dialects = request.tools and not auto_reader.cache_info().currsize
        if lacks_dialects or self.router.sources.corrections.unread:
            await self._load(dialects=bool(lacks_dialects))
        find = partial(self.addresses, request, exchange, entry)
        opened = partial(open_answer, self, turn, body)
        chain = self.router.chain(request.model, opened, exchange.caller, find)
        try:
            with self.tools:
                await self._serve(turn, chain)
        except ToolbridgeError as error:
            if len(chain.tried) > 1:
                turn.note_failed(chain.tried)
            passed = turn.passed
            own_words = passed.rejection if passed and error is chain.last_error else None
            if own_words is not None and not exchange.status:
                await reply_as_provider(exchange, own_words)
            in_stream = request.stream and error.problem.kind in ask.codec.fails_in_stream
            if exchange.status or not in_stream:
                raise  # for the log, if a response was already sent
            await self._fail_in_stream(turn, error.problem)

    def permit_model(self, exchange: IncomingRequest, address: str) -> None:
        """Raise `NotAllowed` if the caller's key may not use the model."""
        if (key := exchange.access) is not None:
            check_model(key.name, key.scopes, address, self.config.map)

    def addresses(
        self, request: Request, exchange: HttpExchange, entry: Entry
    ) -> Awaitable[Sequence[str]]:
        """Return the addresses for `request` that the caller's key may use; raise without any."""
        if self.config.routes:
            found = choose_addresses(self.router, request, exchange, entry)
        else:
            found = self.model_routes.addresses(request.model)
        return found if exchange.access is None else self._permitted(exchange, found)

    async def _permitted(
        self, exchange: HttpExchange, addresses: Awaitable[Sequence[str]]
    ) -> Sequence[str]:
        found = await addresses
        allowed = [address for address in found if self._permits(exchange, address)]
        if not allowed:
            self.permit_model(exchange, found[0])
        return allowed

    def _permits(self, exchange: HttpExchange, address: str) -> bool:
        try:
            self.permit_model(exchange, address)
        except NotAllowed:
            return False
        return True

    async def _serve(self, turn: ClientTurn, chain: AnswerChain) -> None:
        """Answer with the first model of the chain that gives an answer."""
        charge = turn.charge = self.charges.begin(turn.exchange.access, turn.entry)
        chain.reserve = turn.reserve
        self.charges.follow(charge)
        try:
            await chain.prepare()
            if len(turn.kept.body) > LARGE:
                await next_turn()
            if turn.asked.request.stream:
                message = await self._stream(turn, chain)
            else:
                message = await self._whole(turn, chain)
            charge.message = message
            if turn.passes == 1 and turn.counted is not None:
                turn.entry.losses += self.router.learn(message.usage, turn.counted, chain.route)
        except BaseException as error:
            await charge.end(error)
            raise
        if not charge.ended_at_once():
            await charge.end(None)

    async def _fail_in_stream(self, turn: ClientTurn, problem: Problem) -> None:
        """Send an error as the only event of a stream, for clients that read errors only there."""
        turn.entry.note(error__type=problem.kind, error__message=problem.text)
        message = Message(id=Ids(os.urandom(16)).message(), stop="error", problem=problem)
        turn.entry.finish(message)
        writer = TranslatedWriter(turn.codec.stream_encoder(turn.asked))
        reply = self._reply(turn, writer)
        await reply.write(writer.write([ev.Failed(problem)]))
        reply.stop()
        await reply.finish()

    async def _load(self, *, dialects: bool) -> None:
        """Load what the first request needs, in threads: it would stop all streams otherwise."""
        if dialects:
            await asyncio.to_thread(auto_reader, "", frozenset())  # 60 modules, 45 ms
        if (corrections := self.router.sources.corrections).unread:
            await corrections.load()

    async def count_tokens(self, exchange: HttpExchange, entry: Entry, ask: ApiEndpoint) -> int:
        """Return the number of input tokens, counted by the provider's setting `counting`."""
        body = entry.body = await exchange.body(self.config.max_body)
        large = len(body) > LARGE
        decode = ask.codec.decode_request
        if large:
            request = await in_turns(steps_of(decode, body, model=ask.model, counting=True))
        else:
            request = decode(body, model=ask.model, counting=True)
        entry.note(surface=ask.codec.name, gen_ai__request__model=request.model)
        address = await self.router.address(request, routing_headers(exchange), key_name(exchange))
        self.permit_model(exchange, address)
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
        if large:
            await in_turns(self.router.counting(request, address))
        counted = self.router.count(request, address)
        exchange.extra_headers["x-toolbridge-token-count"] = counted.accuracy
        return counted.shown

    async def _keep(self, turn: ClientTurn, message: Message, maker: str) -> Message:
        """Store what the next request may refer to and its client cannot send back.

        Return the answer as the client gets it: with the output tokens that the ledger has.
        """
        exchange, codec, asked = turn.exchange, turn.codec, turn.asked
        if turn.charge is not None and not turn.charge.settled_at_once(message):
            await turn.charge.settle(message)
        self.opaque_tokens.keep(message, exchange.caller, maker)
        if turn.passing is not None:
            return message  # the provider stores its own responses
        # An answer without a maker is the gateway's own: no model has written it.
        shown = message if message.usage.output or not maker else with_output(message)
        if codec.name == "openai_responses":
            await self.searches.keep(message, exchange.caller)
            body = codec.encode_message(shown, asked)
            id = msgspec.json.decode(body, type=_Identified).id
            await self.stored_responses.keep(id, asked.request, shown, body, exchange.caller)
        return shown

    async def _whole(self, turn: ClientTurn, chain: AnswerChain) -> Message:
        message = await chain.message()
        turn.entry.note_first_token()
        exchange, codec, asked = turn.exchange, turn.codec, turn.asked
        if turn.passing is not None and (passed := turn.passing.passed).exact:
            await self._keep(turn, message, chain.attempts.maker)
            await exchange.reply(200, passed.take())
            return message
        turn.lose_of_answer(message)
        if message.healed:
            exchange.extra_headers["x-toolbridge-healed"] = healed_header(message)
        shown = await self._keep(turn, message, chain.attempts.maker)
        await exchange.reply(200, codec.encode_message(shown, asked))
        return message

    async def _stream(self, turn: ClientTurn, chain: AnswerChain) -> Message:
        encoder = turn.codec.stream_encoder(turn.asked)
        writer = TurnWriter(turn, encoder)
        reply = self._reply(turn, writer)
        reply.chain = chain
        chain.opens_at = reply.due
        fold = Fold()
        turn.follow(fold)
        rest = b""
        try:
            last, rest = await self._pass_on(turn, chain, reply, writer, fold)
        except ToolbridgeError as error:
            if not reply.opened:
                raise
            last = ev.Failed(error.problem)
            fold.feed(last)
            await reply.write(writer.write([last]))
        except asyncio.CancelledError:
            _report_shutdown(turn, fold, writer, reply, aborts=chain.aborts)
            raise
        finally:
            reply.stop()
        if not reply.opened and isinstance(last, ev.Finished):
            await reply.finish(rest)  # `turn.begin` had all events
            return fold.message
        if not isinstance(last, ev.Failed):  # else the connection closes without a clean end
            await reply.finish(rest)
        message = fold.message if isinstance(last, ev.Finished | ev.Failed) else Message()
        if turn.passing is None:
            turn.lose_of_answer(message)
        return message

    async def _pass_on(
        self,
        turn: ClientTurn,
        chain: AnswerChain,
        reply: StreamReply,
        writer: TurnWriter,
        fold: Fold,
    ) -> tuple[ev.Event | None, bytes]:
        """Send the answer; return its last event, and the bytes to finish it with."""
        last: ev.Event | None = None
        try:
            batch = await chain.begin()
            current = writer.current  # no other provider can answer after the first content
            while batch is not None:
                fold.feed_all(batch)
                begins = last is None
                if begins:
                    turn.begin(batch, fold)
                last = batch[-1] if batch else last
                if isinstance(last, ev.Failed) and chain.aborts:
                    return last, b""
                if batch and isinstance(last, ev.Finished):
                    batch = await self._with_usage_kept(
                        turn, _as_shown(fold.message, writer.encoder), chain.attempts.maker, batch
                    )
                    if chain.ended and reply.may_send_whole:
                        return last, current.write(batch) + current.close()
                await reply.write(current.write(batch))
                pushes = begins and turn.exchange.may_push and not chain.ended
                if pushes and isinstance(current, TranslatedWriter):
                    chain.push_to(reply.sink(fold.feed_all, current.encode))
                batch = None if chain.ended else await chain.read()
            return last, current.close()
        finally:
            if not chain.ended:
                await chain.close()

    async def _with_usage_kept(
        self, turn: ClientTurn, message: Message, maker: str, batch: Batch
    ) -> Batch:
        """Store an answer before the client can refer to it; return its end with the usage kept."""
        shown = await self._keep(turn, message, maker)
        if shown is message:
            return batch
        return [*batch[:-1], ev.UsageReported(shown.usage), batch[-1]]

    def _reply(self, turn: ClientTurn, writer: Writer) -> StreamReply:
        waits = (self.config.first_byte, self.config.keep_alive)
        array = turn.asked.request.extra.get("alt") == "json"
        kind = "application/json" if array else turn.codec.content_type
        return StreamReply(turn.exchange, kind, writer, waits, self._keep_alives)


def _report_shutdown(
    turn: ClientTurn, fold: Fold, writer: TurnWriter, reply: StreamReply, *, aborts: bool
) -> None:
    """End an open answer with an error: the gateway stops, and waits for nothing more."""
    exchange = turn.exchange
    # What follows the last event of a kept answer is decided where it is read.
    reads = reply.opened and exchange.may_push and not exchange.client_left
    if reads and not aborts and fold.message.stop is None:
        failed = ev.Failed(Aborted("the gateway was stopped; send the request again").problem)
        fold.feed(failed)
        if piece := writer.write([failed]):
            exchange.push(piece)


def _answered_in(codec: Codec, ask: ApiEndpoint) -> ApiEndpoint:
    """Return the endpoint `ask` with answers in the API of `codec`."""
    decode = ask.decode or ask.codec.decode_request
    # Chat Completions: a stream reports usage only if the request asks for it.
    extra = ask.extra | {"stream_options": {"include_usage": True}}
    return replace(ask, codec=codec, decode=decode, extra=extra)


def _as_shown(message: Message, encoder: Encoder) -> Message:
    """Return `message` with the id that the client got: a keep-alive may have been sent first."""
    id = getattr(encoder, "id", "")
    return msgspec.structs.replace(message, id=id) if id else message


def _recorder(config: Config, secrets: list[str]) -> "ExchangeRecorder":
    from toolbridge.server.exchange_recorder import ExchangeRecorder

    return ExchangeRecorder(config, secrets)


class _Identified(msgspec.Struct):
    id: str = ""
