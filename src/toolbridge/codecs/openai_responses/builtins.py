"""Built-in tools that the client runs: shells, patches, and the tool search of the client.

OpenAI Responses, built-in tools: they are declared by type, without a schema, and have items of
their own for calls and outputs. For other APIs each becomes a function with a schema from here; a
call of that function becomes the item again that the client runs. A shell in OpenAI's container and
a tool search of the server are hosted tools, not these.
"""

from collections.abc import Callable
from dataclasses import dataclass

from toolbridge.codecs.openai_responses.shapes import ORIGIN
from toolbridge.core.json import Json, JsonObject, list_in, text_in
from toolbridge.core.messages import Tool

Conversion = Callable[[JsonObject], JsonObject | None]
"""Returns None for an input that cannot be converted."""


@dataclass(frozen=True)
class Builtin:
    """One built-in tool and its function for other APIs."""

    type: str
    """The type of the tool, and its name as a function."""
    call: str
    """The type of the item of a call."""
    output: str
    """The type of the item of an output."""
    prefix: str
    """The prefix of the ids of its items."""
    content: str
    """The field of a call's item that contains its arguments."""
    description: str
    schema: JsonObject
    decode: Conversion
    """Returns the function's arguments for the content of a call."""
    encode: Conversion
    """Returns the content of a call for the function's arguments."""


def decode_call_arguments(item: JsonObject) -> JsonObject | None:
    """Return the function's arguments for a call of a built-in tool; None for any other item."""
    builtin = BY_CALL.get(str(item.get("type")))
    if builtin is None or not is_run_by_client(builtin, item):
        return None
    content = item.get(builtin.content)
    return builtin.decode(content) if isinstance(content, dict) else None


def decode_known_arguments(item: JsonObject) -> JsonObject | None:
    """Return the arguments that the schema has: OpenAI may add fields to an item at any time."""
    arguments = decode_call_arguments(item)
    known = BY_CALL[str(item.get("type"))].schema["properties"] if arguments else None
    if arguments is None or not isinstance(known, dict) or item["type"] == "tool_search_call":
        return arguments
    return {name: value for name, value in arguments.items() if name in known}


def encode_call_content(builtin: Builtin, arguments: JsonObject) -> JsonObject | None:
    """Return the fields of a call's item for the function's arguments; None if they do not fit."""
    content = builtin.encode(arguments)
    if content is None:
        return None
    fields: JsonObject = {builtin.content: content}
    return {"execution": "client", **fields} if builtin.type == "tool_search" else fields


def is_run_by_client(builtin: Builtin, declared: JsonObject) -> bool:
    """Return True if the client runs the tool that `declared` declares or calls.

    OpenAI Responses: a tool search of the client has `execution: client`; a shell without an
    `environment`, or with a local one, runs at the client.
    """
    if builtin.type == "tool_search":
        return declared.get("execution") == "client"
    environment = declared.get("environment")
    return not isinstance(environment, dict) or environment.get("type") == "local"


def decode_builtin(declared: JsonObject) -> Tool | None:
    """Return a built-in tool as a function that any API can offer; None for any other tool."""
    builtin = BUILTINS.get(str(declared.get("type")))
    if builtin is None or not is_run_by_client(builtin, declared):
        return None
    text, given = declared.get("description"), declared.get("parameters")
    return Tool(
        builtin.type,
        description=text if isinstance(text, str) and text else builtin.description,
        schema=given if isinstance(given, dict) and given else builtin.schema,
        origin=ORIGIN,
        native=declared,
    )


def builtins_of(tools: tuple[Tool, ...]) -> dict[str, Builtin]:
    """Return the built-in tools among `tools` by name."""
    return {
        tool.name: BUILTINS[str(tool.native["type"])]
        for tool in tools
        if tool.native and tool.origin == ORIGIN and tool.native.get("type") in BUILTINS
    }


# ── outputs ──────────────────────────────────────────────────────────────────


def decode_output_text(item: JsonObject) -> tuple[str, bool] | None:
    """Return the text of an output, and True if it is an error; None for any other item."""
    match item.get("type"):
        case "local_shell_call_output":
            return text_in(item, "output"), False
        case "shell_call_output":
            runs = (run for run in list_in(item, "output") if isinstance(run, dict))
            return "\n\n".join(map(_run_text, runs)), False
        case "apply_patch_call_output":
            status = text_in(item, "status")
            return text_in(item, "output") or status, status == "failed"
        case "tool_search_output" if item.get("execution") == "client":
            return f"Tools found: {sum(_count(tool) for tool in list_in(item, 'tools'))}.", False
        case _:
            return None


