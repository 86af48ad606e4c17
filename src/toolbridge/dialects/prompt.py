"""Tool use by prompt, for models without a tool template.

The tools are described in the system prompt with an example in a dialect, and past calls and results
are written as text. Used in the tool modes `prompt` and `constrained` (`policy/tool_modes.py`).
"""

from collections.abc import Callable, Sequence

import msgspec

from toolbridge.core.json import Json, JsonObject
from toolbridge.core.messages import (
    Call,
    Part,
    Request,
    Result,
    Text,
    Tool,
    ToolChoice,
    Turn,
)
from toolbridge.dialects import load
from toolbridge.dialects.constrained import CONSTRAINED, TEXT
from toolbridge.dialects.dialect import Dialect, ResultText
from toolbridge.dialects.engines.spaced_json import spaced
from toolbridge.wire.json_schema import inline

_INTRODUCTION = """\
You can use the tools below. Each is described as JSON: its name, what it does and the JSON schema \
of its arguments.

"""
_RULES = """

To use a tool, write exactly this, with the name of the tool and its arguments filled in:

{example}

You may use several tools in one answer. Use only tools from the list and only arguments that their \
schema knows. Write nothing after the last use of a tool: the results come in the next message. \
When no tool is needed, answer in plain text."""
_MUST = {
    "required": "\n\nIn your next answer, use at least one tool.",
    "named": "\n\nIn your next answer, use the tool {name}.",
}
# Measured with SmolLM2-135M: an example with the name of one tool, or the whole schemas, make the
# model choose the right tool half as often as this form of every call and neutral words.
_CONSTRAINED_INTRODUCTION = "You can use the tools below.\n\n"
_CONSTRAINED_RULES = """

Answer with JSON only: {"name": "NAME OF THE TOOL", "parameters": {"ARGUMENT": "VALUE"}}"""
_SEVERAL = "\n\nTo use several tools, write a list of such objects: [{…}, {…}]"
_TEXT_FORM = f"""

When no tool is needed, write your answer like this: {{"{TEXT}": "YOUR ANSWER"}}"""


def tool_prompt(
    tools: Sequence[Tool], dialect: str | Dialect = "hermes_json", choice: ToolChoice | None = None
) -> str:
    """Return the prompt that describes `tools` in `dialect`; empty without tools."""
    choice = choice or ToolChoice()
    offered = offered_tools(tools, choice)
    if not offered:
        return ""
    if dialect is CONSTRAINED:
        return _constrained_prompt(offered, choice)
    must = _MUST.get(choice.mode, "").format(name=choice.names[0] if choice.names else "")
    spoken = load(dialect) if isinstance(dialect, str) else dialect
    lines = spoken.tools.written([_described(tool) for tool in offered])
    return _INTRODUCTION + lines + _RULES.format(example=_example(offered[0], spoken)) + must


def _constrained_prompt(offered: Sequence[Tool], choice: ToolChoice) -> str:
    lines = "\n".join(_call_form(tool) for tool in offered)
    several = "" if choice.parallel is False or choice.mode in _MUST else _SEVERAL
    text = "" if choice.mode in _MUST else _TEXT_FORM
    return _CONSTRAINED_INTRODUCTION + lines + _CONSTRAINED_RULES + several + text


def _call_form(tool: Tool) -> str:
    """Return what a tool does, and a call of it with a type or a schema for each argument."""
    schema, _ = inline(tool.input_schema)
    properties = schema.get("properties")
    known = properties if isinstance(properties, dict) else {}
    form: JsonObject = {name: _argument_form(value) for name, value in known.items()}
    needed = schema.get("required")
    optional = [name for name in known if not isinstance(needed, list) or name not in needed]
    about = f"{tool.name}: {tool.description}".rstrip(": ")
    also = f" (optional: {', '.join(optional)})" if optional else ""
    return f"{about}{also}\n{spaced({'name': tool.name, 'parameters': form})}"


def _argument_form(schema: Json) -> Json:
    """Return the type of an argument, or its schema if it has more than a type."""
    if isinstance(schema, dict) and schema.keys() <= {"type", "title", "default"}:
        return schema.get("type", "any")
    return schema


def offered_tools(tools: Sequence[Tool], choice: ToolChoice) -> list[Tool]:
    """Return the tools that the model may call in its next answer."""
    if choice.mode == "none":
        return []
    return [
        tool
        for tool in tools
        if not tool.deferred and (not choice.names or tool.name in choice.names)
    ]


def _described(tool: Tool) -> JsonObject:
    described: JsonObject = {"name": tool.name}
    if tool.description:
        described["description"] = tool.description
    described["parameters"] = tool.schema or {"type": "object", "properties": {}}
    return described


def _example(tool: Tool, dialect: Dialect) -> str:
    properties = tool.schema.get("properties")
    keys = list(properties)[:2] if isinstance(properties, dict) else []
    arguments: JsonObject = dict.fromkeys(keys or ["argument"], "value")
    call = Call(id="call00001", name=tool.name, arguments=arguments)
    return dialect.render.calls([call]).strip("\n")


def render_history(request: Request, dialect: str | Dialect = "hermes_json") -> Request:
    """Return the request for a model without tools of its own.

    The tools are appended to the system prompt; calls and results of the history become text in the
    dialect.
    """
    prompt = tool_prompt(request.tools, dialect, request.tool_choice)
    names = {
        part.id: part.name
        for turn in request.turns
        for part in turn.content
        if isinstance(part, Call)
    }
    render = load(dialect) if isinstance(dialect, str) else dialect
    turns = tuple(_turn_as_text(turn, render, names) for turn in request.turns)
    system = (*request.system, Text(prompt)) if prompt else request.system
    return msgspec.structs.replace(
        request, turns=turns, system=system, tools=(), tool_choice=ToolChoice()
    )


def _turn_as_text(turn: Turn, dialect: Dialect, names: dict[str, str]) -> Turn:
    content: list[Part] = []
    calls: list[Call] = []
    results: list[Result] = []
    for part in turn.content:
        if not isinstance(part, Call):
            _append_calls(content, calls, dialect.render.calls)
        if not isinstance(part, Result):
            _append_results(content, results, dialect, names)
        match part:
            case Call():
                calls.append(part)
            case Result():
                results.append(part)
            case _:
                content.append(part)
    _append_calls(content, calls, dialect.render.calls)
    _append_results(content, results, dialect, names)
    return Turn(turn.role, tuple(content))


def _append_calls(
    content: list[Part], calls: list[Call], render: Callable[[Sequence[Call]], str]
) -> None:
    if calls:
        before = "\n" if content and isinstance(content[-1], Text) else ""
        content.append(Text(before + render(calls)))
        calls.clear()


def _append_results(
    content: list[Part], results: list[Result], dialect: Dialect, names: dict[str, str]
) -> None:
    """Append results as text; their images and files follow."""
    if not results:
        return
    answers = [
        ResultText(result.name or names.get(result.call_id, ""), result.call_id, _text(result))
        for result in results
    ]
    content.append(Text(dialect.render.results(answers)))
    content += [part for r in results for part in r.content if not isinstance(part, Text)]
    results.clear()


def _text(result: Result) -> str:
    text = "\n".join(part.text for part in result.content if isinstance(part, Text))
    return f"Error: {text}" if result.is_error else text
