"""Translated requests: a `Request` prepared for the API of its provider.

`attempts.AnswerAttempts` sends a `TranslatedRequest` as often as is needed. When the provider
rejects a feature (tools, thinking, vision, thoughts in the history), the request is prepared again
without it; when it rejects a parameter, the encoded body is corrected (`request_corrections.py`).
Both are reported as losses.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from toolbridge.core import events as ev
from toolbridge.core.draft import Draft
from toolbridge.core.errors import Unsupported
from toolbridge.core.ids import CallIds, Ids
from toolbridge.core.json import JsonObject, dumps
from toolbridge.core.messages import Loss, Problem, Request, Text
from toolbridge.core.steps import Steps
from toolbridge.history.prefix import strip_volatile
from toolbridge.policy.answer_stages import AnswerStages
from toolbridge.policy.downgrade import MissingFeature, missing_feature, without_thoughts
from toolbridge.policy.rescue import is_unparsed
from toolbridge.policy.routing_rules import has_images
from toolbridge.policy.tool_modes import (
    ModeOutcome,
    ToolMode,
    lower_mode,
    offered_choice,
    outcome_of,
    rejects_constraint,
)
from toolbridge.routing.exchange_trace import ExchangeTrace
from toolbridge.routing.providers import is_first_party
from toolbridge.routing.request_corrections import RequestCorrections
from toolbridge.routing.route import Route
from toolbridge.routing.sources import (
    Batch,
    ObservedSource,
    OnHead,
    ProviderConnections,
    Source,
    ignore_head,
    merged_headers,
)
from toolbridge.translate import (
    PreparedRequest,
    RequestOptions,
    answer_id,
    answer_stages,
    plan,
)

if TYPE_CHECKING:
    from toolbridge.routing.charge import InnerCharges
    from toolbridge.routing.image_describer import ImageDescriber
    from toolbridge.routing.server_slots import SlotPin

OnLosses: TypeAlias = Callable[[tuple[Loss, ...]], None]


def ignore_losses(_: tuple[Loss, ...]) -> None:
    """Do nothing with the losses."""


class ClientSide(msgspec.Struct, frozen=True):
    """What a client's exchange adds to a request, and the callbacks that report about it."""

    headers: Mapping[str, str] = {}
    """The client's own headers, if the provider has the client's API."""
    losses: OnLosses = ignore_losses
    """Called with what the provider's API cannot express."""
    head: OnHead = ignore_head
    """Called with the headers of each response of the provider."""
    raw: Callable[[Batch], None] | None = None
    """Called with the provider's events as they were decoded, before any stage."""
    routing: Mapping[str, str] = {}
    """The client's headers that routing reads (`policy.session_key`)."""
    pin: "SlotPin | None" = None
    """Takes a slot of a llama.cpp server for the request."""
    describer: "ImageDescriber | None" = None
    """Describes images for a model that accepts none."""
    descriptions: "InnerCharges | None" = None
    """Charges the descriptions to the caller; without it they are free."""
    tools: Callable[[ToolMode, ModeOutcome], None] | None = None
    """Called with how a tool mode did in the answer, where the answer shows it."""
    trace: ExchangeTrace | None = None
    """Keeps what is sent and received, for `toolbridge explain` and recordings."""
    keeps_mode: bool = False
    """Whether a request fails with `Unsupported` if its tool mode cannot be used, instead of being
    sent in another mode."""


