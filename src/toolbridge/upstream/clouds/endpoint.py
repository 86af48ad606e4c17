"""The endpoint of a provider in a cloud: its URL, its credentials and its errors.

`routing` passes every request of such a provider to `sign`, again for each retry: a signature is
valid for minutes, and a token may have been renewed. There is one endpoint per provider, so that all
of its requests share the credentials.
"""

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Protocol

from toolbridge.config import ProviderConfig, secret
from toolbridge.core.messages import Loss, Problem
from toolbridge.core.stage import Stage
from toolbridge.upstream.clouds.aws_endpoint import AwsEndpoint
from toolbridge.upstream.clouds.azure_endpoint import AzureEndpoint
from toolbridge.upstream.clouds.google_endpoint import GoogleEndpoint
from toolbridge.upstream.clouds.google_tokens import find_file
from toolbridge.upstream.hosts import hostname
from toolbridge.upstream.http import Upstream
from toolbridge.upstream.http_request import HttpRequest, SignedRequest


class CloudEndpoint(Protocol):
    """The endpoint of one provider in a cloud."""

    async def sign(self, api: str, model: str, request: HttpRequest, /) -> SignedRequest:
        """Return a request of an API for a model with its URL and its credentials."""
        ...

    def renew(self) -> bool:
        """Drop credentials that were rejected; return whether new ones can be fetched."""
        ...

    def explain(
        self, problem: Problem, status: int, headers: Mapping[str, str], body: bytes, /
    ) -> Problem:
        """Return a rejection with the cloud's own kind and the next step."""
        ...

    def unwrapping(self, api: str, content_type: str, /) -> Stage[bytes, bytes] | None:
        """Return the stage that turns the body of an answer into that of its API, if it needs one."""
        ...

    def adapt(self, model: str, problem: Problem, /) -> Loss | None:
        """Change how requests for a model are sent, after a rejection; return what has changed."""
        ...


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


def missing_credentials(provider_config: ProviderConfig, env: Mapping[str, str]) -> str:
    """Return the variable to set where a cloud's provider has no credentials; empty if it has."""
    if provider_config.token_command or secret(provider_config.key, env):
        return ""
    match provider_config.cloud:
        case "vertex":
            found = find_file(provider_config.credentials_file, env) is not None
            return "" if found or _has("google.auth") else "GOOGLE_APPLICATION_CREDENTIALS"
        case "azure" | "foundry":
            found = bool(env.get("AZURE_OPENAI_AD_TOKEN")) or _has("azure.identity")
            return "" if found else "AZURE_OPENAI_API_KEY"
        case _:
            found = bool(env.get("AWS_ACCESS_KEY_ID")) or _has("botocore")
            return "" if found else "AWS_BEARER_TOKEN_BEDROCK"


def _has(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ModuleNotFoundError:  # its parent is not there
        return False
