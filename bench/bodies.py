"""Request bodies for the benchmarks, in the structures that coding agents send.

Agents send system blocks with cache marks, tools with long descriptions and schemas of several
properties, and a history of calls and results that grows with every turn. The texts are generated
here, from a seed, so that two sessions have different bytes and two runs have the same ones.
"""

import json
import random

MODEL = "claude-sonnet-5-5"
NUMBER = "#0000000#"
"""`load.c` replaces it with the number of the request, so that no two bodies of a run are equal."""
SIZES = (2, 48, 311, 600)
"""In KB: a first question, a first turn with all tools, a normal turn, a long session."""

_WORDS = (
    "the", "gateway", "reads", "a", "file", "and", "returns", "what", "it", "found", "there,", "with",
    '"quotes",', "tabs\t", "and\nlines;", "def", "read(path):", "return", "open(path).read()", "#",
    '{"a":', "[1,", "2]}", "<b>not", "a", "call</b>", "naïve", "café", "日本",
)  # fmt: skip
_NAMES = (
    "Agent", "Bash", "Edit", "Glob", "Grep", "NotebookEdit", "Read", "Skill", "TaskCreate",
    "TaskList", "TaskUpdate", "WebFetch", "WebSearch", "Worktree", "Write",
)  # fmt: skip


class Words:
    """Generated prose and code; the same seed gives the same text."""

    def __init__(self, seed: str) -> None:
        self.random = random.Random(seed)

    def text(self, size: int) -> str:
        """Return text of about `size` characters."""
        count = max(1, round(size / 6.3))
        return " ".join(self.random.choices(_WORDS, k=count))


def plain(*, stream: bool, tools: int = 0, model: str = MODEL) -> bytes:
    """Return a short question with `tools` small tools."""
    body = {
        "model": model,
        "max_tokens": 1024,
        "stream": stream,
        "messages": [{"role": "user", "content": f"Write about gateways, please. {NUMBER}"}],
    }
    if tools:
        body["tools"] = [_small_tool(number) for number in range(tools)]
    return json.dumps(body).encode()


def agent(kilobytes: int, *, seed: str, more_turns: int = 0, model: str = MODEL) -> bytes:
    """Return a turn of a coding agent of about so many KB, as a stream.

    The same seed and size give the same session; `more_turns` adds that many later turns to it.
    """
    words = Words(seed)
    size = kilobytes * 1000
    small = size < 20_000
    body = {
        "model": model,
        "messages": [_question(words, size)],
        "system": _system(words, 400 if small else 14_000),
        "tools": [_agent_tool(words, name, small=small) for name in _NAMES[: 2 if small else None]],
        "metadata": {"user_id": "user_" + "0" * 64},
        "max_tokens": 32_000,
        "thinking": {"type": "adaptive"},
        "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
        "stream": True,
    }
    missing = size - len(json.dumps(body, ensure_ascii=False).encode())
    turn = 0
    while missing > 600:
        turn += 1
        exchange = _exchange(words, turn, missing)
        body["messages"] += exchange
        missing -= len(json.dumps(exchange, ensure_ascii=False).encode())
    for later in range(more_turns):
        body["messages"] += _exchange(words, turn + 1 + later, 1000)
    body["messages"].append({"role": "user", "content": f"Go on with number {NUMBER}."})
    return json.dumps(body, ensure_ascii=False).encode()


def structured() -> bytes:
    """Return a request for a structured stream."""
    return json.dumps({"prompt": f"Write about gateways. {NUMBER}", "mode": "sentinel"}).encode()


def _small_tool(number: int) -> dict:
    properties = {"path": {"type": "string", "description": "where"}, "n": {"type": "integer"}}
    return {
        "name": f"tool_{number}",
        "description": "Does a thing with a path and a number, and returns what it did.",
        "input_schema": {"type": "object", "properties": properties, "required": ["path"]},
    }


def _agent_tool(words: Words, name: str, *, small: bool) -> dict:
    properties: dict[str, dict] = {
        "file_path": {"description": words.text(50), "type": "string"},
        "timeout": {"description": words.text(70), "type": "number"},
    }
    if not small:
        properties |= {
            "old_string": {"description": words.text(60), "type": "string"},
            "replace_all": {"description": words.text(50), "default": False, "type": "boolean"},
            "effort": {"description": words.text(300), "type": "string", "enum": ["low", "high"]},
        }
    return {
        "name": name,
        "description": words.text(120 if small else 700),
        "input_schema": {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "properties": properties,
            "required": ["file_path"],
            "additionalProperties": False,
        },
    }


def _system(words: Words, size: int) -> list[dict]:
    mark = {"cache_control": {"type": "ephemeral"}}
    return [
        {"type": "text", "text": words.text(70)},
        {"type": "text", "text": words.text(60)} | mark,
        {"type": "text", "text": words.text(size)} | mark,
    ]


def _question(words: Words, size: int) -> dict:
    sizes = (100,) if size < 20_000 else (250, 170, 250, 400, 120)
    return {"role": "user", "content": [{"type": "text", "text": words.text(n)} for n in sizes]}


def _exchange(words: Words, turn: int, missing: int) -> list[dict]:
    """Return a call of the model and its result, of at most about `missing` bytes."""
    id = f"toolu_{turn:020d}"
    path = f"/home/user/project/module_{turn}.py"
    call = {"type": "tool_use", "id": id, "name": _NAMES[turn % len(_NAMES)],
            "input": {"file_path": path, "old_string": words.text(60)}}  # fmt: skip
    size = min(words.random.choice((200, 1500, 6000)), max(100, missing - 500))
    result = {"tool_use_id": id, "type": "tool_result", "content": words.text(size)}
    return [
        {"role": "assistant", "content": [{"type": "text", "text": words.text(150)}, call]},
        {"role": "user", "content": [result]},
    ]
