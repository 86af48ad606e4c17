"""Model lists in the shapes of Anthropic, OpenAI, Gemini and Ollama."""

import hashlib
import time

import msgspec

from toolbridge.core.json import Json, JsonObject
from toolbridge.policy.model_facts import KnownModel
from toolbridge.routing.models import CLAUDE, ListedModel
from toolbridge.routing.route import Route
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
        {**one_model(name, "anthropic", since), "display_name": model.id}
        for name, model in zip(named, listed, strict=True)
    ]
    return {**list_models(named, "anthropic", since), "data": data}


def _as_claude(model: ListedModel) -> ListedModel:
    known = "claude" in model.id or "anthropic" in model.id
    return model if known else msgspec.structs.replace(model, id=f"{CLAUDE}{model.id}")


def list_models(listed: list[ListedModel], shape: str, since: float) -> JsonObject:
    data: list[Json] = [one_model(model, shape, since) for model in listed]
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


def one_model(model: ListedModel, shape: str, since: float) -> JsonObject:
    """Return a model with its limits and capabilities, in the fields of the API `shape`."""
    if shape == "gemini":
        return _gemini(model)
    return _openai(model, since) if shape == "openai" else _anthropic(model, since)


def listed_route(name: str, route: Route) -> ListedModel:
    """Return the entry of a list for a name that a client asks about."""
    return ListedModel(name, route.address, route.shown_window, facts=route.facts)


def _openai(model: ListedModel, since: float) -> JsonObject:
    """Return an OpenAI model; its own list has no limits, so that the fields are OpenRouter's."""
    known = model.facts.known
    owner = model.id.partition("/")[0] if "/" in model.id else "toolbridge"
    shown: JsonObject = {
        "id": model.id,
        "object": "model",
        "created": int(since),
        "owned_by": owner,
    }
    if model.window:
        shown["context_length"] = model.window
    if known.max_output:
        shown["max_output_tokens"] = known.max_output
    if known.has("vision") is not None:
        kinds: list[Json] = ["text", *(_MEDIA[name] for name in _MEDIA if known.has(name))]
        shown["architecture"] = {"input_modalities": kinds}
    names: list[Json] = [field for name, field in _PARAMETERS.items() if known.has(name)]
    if names:
        shown["supported_parameters"] = names
    return shown


_MEDIA = {"vision": "image", "pdf": "file", "audio": "audio"}
_PARAMETERS = {
    "tools": "tools",
    "parallel": "parallel_tool_calls",
    "thinking": "reasoning",
    "schema": "structured_outputs",
}


def _anthropic(model: ListedModel, since: float) -> JsonObject:
    known = model.facts.known
    shown: JsonObject = {
        "type": "model",
        "id": model.id,
        "display_name": model.id,
        "created_at": _stamp(since),
    }
    if model.window:
        shown["max_input_tokens"] = model.window
    if known.max_output:
        shown["max_tokens"] = known.max_output
    if known.retires:
        shown |= {"lifecycle": "deprecated", "retires_at": f"{known.retires}T00:00:00Z"}
    if known.can or known.cannot:
        shown["capabilities"] = _capability_tree(known)
    return shown


def _capability_tree(known: KnownModel) -> JsonObject:
    """Return `capabilities` as in Anthropic's `GET /v1/models`; what the gateway lacks is false."""
    thinks = known.has("thinking") is True
    # A client may ask for thinking in any form: it is translated into the one that the model has.
    types = known.thinking_types or (("adaptive", "enabled") if thinks else ())
    if thinks and known.thinking_types is None and not known.always_thinks:
        types = (*types, "disabled")
    efforts = known.efforts or ()
    return {
        "batch": _support(),
        "citations": _support(),
        "code_execution": _support(),
        "context_management": _support(),
        "effort": {
            **_support(supported=bool(efforts)),
            **{word: _support(supported=word in efforts) for word in _EFFORTS},
        },
        "image_input": _support(supported=known.has("vision") is True),
        "pdf_input": _support(supported=known.has("pdf") is True),
        "server_tools": {
            "supported": False,
            "web_search": _support(),
            "code_execution": _support(),
        },
        "structured_outputs": _support(supported=known.has("schema") is True),
        "thinking": {
            "supported": thinks,
            "types": {name: _support(supported=name in types) for name in _THINKING_TYPES},
        },
    }


_EFFORTS = ("low", "medium", "high", "xhigh", "max")
_THINKING_TYPES = ("adaptive", "enabled", "disabled", "between_tools")


def _support(*, supported: bool = False) -> JsonObject:
    return {"supported": supported}


def _gemini(model: ListedModel) -> JsonObject:
    known = model.facts.known
    shown: JsonObject = {
        "name": f"models/{model.id}",
        "displayName": model.id,
        "version": "1",
        "supportedGenerationMethods": ["generateContent", "streamGenerateContent", "countTokens"],
    }
    # google-genai reads both limits as optional; a number that is not known would be believed.
    if model.window:
        shown["inputTokenLimit"] = model.window
    if known.max_output:
        shown["outputTokenLimit"] = known.max_output
    thinks = known.has("thinking")
    return shown if thinks is None else shown | {"thinking": thinks}


def ollama_tags(listed: list[ListedModel], since: float) -> JsonObject:
    models: list[Json] = [_ollama(model, since) for model in listed]
    return {"models": models}


def ollama_show(name: str, route: Route, since: float) -> JsonObject:
    known = route.facts.known
    # Ollama's clients offer no tools to a model without "tools", so they are refused only if known.
    tools = known.has("tools") is not False
    has = {"tools": tools, "thinking": known.has("thinking"), "vision": known.has("vision")}
    capabilities: list[Json] = ["completion", *sorted(name for name in has if has[name])]
    return {
        "modelfile": f"FROM {name}\n",
        "parameters": "",
        "template": "{{ .Prompt }}",
        "details": _details(),
        "model_info": {
            "general.architecture": "toolbridge",
            "toolbridge.context_length": route.shown_window or 32768,
        },
        "capabilities": capabilities,
        "modified_at": _stamp(since),
    }


def _ollama(model: ListedModel, since: float) -> JsonObject:
    known = model.facts.known
    shown: JsonObject = {
        "name": model.id,
        "model": model.id,
        "modified_at": _stamp(since),
        "size": 0,
        "digest": hashlib.sha256(model.id.encode()).hexdigest(),
        "details": _details(),
    }
    if known.can or known.cannot:
        can: list[Json] = [name for name in _OLLAMA_CAPABILITIES if known.has(name)]
        shown["capabilities"] = ["completion", *can]
    return shown


_OLLAMA_CAPABILITIES = ("tools", "thinking", "vision", "audio")


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
