"""What this API calls the fields of a request of ours: losses are told in the client's words."""

FIELD_NAMES = {
    "sampling": "options",
    "sampling.logprobs": "top_logprobs",
    "turns": "messages",
    "system": "messages",
    "think.mode": "think",
    "think.budget": "think",
    "think.effort": "think",
    "think.show": "think",
    "output": "format",
    "max_tokens": "options.num_predict",
    "stop": "options.stop",
    "*.schema": "function.parameters",
}
"""Our names of a request's fields → this API's, for what users are told; `*` is any part or tool."""
