"""The `config.json` of claude-code-router: `Providers`, `Router`, transformers.

claude-code-router, README: the values of `Router` are `provider,model`; `background` is used for the
small model of Claude Code, `longContext` above `longContextThreshold` tokens (60000).
"""

import re
from collections.abc import Mapping

from toolbridge.core.json import Json, JsonObject
from toolbridge.importers.draft import (
    ConfigDraft,
    Endpoint,
    entries_of,
    name_of,
    object_of,
    table_of,
    text_of,
)

_TASKS = {
    "image": "images",
    "longContext": "long_context",
    "background": "background",
    "think": "thinking",
}
"""A key of `Router` → the task of a rule, in the order of the rules."""
_APIS = {"anthropic": "anthropic", "gemini": "gemini", "openai-response": "openai_responses"}
"""A transformer that stands for an API."""
_PATHS = ("/chat/completions", "/v1/messages", "/v1beta/models", "/responses")
_BUILT_IN = {
    "deepseek", "openrouter", "groq", "tooluse", "reasoning", "enhancetool", "cleancache",
    "sampling", "streamoptions", "forcereasoning", "customparams",
}  # fmt: skip
"""Transformers for what toolbridge does by itself: quirks of providers, thinking, healing."""
_NOT_NEEDED = ("LOG", "LOG_LEVEL", "NON_INTERACTIVE_MODE", "StatusLine")


def import_claude_code_router(source: JsonObject, draft: ConfigDraft) -> None:
    """Read a configuration of claude-code-router into `draft`."""
    names: dict[str, str] = {}
    for where, entry in entries_of(source, "Providers", draft):
        if not (name := name_of(entry, "name", where, draft)):
            continue
        if not text_of(entry, "api_base_url"):
            draft.note(f"{where}.api_base_url", "must be a text; the entry was not carried")
            continue
        names[name] = _provider(name, entry, where, draft)
    _routes(table_of(source, "Router"), names, draft)
    _fallbacks(table_of(source, "fallback"), names, draft)
    if isinstance(port := source.get("PORT"), int):
        draft.settings["port"] = port
    if host := text_of(source, "HOST"):
        draft.settings["host"] = host
    draft.gateway_key(text_of(source, "APIKEY"), "APIKEY")
    known = ("Providers", "Router", "fallback", "PORT", "HOST", "APIKEY", *_NOT_NEEDED)
    draft.rest("", source, known)


def _provider(name: str, entry: JsonObject, where: str, draft: ConfigDraft) -> str:
    api = "openai_chat"
    limits: dict[str, Json] = {}
    uses = object_of(entry, "transformer")
    for scope, value in uses.items():
        listed = value if scope == "use" else value.get("use") if isinstance(value, dict) else None
        for number, used in enumerate(listed if isinstance(listed, list) else ()):
            at = f"{where}.transformer.{'' if scope == 'use' else f'{scope}.'}use.{number}"
            word, options = _transformer(used)
            if word in _APIS and scope == "use":
                api = _APIS[word]
            elif word == "maxtoken" and isinstance(limit := options.get("max_tokens"), int):
                limits["" if scope == "use" else scope] = limit
            elif word not in _BUILT_IN:
                draft.note(at, f"the transformer {word!r} has no equivalent; not carried")
    url = _base_url(text_of(entry, "api_base_url"))
    usable = re.sub(r"[/,\s]+", "-", name).strip("-")  # an address is `provider/model`
    endpoint = Endpoint(usable, "", api, url, text_of(entry, "api_key"), keeps_name=True)
    found = draft.provider(endpoint, f"{where}.api_key")
    if found != name:
        draft.note(f"{where}.name", f"the provider {name!r} is now named {found!r}")
    models = entry.get("models")
    for model in models if isinstance(models, list) else ():
        limit = limits.get(str(model), limits.get(""))
        draft.model(f"{found}/{model}", {} if limit is None else {"max_output": limit})
    draft.rest(where, entry, ("name", "api_base_url", "api_key", "models", "transformer"))
    return found


def _transformer(used: Json) -> tuple[str, JsonObject]:
    """Return the name and the options: `"gemini"`, or `["maxtoken", {"max_tokens": 1}]`."""
    if isinstance(used, list) and used:
        options = used[1] if len(used) > 1 and isinstance(used[1], dict) else {}
        return str(used[0]).lower(), options
    return str(used).lower(), {}


def _base_url(url: str) -> str:
    url = url.rstrip("/")
    for path in _PATHS:
        url = url.removesuffix(path)
    return url


def _routes(router: JsonObject, names: Mapping[str, str], draft: ConfigDraft) -> None:
    if default := _address(router.get("default"), names, "Router.default", draft):
        draft.map["default"] = (default,)
    for key, task in _TASKS.items():
        address = _address(router.get(key), names, f"Router.{key}", draft)
        if not address:
            continue
        rule: dict[str, Json] = {"task": task, "to": address}
        threshold = router.get("longContextThreshold")
        if task == "long_context" and isinstance(threshold, int):
            rule["min_tokens"] = threshold
        draft.routes.append(rule)
        if task == "background":  # also used for the name of Claude Code's small model
            draft.map["haiku"] = (address,)
    if "webSearch" in router:
        text = "a request that searches the web is answered by the tool itself, not by a route"
        draft.note("Router.webSearch", f"{text}; not carried")
    draft.rest("Router", router, ("default", "longContextThreshold", "webSearch", *_TASKS))


def _fallbacks(table: JsonObject, names: Mapping[str, str], draft: ConfigDraft) -> None:
    for key, value in table.items():
        at = f"fallback.{key}"
        if key != "default" or "default" not in draft.map:
            draft.note(at, "only the fallbacks of the default were carried")
            continue
        listed = value if isinstance(value, list) else [value]
        found = [_address(one, names, f"{at}.{n}", draft) for n, one in enumerate(listed)]
        draft.map[key] = tuple(dict.fromkeys([*draft.map[key], *filter(None, found)]))


def _address(value: Json, names: Mapping[str, str], where: str, draft: ConfigDraft) -> str:
    """Return the address of `provider,model`; note any other value."""
    if value is None or value == "":
        return ""
    provider, _, model = value.partition(",") if isinstance(value, str) else ("", "", "")
    provider, model = provider.strip(), model.strip()
    if not provider or not model:
        draft.note(where, "must be `provider,model`; not carried")
        return ""
    if provider not in names:
        draft.note(where, f"there is no provider {provider!r} in the new file; not carried")
        return ""
    return f"{names[provider]}/{model}"
