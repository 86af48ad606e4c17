"""Credential chains of the vendors' own packages: profiles, single sign-on, instance roles.

The packages are optional (the extras `aws`, `google`, `azure`) and large, so they are imported
when first used, in a thread.
"""

import asyncio
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from datetime import UTC
from typing import TYPE_CHECKING

from toolbridge.core.errors import ConfigError
from toolbridge.upstream.clouds.available import AWS_REMEDY, GOOGLE_REMEDY, azure_remedy
from toolbridge.upstream.clouds.google_tokens import SCOPE
from toolbridge.upstream.clouds.renewal import NEVER, Expiring
from toolbridge.upstream.clouds.sigv4 import AwsKeys

if TYPE_CHECKING:
    from google.auth import transport

_AWS_LIFE = 900.0
"""Seconds after which temporary keys are asked for again; botocore renews its own in time."""


async def aws_keys(profile: str, provider: str) -> Expiring[str | AwsKeys]:
    """Return keys from botocore's chain: profiles, single sign-on, roles, instance metadata."""
    return await asyncio.to_thread(_aws_keys, profile, provider)


def _aws_keys(profile: str, provider: str) -> Expiring[str | AwsKeys]:
    try:
        from botocore.exceptions import BotoCoreError
        from botocore.session import Session
    except ImportError:
        raise ConfigError(f"{provider} has no AWS credentials; {AWS_REMEDY}") from None
    try:
        found = Session(profile=profile or None).get_credentials()
        frozen = found.get_frozen_credentials() if found else None
    except BotoCoreError as error:
        raise ConfigError(f"AWS credentials: {error}; sign in again (`aws sso login`)") from None
    if frozen is None:
        raise ConfigError(
            f"{provider} has no AWS credentials; run `aws configure` or `aws sso login`, or set "
            "AWS_BEARER_TOKEN_BEDROCK"
        )
    keys = AwsKeys(frozen.access_key, frozen.secret_key, frozen.token or "")
    return Expiring(keys, time.time() + _AWS_LIFE if keys.session_token else NEVER)


async def google_token(provider: str) -> tuple[Expiring[str], str]:
    """Return a token of google-auth's chain, and the project of its credentials."""
    return await asyncio.to_thread(_google_token, provider)


def _google_token(provider: str) -> tuple[Expiring[str], str]:
    try:
        import google.auth
        from google.auth.exceptions import GoogleAuthError
    except ImportError:
        raise ConfigError(
            f"{provider} has no credentials for Google Cloud; {GOOGLE_REMEDY}"
        ) from None
    request = _urllib_request()
    try:
        credentials, project = google.auth.default(scopes=[SCOPE], request=request)
        credentials.refresh(request)  # type: ignore[no-untyped-call]
    except GoogleAuthError as error:
        raise ConfigError(
            f"Google Cloud: {error}; run `gcloud auth application-default login`"
        ) from None
    # google-auth: `expiry` is UTC without a time zone.
    expiry = credentials.expiry
    until = expiry.replace(tzinfo=UTC).timestamp() if expiry else NEVER
    return Expiring(str(credentials.token), until), project or ""


def _urllib_request() -> "transport.Request":
    """Return a transport for google-auth over `urllib`, so that it needs no other package."""
    from google.auth import transport
    from google.auth.exceptions import TransportError

    class Response(transport.Response):
        def __init__(self, status: int, headers: Mapping[str, str], data: bytes) -> None:
            # google-auth reads names in small letters.
            self._parts = status, {n.lower(): v for n, v in headers.items()}, data

        @property
        def status(self) -> int:
            return self._parts[0]

        @property
        def headers(self) -> Mapping[str, str]:
            return self._parts[1]

        @property
        def data(self) -> bytes:
            return self._parts[2]

    class Request(transport.Request):
        def __call__(
            self,
            url: str,
            method: str = "GET",
            body: bytes | None = None,
            headers: Mapping[str, str] | None = None,
            timeout: float | None = None,
            **_: object,
        ) -> Response:
            asked = urllib.request.Request(url, body, dict(headers or {}), method=method)  # noqa: S310
            try:
                with urllib.request.urlopen(asked, timeout=timeout or 30) as answer:  # noqa: S310
                    return Response(answer.status, dict(answer.headers), answer.read())
            except urllib.error.HTTPError as error:
                return Response(error.code, dict(error.headers), error.read())
            except OSError as error:
                raise TransportError(error) from None  # type: ignore[no-untyped-call]

    return Request()


async def azure_token(scope: str, provider: str, variable: str) -> Expiring[str]:
    """Return a token of Microsoft Entra ID from azure-identity's chain.

    `variable` is that of the provider's key, which the error names.
    """
    return await asyncio.to_thread(_azure_token, scope, provider, variable)


def _azure_token(scope: str, provider: str, variable: str) -> Expiring[str]:
    try:
        from azure.core.exceptions import ClientAuthenticationError
        from azure.identity import DefaultAzureCredential
    except ImportError:
        raise ConfigError(f"{provider} has no key; {azure_remedy(variable)}") from None
    try:
        found = DefaultAzureCredential().get_token(scope)
    except ClientAuthenticationError as error:
        first = str(error).partition("\n")[0]
        raise ConfigError(f"Microsoft Entra ID: {first}; run `az login`") from None
    return Expiring(found.token, float(found.expires_on))
