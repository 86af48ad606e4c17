"""Tools that this API knows by their types and the client runs: shells, patches, a tool search.

No other API has them, so elsewhere each is a function with a schema of ours. Its calls become that
function's calls, its outputs their results, and what a model calls becomes the item again that the
client runs. A shell in a container and a search by the server are none of these: nobody else has
what runs them.
"""

from collections.abc import Callable
from dataclasses import dataclass

from toolbridge.codecs.openai_responses.shapes import ORIGIN
from toolbridge.core.json import Json, JsonObject
from toolbridge.core.messages import Tool

Reading = Callable[[JsonObject], JsonObject | None]


@dataclass(frozen=True)
class Builtin:
    type: str
    """Of the tool, and its name elsewhere."""
    call: str
    """The type of the item that calls it."""
    output: str
    """The type of the item that answers."""
    prefix: str
    """Begins the ids of its items."""
    content: str
    """The field of a call that holds what is asked."""
    description: str
    schema: JsonObject
    arguments: Reading
    """Returns what a call's content asks as arguments; None where it cannot be told."""
    asks: Reading
    """Returns arguments as a call's content; None where they make none."""


def read_call(item: JsonObject) -> JsonObject | None:
    """Return the arguments of a call of a built-in tool; None for any other item."""
    builtin = BY_CALL.get(str(item.get("type")))
    if builtin is None or not runs_here(builtin, item):
        return None
    content = item.get(builtin.content)
    return builtin.arguments(content) if isinstance(content, dict) else None


def read_known(item: JsonObject) -> JsonObject | None:
    """Return the arguments of a call as far as our schema knows them: fields are added any time."""
    arguments = read_call(item)
    known = BY_CALL[str(item.get("type"))].schema["properties"] if arguments else None
    if arguments is None or not isinstance(known, dict) or item["type"] == "tool_search_call":
        return arguments
    return {name: value for name, value in arguments.items() if name in known}


def write_call(builtin: Builtin, arguments: JsonObject) -> JsonObject | None:
    """Return the fields of an item that asks for what `arguments` say."""
    content = builtin.asks(arguments)
    if content is None:
        return None
    fields: JsonObject = {builtin.content: content}
    return {"execution": "client", **fields} if builtin.type == "tool_search" else fields


def runs_here(builtin: Builtin, declared: JsonObject) -> bool:
    """Whether the client runs what is declared, or was called, in these words."""
    if builtin.type == "tool_search":
        return declared.get("execution") == "client"
    place = declared.get("environment")
    return not isinstance(place, dict) or place.get("type") == "local"


def read_tool(declared: JsonObject) -> Tool | None:
    """Return a built-in tool as one that any API can offer; None for a tool of another kind."""
    builtin = BUILTINS.get(str(declared.get("type")))
    if builtin is None or not runs_here(builtin, declared):
        return None
    said, given = declared.get("description"), declared.get("parameters")
    return Tool(
        builtin.type,
        description=said if isinstance(said, str) and said else builtin.description,
        schema=given if isinstance(given, dict) and given else builtin.schema,
        origin=ORIGIN,
        native=declared,
    )


def builtins_of(tools: tuple[Tool, ...]) -> dict[str, Builtin]:
    """Return the built-in tools among `tools`, by their names there."""
    return {
        tool.name: BUILTINS[str(tool.native["type"])]
        for tool in tools
        if tool.native and tool.origin == ORIGIN and tool.native.get("type") in BUILTINS
    }


# ── what outputs say ─────────────────────────────────────────────────────────


def read_output(item: JsonObject) -> tuple[str, bool] | None:
    """Return what an output says as text, and whether it is an error; None for any other item."""
    match item.get("type"):
        case "local_shell_call_output":
            return _text(item, "output"), False
        case "shell_call_output":
            runs = (run for run in _list(item, "output") if isinstance(run, dict))
            return "\n\n".join(map(_tell_run, runs)), False
        case "apply_patch_call_output":
            status = _text(item, "status")
            return _text(item, "output") or status, status == "failed"
        case "tool_search_output" if item.get("execution") == "client":
            return f"Tools found: {sum(_count(tool) for tool in _list(item, 'tools'))}.", False
        case _:
            return None


def _tell_run(run: JsonObject) -> str:
    outcome = run.get("outcome")
    ended = outcome if isinstance(outcome, dict) else {}
    code = ended.get("exit_code", 0)
    ending = "It ran out of time." if ended.get("type") == "timeout" else f"Exit code: {code}"
    errors = _text(run, "stderr")
    said = (_text(run, "stdout"), f"Errors:\n{errors}" if errors else "", ending)
    return "\n".join(text.removesuffix("\n") for text in said if text)


def _count(tool: Json) -> int:
    """Return how many tools are meant: a namespace holds several."""
    return len(_list(tool, "tools")) or 1 if isinstance(tool, dict) else 0


def _list(fields: JsonObject, name: str) -> list[Json]:
    value = fields.get(name)
    return value if isinstance(value, list) else []


def _text(fields: JsonObject, name: str) -> str:
    value = fields.get(name)
    return value if isinstance(value, str) else ""


# ── what calls ask ───────────────────────────────────────────────────────────


def _said(fields: JsonObject) -> JsonObject:
    return {name: value for name, value in fields.items() if value is not None}


def _local_shell_arguments(action: JsonObject) -> JsonObject | None:
    if not isinstance(action.get("command"), list):
        return None
    kept = {name: value for name, value in _said(action).items() if name != "type"}
    return kept if kept.get("env") else {n: v for n, v in kept.items() if n != "env"}


