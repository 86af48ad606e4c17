"""Turns an intent into a call of one of the client's tools."""

import shlex

from toolbridge.core.json import Json, JsonObject
from toolbridge.core.messages import Call, Tool
from toolbridge.demo.facts import PromptFacts
from toolbridge.demo.fill import Filler, fill
from toolbridge.demo.intent import Intent, ListFiles, ReadFile, RunCommand, WriteFile
from toolbridge.demo.offer import (
    COMMANDS,
    CONTENTS,
    FOLDERS,
    PATHS,
    PATTERNS,
    OfferedTools,
    key_of,
    lister_of,
    name_tokens,
    properties_of,
    reader_of,
    required_of,
    shell_of,
    type_of,
    writer_of,
)
from toolbridge.demo.paths import absolute


def fulfil(intent: Intent, kit: OfferedTools) -> Call | None:
    """Return the call for an intent, or None if no tool can do it."""
    match intent:
        case WriteFile():
            return _write(intent, kit)
        case RunCommand(command):
            return run(command, kit)
        case ReadFile(path):
            return _read(path, kit) or run(f"cat {shlex.quote(path)}", kit)
        case ListFiles(path):
            return _list(path, kit) or run(f"ls -la {shlex.quote(path)}", kit)


def _write(intent: WriteFile, kit: OfferedTools) -> Call | None:
    writer = writer_of(kit)
    if writer is not None:
        path, content = key_of(writer, PATHS), key_of(writer, CONTENTS)
        given: JsonObject = {path: _placed(intent.path, writer, path, kit), content: intent.content}
        return _complete(writer, given, f"Create {intent.path}", ("create", "write", "overwrite"))
    return run(_writing_command(intent, kit.cwd), kit) or _patch(intent, kit)


def _writing_command(intent: WriteFile, cwd: str) -> str:
    target = shlex.quote(intent.path)
    folder = intent.path.rpartition("/")[0]
    stands = not folder.strip("/.~") or f"{cwd}/".startswith(f"{folder}/")
    before = "" if stands else f"mkdir -p {shlex.quote(folder)} && "
    if not intent.content:
        return f"{before}touch {target}"
    return f"{before}printf '%s\\n' {shlex.quote(intent.content)} > {target}"


def _patch(intent: WriteFile, kit: OfferedTools) -> Call | None:
    """Return the file as a patch, for clients that write files only by patches."""
    for tool in kit.tools:
        if name_tokens(tool.name) == ["apply", "patch"]:
            lines = "".join(f"+{line}\n" for line in intent.content.split("\n"))
            patch = f"*** Begin Patch\n*** Add File: {intent.path}\n{lines}*** End Patch\n"
            key = "input" if tool.freeform else key_of(tool, ("input", "patch")) or "input"
            return Call("", tool.name, {key: patch})
    return None


def run(command: str, kit: OfferedTools) -> Call | None:
    """Return the call that runs `command` in the client's shell."""
    shell = shell_of(kit)
    if shell is None:
        return None
    key = key_of(shell, COMMANDS)
    given: JsonObject = {key: _as_command(command, shell, key)}
    for name in properties_of(shell):
        if name == "description":
            given[name] = f"Run {command}"[:80]
    return _complete(shell, given, f"Run {command}"[:80])


def _as_command(command: str, tool: Tool, key: str) -> Json:
    if type_of(tool, key) != "array":
        return command
    # Codex's `shell` takes a list of arguments, Cline's `run_commands` a list of commands.
    return [command] if key.endswith("s") else ["bash", "-lc", command]


def _read(path: str, kit: OfferedTools) -> Call | None:
    reader = reader_of(kit)
    if reader is None:
        return None
    key = key_of(reader, PATHS)
    given: JsonObject = {key: _placed(path, reader, key, kit)}
    return _complete(reader, given, f"Read {path}", ("view", "read"))


def _list(path: str, kit: OfferedTools) -> Call | None:
    lister = lister_of(kit)
    if lister is None:
        return None
    folder, pattern = key_of(lister, FOLDERS), key_of(lister, PATTERNS)
    given: JsonObject = {pattern: "*"} if pattern else {}
    if folder and (path != "." or folder in required_of(lister)):
        given[folder] = _placed(path, lister, folder, kit)
    return _complete(lister, given, f"List {path}", ("list", "ls", "view"))


def _placed(path: str, tool: Tool, key: str, kit: OfferedTools) -> str:
    """Return `path` for the tool: absolute only if its description demands that."""
    described = str(properties_of(tool).get(key, {}).get("description", ""))
    asks = "absolute" in f"{key} {described} {tool.description}".lower()
    return absolute(path, kit.cwd) if asks else path


def forced(tool: Tool, words: str, say: str = "", fallback: str = "demo") -> Call:
    """Return a call of `tool`, with the values in `words` that its schema allows."""
    if tool.freeform:
        return Call("", tool.name, {"input": words or fallback})
    command = key_of(tool, COMMANDS)
    given: JsonObject = {}
    if command and shell_of(OfferedTools((tool,))) is tool:
        given[command] = _as_command(f"echo {fallback}-ok", tool, command)
    filled = fill(tool.schema, Filler(PromptFacts(words), say=say, fallback=fallback))
    values = filled if isinstance(filled, dict) else {}
    return Call("", tool.name, {**values, **given})


def _complete(tool: Tool, given: JsonObject, purpose: str, prefer: tuple[str, ...] = ()) -> Call:
    """Return the call with every other required property filled from its schema."""
    filler = Filler(PromptFacts(""), say=purpose, prefer=prefer)
    shapes = properties_of(tool)
    missing = [name for name in required_of(tool) if name not in given]
    filled: JsonObject = {name: fill(shapes.get(name, {}), filler, name) for name in missing}
    return Call("", tool.name, {**given, **filled})
