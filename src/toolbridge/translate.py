"""Connects codecs, history, dialects and healing into translations.

`plan` prepares a request for its target, and `answer_stages` builds the stages between decoder and
encoder; the router uses both. `translate` is the library's function for answers alone.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Literal, TypeAlias

import msgspec

from toolbridge import codecs
from toolbridge.core import events as ev
from toolbridge.core.answer_losses import all_losses
from toolbridge.core.client_names import join_losses, name_losses
from toolbridge.core.codec import AnswerContext, Codec, Outgoing, RequestEncoder, Rules, Target
from toolbridge.core.fold import Fold
from toolbridge.core.ids import Ids
from toolbridge.core.json import JsonObject
from toolbridge.core.messages import Loss, Part, Request, Tool, Turn
from toolbridge.core.shared_tools import NO_TRAITS, tool_traits
from toolbridge.core.stage import Pipe, Stage, StageChain
from toolbridge.core.steps import EVERY, Steps, Stepwise, stepwise
from toolbridge.dialects.dialect import ReadStream
from toolbridge.dialects.gate import ThoughtGate
from toolbridge.dialects.stage import DialectStage
from toolbridge.healing import Healer, heal_past_call
from toolbridge.history import prepare
from toolbridge.history.files import own_files
from toolbridge.history.own_fields import without_own_fields
from toolbridge.history.prefix import strip_volatile
from toolbridge.history.references import offer_deferred
from toolbridge.history.seals import maker_name, own_seals
from toolbridge.history.traits import traits_of
from toolbridge.policy.answer_stages import AnswerStages, EveryChoice, Renamer
from toolbridge.policy.completion import completion_as_chat
from toolbridge.policy.limits import output_limit
from toolbridge.policy.native_tools import native_tools
from toolbridge.policy.rescue import RescueContext, rescue
from toolbridge.policy.server_tools import announce
from toolbridge.policy.thinking import decide, with_levels
from toolbridge.policy.tool_modes import (
    Constraint,
    ToldTools,
    ToolMode,
    constraint_losses,
    offered_choice,
    tell_tools,
)


def translate(
    source: str,
    target: str,
    *,
    asked: AnswerContext | None = None,
    tools: Sequence[Tool] = (),
    seed: bytes | str = b"",
) -> "Translation":
    """Return a stage that translates the bytes of an answer from the API `source` to `target`.

    The caller does the I/O. Invalid or truncated input ends the output with an error event of the
    target. The stage's `losses` are complete when the answer has ended.
    """
    decoder = codecs.load(source).stream_decoder(Ids(seed))
    return Translation(Pipe(decoder, Healer(tools)), codecs.load(target), asked or ASKED)


ASKED = AnswerContext(
    Request(model="", stream=True, extra={"stream_options": {"include_usage": True}})
)
"""The context of an answer without a request. OpenAI chat: a stream reports usage only if
`stream_options.include_usage` is set."""


class Translation:
    """A stage that translates the bytes of an answer from one API to another."""

    def __init__(self, source: Stage[bytes, ev.Event], target: Codec, asked: AnswerContext) -> None:
        self._source = source
        self._shows = target.shows
        self._encoder = target.stream_encoder(asked)
        self._fold = Fold()
        self.end: ev.Finished | ev.Failed | None = None
        """The last event of the answer; None until it has arrived."""

    @property
    def losses(self) -> tuple[Loss, ...]:
        """Everything that the answer lost; empty until the answer has ended."""
        return () if self.end is None else all_losses(self._fold.message, self._shows)

    def feed(self, piece: bytes, /) -> list[bytes]:
        return self._write(self._source.feed(piece))

    def close(self) -> list[bytes]:
        return self._write(self._source.close()) + self._encoder.close()

    def _write(self, events: list[ev.Event]) -> list[bytes]:
        written: list[bytes] = []
        for event in events:
            if not isinstance(event, ev.DELTAS):  # losses depend on whole blocks only
                self._fold.feed(event)
            written += self._encoder.feed(event)
        if events and isinstance(events[-1], ev.Finished | ev.Failed):
            self.end = events[-1]
        return written


class RequestOptions(msgspec.Struct, frozen=True):
    """Settings for preparing a request that are not part of the request."""

    thinking: Literal["auto", "drop", "reject"] = "auto"
    attaches: bool = False
    """Whether the client adds thinking to every request, whatever the model supports."""
    sequential: bool = False
    prompt_tokens: int = 0
    dialect: str = "auto"
    ignored: frozenset[str] = frozenset()
    """Dialects that `dialect = "auto"` does not detect."""
    tool_mode: ToolMode = "native"
    """How the tools reach the model. A model without native tools gets them in its prompt."""
    constraint: Constraint = ""
    """How the provider can constrain an answer."""
    tagged_calls: bool = False
    """Whether the provider can constrain the calls in a text and leave the text free."""


class PreparedRequest(msgspec.Struct, frozen=True):
    """A request that is ready to be sent, and what the stages of its answer need."""

    outgoing: Outgoing
    request: Request
    losses: tuple[Loss, ...]
    names: dict[str, str]
    """Names of tools at the target → the client's names."""
    tools: tuple[Tool, ...] = ()
    """The tools under the names at the target, native or described in the prompt."""
    stops: tuple[str, ...] = ()
    """Stop sequences to search the answer for, because the target does not accept them."""
    ignored: frozenset[str] = frozenset()
    """Dialects that are not detected in the answer."""
    reader: ReadStream | None = None
    """The reader of the answer's text, where that is not the reader of a dialect."""
    tool_mode: ToolMode = "native"
    """The mode in which the tools are sent; it may be another than the options have."""


