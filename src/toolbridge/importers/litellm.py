"""LiteLLM's `config.yaml`: `model_list`, fallbacks, aliases.

LiteLLM docs, proxy/configs: a `model_name` with several deployments is balanced by `weight`, else by
`rpm`. `litellm_params.model` is `provider/model`.
"""

from collections.abc import Mapping

from toolbridge.core.json import Json, JsonObject
from toolbridge.importers.draft import (
    ConfigDraft,
    Endpoint,
    host_name,
    object_of,
    objects_of,
    text_of,
)

PROVIDERS: Mapping[str, str] = {
    "anthropic": "anthropic", "azure": "azure", "azure_ai": "foundry", "bedrock": "bedrock",
    "cerebras": "cerebras", "cohere": "cohere", "cohere_chat": "cohere", "dashscope": "dashscope",
    "deepseek": "deepseek", "fireworks_ai": "fireworks", "gemini": "google", "github": "github",
    "groq": "groq", "hosted_vllm": "vllm", "huggingface": "huggingface", "lm_studio": "lmstudio",
    "minimax": "minimax", "mistral": "mistral", "moonshot": "moonshot", "nvidia_nim": "nvidia",
    "ollama": "ollama", "ollama_chat": "ollama", "openai": "openai", "openrouter": "openrouter",
    "perplexity": "perplexity", "together_ai": "together", "vercel_ai_gateway": "vercel",
    "vertex_ai": "vertex", "xai": "xai", "zai": "zai",
}  # fmt: skip
"""LiteLLM's prefix of a model → the built-in provider."""
_CLOUD_FIELDS = {
    "aws_region_name": "region",
    "aws_profile_name": "profile",
    "vertex_project": "project",
    "vertex_location": "location",
    "vertex_credentials": "credentials_file",
    "api_version": "api_version",
}
_FACTS = {
    "max_input_tokens": "window",
    "max_output_tokens": "max_output",
    "supports_vision": "vision",
    "supports_function_calling": "tools",
    "supports_reasoning": "thinking",
}
_RATES = {
    "input_cost_per_token": "input",
    "output_cost_per_token": "output",
    "cache_read_input_token_cost": "cache_read",
    "cache_creation_input_token_cost": "cache_write",
}
_HARMLESS = ("mode", "id", "base_model", "drop_params", "set_verbose", "weight")
_PER_MILLION = 1_000_000


def import_litellm(source: JsonObject, draft: ConfigDraft) -> None:
    """Read a LiteLLM configuration into `draft`."""
    deployments: dict[str, list[JsonObject]] = {}
    for number, entry in enumerate(objects_of(source, "model_list")):
        found = _deployment(entry, f"model_list.{number}", draft)
        if found is not None:
            deployments.setdefault(text_of(entry, "model_name"), []).append(found)
    for name, found_here in deployments.items():
        _add(name, found_here, draft)
    for table in ("router_settings", "litellm_settings"):
        _settings(table, object_of(source, table), draft)
    general = object_of(source, "general_settings")
    draft.gateway_key(text_of(general, "master_key"), "general_settings.master_key")
    draft.rest("general_settings", general, ["master_key"])
    if "environment_variables" in source:
        text = "was not copied; set these variables where toolbridge runs"
        draft.note("environment_variables", text)
    tables = ("model_list", "router_settings", "litellm_settings", "general_settings")
    draft.rest("", source, [*tables, "environment_variables"])


