"""Names of our request fields in Chat Completions.

Losses are reported to a client with the field names of its own API. `*` stands for any part or tool.
"""

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
"""From our name to the name in this API; a prefix with an empty name is dropped."""
