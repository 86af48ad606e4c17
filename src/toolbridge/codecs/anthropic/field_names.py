"""What this API calls the fields of a request of ours: losses are told in the client's words."""

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
"""Our names of a request's fields → this API's, for what users are told; `*` is any part or tool."""
