"""Our request as a body for `/completions`, for providers that have that endpoint."""

from toolbridge.codecs.openai_chat.quirks import read_quirks
from toolbridge.core.codec import Target
from toolbridge.core.json import JsonObject
from toolbridge.core.messages import Request, Text


def completes(request: Request, target: Target) -> bool:
    """Whether the provider has a completion endpoint that takes this request."""
    if request.completion is None:
        return False
    quirks = read_quirks(target.quirks)
    return bool(quirks.completions) and (quirks.completion_suffix or not request.completion.suffix)


def encode_completion_request(body: JsonObject, request: Request) -> JsonObject:
    """Return the chat body `body` as one of `/completions`: the same settings around a prompt."""
    kept = {
        name: value
        for name, value in body.items()
        if name not in {"messages", "max_completion_tokens", "reasoning_effort", "logprobs",
                        "top_logprobs", "tools", "tool_choice"}
    }  # fmt: skip
    found: JsonObject = {**kept, "prompt": prompt_of(request)}
    if request.completion is not None and request.completion.suffix:
        found["suffix"] = request.completion.suffix
    if request.max_tokens is not None:
        found["max_tokens"] = request.max_tokens
    if request.sampling.logprobs is not None:
        found["logprobs"] = request.sampling.logprobs
    return found


def prompt_of(request: Request) -> str:
    """Return the text to be completed."""
    parts = request.turns[-1].content if request.turns else ()
    return "".join(part.text for part in parts if isinstance(part, Text))