@stepwise
def plan(
    request: Request, codec: RequestEncoder | None, target: Target, options: RequestOptions
) -> Steps[PreparedRequest]:
    """Return `request` prepared and encoded for `target`, with all losses.

    Without a codec (the embedded demo model) the target reads the `Request` itself.
    """
    pause = (None,) if len(request.turns) >= EVERY else ()
    wanted = request
    decided: tuple[Loss, ...] = ()
    named = request.tool_choice.mode == "named"
    if named or request.think.mode != "unset" or request.completion is not None:
        wanted, decided = _decided(request, codec, target, options)
    if codec is None:
        losses = join_losses(name_losses(decided, request, _field_names(request.origin)))
        return PreparedRequest(Outgoing("", {}), wanted, losses, {})
    untold: list[Loss] = []
    tools = tool_traits(wanted.tools) if wanted.tools else NO_TRAITS
    if tools.hosted:
        wanted, untold = native_tools(wanted, codec, target)
        wanted = announce(wanted, codec.name)
    wanted, foreign, kinds = _without_foreign(wanted, codec, target, defers=tools.deferred)
    yield from pause
    target = with_levels(target, codec.name)
    prepared = yield from prepare.steps(
        wanted,
        _rules(codec.rules, wanted, target.quirks) if codec.name == "anthropic" else codec.rules,
        sequential=options.sequential,
        # Anthropic, Messages API: signatures of thinking are bound to the exact history before them.
        heal=None if codec.name == "anthropic" else heal_past_call,
        same_api=codec.name == wanted.origin,
        kinds=kinds,
    )
    yield from pause
    mode = options.tool_mode
    if mode == "native" and not target.can("tools"):
        mode = "prompt"
    told = ToldTools(prepared.request, mode)
    if mode != "native" and wanted.tools:
        told = tell_tools(prepared.request, target, mode, options)
    limited, lowered = _limited(told.request, target, options.prompt_tokens)
    encode = codec.encode_request
    if isinstance(encode, Stepwise):
        outgoing: Outgoing = yield from encode.steps(limited, target)
    else:
        outgoing = encode(limited, target)
    yield from pause
    told_losses, written = told.losses, outgoing.losses
    if told.mode == "constrained":
        told_losses, written = constraint_losses(told_losses, written)
    losses = ()
    if decided or untold or foreign or prepared.losses or told_losses or lowered or written:
        lost = (
            ((*decided, *untold), request),
            (foreign, None),
            (prepared.losses, wanted),
            (told_losses, request),
            ((*lowered, *written), limited),
        )
        losses = _in_names_of_client(lost, request.origin)
    return PreparedRequest(
        outgoing,
        limited,
        losses,
        prepared.names,
        tools=prepared.request.tools,
        stops=outgoing.stops,
        ignored=options.ignored,
        reader=told.reader,
        tool_mode=told.mode,
    )


