"""A conversation: what a client asks in its API, answered by whatever serves its model.

This is the one path of all surfaces, streaming or not. A surface decodes nothing itself; it names
its codec, and where the model stands if not in the body.
"""

import os
from collections.abc import Mapping
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

import msgspec

from toolbridge.accounting.calibrate import Calibration
from toolbridge.accounting.count import estimate_request
from toolbridge.config import Config
from toolbridge.core import events as ev
from toolbridge.core.codec import Asked, Codec, Encoder
from toolbridge.core.errors import ToolbridgeError
from toolbridge.core.json import JsonObject
from toolbridge.core.messages import Loss, Message, Request
from toolbridge.policy.limits import check_window, was_truncated
from toolbridge.policy.mending import Lack, lacking, without_thoughts
from toolbridge.policy.thinking import attaches
from toolbridge.server.answering import Answering
from toolbridge.server.conversations import Conversations, stateless
from toolbridge.server.http import Exchange
from toolbridge.server.journal import Entry
from toolbridge.server.keepsakes import Keepsakes
from toolbridge.server.pricing import priced
from toolbridge.server.relay import Relay
from toolbridge.server.roster import Roster, Route
from toolbridge.server.streaming import StreamReply
from toolbridge.store.sqlite import SqliteStore
from toolbridge.translate import Plan, Wishes, plan
from toolbridge.upstream.http import Upstream

MAX_HEADER = 1000


class Decode(Protocol):
    def __call__(self, body: bytes, *, model: str = "", stream: bool | None = None) -> Request: ...


@dataclass(frozen=True)
class Ask:
    """How a surface reads a request: its codec, and what stands in the path and not in the body."""

    codec: Codec
    model: str = ""
    stream: bool | None = None
    decode: Decode | None = None
    """Reads the body instead of the codec's own, for paths with a shape of their own."""
    extra: JsonObject = field(default_factory=dict)

    def read(self, body: bytes) -> Request:
        decode = self.decode or self.codec.decode_request
        request = decode(body, model=self.model, stream=self.stream)
        if not self.extra:
            return request
        return msgspec.structs.replace(request, extra=request.extra | self.extra)


class Counted(msgspec.Struct, frozen=True):
    tokens: int
    raw: int
    """Before calibration: what the estimator said."""
    accuracy: str


@dataclass(frozen=True)
class _Attempt:
    """One way of asking: what is asked of whom, and what of the client's wishes was left out."""

    exchange: Exchange
    entry: Entry
    codec: Codec
    asked: Asked
    route: Route
    request: Request
    losses: tuple[Loss, ...] = ()

    def without(self, lack: Lack) -> "_Attempt":
        """Return an attempt that leaves out what the provider refused."""
        if lack == "history":
            request, losses = without_thoughts(self.request)
            return replace(self, request=request, losses=(*self.losses, *losses))
        target = self.route.target
        can = target.capabilities
        known = frozenset({"tools", "thinking", "vision"}) if can is None else can
        lesser = msgspec.structs.replace(target, capabilities=known - {lack})
        return replace(self, route=msgspec.structs.replace(self.route, target=lesser))


