"""Fields as servers name them, found and changed in a body."""

from tests.tables import every_row

from toolbridge.wire.json_paths import REMOVED, edit, locate, locate_value, remove, value_at

BODY = {
    "model": "m",
    "max_tokens": 9,
    "reasoning": {"effort": "low"},
    "generationConfig": {"thinkingConfig": {"thinkingLevel": "LOW"}},
    "tools": [{"type": "function", "function": {"name": "f", "strict": True}}],
    "messages": [
        {"role": "user", "content": [{"type": "text", "text": "hi"}]},
        {"role": "assistant", "reasoning_content": "hm", "content": [
            {"type": "tool_use", "id": "t", "text": "x"}, "odd", {"type": "a b", "z": 1}]},
    ],
}  # fmt: skip


@every_row(
    ("name", "path"),
    [
        ("max_tokens", "max_tokens"),
        ("maxTokens", "max_tokens"),
        ("$.max_tokens", "max_tokens"),
        ("body.max_tokens", "max_tokens"),
        ("reasoning.effort", "reasoning.effort"),
        ("effort", "reasoning.effort"),
        ("thinking_level", "generationConfig.thinkingConfig.thinkingLevel"),
        ("generation_config.thinking_config", "generationConfig.thinkingConfig"),
        ("tools[0].function.strict", "tools.*:function.function.strict"),
        ("strict", "tools.*:function.function.strict"),
        ("reasoning_content", "messages.*:assistant.reasoning_content"),
        ("messages.1.reasoning_content", "messages.*:assistant.reasoning_content"),
        ("messages.1.content.0.tool_use.text", "messages.*:assistant.content.*:tool_use.text"),
        ("messages.1.content.2.z", "messages.*:assistant.content.*.z"),
        ("messages.9.content", ""),
        ("messages.x.content", ""),
        ("messages.1.content.1.x", ""),
        ("nothing", ""),
        ("reasoning.nothing", ""),
        ("", ""),
        ("...", ""),
    ],
)
def test_a_field_is_found(name, path):
    assert locate(BODY, name) == path


def test_a_value_is_found_outside_of_lists():
    assert locate_value(BODY, "low") == "reasoning.effort"
    assert locate_value(BODY, "LOW") == "generationConfig.thinkingConfig.thinkingLevel"
    assert locate_value(BODY, "m") == "", "the name of the model is no parameter"
    assert locate_value(BODY, "hi") == ""


def test_only_what_is_on_the_path_is_copied():
    changed = remove(BODY, "messages.*:assistant.content.*:tool_use.text")
    assert changed["messages"][0] is BODY["messages"][0]
    assert changed["tools"] is BODY["tools"]
    assert changed["messages"][1]["content"][0] == {"type": "tool_use", "id": "t"}
    assert BODY["messages"][1]["content"][0]["text"] == "x"
    assert remove(BODY, "messages.*:user.text") is BODY
    assert remove(BODY, "model.x.y") is BODY
    assert edit(BODY, "max_tokens", lambda value: value) is BODY
    assert edit(BODY, "messages.*:user", lambda _: REMOVED)["messages"] == BODY["messages"][1:]


def test_values_by_path():
    assert value_at(BODY, "reasoning.effort") == "low"
    assert value_at(BODY, "reasoning.effort.x") is None
    assert value_at(BODY, "nothing") is None