def _local_shell_asks(arguments: JsonObject) -> JsonObject | None:
    command = _lines(arguments.get("command"))
    if not command:
        return None
    if len(command) == 1 and " " in str(command[0]).strip():
        # Models write a line for a shell where the words of a program are asked for.
        command = ["bash", "-lc", command[0]]
    env = arguments.get("env")
    kept = _typed(arguments, {"timeout_ms": int, "working_directory": str, "user": str})
    fields: JsonObject = {"type": "exec"}
    return fields | kept | {"command": command, "env": env if isinstance(env, dict) else {}}


def _shell_arguments(action: JsonObject) -> JsonObject | None:
    return _said(action) if isinstance(action.get("commands"), list) else None


def _shell_asks(arguments: JsonObject) -> JsonObject | None:
    commands = _lines(arguments.get("commands", arguments.get("command")))
    if not commands:
        return None
    kept = _typed(arguments, {"timeout_ms": int, "max_output_length": int})
    return {name: value for name, value in kept.items() if name != "command"} | {
        "commands": commands
    }


def _patch_arguments(operation: JsonObject) -> JsonObject | None:
    return operation if isinstance(operation.get("path"), str) else None


def _patch_asks(arguments: JsonObject) -> JsonObject | None:
    inner = arguments.get("operation")
    asked = inner if isinstance(inner, dict) else arguments
    if asked.get("type") not in _OPERATIONS or not isinstance(asked.get("path"), str):
        return None
    if asked["type"] == "delete_file":
        return {name: value for name, value in asked.items() if name != "diff"}
    return asked if isinstance(asked.get("diff"), str) else None


def _as_it_is(arguments: JsonObject) -> JsonObject | None:
    return arguments


def _lines(given: Json) -> list[Json]:
    """Return a list of texts; one text is a list of one, and anything else is none."""
    if isinstance(given, str):
        return [given] if given.strip() else []
    if not isinstance(given, list) or not all(isinstance(line, str) for line in given):
        return []
    return given


def _typed(arguments: JsonObject, types: dict[str, type]) -> JsonObject:
    """Return what `arguments` say, without optional fields of a wrong type: clients refuse those."""
    return {
        name: value
        for name, value in arguments.items()
        if isinstance(value, types.get(name, object)) and value is not None
    }


# ── the tools ────────────────────────────────────────────────────────────────


def _schema(properties: JsonObject, *required: str) -> JsonObject:
    names: list[Json] = [*required]
    return {
        "type": "object",
        "properties": properties,
        "required": names,
        "additionalProperties": False,
    }


def _field(type: str, description: str, **more: Json) -> JsonObject:
    return {"type": type, "description": description, **more}


_LINE: JsonObject = {"type": "string"}
_TIMEOUT = _field("integer", "Milliseconds after which it is ended.")
_OPERATIONS: tuple[Json, ...] = ("create_file", "update_file", "delete_file")

_ALL = (
    Builtin(
        type="local_shell",
        call="local_shell_call",
        output="local_shell_call_output",
        prefix="lsh",
        content="action",
        description=(
            "Runs one program on the user's machine and returns what it prints. For pipes and "
            'redirections run a shell: ["bash", "-lc", "ls | wc -l"].'
        ),
        schema=_schema(
            {
                "command": _field("array", "The program, then its arguments.", items=_LINE),
                "working_directory": _field("string", "Where to run it."),
                "timeout_ms": _TIMEOUT,
                "env": _field(
                    "object", "Environment variables to set.", additionalProperties=_LINE
                ),
                "user": _field("string", "As whom to run it, where that may be chosen."),
            },
            "command",
        ),
        arguments=_local_shell_arguments,
        asks=_local_shell_asks,
    ),
    Builtin(
        type="shell",
        call="shell_call",
        output="shell_call_output",
        prefix="sh",
        content="action",
        description=(
            "Runs commands in a shell on the user's machine and returns what each of them prints "
            "and its exit code. They do not wait for one another."
        ),
        schema=_schema(
            {
                "commands": _field(
                    "array", "Command lines; each is run on its own.", items=_LINE, minItems=1
                ),
                "timeout_ms": _TIMEOUT,
                "max_output_length": _field("integer", "Characters of output to return at most."),
            },
            "commands",
        ),
        arguments=_shell_arguments,
        asks=_shell_asks,
    ),
    Builtin(
        type="apply_patch",
        call="apply_patch_call",
        output="apply_patch_call_output",
        prefix="apc",
        content="operation",
        description=(
            "Creates, changes or deletes one file. A diff has no line numbers and no file names: "
            "a line that stays begins with a space, a new one with +, one to remove with -. Each "
            "changed place begins with a line @@, which may name the function or class around "
            "it, and shows about three lines before and after. In the diff of a new file every "
            "line begins with +."
        ),
        schema=_schema(
            {
                "type": _field("string", "What to do.", enum=[*_OPERATIONS]),
                "path": _field("string", "The file, relative to the working directory."),
                "diff": _field("string", "What to write or change; not needed to delete."),
            },
            "type",
            "path",
        ),
        arguments=_patch_arguments,
        asks=_patch_asks,
    ),
    Builtin(
        type="tool_search",
        call="tool_search_call",
        output="tool_search_output",
        prefix="tsc",
        content="arguments",
        description="Searches for more tools. What it finds may be called afterwards.",
        schema=_schema({"query": _field("string", "What the tool should do.")}, "query"),
        arguments=_as_it_is,
        asks=_as_it_is,
    ),
)

BUILTINS = {builtin.type: builtin for builtin in _ALL}
BY_CALL = {builtin.call: builtin for builtin in _ALL}
BY_OUTPUT = {builtin.output: builtin for builtin in _ALL}
