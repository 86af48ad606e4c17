"""The prices that `toolbridge claude` passes to Claude Code.

Claude Code shows costs from its own price list, and counts an unknown model as an expensive one.
Other prices are accepted only from managed settings or, with CLAUDE_CODE_PROVIDER_MANAGED_BY_HOST,
from the program that starts it.
"""

import json
import os
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from toolbridge.config import Config, RatesConfig
from toolbridge.routing.nodes import NODE
from toolbridge.routing.providers import DEMO, find_providers
from toolbridge.upstream.hosts import hostname, is_loopback

FLAG = "--managed-settings"
SINCE = (2, 1, 325)
"""The first version of Claude Code that is known to accept prices this way."""
_VERSION = re.compile(r"\d+\.\d+\.\d+")


def price_arguments(
    command: str, given: Sequence[str], rates: Mapping[str, RatesConfig]
) -> tuple[list[str], dict[str, str]]:
    """Return Claude Code's arguments and variables with the prices of models by name."""
    taken = any(word.partition("=")[0] == FLAG for word in given)
    if not rates or taken or installed_version(Path(command)) < SINCE:
        return [], {}
    settings = {"modelPricing": {"overrides": {name: _row(rate) for name, rate in rates.items()}}}
    return [FLAG, json.dumps(settings)], {"CLAUDE_CODE_PROVIDER_MANAGED_BY_HOST": "1"}


def _row(rates: RatesConfig) -> dict[str, float]:
    return {
        "input": rates.input,
        "output": rates.output,
        "cacheRead": rates.input if rates.cache_read is None else rates.cache_read,
        "cacheWrite": rates.input if rates.cache_write is None else rates.cache_write,
    }


def rates_for(config: Config, names: Mapping[str, str]) -> dict[str, RatesConfig]:
    """Return the rates of the models at `names` (name → address), as far as they are known."""
    found = {name: rates_of(config, address) for name, address in names.items()}
    return {name: rates for name, rates in found.items() if rates is not None}


def rates_of(config: Config, address: str) -> RatesConfig | None:
    """Return the rates of the model at `address` per million tokens; None if unknown."""
    provider, _, model = address.partition("/")
    provider_config = find_providers(config, os.environ).get(provider)
    settings = config.models.get(address) or config.models.get(model)
    if settings is not None and settings.rates is not None:
        return settings.rates
    if provider_config is None or provider_config.api == NODE or provider == "anthropic":
        return None  # the host sets a node's price; Claude Code has Anthropic's prices
    if provider_config.api == DEMO or is_loopback(hostname(provider_config.url)):
        return RatesConfig()
    from toolbridge.accounting.tariff import tariff  # the price list takes a while to load

    found = tariff(model, provider)
    rates = found.rates(time.time(), 0) if found else None
    if rates is None:
        return None
    return RatesConfig(rates.input, rates.output, rates.cache_read, rates.cache_write)


def installed_version(command: Path) -> tuple[int, ...]:
    """Return the version of an installed Claude Code, without running it; (0,) if unknown."""
    file = command.resolve()
    if file.parent.name == "versions" and _VERSION.fullmatch(file.name):  # its own installer
        return _numbers(file.name)
    for folder in list(file.parents)[:3]:  # npm: bin/claude.exe or cli.js beside package.json
        try:
            found = json.loads((folder / "package.json").read_bytes())
        except (OSError, ValueError):
            continue
        if isinstance(found, dict) and str(found.get("name", "")).startswith("@anthropic-ai/"):
            return _numbers(str(found.get("version", "")))
    return (0,)


def _numbers(text: str) -> tuple[int, ...]:
    match = _VERSION.match(text)
    return tuple(map(int, match[0].split("."))) if match else (0,)
