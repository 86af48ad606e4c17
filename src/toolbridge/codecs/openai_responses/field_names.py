"""Names of our request fields in the Responses API.

Losses are reported to a client with the field names of its own API. `*` stands for any part or tool.
"""

FIELD_NAMES = {
    "sampling": "",
    "sampling.logprobs": "top_logprobs",
    "turns": "input",
    "system": "instructions",
    "think": "reasoning",
    "think.mode": "reasoning.effort",
    "think.budget": "reasoning.effort",
    "think.effort": "reasoning.effort",
    "think.show": "reasoning.summary",
    "output": "text.format",
    "max_tokens": "max_output_tokens",
    "user": "safety_identifier",
    "session": "prompt_cache_key",
    "tool_choice.mode": "tool_choice",
    "tool_choice.names": "tool_choice",
    "tool_choice.parallel": "parallel_tool_calls",
    "*.schema": "parameters",
}
"""From our name to the name in this API; a prefix with an empty name is dropped."""
