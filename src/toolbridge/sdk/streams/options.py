"""Turns a prompt, in any of its forms, and the options of a call into one request."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, TypedDict

from msgspec.structs import replace

from toolbridge.core.close_names import close_names, did_you_mean
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
    """The keyword arguments of `stream`, `complete`, `ask` and `run`."""

    system: str
    tools: Sequence[AnyTool]
    """Tools, or Python functions whose signature is the schema."""
    tool_choice: str | ToolChoice
    """`auto`, `none`, `required`, or the name of the one tool to call."""
    max_tokens: int | None
    think: Thinks | None
    """Whether to think; a word sets the effort, a number the tokens."""
    temperature: float | None
    top_p: float | None
    seed: int | None
    stop: Sequence[str]
    output: OutputFormat | None
    session_id: str
    """Requests of one session share a prompt cache at providers that cache by session."""
    cache_retention: Retention
    """How long the provider should cache the prompt for the next request; `short` by default."""
    user: str
    signal: Signal
    """Aborts every answer that it was passed to."""


@dataclass(frozen=True)
class PreparedAsk:
    """A request, with the functions and settings that are not sent."""

    request: Request
    retention: Retention | None = None
    functions: dict[str, Function] = field(default_factory=dict)
    signal: Signal | None = None


_EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
_RETENTIONS = frozenset({"none", "short", "long"})


def prepare(model: str, prompt: Prompt, options: Options) -> PreparedAsk:
    """Return the prepared request; raise for invalid or unknown options."""
    if unknown := sorted(options.keys() - Options.__annotations__.keys()):
        known = ", ".join(Options.__annotations__)
        meant = did_you_mean(unknown[0], Options.__annotations__)
        raise TypeError(f"there is no option {unknown[0]!r}; known options: {known}{meant}")
    _check_values(options)
    request = _asked(model, prompt)
    if not request.turns:
        raise MalformedRequest("the prompt is empty", where="prompt")
    given = [_callable(tool) for tool in options.get("tools", ())]
    functions = {tool.tool.name: tool for tool in given if isinstance(tool, Function)}
    offered = (*request.tools, *(t.tool if isinstance(t, Function) else t for t in given))
    retention = options.get("cache_retention")
    if retention is not None and retention not in _RETENTIONS:
        raise ValueError(f"cache_retention must be none, short or long, not {retention!r}")
    request = _tuned(replace(request, tools=offered, stream=True), options)
    _check_limit(request.max_tokens)
    _check_choice(request)
    return PreparedAsk(request, retention, functions, options.get("signal"))


def _check_values(options: Options) -> None:
    """Raise for values that no provider accepts; each provider checks its own limits."""
    for name, most in (("temperature", math.inf), ("top_p", 1.0)):
        given = options.get(name)
        if given is not None and not (_is_number(given) and 0 <= given <= most):  # type: ignore[operator]
            wanted = "a number of at least 0" if most == math.inf else "a number from 0 to 1"
            raise MalformedRequest(f"must be {wanted}, not {given!r}", where=name)
    if type(seed := options.get("seed")) not in {int, type(None)}:
        raise MalformedRequest(f"must be a whole number, not {seed!r}", where="seed")
    for name in ("system", "session_id", "user"):
        if not isinstance(text := options.get(name) or "", str):
            raise MalformedRequest(f"must be a string, not {text!r}", where=name)
    stop: object = options.get("stop") or ()
    if not isinstance(stop, Sequence) or not all(isinstance(text, str) for text in stop):
        raise MalformedRequest(f"must be a string or a list of strings, not {stop!r}", where="stop")
    choice = options.get("tool_choice")
    if not isinstance(choice or "", str | ToolChoice):
        raise MalformedRequest(
            f"must be a string or a ToolChoice, not {choice!r}", where="tool_choice"
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
    """Raise for a choice of a tool that is not offered: it would silently mean `auto`."""
    choice = request.tool_choice
    offered = [tool.name for tool in request.tools]
    missing = next((name for name in choice.names if name not in offered), None)
    if missing is not None:
        near = close_names(missing, [*offered, "auto", "none", "required"], 1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise MalformedRequest(
            f"there is no tool {missing!r}; use `auto`, `none`, `required` or the name of an "
            f"offered tool ({', '.join(offered) or 'none is offered'}){hint}",
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
                f"a prompt must be a string, a Request, or a sequence of turns, not {prompt!r}"
            )
    if not all(isinstance(turn, Turn) for turn in turns):
        raise TypeError("a prompt must be a string, a Request, or a sequence of turns")
    return Request(model, turns)


def _callable(tool: AnyTool) -> Tool | Function:
    """Return a `Tool` unchanged, and a function as a `Function`."""
    return tool if isinstance(tool, Tool | Function) else Function(tool)


def _tuned(request: Request, options: Options) -> Request:
    """Return `request` with the given options applied."""
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
    """Return the thinking settings for True, False, an effort or a number of tokens."""
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
            raise ValueError(f"think must be true, false, a number or one of {', '.join(_EFFORTS)}")


def _choice(choice: str | ToolChoice) -> ToolChoice:
    match choice:
        case ToolChoice():
            return choice
        case "auto" | "none" | "required":
            return ToolChoice(choice)
        case _:
            return ToolChoice("named", (choice,))
