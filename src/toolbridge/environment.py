"""Environment variables: settings of the gateway, and keys that are given by their variable.

`config.py` combines these settings with the file and the flags.
"""

import os
import re
from collections.abc import Mapping

from toolbridge.core.errors import ConfigError

CALLER = "caller"
"""The value of a provider's `key` that forwards the login of each caller."""
_SETTINGS = {
    "host": ("TOOLBRIDGE_HOST",),
    "port": ("TOOLBRIDGE_PORT", "PORT", "CLAUDE_BRIDGE_PORT"),
    "key": ("TOOLBRIDGE_KEY", "TOOLBRIDGE_API_KEY", "CLAUDE_BRIDGE_API_KEY"),
    "thinking": ("TOOLBRIDGE_THINKING",),
    "log": ("TOOLBRIDGE_LOG",),
    "workers": ("TOOLBRIDGE_WORKERS",),
    "store": ("TOOLBRIDGE_STORE",),
    "ledger": ("TOOLBRIDGE_LEDGER",),
    "otel": ("TOOLBRIDGE_OTEL",),
}
_NUMBERS = {"port": (65535, "a port number"), "workers": (256, "a number from 1 to 256")}
_MODELS = {
    "default": "TOOLBRIDGE_MODEL",
    "opus": "MODEL_OPUS",
    "sonnet": "MODEL_SONNET",
    "haiku": "MODEL_HAIKU",
}


def settings_from(env: Mapping[str, str]) -> dict[str, object]:
    """Return the settings that variables set; raise `ConfigError` for a bad number."""
    values: dict[str, object] = {}
    for name, variable in variables_from(env).items():
        value = env[variable]
        if name in _NUMBERS:
            most, what = _NUMBERS[name]
            if re.fullmatch(r"[0-9]{1,5}", value) is None or int(value) > most:
                raise ConfigError(f"must be {what}, not {value!r}", where=variable)
            values[name] = int(value)
        else:
            values[name] = value
    return values


def variables_from(env: Mapping[str, str]) -> dict[str, str]:
    """Return the settings that variables set, each with the variable that counts."""
    found = {name: next((v for v in all if env.get(v)), "") for name, all in _SETTINGS.items()}
    return {name: variable for name, variable in found.items() if variable}


def empty_key_variable(env: Mapping[str, str]) -> str:
    """Return the variable that gives an empty key of the gateway; "" if none does."""
    variables = _SETTINGS["key"]
    if any(env.get(variable, "").strip() for variable in variables):
        return ""
    return next((variable for variable in variables if variable in env), "")


def models_from(env: Mapping[str, str]) -> dict[str, str]:
    """Return the names of the map that variables set."""
    return {name: env[variable] for name, variable in _MODELS.items() if env.get(variable)}


def secret(value: str, env: Mapping[str, str] = os.environ) -> str:
    """Return a key that is given directly or by its variable.

    Empty if the variable is not set, and for the caller's own login, which is not a setting.
    """
    if value == CALLER:
        return ""
    variable = key_variable(value)
    return env.get(variable, "") if variable else value


_REFERENCE = re.compile(r"\$\{?(?P<a>\w+)\}?|env[:.](?P<b>\w+)|os\.environ/(?P<c>\w+)")


def key_variable(value: str) -> str:
    """Return the variable that a key refers to; empty for a key that is given directly."""
    reference = _REFERENCE.fullmatch(value.strip())
    return "" if reference is None else next(name for name in reference.groups() if name)
