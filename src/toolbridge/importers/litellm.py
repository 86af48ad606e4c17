"""LiteLLM's `config.yaml`: `model_list`, fallbacks, aliases.

LiteLLM docs, proxy/configs: a `model_name` with several deployments is balanced by `weight`, else by
`rpm`. `litellm_params.model` is `provider/model`.
"""

from collections.abc import Mapping

import msgspec

from toolbridge.core.json import Json, JsonObject
from toolbridge.importers.draft import (
    ConfigDraft,
    Endpoint,
    entries_of,
    host_name,
    name_of,
    object_of,
    objects_of,
    table_of,
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
_READ = ("model", "api_base", "base_url", "api_key", "rpm", "custom_llm_provider")
_PER_MILLION = 1_000_000


class _Deployment(msgspec.Struct, frozen=True):
    """One of the models that a name stands for."""

    model: str
    weight: float
    rpm: str
    """The place of a limit that is the weight; empty for none."""


def import_litellm(source: JsonObject, draft: ConfigDraft) -> None:
    """Read a LiteLLM configuration into `draft`."""
    deployments: dict[str, list[_Deployment]] = {}
    for where, entry in entries_of(source, "model_list", draft):
        name = name_of(entry, "model_name", where, draft)
        if name and (found := _deployment(entry, where, draft)) is not None:
            deployments.setdefault(name, []).append(found)
    for name, found_here in deployments.items():
        _add(name, found_here, draft)
    for table in ("router_settings", "litellm_settings"):
        _settings(table, table_of(source, table), draft)
    general = table_of(source, "general_settings")
    draft.gateway_key(text_of(general, "master_key"), "general_settings.master_key")
    draft.rest("general_settings", general, ["master_key"])
    if "environment_variables" in source:
        text = "was not copied; set these variables where toolbridge runs"
        draft.note("environment_variables", text)
    tables = ("model_list", "router_settings", "litellm_settings", "general_settings")
    draft.rest("", source, [*tables, "environment_variables"])


def _deployment(entry: JsonObject, where: str, draft: ConfigDraft) -> _Deployment | None:
    """Return a deployment; None if it cannot be carried."""
    params, info = object_of(entry, "litellm_params"), object_of(entry, "model_info")
    at = f"{where}.litellm_params"
    prefix, slash, model = text_of(params, "model").partition("/")
    if given := text_of(params, "custom_llm_provider"):
        prefix, model = given, text_of(params, "model").removeprefix(f"{given}/")
    elif not slash:  # LiteLLM finds the provider of a name without a prefix in its own table
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
    known = (*_CLOUD_FIELDS, *_RATES, *_HARMLESS, *_READ)
    draft.rest(at, params, known)
    draft.rest(f"{where}.model_info", info, (*_FACTS, *_RATES, *_HARMLESS, "max_tokens"))
    draft.rest(where, entry, ("model_name", "litellm_params", "model_info"))
    return _weighted(address, params, at, draft)


def _weighted(address: str, params: JsonObject, at: str, draft: ConfigDraft) -> _Deployment:
    rpm = f"{at}.rpm" if "rpm" in params else ""
    if "weight" in params and rpm:
        draft.note(rpm, "has no equivalent; not carried")
        rpm = ""
    weight = params.get("weight") or params.get("rpm") or 1
    if not isinstance(weight, int | float) or weight <= 0:
        weight = 1
    return _Deployment(address, weight, rpm)


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


_VENDORS = {
    "text-embedding-00": "vertex_ai", "text-multilingual-embedding": "vertex_ai", "gemini": "vertex_ai",
    "claude": "anthropic", "command": "cohere", "embed-": "cohere", "rerank": "cohere",
    **dict.fromkeys(
        ("gpt-", "chatgpt-", "o1", "o3", "o4", "codex-", "computer-use-", "text-embedding-", "ft:",
         "text-davinci", "davinci-", "babbage-", "dall-e", "whisper-", "tts-", "omni-moderation"),
        "openai",
    ),
}  # fmt: skip
"""How a name begins → LiteLLM's prefix (`model_prices_and_context_window.json`); the first decides."""


def _vendor(model: str) -> str:
    return next((vendor for start, vendor in _VENDORS.items() if model.startswith(start)), "")


def _facts(params: JsonObject, info: JsonObject) -> dict[str, Json]:
    facts = {new: info[old] for old, new in _FACTS.items() if isinstance(info.get(old), bool | int)}
    both = {**info, **params}
    rates: dict[str, Json] = {}
    for old, new in _RATES.items():
        value = both.get(old)
        if isinstance(value, int | float):
            rates[new] = round(value * _PER_MILLION, 6)
    return {**facts, "rates": rates} if rates else facts


def _add(name: str, deployments: list[_Deployment], draft: ConfigDraft) -> None:
    """Map a name to its deployment; several share its conversations."""
    first, shared = deployments[0].model, len(deployments) > 1
    if "*" in name:
        draft.note(f"model_list ({name})", f"add `default = {first!r}` under [map] for other names")
        return
    for one in filter(lambda one: one.rpm, deployments):
        used = (
            "is the weight of the deployment; the limit itself was"
            if shared
            else "has no equivalent;"
        )
        draft.note(one.rpm, f"{used} not carried")
    draft.map[name] = (first,)
    if shared:
        to: list[Json] = [{"model": one.model, "weight": one.weight} for one in deployments]
        draft.routes.append({"model": name, "to": to})


def _settings(where: str, table: JsonObject, draft: ConfigDraft) -> None:
    for alias, value in object_of(table, "model_group_alias").items():
        named = text_of(value, "model") if isinstance(value, dict) else value
        _alias(alias, named, f"{where}.model_group_alias.{alias}", draft)
    for at, entry in entries_of(table, "fallbacks", draft, where):
        for name, others in entry.items():
            _fall_back(name, others, f"{at}.{name}", draft)
    if table.get("routing_strategy") not in {None, "simple-shuffle"}:
        text = "conversations are shared by weight and stay with their model"
        draft.note(f"{where}.routing_strategy", text)
    known = ("model_group_alias", "fallbacks", "routing_strategy", "drop_params", "set_verbose")
    draft.rest(where, table, known)


def _alias(alias: str, named: Json, where: str, draft: ConfigDraft) -> None:
    """Give a name a second one; a rule for the name is for both."""
    if not isinstance(named, str) or named not in draft.map:
        draft.note(where, f"there is no model {named!r} in the new file; not carried")
        return
    draft.map[alias] = (named,)
    if route := _route_of(named, draft):
        names = route["model"]
        route["model"] = [*names, alias] if isinstance(names, list) else [names, alias]


def _fall_back(name: str, others: Json, where: str, draft: ConfigDraft) -> None:
    if name not in draft.map:
        draft.note(where, f"there is no model {name!r} in the new file; not carried")
        return
    found: list[str] = []
    for other in others if isinstance(others, list) else []:
        prefix, _, model = other.partition("/") if isinstance(other, str) else ("", "", "")
        if isinstance(other, str) and other not in draft.map and model and prefix in PROVIDERS:
            found.append(f"{PROVIDERS[prefix]}/{model}")  # served by a pattern such as `openai/*`
        elif not isinstance(other, str) or other not in draft.map:
            draft.note(
                where, f"there is no model {other!r} in the new file; this one was not carried"
            )
        elif shared := _shares(_route_of(other, draft)):
            draft.note(
                where, f"the deployments of {other!r} are tried in order, without their weights"
            )
            found += [model for model, _ in shared]
        else:
            found += draft.map[other]
    draft.map[name] = tuple(dict.fromkeys([*draft.map[name], *found]))
    if route := _route_of(name, draft):
        route["to"] = _with_chains(name, _shares(route), found, draft)


def _with_chains(
    name: str, shares: list[tuple[str, Json]], fallbacks: list[str], draft: ConfigDraft
) -> list[Json]:
    """Return the targets of a rule, each followed by the fallbacks: a name of the map for each."""
    to: list[Json] = []
    for number, (model, weight) in enumerate(shares, 1):
        chain = draft.free_name(f"{name}-{number}")
        draft.map[chain] = tuple(dict.fromkeys([model, *fallbacks]))
        to.append({"model": chain, "weight": weight})
    return to


def _route_of(name: str, draft: ConfigDraft) -> dict[str, Json]:
    """Return the rule for a name; an empty one if it has none."""
    for route in draft.routes:
        names = route["model"]
        if name == names or (isinstance(names, list) and name in names):
            return route
    return {}


def _shares(route: JsonObject) -> list[tuple[str, Json]]:
    """Return the models of a rule with their weights."""
    return [(text_of(one, "model"), one.get("weight", 1)) for one in objects_of(route, "to")]
