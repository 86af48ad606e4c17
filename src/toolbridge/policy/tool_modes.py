"""Tool modes: how the tools of a request reach the model, and how its calls come back.

There are three, from the best to the safest:

- `native`: the tools are in the API's own field; the server writes them into the prompt and parses
  the calls.
- `prompt`: the tools are described in the system prompt, and the calls are read from the text.
- `constrained`: as `prompt`, and the provider constrains the text so that every call is valid.

`choose_mode` selects the mode of a request and `lower_mode` the one to try after a failure; neither
knows a provider or a model by its name. `tell_tools` prepares the request for the mode.
`routing/tool_modes.py` remembers what was learned about a model.
"""

import re
from typing import Literal, Protocol, TypeAlias

import msgspec
from msgspec.structs import replace

from toolbridge import dialects
from toolbridge.core.codec import Target
from toolbridge.core.fold import OWN_ENDS
from toolbridge.core.messages import (
    Loss,
    OutputFormat,
    Problem,
    Request,
    StopReason,
    Tool,
    ToolChoice,
)
from toolbridge.dialects.constrained import (
    CONSTRAINED,
    constrained_reader,
    tagged_calls,
    union_schema,
)
from toolbridge.dialects.dialect import ReadStream
from toolbridge.dialects.prompt import offered_tools, render_history
from toolbridge.history.references import available_tools

ToolMode: TypeAlias = Literal["native", "prompt", "constrained"]
Constraint: TypeAlias = Literal["json_schema", ""]
"""How a provider constrains an answer: by the API's field for an output schema, or not at all."""
DEFAULT_DIALECT = "hermes_json"
"""The dialect for models whose own is unknown."""
FORCED = frozenset({"required", "named"})
"""The modes of a tool choice that demand a call."""


class ToolSupport(msgspec.Struct, frozen=True):
    """What a provider and its model can do with tools."""

    native: bool = True
    """Whether the model's template has tools, as far as that is known."""
    binds: bool = True
    """Whether the provider enforces a tool choice that demands a call."""
    constraint: Constraint = ""


def choose_mode(
    choice: ToolChoice, support: ToolSupport, learned: ToolMode | None = None
) -> ToolMode:
    """Return the mode of a request; `learned` is the mode that an earlier failure led to.

    A choice that demands a call uses the constraint at once where the native tools would not be
    bound to it. Otherwise text must stay possible, and the best mode that has not failed is used;
    that is never `constrained`, because a small model that may answer with JSON or with text in
    JSON calls a tool whatever it is asked (SmolLM2-135M: 6 of 8 greetings).
    """
    mode = learned or "native"
    if mode == "native" and not support.native:
        mode = "prompt"
    forced = choice.mode in FORCED
    if forced and support.constraint and (mode != "native" or not support.binds):
        return "constrained"
    return "prompt" if mode == "constrained" else mode


def lower_mode(mode: ToolMode, choice: ToolChoice, constraint: Constraint) -> ToolMode | None:
    """Return the mode to try after `mode` has failed; None if there is no other."""
    if mode == "native" and not (constraint and choice.mode in FORCED):
        return "prompt"
    return "constrained" if mode != "constrained" and constraint else None


class ModeOutcome(msgspec.Struct, frozen=True):
    """How a mode did in one answer."""

    worked: bool
    why: str = ""
    """Why it did not work, for the user."""
    certain: bool = False
    """Whether it can never work: the provider rejects tools, or the constraint of the mode."""


