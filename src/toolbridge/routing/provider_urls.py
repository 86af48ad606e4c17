"""The URLs of a provider's endpoints.

The settings `url` and `headers` may contain variables (`${NAME}`, `${NAME:-default}`), for providers
with an account or a region in their URL. A query in `url` (`?api-version=…`) is kept by every request.
`find_providers` fills in the variables; `endpoint_url` joins the URL with the path of an endpoint.
"""

import re
from collections.abc import Mapping
from functools import lru_cache

import msgspec

from toolbridge.config import ProviderConfig
from toolbridge.core.errors import ConfigError

_VARIABLE = re.compile(r"\$\{(?P<name>\w+)(?::-(?P<default>[^}]*))?\}")


def fill_variables(provider_config: ProviderConfig, env: Mapping[str, str]) -> ProviderConfig:
    """Return the provider with the variables of its URL and headers filled in.

    A variable that is not set stays, so that a request to the provider can name it.
    """
    if not unset_variables(provider_config):
        return provider_config

    def value(found: re.Match[str]) -> str:
        return env.get(found["name"]) or found["default"] or found[0]

    headers = {n: _VARIABLE.sub(value, text) for n, text in provider_config.headers.items()}
    url = _VARIABLE.sub(value, provider_config.url)
    return msgspec.structs.replace(provider_config, url=url, headers=headers)


def unset_variables(provider_config: ProviderConfig) -> tuple[str, ...]:
    """Return the names of the variables in the URL and the headers that are not filled in."""
    texts = " ".join([provider_config.url, *provider_config.headers.values()])
    return tuple(found["name"] for found in _VARIABLE.finditer(texts)) if "${" in texts else ()


def endpoint_url(provider: str, provider_config: ProviderConfig, path: str) -> str:
    """Return the URL of the endpoint at `path`, with the query of the provider's own URL."""
    if unset := unset_variables(provider_config):
        raise ConfigError(
            f"{provider} needs {' and '.join(unset)}; set {'it' if len(unset) == 1 else 'them'} in "
            f"the environment of the gateway, or set `url` and `headers` under [providers.{provider}]",
            where=f"providers.{provider}",
        )
    whole = base_url(provider_config) + path
    query = provider_config.url.partition("?")[2]
    if not query:
        return whole
    return f"{whole}{'&' if '?' in path else '?'}{query}"


def base_url(provider_config: ProviderConfig) -> str:
    """Return the URL that the paths of the provider's API are appended to, without a query.

    OpenAI's paths do not contain `/v1`; those of the other APIs contain their version. A URL without
    a path gets `/v1` for OpenAI's APIs, unless it ends with `/.`.
    """
    return _base_url(provider_config.url, provider_config.api)


@lru_cache(256)
def _base_url(given: str, api: str) -> str:
    url = given.partition("?")[0].rstrip("/")
    if api.startswith("openai"):
        bare = url.count("/") == 2
        return f"{url}/v1" if bare else url.removesuffix("/.")
    return re.sub(r"/v1(beta)?$", "", url) if api != "ollama" else url
