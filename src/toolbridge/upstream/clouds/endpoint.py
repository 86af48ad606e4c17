"""The endpoint of a provider in a cloud: its URL, its credentials and its errors.

`routing` passes every request of such a provider to `sign`, again for each retry: a signature is
valid for minutes, and a token may have been renewed. There is one endpoint per provider, so that all
of its requests share the credentials.
"""

from collections.abc import Mapping

from toolbridge.config import ProviderConfig
from toolbridge.upstream.cloud_endpoint import CloudEndpoint
from toolbridge.upstream.clouds.aws_endpoint import AwsEndpoint
from toolbridge.upstream.clouds.azure_endpoint import AzureEndpoint
from toolbridge.upstream.clouds.google_endpoint import GoogleEndpoint
from toolbridge.upstream.hosts import hostname
from toolbridge.upstream.http import Upstream
from toolbridge.upstream.http_request import HttpRequest


def open_endpoint(
    provider: str, provider_config: ProviderConfig, upstream: Upstream, env: Mapping[str, str]
) -> CloudEndpoint | None:
    """Return the endpoint of a provider; None for one that is in no cloud."""
    match provider_config.cloud:
        case "":
            return None
        case "vertex":
            return GoogleEndpoint(provider, provider_config, upstream, env)
        case "azure" | "foundry":
            return AzureEndpoint(provider, provider_config, env)
        case "bedrock" | "mantle":
            return AwsEndpoint(provider, provider_config, env)


async def address_of(
    provider: str, provider_config: ProviderConfig, upstream: Upstream, env: Mapping[str, str]
) -> str:
    """Return the host of a provider; raise if its address or its credentials are missing.

    Credentials are fetched, but no request is sent to the host.
    """
    endpoint = open_endpoint(provider, provider_config, upstream, env)
    if endpoint is None:
        return hostname(provider_config.url)
    api, request = "anthropic", HttpRequest("/v1/messages", b'{"model":"m"}')
    if provider_config.cloud == "vertex":
        api, request = "gemini", HttpRequest("/v1beta/models/m:generateContent", b"{}")
    return hostname((await endpoint.sign(api, "m", request)).url)
