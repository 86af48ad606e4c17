"""Judges answers: whether an answer solves its task, whether it is valid, and what leaked.

The functions are pure. An answer is judged in the form in which a client gets it; `first_try` is
False where healing had to correct it.
"""

import re

import jsonschema_rs
import msgspec

from toolbridge.core.json import Json, JsonObject
from toolbridge.core.messages import Call, Message
from toolbridge.probe.tasks import Task, WantedCall

_LEAK = re.compile(
    r"</?(?:think|thinking|tool_call|tool_calls|function_call|invoke|parameter|arg_key|arg_value)\b"
    r"|<[|\uff5c][^<>\s]{1,40}[|\uff5c]>|\[TOOL_CALLS\]|◁/?think▷"
)
"""Markup of calls, thoughts and turns. In the text of an answer it is a leak, because no task asks
for it there."""


class Judgement(msgspec.Struct, frozen=True):
    """The judgement of one answer."""

    right: bool
    valid: bool | None
    """Whether there are calls, or JSON, that are valid for their schemas; None if none are needed."""
    leak: str = ""
    """Markup in the text or in the thinking that belongs to neither."""
    why: str = ""
    """Why the answer is not right."""


def judge(task: Task, message: Message) -> Judgement:
    """Return whether `message` solves `task`."""
    leak = found[0] if (found := _LEAK.search(message.text)) else ""
    if message.problem is not None:
        valid = False if task.has_schema else None
        return Judgement(right=False, valid=valid, leak=leak, why=message.problem.text[:200])
    invalid = _invalid_call(task, message.calls)
    if task.output is not None:
        invalid, why = _judge_output(task, message.text)
    else:
        why = invalid or _judge_calls(task, message.calls) or _judge_text(task, message)
    if not why and leak:
        why = f"the text contains {leak}"
    written = bool(message.calls) or task.output is not None
    valid = written and not invalid if task.has_schema or invalid else None
    return Judgement(right=not why, valid=valid, leak=leak, why=why)


def _invalid_call(task: Task, calls: tuple[Call, ...]) -> str:
    """Return what is invalid in the calls; empty if they fit the schemas of their tools."""
    schemas = {tool.name: tool.input_schema for tool in task.tools}
    for call in calls:
        if call.name not in schemas:
            return f"there is no tool {call.name!r}"
        if call.raw:
            return f"the arguments of {call.name} cannot be read"
        fault = next(_validator(schemas[call.name]).iter_errors(call.arguments), None)
        if fault is not None:
            return f"{call.name}: {fault.message}"
    return ""


def _judge_calls(task: Task, calls: tuple[Call, ...]) -> str:
    """Return what is wrong with the calls; empty if they are those that the task expects."""
    if not task.calls:
        return f"{calls[0].name} was called" if calls else ""
    rest = list(calls)
    for expected in task.calls:
        found = next((call for call in rest if _matches(expected, call)), None)
        if found is None:
            return f"no call of {expected.name} with {_shown(expected.arguments)}"
        rest.remove(found)
    return f"{rest[0].name} was called once too often" if rest else ""


def _judge_text(task: Task, message: Message) -> str:
    """Return what is wrong with the text of an answer without calls."""
    if task.calls:
        return ""
    text = message.text.casefold()
    if not text.strip():
        return "the answer is empty"
    if task.text and not any(word.casefold() in text for word in task.text):
        return f"the text does not contain {task.text[0]}"
    return ""


def _judge_output(task: Task, text: str) -> tuple[str, str]:
    """Return what is invalid in the JSON of an answer, and what is wrong with it."""
    try:
        value: Json = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return (fault := "the answer is not JSON"), fault
    error = next(_validator(task.output or {}).iter_errors(value), None)
    if error is not None:
        return (fault := f"the answer is not valid: {error.message}"), fault
    fits = _is_part(dict(task.value or {}), value)
    return "", "" if fits else f"the answer is not {_shown(dict(task.value or {}))}"


def _validator(schema: JsonObject) -> jsonschema_rs.Draft202012Validator:
    return jsonschema_rs.Draft202012Validator(schema, offline=True)


def _matches(expected: WantedCall, call: Call) -> bool:
    return call.name == expected.name and _is_part(expected.arguments, call.arguments)


def _is_part(expected: Json, given: Json) -> bool:
    """Return whether `given` has all of `expected`; a string may have more words around it."""
    if isinstance(expected, str):
        if not isinstance(given, str):
            return False
        if "\n" in expected:  # the content of a file, except for white space at its end
            return given.rstrip() == expected.rstrip()
        return expected.casefold() in given.casefold()
    if isinstance(expected, dict):
        return isinstance(given, dict) and all(
            key in given and _is_part(value, given[key]) for key, value in expected.items()
        )
    if isinstance(expected, list):
        return (
            isinstance(given, list)
            and len(given) == len(expected)
            and all(map(_is_part, expected, given))
        )
    return expected == given


def _shown(value: Json) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= 80 else f"{text[:79]}…"