class Gateway:
    def __init__(
        self, config: Config, upstream: Upstream, env: Mapping[str, str] = os.environ
    ) -> None:
        self.config = config
        self.upstream = upstream
        self.roster = Roster(config, upstream, env)
        self._calibration = Calibration()
        self._keepsakes = Keepsakes()
        self._store = SqliteStore(_store_path(env))
        self.conversations = Conversations(self._store)

    async def close(self) -> None:
        await self._store.close()

    async def converse(self, exchange: Exchange, entry: Entry, ask: Ask) -> None:
        """Answer one request for words."""
        body = await exchange.body(self.config.max_body)
        request = ask.read(body)
        request = await self.conversations.resume(request, exchange.caller)
        request = msgspec.structs.replace(request, session=_session(exchange, request))
        route = await self.roster.route(request.model)
        counted = self.count(request, route.address)
        _note(entry, ask.codec, request, route)
        check_window(counted.tokens, route.target.window, sure=counted.accuracy != "estimated")
        asked = Asked(request, entry.at, counted.tokens)
        exchange.extra_headers["x-toolbridge-model"] = route.address
        exchange.extra_headers["x-toolbridge-token-count"] = counted.accuracy
        if route.place.api == ask.codec.name and route.place.passthrough:
            message = await Relay(self.upstream, self.config, route).carry(exchange, body, asked)
        else:
            message = await self._translated(exchange, entry, ask.codec, asked, route)
        self._learn(message, counted, route, entry)
        entry.finish(await priced(message, route, entry.at))

    async def count_tokens(self, exchange: Exchange, entry: Entry, ask: Ask) -> int:
        """Answer how many tokens a request is, without asking anybody."""
        body = await exchange.body(self.config.max_body)
        request = ask.codec.decode_request(body, model=ask.model, counting=True)
        entry.note(surface=ask.codec.name, gen_ai__request__model=request.model)
        counted = self.count(request, self.roster.address(request.model))
        exchange.extra_headers["x-toolbridge-token-count"] = counted.accuracy
        return counted.tokens

    async def _keep(self, exchange: Exchange, codec: Codec, asked: Asked, message: Message) -> None:
        """Keep what the next request may need and its client cannot carry."""
        self._keepsakes.keep(message, exchange.caller)
        if codec.name == "openai_responses":
            body = codec.encode_message(message, asked)
            id = msgspec.json.decode(body, type=_Identified).id
            await self.conversations.keep(id, asked.request, message, body, exchange.caller)

    def count(self, request: Request, address: str) -> Counted:
        """Return how many tokens `request` is to a model, as well as anybody here can tell."""
        raw = estimate_request(request)
        tokens, accuracy = self._calibration.apply(address, raw)
        return Counted(tokens, raw, accuracy)

    async def _translated(
        self, exchange: Exchange, entry: Entry, codec: Codec, asked: Asked, route: Route
    ) -> Message:
        restored = self._keepsakes.restore(stateless(asked.request), exchange.caller)
        attempt = _Attempt(exchange, entry, codec, asked, route, restored)
        mended: set[Lack] = set()
        while True:
            try:
                return await self._attempt(attempt)
            except ToolbridgeError as error:
                lack = lacking(error.problem)
                if lack is None or lack in mended or exchange.status:
                    raise
                mended.add(lack)
                attempt = attempt.without(lack)

    async def _attempt(self, attempt: "_Attempt") -> Message:
        ready = self._plan(attempt)
        losses = (*attempt.losses, *ready.losses)
        attempt.entry.losses = list(losses)
        if losses:
            attempt.exchange.extra_headers["x-toolbridge-warning"] = _warning(losses)
        settings = attempt.route.settings
        heal = self.config.heal if settings.heal is None else settings.heal
        answering = Answering(self.upstream, attempt.route, attempt.request, ready, heal=heal)
        answer = self._stream if attempt.request.stream else self._whole
        return await answer(attempt, answering)

    def _plan(self, attempt: "_Attempt") -> Plan:
        exchange, route = attempt.exchange, attempt.route
        wishes = Wishes(
            thinking=self.config.thinking,
            attaches=attaches(exchange.header("user-agent"), exchange.header("x-app")),
            sequential=route.settings.sequential_tools,
            prompt_tokens=attempt.asked.estimate,
            dialect=route.settings.dialect,
        )
        codec = None if route.is_demo else route.codec
        return plan(attempt.request, codec, route.target, wishes)

    async def _whole(self, attempt: "_Attempt", answering: Answering) -> Message:
        message = await answering.message()
        attempt.entry.speak()
        exchange, codec, asked = attempt.exchange, attempt.codec, attempt.asked
        if message.healed:
            exchange.extra_headers["x-toolbridge-healed"] = _healed(message)
        await self._keep(exchange, codec, asked, message)
        await exchange.reply(200, codec.encode_message(message, asked))
        return message

    async def _stream(self, attempt: "_Attempt", answering: Answering) -> Message:
        exchange, codec, asked = attempt.exchange, attempt.codec, attempt.asked
        encoder = codec.stream_encoder(asked)
        waits = (self.config.first_byte, self.config.keep_alive)
        reply = StreamReply(exchange, codec, encoder, waits)
        last: ev.Event | None = None
        try:
            async with aclosing(answering.events()) as batches:
                async for batch in batches:
                    attempt.entry.speak()
                    last = batch[-1]
                    if isinstance(last, ev.Finished):  # kept before a client can ask for it
                        shown = _as_shown(last.message, encoder)
                        await self._keep(exchange, codec, asked, shown)
                    if isinstance(last, ev.Failed) and answering.aborts:
                        return last.message
                    await reply.write(b"".join([b for e in batch for b in encoder.feed(e)]))
        except ToolbridgeError as error:
            if not reply.opened:
                raise
            last = ev.Failed(error.problem, Message(problem=error.problem))
            await reply.write(b"".join(encoder.feed(last)))
        finally:
            reply.stop()
        if isinstance(last, ev.Failed):
            return last.message  # said; now the connection closes without a clean end
        await reply.write(b"".join(encoder.close()))
        await reply.finish()
        return last.message if isinstance(last, ev.Finished) else Message()

    def _learn(self, message: Message, counted: Counted, route: Route, entry: Entry) -> None:
        actual = message.usage.input_total
        if not actual:
            return
        if was_truncated(counted.tokens, actual, route.target.window):
            why = f"{route.provider} cut it to {actual} of about {counted.tokens} tokens"
            entry.losses.append(Loss("prompt", why))
            return
        self._calibration.learn(route.address, counted.raw, actual)


def _as_shown(message: Message, encoder: Encoder) -> Message:
    """Return `message` under the id that the client saw: a keep-alive may have come first."""
    id = getattr(encoder, "id", "")
    return msgspec.structs.replace(message, id=id) if id else message


class _Identified(msgspec.Struct):
    id: str = ""


def _session(exchange: Exchange, request: Request) -> str:
    """Return what the client calls this conversation: the same place serves it, and its cache."""
    names = ("x-claude-code-session-id", "session-id", "x-session-id", "x-session-affinity")
    found = next((value for name in names if (value := exchange.header(name))), "")
    return found or request.session


def _store_path(env: Mapping[str, str]) -> Path | None:
    """Return where things are kept; in memory where there is no home to keep them in."""
    home = env.get("XDG_STATE_HOME") or (f"{env['HOME']}/.local/state" if env.get("HOME") else "")
    return Path(home) / "toolbridge" / "toolbridge.sqlite" if home else None


def _note(entry: Entry, codec: Codec, request: Request, route: Route) -> None:
    entry.note(
        surface=codec.name,
        gen_ai__provider__name=route.provider,
        gen_ai__request__model=request.model,
        gen_ai__response__model=route.target.model,
        stream=request.stream,
    )
    if request.session:
        entry.note(session__id=request.session)


def _warning(losses: tuple[Loss, ...]) -> str:
    text = "; ".join(dict.fromkeys(str(loss) for loss in losses))
    return text if len(text) <= MAX_HEADER else f"{text[:MAX_HEADER]}… ({len(losses)} in all)"


def _healed(message: Message) -> str:
    steps = [f"{r.name}: {s.what} (level {s.level})" for r in message.healed for s in r.steps]
    return "; ".join(steps)[:MAX_HEADER]