class TranslatedRequest:
    """A request encoded for the provider's API, whose answer is decoded and healed."""

    retries_empty = True
    needs_other_api = False
    _parser_avoided = False
    _adapted: tuple[Loss, ...] = ()
    _losses: tuple[Loss, ...] = ()
    _described: tuple[Loss, ...] | None = None
    """The losses of describing the images; None before that."""

    def __init__(
        self,
        sources: ProviderConnections,
        route: Route,
        request: Request,
        options: RequestOptions,
        *,
        heal: int,
        client: ClientSide,
    ) -> None:
        self._corrections = RequestCorrections(sources.corrections, route)
        self.route = self._corrections.route
        self._sources = sources
        self._request = _without_billing_line(request, route) if request.system else request
        self._options = options
        self._heal = heal
        self._client = client
        self._downgrades: dict[MissingFeature, tuple[Loss, ...]] = {}

    @property
    def streams(self) -> bool:
        """Whether the provider is asked for a stream: a whole answer comes when it is complete."""
        return self._request.stream or self.route.is_node

    def source(self, seed: bytes) -> Source:
        ids = CallIds(seed)
        describer, pin = self._client.describer, self._client.pin
        if describer is not None and self._needs_description():
            return describer.source(partial(self._described_source, describer, seed))
        pinned = pin is not None and pin.field not in self._plan.outgoing.body
        source = pin.source(partial(self._send, ids)) if pin and pinned else self._send(ids)
        if self._corrections.found:
            source = self._corrections.confirming(source)
        return source if self._client.raw is None else ObservedSource(source, self._client.raw)

    def _needs_description(self) -> bool:
        if self._described is not None or self.route.target.can("vision"):
            return False
        return has_images(self._request)

    async def _described_source(self, describer: "ImageDescriber", seed: bytes) -> Source:
        self._request, self._described = await describer.describe(
            self._request, self._client.descriptions
        )
        self.prepare()
        return self.source(seed)

    def _send(self, ids: Ids, fields: JsonObject | None = None) -> Source:
        ready, trace = self._plan, self._client.trace
        if trace is not None:
            self._note_attempt(trace, tuple(fields or ()))
        if fields:
            body = {**ready.outgoing.body, **fields}
            outgoing = msgspec.structs.replace(ready.outgoing, body=body)
            ready = msgspec.structs.replace(ready, outgoing=outgoing)
        return self._sources.source(self.route, ready, ids, self._client.head, trace)

    def _note_attempt(self, trace: ExchangeTrace, added: tuple[str, ...]) -> None:
        attempt = trace.begin(self.route)
        attempt.losses = self._losses
        for name in added:
            kept = Loss(name, "the conversation keeps its slot", minor=True)
            attempt.losses = (*attempt.losses, kept)
        attempt.names = self._plan.names
        attempt.dialect = self.route.settings.dialect
        if self._request.tools:
            attempt.tool_mode = self._options.tool_mode
        if self.route.is_demo or self.route.is_node:
            attempt.ready = self._plan

    def stages(self, seed: bytes) -> AnswerStages:
        if self.route.is_demo:
            return AnswerStages((), self._plan.stops, id=answer_id(seed))
        stages = answer_stages(
            self._request,
            self._plan,
            model=self.route.target.model,
            dialect=self.route.settings.dialect,
            heal=self._heal,
            seed=seed,
        )
        same_api = not self.route.is_node and self._request.origin == self.route.codec.name
        stages.seen = self._sources.seen_ids if same_api else None
        if self._plan.tools and self._client.tools is not None:
            stages.on_finish = self._note_end
        return stages

    def _note_end(self, end: ev.Finished, broken: bool) -> None:  # noqa: FBT001  a callback
        request = self._request
        outcome = outcome_of(
            offered_choice(request), end.reason, broken=broken, limit=request.max_tokens
        )
        if outcome is not None:
            self._note(outcome)

    def _note(self, outcome: ModeOutcome) -> None:
        if self._client.tools is not None:
            self._client.tools(self._options.tool_mode, outcome)

    def rescue(self, problem: Problem, seed: bytes) -> list[ev.Event] | None:
        """Return the answer that an engine's error contains, as the stages of an answer write it."""
        if not problem.generated or self.route.is_demo or self.route.is_node:
            return None
        draft = Draft(Ids(seed))
        failed = draft.start(model=self.route.target.model) + draft.fail(problem)
        events = self.stages(seed).feed_all(failed)
        return events if isinstance(events[-1], ev.Finished) else None

    def downgrade(self, problem: Problem) -> bool:
        """Change the request after a rejection, once for each reason; return whether it changed.

        A parameter that the provider rejected is corrected, a feature is left out. Where an engine
        could not parse the answer, the tools are sent in the next mode.
        """
        if is_unparsed(problem):
            return self._avoid_parser(problem)
        if rejects_constraint(problem) and self._avoid_constraint(problem):
            return True
        if self._adapt(problem):
            return True
        if self._corrections.find(problem, self._plan.outgoing.body):
            self.route = self._corrections.route
            self.prepare()
            return True
        lack = missing_feature(problem)
        if lack is None or lack in self._downgrades:
            return False
        self._downgrades[lack] = ()
        if lack == "history":
            self._request, self._downgrades[lack] = without_thoughts(self._request)
        else:
            self.route = self._corrections.route = _without(self.route, lack)
            if lack == "tools":
                self._give_up_mode("its provider rejects tools", problem, certain=True)
                self._lower_tool_mode()
        self.prepare()
        return True

    def _give_up_mode(self, why: str, problem: Problem, *, certain: bool = False) -> None:
        """Note that the tool mode has failed; raise `Unsupported` if no other mode may be used."""
        self._note(ModeOutcome(worked=False, why=why, certain=certain))
        if self._client.keeps_mode:
            raise Unsupported(f"{why}: {problem.text}", provider=self.route.provider)

    def _avoid_parser(self, problem: Problem) -> bool:
        """Send the tools in the next mode, once: this failure is repeated by the same request."""
        if self._parser_avoided or not self._plan.tools:
            return False
        self._give_up_mode("its engine could not parse a call", problem)
        if not self._lower_tool_mode():
            return False
        self._parser_avoided = True
        self.prepare()
        return True

    def _avoid_constraint(self, problem: Problem) -> bool:
        """Send the tools in the prompt only, if the provider was to constrain the calls."""
        output = self._plan.request.output
        tagged = output is not None and output.tagged is not None
        why = "its provider rejects the constraint"
        if self._options.tool_mode == "constrained":
            self._give_up_mode(why, problem, certain=True)
        elif tagged:  # the mode stays `prompt`
            self._note(ModeOutcome(worked=False, why=why, certain=True))
        else:
            return False
        self._options = msgspec.structs.replace(
            self._options,
            tool_mode="prompt",
            tagged_calls=self._options.tagged_calls and not tagged,
        )
        self.prepare()
        return True

    def _lower_tool_mode(self) -> bool:
        """Send the tools in the next mode; return whether there is one."""
        options = self._options
        lower = lower_mode(options.tool_mode, self._request.tool_choice, options.constraint)
        if lower is not None:
            self._options = msgspec.structs.replace(options, tool_mode=lower)
        return lower is not None

    def _adapt(self, problem: Problem) -> bool:
        """Send the request in another way, if its cloud asked for one."""
        endpoint = self.route.endpoint
        changed = endpoint.adapt(self.route.target.model, problem) if endpoint else None
        if changed is None:
            return False
        self._adapted = (*self._adapted, changed)
        self.prepare()
        return True

    def prepare(self) -> None:
        """Prepare the request for its route, before anything else is done with it."""
        for _ in self.preparing():
            pass

    def preparing(self) -> Steps[None]:
        """As `prepare`, in steps."""
        request, route, options = self._request, self.route, self._options
        ready = yield from plan.steps(request, route.request_encoder, route.target, options)
        if request.output is not None and _schema_lost(ready.outgoing.losses):
            told = _with_schema_in_prompt(request)
            ready = yield from plan.steps(told, route.request_encoder, route.target, options)
        body, corrected = ready.outgoing.body, self._corrections.losses
        if self._corrections.active:
            body, corrected = self._corrections.apply(body)
        if corrected and any(map(_is_stop, corrected)):
            ready = msgspec.structs.replace(ready, stops=self._request.stop)
            corrected = tuple(map(_searched, corrected))
        if self._client.keeps_mode:
            self._check_mode(ready, corrected)
        self._losses = (*corrected, *ready.losses)
        if self._described or self._adapted or self._downgrades:
            self._losses = (*self._lost_before(), *self._losses)
        self._client.losses(self._losses)
        if self._client.headers or body is not ready.outgoing.body:
            headers = merged_headers(ready.outgoing.headers, self._client.headers)
            outgoing = msgspec.structs.replace(ready.outgoing, headers=headers, body=body)
            ready = msgspec.structs.replace(ready, outgoing=outgoing)
        self._plan = ready

    def _lost_before(self) -> tuple[Loss, ...]:
        """Return what was lost before the request was prepared."""
        left_out = [loss for losses in self._downgrades.values() for loss in losses]
        return (*(self._described or ()), *self._adapted, *left_out)

    def _check_mode(self, ready: PreparedRequest, corrected: tuple[Loss, ...]) -> None:
        """Raise `Unsupported` unless the tools, and a constraint, are sent as the mode demands."""
        mode, model = self._options.tool_mode, self.route.address
        if self._request.tools and ready.tool_mode != mode:
            raise Unsupported(f"{model} {_LACKS[mode]}")
        constrains = mode == "constrained" and ready.request.output is not None
        if constrains and (_schema_lost(ready.outgoing.losses) or _format_lost(corrected)):
            raise Unsupported(f"{model} {_LACKS[mode]}")


