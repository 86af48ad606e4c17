"""Profiles: named sets of request values, some of which come from environment variables."""

import re
from collections.abc import Mapping

from toolbridge.core.errors import ConfigError
from toolbridge.core.json import JsonObject

DEMO_PROFILE = "demo"
DEMO_TOOLS = ("places.search", "bookings.create")
DEMO_OBJECTS = ("Action",)
DEMO_MODEL = "gpt-oss-20b"
DEV_MODEL = "llama-3.1-8b-instruct"
_STEADY: JsonObject = {"temperature": 0.2, "seed": 42, "max_tokens": 384}
"""Sampling that makes answers repeatable, as far as the provider supports it."""
_HERE = frozenset({"demo", "llamacpp", "lmstudio", "ollama", "vllm"})
_TIMES = {
    "FRAME_TIMEOUT_MS": "frame_timeout_ms",
    "TOOL_TIMEOUT_MS": "tool_timeout_ms",
    "REPAIR_RETRIES": "repair_retries",
}


def read_profiles(own: Mapping[str, JsonObject], env: Mapping[str, str]) -> dict[str, JsonObject]:
    """Return the built-in profiles, replaced or extended by those of the configuration."""
    demo: JsonObject = {
        **_STEADY,
        "objects": list(DEMO_OBJECTS),
        "tools": list(DEMO_TOOLS),
    }
    if env.get("GROQ_API_KEY"):
        demo["model"] = _at("groq", env.get("MODEL_ID") or DEMO_MODEL)
    elif env.get("MODEL_ID"):
        demo["model"] = env["MODEL_ID"]
    local: JsonObject = {**_STEADY, "tools": ["fs.read", "sqlite.query", "time.now"]}
    server = "vllm" if env.get("VLLM_BASE_URL") else "ollama"
    dev: JsonObject = {**_STEADY, "model": _at(server, env.get("DEV_MODEL_ID") or DEV_MODEL)}
    return {DEMO_PROFILE: demo, "dev": dev, "local": local, **own}


def read_defaults(env: Mapping[str, str]) -> JsonObject:
    """Return the defaults for fields that neither the request nor its profile sets."""
    found: JsonObject = {}
    for variable, field in _TIMES.items():
        value = env.get(variable, "")
        if not value:
            continue
        if re.fullmatch(r"[0-9]{1,7}", value) is None:
            raise ConfigError(f"must be a whole number, not {value!r}", where=variable)
        found[field] = int(value)
    return found


def _at(provider: str, model: str) -> str:
    """Return `provider/model`; a model's own name may contain a slash."""
    named = model.partition("/")[0] in {provider, *_HERE}
    return model if named else f"{provider}/{model}"
