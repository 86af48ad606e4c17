"""What Chat Completions cannot say, and what it says in another place."""

import re
from collections.abc import Iterator

from msgspec.structs import replace
from tests.properties.server_tool_losses import spoken

from toolbridge.codecs.openai_chat.shapes import SHOWS
from toolbridge.core.messages import (
    Audio,
    Call,
    Document,
    Foreign,
    Image,
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

_INSTEAD = re.compile(r"\[(image|document)[^\]]*\]")
"""What is said in place of a picture, or in front of one that belongs to a result."""


def message(found: Message) -> Message:
    """Parts have no order but within their kind, and counts are sent only when asked for."""
    found = spoken(found, SHOWS)
    thoughts = [part for part in found.content if isinstance(part, Thinking)]
    text = "".join(thought.text for thought in thoughts)
    seals = tuple(seal for thought in thoughts for seal in thought.opaque)
    stop = "length" if found.stop == "context_overflow" else found.stop
    stop = stop if stop in {"tool_use", "length", "refusal"} else "end"
    return replace(
        found,
        id="",
        envelope=None,
        losses=(),  # annotations of a text that has ended are reported as lost
        content=(
            *([Thinking(text, seals)] if text or seals else []),
            *([Text(found.text)] if found.text else []),
            *(part for part in found.content if isinstance(part, Image)),
            *found.calls,
        ),
        usage=Usage(),
        stop="tool_use" if stop == "end" and found.calls else stop,
        stop_sequence="",
    )


def request(found: Request, asked: Request) -> Request:
    """Text is one string, a result's pictures follow it, a choice needs tools."""
    turns = (Turn(turn.role, tuple(_content(turn.content))) for turn in found.turns)
    tools = tuple(_tools(found.tools, asked.tool_choice))
    return replace(
        found,
        system=tuple(_text(found.system)),
        turns=tuple(turn for turn in turns if turn.content),
        tools=tools,
        tool_choice=found.tool_choice if tools else ToolChoice(),
        think=_think(found.think, asked.think),
        output=found.output and replace(found.output, name=""),
        extra={name: value for name, value in found.extra.items() if name != "stream_options"},
    )


def _think(found: Think, asked: Think) -> Think:
    mode = "off" if found.mode == "off" else "unset"
    return replace(found, mode=mode, effort="" if asked.budget is not None else found.effort)


def _tools(tools: tuple[Tool, ...], choice: ToolChoice) -> Iterator[Tool]:
    for tool in tools:
        if not tool.deferred or (choice.mode == "named" and tool.name in choice.names):
            yield replace(tool, deferred=False, cache="")


def _content(parts) -> Iterator[object]:
    results = [part for part in parts if isinstance(part, Result)]
    inner = [part for result in results for part in result.content]
    for result in results:
        yield replace(result, content=tuple(_text(result.content)), name="", cache="")
    yield from _text(parts)
    yield from (replace(p, cache="") for p in [*inner, *parts] if isinstance(p, Image))
    yield from (replace(p, cache="") for p in parts if isinstance(p, Document) and not p.text)
    yield from (p for p in parts if isinstance(p, Audio | Foreign | Thinking))
    yield from (replace(p, cache="") for p in parts if isinstance(p, Call))


def _text(parts) -> Iterator[Text]:
    """All text as one; where two met, a line end may stand."""
    written = "".join(map(_words, parts))
    written = _INSTEAD.sub("", written).replace("\n", "")
    if written:
        yield Text(written)


def _words(part) -> str:
    match part:
        case Text(text):
            return text
        case Document(text=text) if text:
            title = f"[document: {part.title}]" if part.title else ""
            return title + part.context + text
        case _:
            return ""