_LACKS: dict[ToolMode, str] = {
    "native": "has no native tools",
    "prompt": "has native tools only",
    "constrained": "has no constraint for its answers (`constraint`)",
}
"""Mode → why a model cannot be used in it."""


def _is_stop(loss: Loss) -> bool:
    return loss.what.rpartition(".")[2] in {"stop", "stop_sequences", "stopSequences"}


def _searched(loss: Loss) -> Loss:
    """Return the loss of stop sequences as what it is: the gateway searches the answer for them."""
    if not _is_stop(loss):
        return loss
    return msgspec.structs.replace(loss, why=f"{loss.why}; the answer is searched for it")


def _without_billing_line(request: Request, route: Route) -> Request:
    """Return `request` without Claude Code's billing line, unless Anthropic itself reads it."""
    system = strip_volatile(request.system)
    if system is request.system or is_first_party(route.provider_config):
        return request
    return msgspec.structs.replace(request, system=system)


def _schema_lost(losses: tuple[Loss, ...]) -> bool:
    return any(loss.what in {"output", "output.schema"} for loss in losses)


def _format_lost(corrected: tuple[Loss, ...]) -> bool:
    """Return whether a correction has removed the output schema from the body."""
    return any(loss.what in _FORMATS for loss in corrected)


_FORMATS = frozenset(
    {"output schema", "response_format", "response_format.type", "text.format", "format"}
    | {"output_config.format"}
)
"""What the losses of corrections call the field of the output schema (`policy/corrections.py`)."""


def _with_schema_in_prompt(request: Request) -> Request:
    """Return `request` with its output schema in the system prompt.

    Used where the provider's API has no field for a schema.
    """
    schema = request.output.schema if request.output else None
    shape = f", of the shape of this JSON Schema:\n{dumps(schema)}" if schema else "."
    system = (*request.system, Text(f"Answer with JSON only{shape}"))
    return msgspec.structs.replace(request, system=system)


def _without(route: Route, lack: MissingFeature) -> Route:
    """Return `route` with a capability removed from its model."""
    target = route.target
    can = target.capabilities
    known = frozenset({"tools", "thinking", "vision"}) if can is None else can
    lesser = msgspec.structs.replace(target, capabilities=known - {lack})
    return msgspec.structs.replace(route, target=lesser)
