"""Rescue: the answer of a model whose engine could not parse it.

Some engines fail with 500 or 400 when they cannot parse a call of their own model, although the
error contains the call (`Problem.generated`). The dialects read it, with the tools of the request
as the only names, and the client gets a normal answer. Where the error contains only scraps, or the
engine hides the text, the request must be changed before it is sent again: these failures are
repeated by the same request.
"""

import ast
import re
from collections.abc import Sequence

import msgspec

from toolbridge.core.json import Json, JsonObject, dumps, maybe_object
from toolbridge.core.lazy_pattern import lazy_pattern
from toolbridge.core.messages import Call, Problem, Step, Tool, ToolChoice
from toolbridge.dialects.reader import Reading, read_text
from toolbridge.healing import heal
from toolbridge.healing.schema import Schema
from toolbridge.healing.stage import schema_of
from toolbridge.healing.steps import RESCUED
from toolbridge.policy.tool_modes import FORCED

# The texts with which engines report that they could not parse an answer.
_UNPARSED = lazy_pattern(
    r"Failed to parse input at pos \d+"  # llama.cpp, until 2026-06
    r"|does not match the expected peg-"  # llama.cpp, later
    r"|error parsing tool call"  # Ollama: gpt-oss
    r"|XML syntax error on line|failed to parse XML|expected element type <"  # Ollama: XML calls
    r"|Failed to call a function\.|tool call validation failed|Failed to generate JSON\."  # Groq
    r"|Failed to parse tool call arguments as JSON(?!: \[json)"  # Groq; with it, llama.cpp's history
    r"|unexpected tokens remaining in message header|while expecting start token"  # openai-harmony
    r"|Model produced invalid sequence as part of ToolUse"  # Bedrock
)
_ONLY_ARGUMENTS = lazy_pattern(r"error parsing tool call|tool call arguments as JSON")
"""Errors whose text is the arguments of a call, without the tool's name."""
_MARKUP = lazy_pattern(
    r"<[|/]?[a-z_]*:?(?:tool|function|invoke|parameter|arg_key|arg_value|think)|<\|\w+\|>"
    r"|\[TOOL_CALLS\]|\bto=functions\."
)
_NAMED_ARGUMENTS = lazy_pattern(r"\s*(?:<function[=/])?([\w.:-]+)>?\s*(\{.*)", re.DOTALL)
_RAW_ARGUMENTS = lazy_pattern(
    r'\s*\{\s*"name"\s*:\s*"([^"]+)"\s*,\s*"(?:arguments|parameters)"\s*:\s*(.*)', re.DOTALL
)
_FENCED = lazy_pattern(r"\s*```\w*\s*\n(.*?)\n?\s*```\s*", re.DOTALL)
_FLAT_XML = lazy_pattern(r"(<parameter=[^>\n]*>) | (</parameter>)")
_CODE_NAMES = frozenset({"code", "python", "python_code", "script", "source", "source_code"})
_MAX_CODE = 100_000
_SHOWN = 60
"""Characters of the error in the report."""


class RescueContext(msgspec.Struct, frozen=True):
    """The part of a request by which a model's text is read."""

    tools: tuple[Tool, ...] = ()
    choice: ToolChoice = ToolChoice()
    dialect: str = "auto"
    model: str = ""


def is_unparsed(problem: Problem) -> bool:
    """Return whether an engine could not parse the answer; the same request would fail again."""
    return bool(problem.generated) or _UNPARSED.search(problem.text) is not None


def rescue(problem: Problem, context: RescueContext) -> tuple[Reading, Step] | None:
    """Return the answer that the error contains, and its report; None if there is no answer."""
    found = _read(problem, context)
    if found is None:
        return None
    return found, Step(RESCUED, 1, problem.text[:_SHOWN], "")


def _read(problem: Problem, context: RescueContext) -> Reading | None:
    text = problem.generated
    if not text.strip() or context.dialect == "off":
        return None
    nameless = _ONLY_ARGUMENTS.search(problem.text) is not None
    if not context.tools:
        return None if nameless else _plain(text, context)
    found = _read_calls(text, context)
    if found is not None:
        return found
    call = _named_call(text, context) or (_nameless_call(text, context) if nameless else None)
    if call is not None:
        return Reading(calls=(call,))
    return None if nameless or context.choice.mode in FORCED else _plain(text, context)


