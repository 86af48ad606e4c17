"""What a caller may say: a prompt in any of its forms, and options, as one request of ours."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Literal, TypeAlias, TypedDict

from msgspec.structs import replace

from toolbridge.core.errors import MalformedRequest
from toolbridge.core.messages import (
    OutputFormat,
    Request,
    Sampling,
    Text,
    Think,
    Tool,
    ToolChoice,
    Turn,
)
from toolbridge.sdk.streams.signal import Signal
from toolbridge.tools.functions import Function

Prompt: TypeAlias = str | Turn | Sequence[Turn] | Request
AnyTool: TypeAlias = Tool | Function | Callable[..., object]
Retention: TypeAlias = Literal["none", "short", "long"]
Thinks: TypeAlias = bool | int | str | Think


class Options(TypedDict, total=False):
    """What may be said beside the prompt, all of it by name."""

    system: str
    tools: Sequence[AnyTool]
    """Tools, or Python functions whose signature is the schema."""
    tool_choice: str | ToolChoice
    """`auto`, `none`, `required`, or the name of the one tool to call."""
    max_tokens: int | None
    think: Thinks | None
    """Whether to think; a word is how hard, a number how many tokens."""
    temperature: float | None
    top_p: float | None
    seed: int | None
    stop: Sequence[str]
    output: OutputFormat | None
    session_id: str
    """Requests of one session find the same cache where a provider keeps one by session."""
    cache_retention: Retention
    """How long the provider should keep the prompt for the next request; `short` if not said."""
    user: str
    signal: Signal
    """Aborts every answer that was given it."""


@dataclass(frozen=True)
class PreparedAsk:
    """A request, and what only this side of it knows."""

    request: Request
    retention: Retention | None = None
    functions: dict[str, Function] = field(default_factory=dict)
    signal: Signal | None = None


_EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
_RETENTIONS = frozenset({"none", "short", "long"})


def order_of(model: str, prompt: Prompt, options: Options) -> PreparedAsk:
    """Return what is asked for; raise for what nobody can mean."""
    if unknown := sorted(options.keys() - Options.__annotations__.keys()):
        known = ", ".join(Options.__annotations__)
        raise TypeError(f"there is no option {unknown[0]!r}; there are {known}")
    _check_values(options)
    request = _asked(model, prompt)
    if not request.turns:
        raise MalformedRequest("there is nothing to answer", where="prompt")
    given = [_callable(tool) for tool in options.get("tools", ())]
    functions = {tool.tool.name: tool for tool in given if isinstance(tool, Function)}
    offered = (*request.tools, *(t.tool if isinstance(t, Function) else t for t in given))
    retention = options.get("cache_retention")
    if retention is not None and retention not in _RETENTIONS:
        raise ValueError(f"cache_retention is one of none, short, long, not {retention!r}")
    request = _tuned(replace(request, tools=offered, stream=True), options)
    _check_limit(request.max_tokens)
    _check_choice(request)
    return PreparedAsk(request, retention, functions, options.get("signal"))


def _check_values(options: Options) -> None:
    """Raise for values that no provider could take; what a model allows is for its provider to say."""
    for name, most in (("temperature", math.inf), ("top_p", 1.0)):
        given = options.get(name)
        if given is not None and not (_is_number(given) and 0 <= given <= most):  # type: ignore[operator]
            wanted = "a number of at least 0" if most == math.inf else "a number from 0 to 1"
            raise MalformedRequest(f"must be {wanted}, not {given!r}", where=name)
    if type(seed := options.get("seed")) not in {int, type(None)}:
        raise MalformedRequest(f"must be a whole number, not {seed!r}", where="seed")
    for name in ("system", "session_id", "user"):
        if not isinstance(text := options.get(name) or "", str):
            raise MalformedRequest(f"must be a text, not {text!r}", where=name)
    stop: object = options.get("stop") or ()
    if not isinstance(stop, Sequence) or not all(isinstance(text, str) for text in stop):
        raise MalformedRequest(f"must be a text or a list of texts, not {stop!r}", where="stop")
    choice = options.get("tool_choice")
    if not isinstance(choice or "", str | ToolChoice):
        raise MalformedRequest(
            f"must be a text or a ToolChoice, not {choice!r}", where="tool_choice"
        )
    output = options.get("output")
    if not isinstance(output, OutputFormat | None):
        raise MalformedRequest(f"must be an OutputFormat, not {output!r}", where="output")


def _is_number(given: object) -> bool:
    return type(given) in {int, float} and math.isfinite(given)  # type: ignore[arg-type]


def _check_limit(given: int | None) -> None:
    if given is None:
        return
    if type(given) is not int or given < 1:
        raise MalformedRequest(
            f"must be a whole number of at least 1, not {given!r}", where="max_tokens"
        )


def _check_choice(request: Request) -> None:
    """Raise for a choice that names a tool which is not offered: it would silently mean `auto`."""
    choice = request.tool_choice
    offered = [tool.name for tool in request.tools]
    missing = next((name for name in choice.names if name not in offered), None)
    if missing is not None:
        near = get_close_matches(missing, [*offered, "auto", "none", "required"], 1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise MalformedRequest(
            f"there is no tool {missing!r}; it is `auto`, `none`, `required` or the name of a "
            f"tool on offer ({', '.join(offered) or 'there is none'}){hint}",
            where="tool_choice",
        )
    if choice.mode == "required" and not offered:
        raise MalformedRequest("`required` needs tools, and none is offered", where="tool_choice")


def _asked(model: str, prompt: Prompt) -> Request:
    match prompt:
        case str():
            return Request(model, (Turn("user", (Text(prompt),)),) if prompt.strip() else ())
        case Request():
            return replace(prompt, model=model or prompt.model)
        case Turn():
            return Request(model, (prompt,))
        case Iterable():
            turns = tuple(prompt)
        case _:
            raise TypeError(
                f"a prompt is a text, a Request, or a sequence of turns, not {prompt!r}"
            )
    if not all(isinstance(turn, Turn) for turn in turns):
        raise TypeError("a prompt is a text, a Request, or a sequence of turns")
    return Request(model, turns)


def _callable(tool: AnyTool) -> Tool | Function:
    """Return a tool that is only offered as it is, and anything else as what can be called."""
    return tool if isinstance(tool, Tool | Function) else Function(tool)


def _tuned(request: Request, options: Options) -> Request:
    """Return `request` with the options that were given; what was not stays as it is."""
    if system := options.get("system"):
        request = replace(request, system=(*request.system, Text(system)))
    if (think := options.get("think")) is not None:
        request = replace(request, think=think_of(think))
    if choice := options.get("tool_choice"):
        request = replace(request, tool_choice=_choice(choice))
    if stop := options.get("stop"):
        request = replace(request, stop=(stop,) if isinstance(stop, str) else tuple(stop))
    limit = options.get("max_tokens")
    return replace(
        request,
        max_tokens=request.max_tokens if limit is None else limit,
        output=options.get("output") or request.output,
        session=options.get("session_id") or request.session,
        user=options.get("user") or request.user,
        sampling=_sampling(request.sampling, options),
    )


def _sampling(sampling: Sampling, options: Options) -> Sampling:
    if (temperature := options.get("temperature")) is not None:
        sampling = replace(sampling, temperature=temperature)
    if (top_p := options.get("top_p")) is not None:
        sampling = replace(sampling, top_p=top_p)
    if (seed := options.get("seed")) is not None:
        sampling = replace(sampling, seed=seed)
    return sampling


def think_of(think: Thinks) -> Think:
    """Return a wish to think: yes or no, how hard, or how many tokens."""
    match think:
        case Think():
            return think
        case bool():
            return Think(mode="on" if think else "off")
        case int() if think >= 0:
            return Think(mode="on", budget=think)
        case "none":
            return Think(mode="off")
        case "minimal" | "low" | "medium" | "high" | "xhigh" | "max":
            return Think(mode="on", effort=think)
        case _:
            raise ValueError(f"think is true, false, a number or one of {', '.join(_EFFORTS)}")


def _choice(choice: str | ToolChoice) -> ToolChoice:
    match choice:
        case ToolChoice():
            return choice
        case "auto" | "none" | "required":
            return ToolChoice(choice)
        case _:
            return ToolChoice("named", (choice,))
