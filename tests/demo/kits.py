"""The tools that real clients offer: names and schemas as captured, descriptions in our own words."""

from toolbridge.core.fold import collect
from toolbridge.core.ids import Ids
from toolbridge.core.messages import (
    Call,
    Message,
    Part,
    Request,
    Result,
    Text,
    Tool,
    Turn,
)
from toolbridge.demo import answer


def obj(required=(), **properties):
    return {"type": "object", "properties": properties, "required": list(required)}


def string(description="", **more):
    return {"type": "string", "description": description, **more}


ABSOLUTE = string("Where to write; the path must be absolute")

CLAUDE_CODE = (
    Tool(
        "Agent",
        "Starts a helper for a larger task.",
        obj(["description", "prompt"], description=string(), prompt=string(), model=string()),
    ),
    Tool(
        "Bash",
        "Runs a command and gives back what it prints.",
        obj(
            ["command"],
            command=string("What to run"),
            timeout={"type": "number"},
            description=string("What the command does"),
            run_in_background={"type": "boolean"},
        ),
    ),
    Tool(
        "Edit",
        "Replaces text in a file.",
        obj(
            ["file_path", "old_string", "new_string"],
            file_path=ABSOLUTE,
            old_string=string(),
            new_string=string(),
        ),
    ),
    Tool(
        "Read",
        "Reads a file.",
        obj(["file_path"], file_path=string("An absolute path"), offset={"type": "integer"}),
    ),
    Tool("Skill", "Starts a skill.", obj(["skill"], skill=string(), args=string())),
    Tool(
        "ToolSearch",
        "Finds tools that are not loaded yet.",
        obj(["query", "max_results"], query=string(), max_results={"type": "number", "default": 5}),
    ),
    Tool("Workflow", "Runs a script of many steps.", obj(script=string(), name=string())),
    Tool(
        "DeferredToolPlaceholder",
        "Keeps loading alive; never call this tool.",
        obj(),
        deferred=True,
    ),
    Tool(
        "Write",
        "Writes a file.",
        obj(["file_path", "content"], file_path=ABSOLUTE, content=string("What to write")),
    ),
)

CODEX = (
    Tool(
        "exec_command",
        "Runs a command in a terminal.",
        obj(
            ["cmd"],
            cmd=string("What to run"),
            justification=string(),
            login={"type": "boolean"},
            sandbox_permissions=string(enum=["use_default", "require_escalated"]),
            shell=string(),
            workdir=string(),
        ),
    ),
    Tool(
        "write_stdin",
        "Writes to a running command.",
        obj(["session_id"], chars=string(), session_id={"type": "number"}),
    ),
    Tool("view_image", "Shows a picture.", obj(["path"], path=string())),
    Tool("apply_patch", "Edits files; plain text, no JSON.", freeform=True),
    Tool("create_goal", "Sets a goal.", obj(["objective"], objective=string())),
    Tool("web_search", hosted={"type": "web_search"}),
)

GEMINI_CLI = (
    Tool("list_directory", "Names what is in a directory.", obj(["dir_path"], dir_path=string())),
    Tool("read_file", "Gives the content of a file.", obj(["file_path"], file_path=string())),
    Tool("glob", "Finds files by a pattern.", obj(["pattern"], pattern=string())),
    Tool(
        "replace",
        "Replaces text.",
        obj(
            ["file_path", "instruction", "old_string", "new_string"],
            file_path=string(),
            instruction=string(),
            old_string=string(),
            new_string=string(),
        ),
    ),
    Tool(
        "write_file",
        "Writes text to a file.",
        obj(["file_path", "content"], file_path=string("Where to"), content=string()),
    ),
    Tool(
        "run_shell_command",
        "Runs a command with bash.",
        obj(["command"], command=string(), description=string(), is_background={"type": "boolean"}),
    ),
    Tool("write_todos", "Notes what is to do.", obj(["todos"], todos={"type": "array"})),
)

OPENCODE = (
    Tool("bash", "Runs a command.", obj(["command"], command=string(), workdir=string())),
    Tool(
        "edit",
        "Replaces text.",
        obj(["filePath", "oldString"], filePath=ABSOLUTE, oldString=string()),
    ),
    Tool("glob", "Finds files.", obj(["pattern"], pattern=string(), path=string())),
    Tool("read", "Reads a file.", obj(["filePath"], filePath=string("An absolute path"))),
    Tool(
        "task",
        "Starts a helper.",
        obj(
            ["description", "prompt", "subagent_type"],
            description=string(),
            prompt=string(),
            subagent_type=string(),
            command=string(),
        ),
    ),
    Tool(
        "write",
        "Writes a file.",
        obj(["content", "filePath"], content=string(), filePath=ABSOLUTE),
    ),
)

WEATHER = Tool(
    "get_weather",
    "Tells the weather of a city.",
    obj(["city"], city=string(), unit=string(enum=["celsius", "fahrenheit"])),
)


def user(*parts: Part | str) -> Turn:
    return Turn("user", tuple(Text(part) if isinstance(part, str) else part for part in parts))


def assistant(*parts: Part | str) -> Turn:
    return Turn("assistant", user(*parts).content)


def result(call: Call, text: str, *, is_error: bool = False) -> Result:
    return Result(call.id, (Text(text),), is_error)


def ask(*turns: Turn | str, **more: object) -> Request:
    said = tuple(user(turn) if isinstance(turn, str) else turn for turn in turns)
    return Request("demo", said, **more)


def reply(*turns: Turn | str, **more: object) -> Message:
    return collect(answer(ask(*turns, **more), Ids("test")))


def called(*turns: Turn | str, **more: object) -> list[tuple[str, object]]:
    return [(call.name, call.arguments) for call in reply(*turns, **more).calls]
