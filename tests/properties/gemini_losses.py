"""What Gemini cannot say, and what it says in another place."""

from collections.abc import Iterator

from msgspec.structs import replace
from tests.properties.server_tool_losses import gemini

from toolbridge.core.messages import (
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


def message(found: Message) -> Message:
    """Nothing marks where two texts meet; what a cache wrote is counted as input."""
    stop = "length" if found.stop == "context_overflow" else found.stop
    if stop not in {"length", "refusal"}:
        stop = "tool_use" if found.calls else "end"
    usage = found.usage
    return replace(
        found,
        content=tuple(_flowing(_sealed(part) for part in gemini(found.content))),
        usage=Usage(
            input=usage.input + usage.cache_write,
            output=usage.output,
            cache_read=usage.cache_read,
            reasoning=usage.reasoning,
        ),
        stop=stop,
        stop_sequence="",
    )


def _sealed(part):
    """Return `part` with the tokens that Gemini makes, and no others."""
    if not isinstance(part, Text | Thinking):
        return part
    own = tuple(token for token in part.opaque if token.kind == "thought_signature")
    return replace(part, opaque=own)


def _flowing(parts):
    flow = []
    for part in parts:
        if part == Thinking(""):
            continue
        if flow and isinstance(part, Text | Thinking) and type(part) is type(flow[-1]):
            flow[-1] = replace(flow[-1], text=flow[-1].text + part.text)
        else:
            flow.append(part)
    return flow


def request(found: Request, asked: Request) -> Request:
    """The text of a result is one, a document is sent as text, a choice needs tools."""
    tools = tuple(_tools(found.tools, asked.tool_choice))
    turns = (Turn(turn.role, tuple(map(_part, turn.content))) for turn in found.turns)
    choice = replace(found.tool_choice, parallel=None) if tools else ToolChoice()
    return replace(
        found,
        system=tuple(map(_part, found.system)),
        turns=tuple(turns),
        tools=tools,
        tool_choice=choice,
        think=_think(found.think, asked.think),
    )


def _think(found: Think, asked: Think) -> Think:
    """A level takes the place of a budget and of silence, and thoughts are shown unless hidden."""
    changed = asked.budget is not None or asked.mode == "off"
    return replace(
        found,
        mode="unset" if changed else "auto" if found.mode == "on" else found.mode,
        effort="" if changed else found.effort,
        show="" if changed or found.show == "summarized" else found.show,
    )


def _tools(tools: tuple[Tool, ...], choice: ToolChoice) -> Iterator[Tool]:
    for tool in tools:
        named = choice.mode == "named" and tool.name in choice.names
        if named or not tool.deferred:
            yield replace(tool, strict=None, deferred=False, cache="")


def _part(part):
    match part:
        case Result():
            return _result(part)
        case Document(text=text) if text:
            title = f"[document: {part.title}]" if part.title else ""
            return Text("\n".join(line for line in (title, part.context, text) if line))
        case Image() | Document():
            kind = "" if part.url else part.media_type
            return replace(part, cache="", media_type=kind)
        case Foreign():
            return replace(part, kind="")
        case Thinking():
            return _sealed(part)
        case _:
            return replace(part, cache="") if hasattr(part, "cache") else part


def _result(result: Result) -> Result:
    parts = [_part(part) for part in result.content]
    text = "\n".join(part.text for part in parts if isinstance(part, Text))
    content = (
        *((Text(text),) if text else ()),
        *(part for part in parts if not isinstance(part, Text)),
    )
    return replace(result, content=content, name="", cache="")
