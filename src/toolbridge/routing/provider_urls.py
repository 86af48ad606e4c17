"""The URLs of a provider's endpoints."""

import re
from functools import lru_cache

from toolbridge.config import ProviderConfig


def base_url(provider_config: ProviderConfig) -> str:
    """Return the URL that the paths of the provider's API are appended to.

    OpenAI's paths do not contain `/v1`; those of the other APIs contain their version.
    """
    return _base_url(provider_config.url, provider_config.api)


@lru_cache(256)
def _base_url(given: str, api: str) -> str:
    url = given.rstrip("/")
    if api.startswith("openai"):
        bare = url.count("/") == 2
        return f"{url}/v1" if bare else url
    return re.sub(r"/v1(beta)?$", "", url) if api != "ollama" else url
