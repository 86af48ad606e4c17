"""The URLs of a provider's endpoints.

The setting `url` may contain variables (`${NAME}`, `${NAME:-default}`), for providers with an account
or a region in their URL, and a query (`?api-version=…`), which every request keeps. `find_providers`
fills in the variables; `endpoint_url` joins the URL with the path of an endpoint.
"""

import re
from collections.abc import Mapping
from functools import lru_cache

import msgspec

from toolbridge.config import ProviderConfig
from toolbridge.core.errors import ConfigError

_VARIABLE = re.compile(r"\$\{(?P<name>\w+)(?::-(?P<default>[^}]*))?\}")


def fill_url(provider_config: ProviderConfig, env: Mapping[str, str]) -> ProviderConfig:
    """Return the provider with the variables of its URL filled in; one that is not set stays."""
    if "${" not in provider_config.url:
        return provider_config

    def value(found: re.Match[str]) -> str:
        return env.get(found["name"]) or found["default"] or found[0]

    return msgspec.structs.replace(provider_config, url=_VARIABLE.sub(value, provider_config.url))


def unset_variables(url: str) -> tuple[str, ...]:
    """Return the names of the variables that `url` needs and that are not set."""
    return tuple(found["name"] for found in _VARIABLE.finditer(url)) if "${" in url else ()


def endpoint_url(provider: str, provider_config: ProviderConfig, path: str) -> str:
    """Return the URL of the endpoint at `path`, with the query of the provider's own URL."""
    if unset := unset_variables(provider_config.url):
        raise ConfigError(
            f"the URL of {provider} needs {' and '.join(unset)}; set "
            f"{'it' if len(unset) == 1 else 'them'} in the environment of the gateway, or write the "
            f"whole `url` under [providers.{provider}]",
            where=f"providers.{provider}.url",
        )
    whole = base_url(provider_config) + path
    query = provider_config.url.partition("?")[2]
    if not query:
        return whole
    return f"{whole}{'&' if '?' in path else '?'}{query}"


def base_url(provider_config: ProviderConfig) -> str:
    """Return the URL that the paths of the provider's API are appended to, without a query.

    OpenAI's paths do not contain `/v1`; those of the other APIs contain their version.
    """
    return _base_url(provider_config.url, provider_config.api)


@lru_cache(256)
def _base_url(given: str, api: str) -> str:
    url = given.partition("?")[0].rstrip("/")
    if api.startswith("openai"):
        bare = url.count("/") == 2
        return f"{url}/v1" if bare else url
    return re.sub(r"/v1(beta)?$", "", url) if api != "ollama" else url
