"""Anthropic's names for the fields of our `Request`.

A loss names a field by its path in our request; clients read the name of their own API.
"""

FIELD_NAMES = {
    "sampling": "",
    "turns": "messages",
    "think": "thinking",
    "think.mode": "thinking.type",
    "think.budget": "thinking.budget_tokens",
    "think.effort": "output_config.effort",
    "think.show": "thinking.display",
    "output": "output_config.format",
    "stop": "stop_sequences",
    "user": "metadata.user_id",
    "tool_choice.mode": "tool_choice.type",
    "tool_choice.names": "tool_choice.name",
    "tool_choice.parallel": "tool_choice.disable_parallel_tool_use",
    "*.cite": "citations",
    "*.schema": "input_schema",
}
"""Our path of a field → the name in this API; `*` stands for any part or tool."""
