"""What this API calls the fields of a request of ours: losses are told in the client's words."""

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
"""Our names of a request's fields → this API's, for what users are told; `*` is any part or tool."""
