"""Tools that Anthropic defines and the client runs: a shell, an editor, a memory, a computer.

Anthropic, tool use: such a tool has a `type` and a `name` but no schema, because Claude was trained
on it. Any other model needs the documented schema; its calls come back under the same name, so the
client runs them as usual. Types are matched without their date: new dates rarely change the input.
"""

from collections.abc import Callable

from toolbridge.codecs.anthropic.shapes import ORIGIN
from toolbridge.core.json import Json, JsonObject
from toolbridge.core.messages import Tool


def read_client_tool(declared: JsonObject) -> Tool | None:
    """Return a tool that the client runs, with its schema; None for one that Anthropic runs."""
    kind = declared.get("type")
    name = declared.get("name")
    if not isinstance(kind, str) or not isinstance(name, str) or not name:
        return None
    for beginning, describe in _TOOLS.items():
        if kind.startswith(beginning) and kind[len(beginning) :].isdecimal():
            description, schema = describe(declared)
            return Tool(name, description, schema, origin=ORIGIN, native=declared)
    return None


def _bash(_: JsonObject) -> tuple[str, JsonObject]:
    description = (
        "Run a command in a persistent bash session. Give `restart` alone to start a new session."
    )
    return description, _object({"command": _text("The command to run."), "restart": _flag()}, [])


def _editor(declared: JsonObject) -> tuple[str, JsonObject]:
    # Anthropic, text editor tool: versions 20241022 and 20250124 have `undo_edit`.
    old = declared.get("name") == "str_replace_editor"
    commands: list[Json] = ["view", "create", "str_replace", "insert"]
    # Anthropic, text editor tool: the text of `insert` is new_str before 20250728, insert_text since.
    inserted = "new_str" if declared.get("type") != "text_editor_20250728" else "insert_text"
    description = (
        "View, create and edit text files. `view` shows a file, or lists a directory; `create` "
        "writes `file_text`; `str_replace` replaces `old_str`, which must occur exactly once, by "
        f"`new_str`; `insert` puts `{inserted}` after line `insert_line`."
    )
    fields: JsonObject = {
        "command": {"type": "string", "enum": commands + (["undo_edit"] if old else [])},
        "path": _text("The path of the file or directory."),
        "file_text": _text("For `create`: the content of the file."),
        "old_str": _text("For `str_replace`: the text to replace."),
        "new_str": _text("For `str_replace`: the new text."),
        "insert_line": _number(
            "For `insert`: the line after which to insert; 0 for the beginning."
        ),
        **({} if old else {"insert_text": _text("For `insert`: the text to insert.")}),
        "view_range": _numbers("For `view`: the first and the last line, -1 for the end."),
    }
    return description, _object(fields, ["command", "path"])


def _memory(_: JsonObject) -> tuple[str, JsonObject]:
    description = (
        "Read and write files under /memories, which are kept between conversations: view{path, "
        "view_range?}, create{path, file_text}, str_replace{path, old_str, new_str}, insert{path, "
        "insert_line, insert_text}, delete{path}, rename{old_path, new_path}."
    )
    commands: list[Json] = ["view", "create", "str_replace", "insert", "delete", "rename"]
    fields: JsonObject = {
        "command": {"type": "string", "enum": commands},
        "path": _text("The path, under /memories."),
        "view_range": _numbers("For `view`: the first and the last line."),
        "file_text": _text("For `create`: the content of the file."),
        "old_str": _text("For `str_replace`: the text to replace."),
        "new_str": _text("For `str_replace`: the new text."),
        "insert_line": _number("For `insert`: the line after which to insert."),
        "insert_text": _text("For `insert`: the text to insert."),
        "old_path": _text("For `rename`: the path as it is."),
        "new_path": _text("For `rename`: the new path."),
    }
    return description, _object(fields, ["command"])


# Anthropic, computer use tool: the actions of computer_20250124 and computer_20251124.
_ACTIONS: tuple[Json, ...] = (
    "key", "type", "mouse_move", "left_click", "left_click_drag", "right_click", "middle_click",
    "double_click", "triple_click", "left_mouse_down", "left_mouse_up", "scroll", "hold_key",
    "wait", "screenshot", "cursor_position", "zoom",
)  # fmt: skip


def _computer(declared: JsonObject) -> tuple[str, JsonObject]:
    size = f"{declared.get('display_width_px')} x {declared.get('display_height_px')}"
    description = (
        f"Use a computer with a screen of {size} pixels: take a screenshot to see it, then click, "
        "type or scroll. Coordinates are [x, y] from the upper left corner."
    )
    ways: list[Json] = ["up", "down", "left", "right"]
    fields: JsonObject = {
        "action": {"type": "string", "enum": list(_ACTIONS)},
        "coordinate": _numbers("[x, y] of the action."),
        "start_coordinate": _numbers("For `left_click_drag`: where it begins."),
        "text": _text("For `type`, `key` and `hold_key`: the text or the keys."),
        "scroll_direction": {"type": "string", "enum": ways},
        "scroll_amount": _number("For `scroll`: how far."),
        "duration": {"type": "number", "description": "For `wait` and `hold_key`: seconds."},
        "region": _numbers("For `zoom`: [x0, y0, x1, y1]."),
    }
    return description, _object(fields, ["action"])


_TOOLS: dict[str, Callable[[JsonObject], tuple[str, JsonObject]]] = {
    "bash_": _bash,
    "text_editor_": _editor,
    "memory_": _memory,
    "computer_": _computer,
}


def _object(properties: JsonObject, required: list[Json]) -> JsonObject:
    schema: JsonObject = {"type": "object", "properties": properties}
    return schema | {"required": required} if required else schema


def _text(description: str) -> JsonObject:
    return {"type": "string", "description": description}


def _number(description: str) -> JsonObject:
    return {"type": "integer", "description": description}


def _numbers(description: str) -> JsonObject:
    return {"type": "array", "items": {"type": "integer"}, "description": description}


def _flag() -> JsonObject:
    return {"type": "boolean", "description": "Start a new session."}