def _read_calls(text: str, context: RescueContext) -> Reading | None:
    """Return the calls that a dialect finds, and the text around them."""
    flat = "\n" not in text and "<parameter=" in text
    if flat:  # llama.cpp's log and some proxies write spaces for the newlines around a value
        text = _FLAT_XML.sub(lambda found: found[1] + "\n" if found[1] else "\n" + found[2], text)
    # llama.cpp: the text begins where parsing stopped, which may be behind the opening mark.
    for beginning in ("", "<tool_call>"):
        found = read_text(
            beginning + text, context.tools, dialect=context.dialect, model=context.model
        )
        if found.calls and all(_is_whole(call, context) for call in found.calls):
            content = "" if _MARKUP.search(found.content) else found.content.strip()
            return msgspec.structs.replace(found, content=content)
    return None


def _is_whole(call: Call, context: RescueContext) -> bool:
    """Return whether the arguments are complete, or can be made so; half a call must not run."""
    if not call.raw:
        return True
    tool = next((tool for tool in context.tools if tool.name == call.name), None)
    return tool is not None and _healed(call.raw, tool) is not None


def _named_call(text: str, context: RescueContext) -> Call | None:
    """Return a call that is written as its name and arguments, in forms that no dialect has."""
    tools = {tool.name: tool for tool in context.tools}
    if (found := _NAMED_ARGUMENTS.match(text)) and (tool := tools.get(found[1])):
        arguments = _healed(found[2], tool)
        return None if arguments is None else _call(tool, arguments)
    if (found := _RAW_ARGUMENTS.match(text)) and (tool := tools.get(found[1])):
        code = found[2].rstrip().removesuffix("}").rstrip().removesuffix('"')
        return _code_call(code, [tool])
    return None


def _nameless_call(text: str, context: RescueContext) -> Call | None:
    """Return the call of arguments without a name, if only one tool can be meant."""
    tools = [tool for tool in context.tools if tool.hosted is None]
    if context.choice.mode == "named":
        tools = [tool for tool in tools if tool.name in context.choice.names]
    fitting = [(tool, value) for tool in tools if (value := _healed(text, tool)) is not None]
    if len(fitting) == 1:
        return _call(*fitting[0])
    if fitting:
        return None
    if len(tools) == 1 and tools[0].freeform:
        return _call(tools[0], {"input": text})
    return _code_call(text, tools)


def _healed(text: str, tool: Tool) -> JsonObject | None:
    """Return arguments with their syntax corrected; None if they are cut off or do not fit."""
    schema = schema_of(tool)
    rules = Schema(schema)
    healing = heal(text, schema, level=1, words=False)
    if healing.hopeless or healing.cut or healing.open:
        return None
    known = schema.get("properties")
    if isinstance(known, dict) and known and not healing.value.keys() <= known.keys():
        return None
    return healing.value if rules.fits(healing.value, schema) else None


def _code_call(text: str, tools: Sequence[Tool]) -> Call | None:
    """Return the call of the only tool for code, if `text` is a Python program.

    Any other text is never made the argument of a tool: it may be prose, and the tool a shell.
    """
    found = [(tool, name) for tool in tools if (name := _code_parameter(tool))]
    if len(found) != 1 or not _is_python(text):
        return None
    tool, name = found[0]
    return _call(tool, {name: text})


def _code_parameter(tool: Tool) -> str:
    """Return the parameter for code of a tool that needs nothing else; empty without one."""
    required: Json = tool.schema.get("required")
    properties = tool.schema.get("properties")
    names = list(properties) if isinstance(properties, dict) else []
    needed = [str(name) for name in required] if isinstance(required, list) else names
    return needed[0] if len(needed) == 1 and needed[0].lower() in _CODE_NAMES else ""


def _is_python(text: str) -> bool:
    if len(text) > _MAX_CODE:
        return False
    try:
        program = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    # A word, a number and `ls -R`, which is a difference, are programs, too, but do nothing.
    return any(not isinstance(s, ast.Expr) or isinstance(s.value, ast.Call) for s in program.body)


def _plain(text: str, context: RescueContext) -> Reading | None:
    """Return `text` as the answer, if nothing in it is the remains of a call."""
    if fenced := _FENCED.fullmatch(text):  # Groq, JSON mode
        return Reading(fenced[1]) if maybe_object(fenced[1]) is not None else None
    if _MARKUP.search(text) or (context.tools and text.lstrip().startswith(("{", "[", "```"))):
        return None
    return Reading(text) if any(map(str.isalnum, text)) else None


def _call(tool: Tool, arguments: JsonObject) -> Call:
    return Call("", tool.name, raw=dumps(arguments))