class LearnedMode(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the answers of a model have shown about its tool modes."""

    mode: ToolMode = "native"
    """The best mode that has not failed."""
    why: str = ""
    """Why a better mode is not used."""
    template: str = ""
    """The hash of the template that the model had; another template is another model."""
    worked: bool = False
    """Whether the mode has worked."""
    failures: int = 0
    """Failures since it worked last."""
    unbound: bool = False
    """Whether the provider has rejected the constraint."""
    untagged: bool = False
    """Whether the provider has rejected the constraint of calls in a text."""


MAX_FAILURES = 3
"""Failures in a row after which a mode that has worked before is given up."""


def learn(known: LearnedMode, mode: ToolMode, outcome: ModeOutcome) -> LearnedMode:
    """Return what is known after an answer in `mode`.

    Only the mode that the model is in can be given up: at the first failure if it never worked,
    else after several in a row. A mode that a single request was forced into changes nothing.
    """
    if mode == "constrained" and outcome.certain:
        return replace(known, unbound=True)
    if mode == "prompt" and outcome.certain:
        return replace(known, untagged=True)
    if mode != known.mode:
        return known
    if outcome.worked:
        return (
            known
            if known.worked and not known.failures
            else replace(known, worked=True, failures=0)
        )
    failures = known.failures + 1
    if known.worked and failures < MAX_FAILURES and not outcome.certain:
        return replace(known, failures=failures)
    if mode == "native":
        return LearnedMode("prompt", outcome.why, known.template)
    return replace(known, failures=failures)


def outcome_of(
    choice: ToolChoice, reason: StopReason, *, broken: bool, limit: int | None = None
) -> ModeOutcome | None:
    """Return how a mode did in an answer that ended with `reason`; None if that shows nothing.

    `broken` is whether the arguments of a call stayed invalid, and `limit` the maximum number of
    tokens: an answer that a low limit has cut off shows nothing.
    """
    if broken and reason in OWN_ENDS:
        return ModeOutcome(worked=False, why="the arguments of its calls stayed invalid")
    if reason == "tool_use":
        return ModeOutcome(worked=True)
    whole = reason in OWN_ENDS or (reason == "length" and (limit is None or limit >= LOW_LIMIT))
    if choice.mode in FORCED and whole:
        return ModeOutcome(worked=False, why="it answered with text where a call was demanded")
    return None


LOW_LIMIT = 256
"""Tokens in which a small model may not have reached its call yet."""


def rejects_constraint(problem: Problem) -> bool:
    """Return whether a provider has rejected the constraint of an answer, or its schema."""
    kinds = ("rejected", "unsupported", "malformed_request")
    rejected = problem.kind in kinds and problem.status in {400, 422, 500, 501}
    return rejected and _CONSTRAINT.search(problem.text) is not None


# llama.cpp: "JSON schema error at #", "failed to parse grammar"; vLLM: "Failed to transform json
# schema into a grammar"; Ollama: "invalid format"; others name the field.
_CONSTRAINT = re.compile(
    r"json.?schema|grammar|response_?format|responseJsonSchema|structured.?output|invalid format"
    r"|output_config|text\.format",
    re.IGNORECASE,
)


class ModeOptions(Protocol):
    """What the tool modes need of the options of a request."""

    @property
    def constraint(self) -> Constraint: ...

    @property
    def tagged_calls(self) -> bool: ...

    @property
    def dialect(self) -> str: ...


class ToldTools(msgspec.Struct, frozen=True):
    """A request whose tools are where a mode puts them."""

    request: Request
    mode: ToolMode
    """The mode that is used: without a constraint, `prompt` instead of `constrained`."""
    losses: tuple[Loss, ...] = ()
    reader: ReadStream | None = None
    """The reader of the answer, where that is not the reader of a dialect."""


def offered_choice(request: Request) -> ToolChoice:
    """Return the tool choice, or `auto` if it names a tool that the client does not offer."""
    choice = request.tool_choice
    if choice.mode != "named":
        return choice
    offered = {tool.name for tool in request.tools}
    return choice if offered & {*choice.names} else ToolChoice()


def tell_tools(request: Request, target: Target, mode: ToolMode, options: ModeOptions) -> ToldTools:
    """Return `request` with its tools where `mode` puts them."""
    if not request.tools or mode == "native":
        return ToldTools(request, mode)
    request = available_tools(request)
    if mode == "constrained" and options.constraint and (offered := _callable_tools(request)):
        return _constrained(request, target, offered)
    dialect = options.dialect
    spoken = dialects.for_model(target.model) if dialect in {"auto", "off"} else dialect
    why = _why(target)
    if mode == "constrained":
        why += ", and its provider has no constraint for the calls (`constraint`)"
    told = render_history(request, spoken or DEFAULT_DIALECT)
    if options.tagged_calls and (spoken or DEFAULT_DIALECT) == DEFAULT_DIALECT:
        told = _tagged(told, request)
    if not offered_tools(request.tools, request.tool_choice):  # `tool_choice` is "none"
        why = f"past calls are written as text for {target.model}"
        losses = (Loss("tools", why),) if told.turns != request.turns else ()
        return ToldTools(told, "prompt", losses)
    return ToldTools(told, "prompt", (Loss("tools", why),))


def _tagged(told: Request, request: Request) -> Request:
    """Return `told` with the form of its calls as a constraint, unless the client sets another."""
    offered = _callable_tools(request)
    if told.output is not None or not offered:
        return told
    return replace(told, output=OutputFormat(tagged=tagged_calls(offered)))


def _callable_tools(request: Request) -> list[Tool]:
    """Return the tools that the client runs; a tool of another API's servers has no schema."""
    offered = offered_tools(request.tools, request.tool_choice)
    return [tool for tool in offered if tool.hosted is None]


def _constrained(request: Request, target: Target, offered: list[Tool]) -> ToldTools:
    choice, own = request.tool_choice, request.output
    schema = union_schema(
        offered,
        forced=choice.mode in FORCED,
        parallel=choice.parallel is not False,
        otherwise=None if own is None else own.schema or {"type": "object"},
    )
    told = replace(render_history(request, CONSTRAINED), output=OutputFormat(schema, "answer"))
    losses = [Loss("tools", _why(target) + _CONSTRAINED)]
    if choice.mode in FORCED and told.sampling.temperature is None:
        # Small models choose the right tool more often without chance: SmolLM2-135M 7 of 8 times,
        # with llama.cpp's default of 0.8 only 4 times.
        told = replace(told, sampling=replace(told.sampling, temperature=0.0))
        losses.append(Loss("sampling.temperature", "0 for a call that must be made", minor=True))
    return ToldTools(told, "constrained", tuple(losses), constrained_reader(target.model))


_CONSTRAINED = ", and its answer is constrained to their schemas"


def constraint_losses(
    told: tuple[Loss, ...], encoded: tuple[Loss, ...]
) -> tuple[tuple[Loss, ...], tuple[Loss, ...]]:
    """Return the losses of a constrained answer, those of its schema as losses of the tools.

    The schema and its name are made from the tools: the client has no field for them.
    """
    if any(loss.what in {"output", "output.strict"} for loss in encoded):
        told = tuple(replace(loss, why=loss.why.removesuffix(_CONSTRAINED)) for loss in told)
    renamed = (
        replace(loss, what="tools") if loss.what.partition(".")[0] == "output" else loss
        for loss in encoded
        if loss.what != "output.name"
    )
    return told, tuple(renamed)


def _why(target: Target) -> str:
    if target.can("tools"):
        return f"the tools are described in the prompt of {target.model}"
    return f"{target.model} has no tools of its own; they are described in its prompt"
