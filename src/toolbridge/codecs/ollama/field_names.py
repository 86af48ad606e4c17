"""Ollama's names for the fields of our `Request`.

A loss names a field by its path in our request; clients read the name of their own API.
"""

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
"""Our path of a field → the name in this API; `*` stands for any part or tool."""