def _run_text(run: JsonObject) -> str:
    outcome = run.get("outcome")
    ended = outcome if isinstance(outcome, dict) else {}
    code = ended.get("exit_code", 0)
    ending = "It ran out of time." if ended.get("type") == "timeout" else f"Exit code: {code}"
    errors = text_in(run, "stderr")
    texts = (text_in(run, "stdout"), f"Errors:\n{errors}" if errors else "", ending)
    return "\n".join(text.removesuffix("\n") for text in texts if text)


def _count(tool: Json) -> int:
    """Return the number of tools in an entry: a namespace contains several."""
    return len(list_in(tool, "tools")) or 1 if isinstance(tool, dict) else 0


# ── calls ────────────────────────────────────────────────────────────────────


def _without_nulls(fields: JsonObject) -> JsonObject:
    return {name: value for name, value in fields.items() if value is not None}


def _decode_local_shell(action: JsonObject) -> JsonObject | None:
    if not isinstance(action.get("command"), list):
        return None
    kept = {name: value for name, value in _without_nulls(action).items() if name != "type"}
    return kept if kept.get("env") else {n: v for n, v in kept.items() if n != "env"}


def _encode_local_shell(arguments: JsonObject) -> JsonObject | None:
    command = _strings(arguments.get("command"))
    if not command:
        return None
    if len(command) == 1 and " " in str(command[0]).strip():
        # `command` is a list of a program and its arguments; models often write a shell command.
        command = ["bash", "-lc", command[0]]
    env = arguments.get("env")
    kept = _typed(arguments, {"timeout_ms": int, "working_directory": str, "user": str})
    fields: JsonObject = {"type": "exec"}
    return fields | kept | {"command": command, "env": env if isinstance(env, dict) else {}}


def _decode_shell(action: JsonObject) -> JsonObject | None:
    return _without_nulls(action) if isinstance(action.get("commands"), list) else None


def _encode_shell(arguments: JsonObject) -> JsonObject | None:
    commands = _strings(arguments.get("commands", arguments.get("command")))
    if not commands:
        return None
    kept = _typed(arguments, {"timeout_ms": int, "max_output_length": int})
    return {name: value for name, value in kept.items() if name != "command"} | {
        "commands": commands
    }


def _decode_patch(operation: JsonObject) -> JsonObject | None:
    return operation if isinstance(operation.get("path"), str) else None


def _encode_patch(arguments: JsonObject) -> JsonObject | None:
    inner = arguments.get("operation")
    asked = inner if isinstance(inner, dict) else arguments
    if asked.get("type") not in _OPERATIONS or not isinstance(asked.get("path"), str):
        return None
    if asked["type"] == "delete_file":
        return {name: value for name, value in asked.items() if name != "diff"}
    return asked if isinstance(asked.get("diff"), str) else None


def _unchanged(arguments: JsonObject) -> JsonObject | None:
    return arguments


def _strings(given: Json) -> list[Json]:
    """Return a list of strings; a single string is a list of one, any other value is empty."""
    if isinstance(given, str):
        return [given] if given.strip() else []
    if not isinstance(given, list) or not all(isinstance(line, str) for line in given):
        return []
    return given


def _typed(arguments: JsonObject, types: dict[str, type]) -> JsonObject:
    """Return the arguments without fields of a wrong type: clients reject an item with one."""
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
        decode=_decode_local_shell,
        encode=_encode_local_shell,
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
        decode=_decode_shell,
        encode=_encode_shell,
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
        decode=_decode_patch,
        encode=_encode_patch,
    ),
    Builtin(
        type="tool_search",
        call="tool_search_call",
        output="tool_search_output",
        prefix="tsc",
        content="arguments",
        description="Searches for more tools. What it finds may be called afterwards.",
        schema=_schema({"query": _field("string", "What the tool should do.")}, "query"),
        decode=_unchanged,
        encode=_unchanged,
    ),
)

BUILTINS = {builtin.type: builtin for builtin in _ALL}
BY_CALL = {builtin.call: builtin for builtin in _ALL}
BY_OUTPUT = {builtin.output: builtin for builtin in _ALL}
