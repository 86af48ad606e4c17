"""Model lists in the shapes of Anthropic, OpenAI, Gemini and Ollama."""

import hashlib
import time

import msgspec

from toolbridge.core.json import Json, JsonObject
from toolbridge.routing.models import CLAUDE, ListedModel, Route
from toolbridge.server.http import IncomingRequest

OLLAMA_VERSION = "0.32.15"
"""The version that `/api/version` reports; clients reject servers that are too old for them."""


def asked_shape(exchange: IncomingRequest) -> str:
    """Return the API whose list a caller of `/v1/models` expects, by its request headers."""
    if exchange.header("anthropic-version") or is_claude_code(exchange):
        return "anthropic"
    if exchange.header("x-goog-api-key") or exchange.header("x-goog-api-client"):
        return "gemini"
    return "openai"


def is_claude_code(exchange: IncomingRequest) -> bool:
    return exchange.header("user-agent").startswith(("claude-cli/", "claude-code/"))


def list_for_claude_code(listed: list[ListedModel], since: float) -> JsonObject:
    """Return the list for Claude Code, which ignores models whose names are not Claude's."""
    named = [_as_claude(model) for model in listed]
    data: list[Json] = [
        {**one_model(name.id, name.window, "anthropic", since), "display_name": model.id}
        for name, model in zip(named, listed, strict=True)
    ]
    return {**list_models(named, "anthropic", since), "data": data}


def _as_claude(model: ListedModel) -> ListedModel:
    known = "claude" in model.id or "anthropic" in model.id
    return model if known else msgspec.structs.replace(model, id=f"{CLAUDE}{model.id}")


def list_models(listed: list[ListedModel], shape: str, since: float) -> JsonObject:
    data: list[Json] = [one_model(m.id, m.window, shape, since) for m in listed]
    if shape == "gemini":
        return {"models": data}
    if shape == "openai":
        return {"object": "list", "data": data}
    return {
        "data": data,
        "has_more": False,
        "first_id": listed[0].id if listed else None,
        "last_id": listed[-1].id if listed else None,
    }


def one_model(name: str, window: int, shape: str, since: float) -> JsonObject:
    if shape == "gemini":
        return _gemini(name, window)
    if shape == "openai":
        owner = name.partition("/")[0] if "/" in name else "toolbridge"
        return {"id": name, "object": "model", "created": int(since), "owned_by": owner}
    shown: JsonObject = {
        "type": "model",
        "id": name,
        "display_name": name,
        "created_at": _stamp(since),
    }
    if window:
        shown["max_input_tokens"] = window
    return shown


def _gemini(name: str, window: int) -> JsonObject:
    return {
        "name": f"models/{name}",
        "displayName": name,
        "version": "1",
        "inputTokenLimit": window or 1_000_000,
        "outputTokenLimit": 65536,
        "supportedGenerationMethods": ["generateContent", "streamGenerateContent", "countTokens"],
    }


def ollama_tags(listed: list[ListedModel], since: float) -> JsonObject:
    models: list[Json] = [{**_ollama(model.id, since)} for model in listed]
    return {"models": models}


def ollama_show(name: str, route: Route, since: float) -> JsonObject:
    can = route.target.capabilities
    known = sorted(can & {"tools", "thinking", "vision"}) if can is not None else ["tools"]
    capabilities: list[Json] = ["completion", *known]
    return {
        "modelfile": f"FROM {name}\n",
        "parameters": "",
        "template": "{{ .Prompt }}",
        "details": _details(),
        "model_info": {
            "general.architecture": "toolbridge",
            "toolbridge.context_length": route.target.window or 32768,
        },
        "capabilities": capabilities,
        "modified_at": _stamp(since),
    }


def _ollama(name: str, since: float) -> JsonObject:
    return {
        "name": name,
        "model": name,
        "modified_at": _stamp(since),
        "size": 0,
        "digest": hashlib.sha256(name.encode()).hexdigest(),
        "details": _details(),
    }


def _details() -> JsonObject:
    return {
        "parent_model": "",
        "format": "gguf",
        "family": "toolbridge",
        "families": ["toolbridge"],
        "parameter_size": "",
        "quantization_level": "",
    }


def _stamp(at: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at))