def _decided(
    request: Request, codec: RequestEncoder | None, target: Target, options: RequestOptions
) -> tuple[Request, tuple[Loss, ...]]:
    """Return what is asked of the model: its thinking, its choice of tools, and how it completes."""
    wanted = request
    losses: tuple[Loss, ...] = ()
    if request.think.mode != "unset":
        verdict = decide(
            request,
            capable=target.can("thinking"),
            setting=options.thinking,
            attaches=options.attaches,
        )
        wanted, losses = verdict.request, verdict.losses
    asked = wanted.tool_choice
    if asked.mode == "named" and (choice := offered_choice(wanted)) is not asked:
        why = f"there is no tool {', '.join(asked.names)!r}"
        losses = (*losses, Loss("tool_choice", why))
        wanted = msgspec.structs.replace(wanted, tool_choice=choice)
    if wanted.completion is not None and not (codec and codec.completes(wanted, target)):
        wanted, unfilled = completion_as_chat(wanted)
        losses = (*losses, *unfilled)
    return wanted, losses


def _in_names_of_client(
    lost: Sequence[tuple[Sequence[Loss], Request | None]], origin: str
) -> tuple[Loss, ...]:
    """Return all losses with the client's names, each by the request that it was lost from.

    Losses without a request have the client's names already.
    """
    every: list[Loss] = []
    for losses, request in lost:
        if losses:
            every += (
                losses if request is None else name_losses(losses, request, _field_names(origin))
            )
    return join_losses(every) if every else ()


def _rules(rules: Rules, request: Request, quirks: JsonObject) -> Rules:
    """Return the rules of Anthropic's API for a model with `quirks`."""
    # Anthropic, prefill: Claude 4.5 and earlier continue a last assistant message, without thinking.
    if quirks.get("prefill") and request.think.mode in {"unset", "off"}:
        rules = msgspec.structs.replace(rules, may_end_with_assistant=True)
    if quirks.get("system_in_place") is False:
        rules = msgspec.structs.replace(rules, system_in_place=False)
    return rules


def _limited(
    request: Request, target: Target, prompt_tokens: int
) -> tuple[Request, tuple[Loss, ...]]:
    """Return `request` with a limit of output tokens that the model accepts."""
    asked = request.max_tokens
    if asked is None and target.limits_only:
        return request, ()
    limit = output_limit(
        asked, max_output=target.max_output, window=target.window, prompt=prompt_tokens
    )
    if limit == asked:
        return request, ()
    limited = msgspec.structs.replace(request, max_tokens=limit)
    if asked is None or limit is None or not target.max_output or asked <= target.max_output:
        return limited, ()
    why = f"lowered from {asked} to {limit}: this model writes at most {target.max_output} tokens"
    return limited, (Loss("max_tokens", why, minor=True),)


@cache
def _field_names(origin: str) -> Mapping[str, str]:
    return codecs.load(origin).field_names if origin in codecs.names() else {}


