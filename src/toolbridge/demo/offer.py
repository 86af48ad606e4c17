"""Classifies the offered tools by their schemas first and their names second.

A tool with a path property and a content property writes files, whatever its name.
"""

import re
from collections.abc import Callable

import msgspec

from toolbridge.core.json import JsonObject
from toolbridge.core.messages import Request, Tool
from toolbridge.demo.conversation import DemoConversation

PATHS = ("filepath", "path", "filename", "absolutepath", "targetfile", "file", "fname")
CONTENTS = ("content", "contents", "filetext", "text", "body", "filecontent", "newcontent", "data")
COMMANDS = ("command", "cmd", "script", "commandline", "shellcommand", "commands")
FOLDERS = ("dirpath", "path", "directory", "dir", "directorypath", "folder", "absolutepath")
PATTERNS = ("pattern", "glob", "globpattern")

_WRITERS = {"write", "create", "save", "put", "new", "make"}
_EDITORS = {"edit", "replace", "append", "patch", "insert", "notebook", "todo", "memory", "stdin"}
_SHELLS = {
    "bash", "shell", "sh", "exec", "execute", "run", "command", "commands", "terminal", "cmd",
    "powershell", "process",
}  # fmt: skip
_READERS = {"read", "view", "cat", "open", "get", "show"}
_OTHER_READS = {"image", "media", "notebook", "background", "output", "web", "url", "todo", "many"}
_OTHER_SHELLS = {"background", "stdin", "kill", "output", "workflow", "task", "agent", "code"}


class OfferedTools(msgspec.Struct, frozen=True):
    """The tools that may be called now, and their working directory."""

    tools: tuple[Tool, ...] = ()
    cwd: str = ""


def kit_of(request: Request, conversation: DemoConversation) -> OfferedTools:
    """Return the tools that may be called now."""
    if request.tool_choice.mode == "none":
        return OfferedTools((), conversation.cwd)
    allowed = request.tool_choice.names
    usable = (
        tool
        for tool in request.tools
        if _is_ours(tool, conversation) and (not allowed or tool.name in allowed)
    )
    return OfferedTools(tuple(usable), conversation.cwd)


def _is_ours(tool: Tool, conversation: DemoConversation) -> bool:
    """Whether the model may call `tool`: not a server-side tool, and not one that is not loaded yet."""
    if tool.hosted is not None or not tool.name:
        return False
    if tool.deferred and tool.name not in conversation.loaded:
        return False
    # Claude Code offers a placeholder that only keeps its tool search alive.
    return "never call" not in tool.description[:200].lower()


def name_tokens(name: str) -> list[str]:
    """Split a tool's name: `mcp__fs__writeFile` gives `write` and `file`."""
    last = name.rpartition("__")[2] or name
    return [word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+", last)]


def properties_of(tool: Tool) -> dict[str, JsonObject]:
    listed = tool.schema.get("properties")
    if not isinstance(listed, dict):
        return {}
    return {name: shape if isinstance(shape, dict) else {} for name, shape in listed.items()}


def required_of(tool: Tool) -> list[str]:
    listed = tool.schema.get("required")
    return [name for name in listed if isinstance(name, str)] if isinstance(listed, list) else []


def key_of(tool: Tool, wanted: tuple[str, ...]) -> str:
    """Return the first of the `wanted` names that is a property of `tool`, or an empty string."""
    keys = {name.lower().replace("_", "").replace("-", ""): name for name in properties_of(tool)}
    return next((keys[name] for name in wanted if name in keys), "")


def writer_of(kit: OfferedTools) -> Tool | None:
    return _best(kit, _writer_score)


def shell_of(kit: OfferedTools) -> Tool | None:
    return _best(kit, _shell_score)


def reader_of(kit: OfferedTools) -> Tool | None:
    return _best(kit, _reader_score)


def lister_of(kit: OfferedTools) -> Tool | None:
    return _best(kit, _lister_score)


def _best(kit: OfferedTools, score: Callable[[Tool], int]) -> Tool | None:
    scored = [(score(tool), tool) for tool in kit.tools]
    best = max((points for points, _ in scored), default=0)
    return next((tool for points, tool in scored if points == best and best > 0), None)


def _writer_score(tool: Tool) -> int:
    path, content = key_of(tool, PATHS), key_of(tool, CONTENTS)
    words = set(name_tokens(tool.name))
    if not path or not content or (words & _EDITORS and not _offers(tool, "create")):
        return 0
    replaces = any("old" in name.lower() or "diff" in name.lower() for name in required_of(tool))
    if replaces or type_of(tool, path) != "string" or type_of(tool, content) != "string":
        return 0
    return 1 + 2 * bool(words & _WRITERS) + bool(words & {"file", "files"})


def _shell_score(tool: Tool) -> int:
    command = key_of(tool, COMMANDS)
    words = set(name_tokens(tool.name))
    if not command or words & _OTHER_SHELLS or "enum" in properties_of(tool)[command]:
        return 0
    by_name = bool(words & _SHELLS)
    if type_of(tool, command) not in {"string", "array"}:
        return 0
    return 2 * by_name + (command in required_of(tool))


def _reader_score(tool: Tool) -> int:
    words = set(name_tokens(tool.name))
    views = bool(words & _READERS) or _offers(tool, "view")
    path = key_of(tool, PATHS)
    if not views or not path or words & _OTHER_READS or type_of(tool, path) != "string":
        return 0
    return 1 + (words <= _READERS | {"file"})


def _lister_score(tool: Tool) -> int:
    words = set(name_tokens(tool.name))
    if words in ({"ls"}, {"tree"}) or ("list" in words and words & {"dir", "directory", "files"}):
        return 3 * bool(key_of(tool, FOLDERS))
    return 1 if words == {"glob"} and key_of(tool, PATTERNS) else 0


def _offers(tool: Tool, command: str) -> bool:
    """Whether `tool` combines several tools, selected by an enumeration of commands."""
    options = properties_of(tool).get("command", {}).get("enum")
    return isinstance(options, list) and command in options


def type_of(tool: Tool, key: str) -> str:
    """Return the type of a property; Gemini uses capitals, other clients may list several types."""
    kind = properties_of(tool)[key].get("type", "string")
    if isinstance(kind, list):
        kind = next((k for k in kind if k != "null"), "string")
    return str(kind).lower()
