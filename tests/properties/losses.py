"""What each API cannot say, as functions that take it out of ours.

A law about round trips compares what is left. Whatever is not taken out here must come back.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import msgspec
from msgspec.structs import replace
from tests.properties import gemini_losses, openai_chat_losses, server_tool_losses

from toolbridge.codecs.ollama import shapes as ollama
from toolbridge.core.answer_sources import sources_text
from toolbridge.core.messages import (
    Call,
    Document,
    Image,
    Loss,
    Message,
    Request,
    Result,
    Text,
    Think,
    Thinking,
    Tool,
    ToolChoice,
    Turn,
)
from toolbridge.core.usage import Usage


def nothing(value, asked=None):
    return value


@dataclass(frozen=True)
class Losses:
    message: Callable[[Message], Message] = nothing
    request: Callable[[Request, Request], Request] = nothing
    """Takes a request and, for what depends on it, the one that was sent."""
    images_out: bool = False
    """Whether an answer may hold pictures."""


def without(request: Request, losses: tuple[Loss, ...]) -> Request:
    """Return `request` without what was reported as lost."""
    # From the back, so that a path still finds its place after another was taken out.
    for loss in sorted(losses, key=lambda loss: _path(loss.what), reverse=True):
        request = _take(request, loss.what.split("."))
    return replace(request, turns=tuple(turn for turn in request.turns if turn.content))


def without_changed(request: Request, losses: tuple[Loss, ...]) -> Request:
    """Return `request` without the fields that a report names: they may have become others."""
    named = tuple(loss for loss in losses if not re.search(r"\d", loss.what))
    return without(request, named)


def _path(what: str) -> list[tuple[int, str]]:
    return [(int(step), "") if step.isdecimal() else (0, step) for step in what.split(".")]


def _take(value, steps: list[str]):
    step, *rest = steps
    if isinstance(value, tuple):
        at = int(step)
        assert at < len(value), f"a loss at {step} of {len(value)}"
        inner = (_take(value[at], rest),) if rest else ()
        return (*value[:at], *inner, *value[at + 1 :])
    assert isinstance(value, msgspec.Struct), f"a loss at {step} of {value!r}"
    if rest:
        return replace(value, **{step: _take(getattr(value, step), rest)})
    return replace(value, **{step: _default(type(value), step)})


def _default(shape: type[msgspec.Struct], name: str):
    field = next(field for field in msgspec.structs.fields(shape) if field.name == name)
    return field.default_factory() if field.default is msgspec.NODEFAULT else field.default


# ── anthropic ────────────────────────────────────────────────────────────────


def _anthropic_message(message: Message) -> Message:
    """An answer holds no pictures, and every answer has at least one token."""
    shown = (part for part in message.content if not isinstance(part, Image))
    content = tuple(map(server_tool_losses.anthropic, shown))
    usage = replace(message.usage, output=max(1, message.usage.output))
    return replace(message, content=content, usage=usage)


def _anthropic_request(request: Request, asked: Request) -> Request:
    """A result has the id of its call, and that alone."""
    return replace(
        request,
        turns=tuple(
            replace(turn, content=tuple(map(_anthropic_part, turn.content)))
            for turn in request.turns
        ),
    )


def _anthropic_part(part):
    return replace(part, name="") if isinstance(part, Result) else part


# ── ollama ───────────────────────────────────────────────────────────────────


def _ollama_part(part):
    match part:
        case Thinking():
            return replace(part, opaque=())
        case Text():
            return replace(part, citations=(), cache="", opaque=())
        case _:
            return part


def _ollama_message(message: Message) -> Message:
    """Parts have no order but within their kind, thoughts have no seal, two counts are all."""
    sources = sources_text(server_tool_losses.in_text(message, ollama.SHOWS))
    message = server_tool_losses.spoken(message, ollama.SHOWS)
    shown = (*message.content, Text(sources)) if sources else message.content
    parts = [_ollama_part(part) for part in shown]
    parts = [part for part in parts if part != Thinking("")]
    kinds = (Thinking, Text, Image, Call)
    ordered = (part for kind in kinds for part in parts if isinstance(part, kind))
    usage = message.usage
    stop = "length" if message.stop == "context_overflow" else message.stop
    stop = stop if stop in {"tool_use", "length"} else "tool_use" if message.calls else "end"
    return replace(
        message,
        id="",
        content=_flowing(ordered),
        usage=Usage(input=usage.input_total, output=usage.output),
        stop=stop,
        stop_sequence="",
    )


def _flowing(parts):
    """Return `parts` with neighbours of one kind made one: nothing marks where they meet."""
    flow = []
    for part in parts:
        if flow and isinstance(part, Text | Thinking) and type(part) is type(flow[-1]):
            flow[-1] = replace(flow[-1], text=flow[-1].text + part.text)
        else:
            flow.append(part)
    return tuple(flow)


_INSTEAD = re.compile(r"\[(image|audio|document)[^\]]*\]|You must call [^.]*\.")
"""What is said in place of a picture or of a choice: their loss is reported, these are not ours."""


def _ollama_request(request: Request, asked: Request) -> Request:
    """A message is one text with pictures beside it; a choice among tools is not to be had."""
    turns = (Turn(turn.role, _ollama_content(turn.content)) for turn in request.turns)
    return replace(
        request,
        system=_ollama_text(request.system),
        turns=tuple(turn for turn in turns if turn.content),
        tools=tuple(_ollama_tools(request.tools, asked.tool_choice)),
        tool_choice=ToolChoice(),
        think=replace(request.think, mode="on") if request.think.mode == "auto" else request.think,
        user="",
    )


def _ollama_tools(tools: tuple[Tool, ...], choice: ToolChoice) -> Iterator[Tool]:
    """What may not be called is not offered."""
    for tool in tools:
        if choice.mode == "none" or (choice.mode == "named" and tool.name not in choice.names):
            continue
        if choice.mode == "named" or not tool.deferred:
            yield replace(tool, strict=None, deferred=False, cache="")


def _ollama_content(parts):
    media = (replace(part, cache="") for part in parts if isinstance(part, Image))
    thought = "".join(part.text for part in parts if isinstance(part, Thinking))
    return (
        *(_ollama_result(part) for part in parts if isinstance(part, Result)),
        *((Thinking(thought),) if thought else ()),
        *_ollama_text(parts),
        *media,
        *(replace(part, cache="") for part in parts if isinstance(part, Call)),
    )


def _ollama_result(result: Result) -> Result:
    return replace(result, content=_ollama_content(result.content), name="", cache="")


def _ollama_text(parts):
    """Return all text as one; where two met, a line end may stand."""
    written = "".join(_ollama_words(part) for part in parts)
    written = _INSTEAD.sub("", written).replace("\n", "")
    return (Text(written),) if written else ()


def _ollama_words(part) -> str:
    match part:
        case Text(text):
            return text
        case Document(text=text) if text:
            title = f"[document: {part.title}]" if part.title else ""
            return title + part.context + text
        case _:
            return ""


# ── openai_responses ─────────────────────────────────────────────────────────

_INCOMPLETE = {"length": "length", "context_overflow": "length", "refusal": "refusal"}


def _responses_message(message: Message) -> Message:
    """An answer holds seals of one kind, and stops for three reasons or is whole."""
    parts = map(_responses_part, server_tool_losses.responses(message.content))
    whole = "tool_use" if message.calls else "end"
    return replace(
        message,
        usage=replace(message.usage, searches=0),  # counted from the items
        id=message.id.removeprefix("resp_"),
        content=tuple(part for part in parts if part != Thinking("")),
        stop=_INCOMPLETE.get(message.stop, whole),
        stop_sequence="",
    )


def _responses_request(request: Request, asked: Request) -> Request:
    """A model thinks when it likes, only what is said to it ends a prefix, nothing is stored."""
    think = request.think
    if think.mode == "on" or think == Think("auto"):
        think = replace(think, mode="auto" if think.effort else "unset")
    return replace(
        request,
        extra={name: value for name, value in request.extra.items() if name != "store"},
        think=think,
        tools=tuple(replace(tool, cache="") for tool in request.tools),
        turns=tuple(
            Turn(turn.role, tuple(_responses_part(part, turn.role) for part in turn.content))
            for turn in request.turns
        ),
    )


def _responses_part(part, role="assistant"):
    match part:
        case Thinking():
            seals = tuple(token for token in part.opaque if token.kind in {"encrypted", "item"})
            return replace(part, opaque=seals)
        case Text() if role == "assistant":
            return replace(part, cache="")
        case Document(text=text) if text:
            title = f"[document: {part.title}]" if part.title else ""
            return Text("\n".join(line for line in (title, part.context, text) if line))
        case Call():
            return replace(part, cache="")
        case Result():
            return replace(part, name="", cache="")
        case _:
            return part


LOSSES: dict[str, Losses] = {
    "gemini": Losses(message=gemini_losses.message, request=gemini_losses.request, images_out=True),
    "anthropic": Losses(message=_anthropic_message, request=_anthropic_request),
    "ollama": Losses(message=_ollama_message, request=_ollama_request),
    "openai_responses": Losses(
        message=_responses_message, request=_responses_request, images_out=True
    ),
    "openai_chat": Losses(
        message=openai_chat_losses.message, request=openai_chat_losses.request, images_out=True
    ),
}


def losses_of(name: str) -> Losses:
    """Return the declared losses of an API; one without any must bring everything back."""
    return LOSSES.get(name, Losses())