def _without_foreign(
    request: Request, codec: RequestEncoder, target: Target, *, defers: bool
) -> tuple[Request, list[Loss], frozenset[type[Part]]]:
    """Return `request` without content that only another provider, model or API accepts.

    `defers` is True if a tool is deferred. The third value has the types of all parts that the
    request has now, and maybe others.
    """
    same_api = codec.name == request.origin
    traits = traits_of(request.turns)
    turns = request.turns
    losses: list[Loss] = []
    if traits.files:
        files, provider = target.files, target.provider
        request, losses = own_files(request, codec.name, files=files, provider=provider)
    if traits.sealed and target.provider:
        maker = maker_name(codec.name, target.provider, target.model)
        signed_only = codec.rules.signed_thoughts
        request, lost = own_seals(request, maker, signed_only=signed_only)
        losses += lost
    if defers:
        request, lost = offer_deferred(request, same_api=same_api, defers=codec.rules.defers)
        losses += lost
    if same_api:
        return request, losses, traits.kinds
    own = traits.own if request.turns is turns else traits_of(request.turns).own
    if own or request.system or request.tools or "namespaces" in request.extra:
        request, lost = _without_own(request, own, codec, target)
        losses += lost
    return request, losses, traits.kinds


def _without_own(
    request: Request, own: Sequence[Turn], codec: RequestEncoder, target: Target
) -> tuple[Request, list[Loss]]:
    """Return `request` without what only its own API has; `own` are the turns with such fields."""
    quirks = target.quirks
    marks = quirks.get("cache_breakpoints") or quirks.get("cache_control")
    known = codec.rules.cache_marks or bool(marks)
    request, lost = without_own_fields(request, codec.name, own, marks=known)
    if request.system and (system := strip_volatile(request.system)) is not request.system:
        request = msgspec.structs.replace(request, system=system)
    return request, lost


_Stages: TypeAlias = list[Stage[ev.Event, ev.Event]]


def answer_stages(
    request: Request,
    ready: PreparedRequest,
    *,
    model: str,
    dialect: str = "auto",
    heal: int = 2,
    seed: bytes,
) -> AnswerStages:
    """Return the stages of an answer between decoder and encoder.

    In their order: find calls that the model wrote as text, restore the client's names of tools,
    heal arguments by the client's schemas, and stop at stop sequences that the target does not
    accept.
    """
    context = RescueContext(ready.tools, request.tool_choice, dialect, model)
    if request.sampling.n is None:
        stages = _stages_of(request, ready, context, heal, seed + b"text")
    else:
        stages = [_every_choice(request, ready, context, heal, seed + b"text")]
    return AnswerStages(stages, ready.stops, answer_id(seed))


def _every_choice(
    request: Request, ready: PreparedRequest, context: RescueContext, heal: int, seed: bytes
) -> EveryChoice:
    def stages_of(choice: int) -> StageChain[ev.Event]:
        own = seed + b"%d" % choice if choice else seed
        return StageChain(_stages_of(request, ready, context, heal, own))

    return EveryChoice(stages_of)


def _stages_of(
    request: Request, ready: PreparedRequest, context: RescueContext, heal: int, seed: bytes
) -> _Stages:
    """Return the stages of one answer; `seed` is that of the ids of the calls in its text."""
    stages: _Stages = []
    if (reader := _reader_stage(ready, context, Ids(seed))) is not None:
        stages.append(reader)
    if ready.names:
        stages.append(Renamer(ready.names))
    if request.tools:
        stages.append(Healer(request.tools, level=heal))
    return stages


def _reader_stage(
    ready: PreparedRequest, context: RescueContext, ids: Ids
) -> ThoughtGate | DialectStage | None:
    """Return the stage that reads calls and thoughts from the text; None if nothing reads it."""
    if context.dialect == "off" and ready.reader is None:
        return None
    stage: ThoughtGate | DialectStage
    if ready.tools:
        stage = DialectStage(
            ready.tools,
            dialect=ready.reader or context.dialect,
            model=context.model,
            ids=ids,
            ignored=ready.ignored,
        )
    else:
        stage = ThoughtGate(ids)
    stage.rescue = lambda problem: rescue(problem, context)
    return stage


def answer_id(seed: bytes) -> str:
    """Return the id of the answer whose ids are derived from `seed`."""
    # A seed of the gateway is random, and as long as it is shown. Shorter ones are those of tests.
    return f"msg_{seed[:8].hex()}" if len(seed) >= 8 else Ids(seed + b"message").message()