def _deployment(entry: JsonObject, where: str, draft: ConfigDraft) -> JsonObject | None:
    """Return the model and the weight of a deployment; None if it cannot be carried."""
    params, info = object_of(entry, "litellm_params"), object_of(entry, "model_info")
    at = f"{where}.litellm_params"
    prefix, slash, model = text_of(params, "model").partition("/")
    if not slash:  # LiteLLM finds the provider of a name without a prefix in its own table
        prefix, model = _vendor(prefix), prefix
    base = PROVIDERS.get(prefix, "")
    if not base:
        draft.note(f"{at}.model", f"there is no provider for {text_of(params, 'model')!r}")
        return None
    if "*" in model:
        text = "a pattern of models is not needed: `provider/model` reaches every model"
        draft.note(f"{at}.model", text)
        return None
    address = f"{draft.provider(_endpoint(base, params), f'{at}.api_key')}/{model}"
    draft.model(address, _facts(params, info))
    known = (*_CLOUD_FIELDS, *_RATES, *_HARMLESS, "model", "api_base", "base_url", "api_key")
    draft.rest(at, params, known)
    draft.rest(f"{where}.model_info", info, (*_FACTS, *_RATES, *_HARMLESS, "max_tokens"))
    draft.rest(where, entry, ("model_name", "litellm_params", "model_info"))
    weight = params.get("weight") or params.get("rpm") or 1
    return {"model": address, "weight": weight if isinstance(weight, int | float) else 1}


def _endpoint(base: str, params: JsonObject) -> Endpoint:
    url, key = (
        text_of(params, "api_base") or text_of(params, "base_url"),
        text_of(params, "api_key"),
    )
    more = {new: params[old] for old, new in _CLOUD_FIELDS.items() if params.get(old)}
    if base == "azure" and url:
        # https://RESOURCE.openai.azure.com
        more["resource"] = url.partition("://")[2].partition(".")[0]
        url = ""
    elif base != "azure":
        more.pop("api_version", None)
    if base == "openai" and url:  # any server of OpenAI's API
        return Endpoint(host_name(url), "", "openai_chat", url, key)
    return Endpoint(base, base, "", url, key, tuple(sorted(more.items())))


def _vendor(model: str) -> str:
    starts = {
        "gpt-": "openai",
        "o1": "openai",
        "o3": "openai",
        "o4": "openai",
        "claude": "anthropic",
    }
    return next((vendor for start, vendor in starts.items() if model.startswith(start)), "")


def _facts(params: JsonObject, info: JsonObject) -> dict[str, Json]:
    facts = {new: info[old] for old, new in _FACTS.items() if isinstance(info.get(old), bool | int)}
    both = {**info, **params}
    rates: dict[str, Json] = {}
    for old, new in _RATES.items():
        value = both.get(old)
        if isinstance(value, int | float):
            rates[new] = round(value * _PER_MILLION, 6)
    return {**facts, "rates": rates} if rates else facts


def _add(name: str, deployments: list[JsonObject], draft: ConfigDraft) -> None:
    """Map a name to its deployment; several share its conversations."""
    first = text_of(deployments[0], "model")
    if "*" in name:
        draft.note(f"model_list ({name})", f"add `default = {first!r}` under [map] for other names")
        return
    draft.map[name] = (first,)
    if len(deployments) > 1:
        to: list[Json] = [*deployments]
        draft.routes.append({"model": name, "to": to})


def _settings(where: str, table: JsonObject, draft: ConfigDraft) -> None:
    for alias, value in object_of(table, "model_group_alias").items():
        named = text_of(value, "model") if isinstance(value, dict) else value
        if isinstance(named, str):
            draft.map[alias] = (named,)
    for entry in objects_of(table, "fallbacks"):
        for name, others in entry.items():
            _fall_back(name, others, f"{where}.fallbacks", draft)
    if table.get("routing_strategy") not in {None, "simple-shuffle"}:
        text = "conversations are shared by weight and stay with their model"
        draft.note(f"{where}.routing_strategy", text)
    known = ("model_group_alias", "fallbacks", "routing_strategy", "drop_params", "set_verbose")
    draft.rest(where, table, known)


def _fall_back(name: str, others: Json, where: str, draft: ConfigDraft) -> None:
    found = (
        [other for other in others if isinstance(other, str)] if isinstance(others, list) else []
    )
    if name not in draft.map or any(route.get("model") == name for route in draft.routes):
        draft.note(where, f"the fallbacks of {name!r} were not carried: it has several deployments")
        return
    addresses = [address for other in found for address in draft.map.get(other, (other,))]
    draft.map[name] = tuple(dict.fromkeys([*draft.map[name], *addresses]))
