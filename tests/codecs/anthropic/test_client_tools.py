"""Tools without a schema that the client runs: any other model is told the documented one."""

from tests.tables import every_row

from toolbridge.codecs.anthropic.client_tools import read_client_tool


@every_row(
    ("type", "name", "fields"),
    [
        ("bash_20250124", "bash", {"command", "restart"}),
        ("bash_20990101", "bash", {"command", "restart"}),
        ("text_editor_20250728", "str_replace_based_edit_tool", {"command", "path", "insert_text"}),
        ("text_editor_20250124", "str_replace_editor", {"command", "path", "new_str"}),
        ("memory_20250818", "memory", {"command", "path", "old_path", "new_path"}),
        ("computer_20251124", "computer", {"action", "coordinate", "region"}),
    ],
)
def test_each_has_its_inputs(type, name, fields):
    declared = {"type": type, "name": name, "display_width_px": 800, "display_height_px": 600}
    tool = read_client_tool(declared)
    assert (tool.name, tool.origin, tool.native) == (name, "anthropic", declared)
    assert fields <= set(tool.schema["properties"])
    assert tool.description


@every_row(
    "declared",
    [
        {"type": "web_search_20250305", "name": "web_search"},
        {"type": "code_execution_20250825", "name": "code_execution"},
        {"type": "computer_toolset_20260801"},
        {"type": "bash_code_execution_20250825", "name": "x"},
        {"type": 3, "name": "x"},
    ],
)
def test_what_anthropic_runs_is_none_of_them(declared):
    assert read_client_tool(declared) is None


def test_only_the_old_editor_can_undo():
    old = read_client_tool({"type": "text_editor_20250124", "name": "str_replace_editor"})
    new = read_client_tool({"type": "text_editor_20250728", "name": "str_replace_based_edit_tool"})
    assert "undo_edit" in old.schema["properties"]["command"]["enum"]
    assert "undo_edit" not in new.schema["properties"]["command"]["enum"]
