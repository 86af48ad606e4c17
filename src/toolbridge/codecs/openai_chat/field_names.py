"""What this API calls the fields of a request of ours: losses are told in the client's words."""

FIELD_NAMES = {
    "sampling": "",
    "sampling.repeat_penalty": "repetition_penalty",
    "sampling.logprobs": "top_logprobs",
    "turns": "messages",
    "system": "messages",
    "think": "reasoning_effort",
    "think.mode": "reasoning_effort",
    "think.budget": "reasoning_effort",
    "think.effort": "reasoning_effort",
    "think.show": "reasoning_effort",
    "output": "response_format",
    "output.schema": "response_format.json_schema.schema",
    "output.name": "response_format.json_schema.name",
    "output.strict": "response_format.json_schema.strict",
    "tool_choice.mode": "tool_choice",
    "tool_choice.names": "tool_choice",
    "tool_choice.parallel": "parallel_tool_calls",
    "*.schema": "function.parameters",
    "*.strict": "function.strict",
    "*.detail": "image_url.detail",
}
"""Our names of a request's fields → this API's, for what users are told; `*` is any part or tool."""
