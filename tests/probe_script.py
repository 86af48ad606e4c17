"""The script of a tiny model that solves every task of a probe, in every tool mode."""

import json
import re

from toolbridge.core.messages import Result, Text
from toolbridge.probe.tasks import TASKS, Task

SPOKEN = {
    "greeting": "Hello! I am fine, thank you.", "sum": "It is 4.", "thanks": "You are welcome!",
    "answer": "It is 23 degrees in Lima.", "think-sum": "The sum is 42.",
    "think-order": "The smallest of them is Sue.",
}  # fmt: skip
THOUGHTS = {
    "think-sum": "<think>\nI add the two numbers.\n</think>\n\n",
    "think-order": "<think>\nTom, Ann, Sue.\n</think>\n\n",
    "think-call": "<think>\nThe tool for the weather fits.\n</think>\n\n",
}


def probe_script() -> list[dict]:
    """Return the rules for `make_tiny.py --script`."""
    return [
        {"find": find(task), "first": THOUGHTS.get(task.id, ""), "answers": answers(task)}
        for task in TASKS
    ]


def find(task: Task) -> str:
    """Return a text of the last message that the template can search for."""
    part = task.turns[-1].content[0]
    inner = part.content[0] if isinstance(part, Result) else part
    assert isinstance(inner, Text)
    return max(re.split(r"[^\w .,?!:/-]", inner.text.splitlines()[0]), key=len)[:60].strip()


def answers(task: Task) -> list[str]:
    """Return the answer in tags, and the answer as constrained JSON."""
    if task.value is not None:
        return [json.dumps(task.value)]
    if not task.calls:
        text = SPOKEN[task.id]
        return [text, json.dumps({"text": text})] if task.tools else [text]
    calls = [(call.name, filled(task, call.name, call.arguments)) for call in task.calls]
    tagged = "\n".join(
        f"<tool_call>\n{json.dumps({'name': name, 'arguments': given})}\n</tool_call>"
        for name, given in calls
    )
    objects = [{"name": name, "parameters": given} for name, given in calls]
    return [tagged, json.dumps(objects if len(objects) > 1 else objects[0])]


def filled(task: Task, name: str, given):
    """Return the expected arguments with the required members that the task leaves open."""
    schema = next(tool.input_schema for tool in task.tools if tool.name == name)
    return _filled(schema, given)


def _filled(schema, given):
    if schema.get("type") == "array":
        return [_filled(schema["items"], item) for item in given]
    if schema.get("type") != "object":
        return given
    return {
        key: _filled(inner, given[key]) if key in given else "tiny"
        for key, inner in schema["properties"].items()
        if key in given or key in schema["required"]
    }
