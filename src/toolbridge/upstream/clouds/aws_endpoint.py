"""Amazon Bedrock as an endpoint: API keys, signed requests and inference profiles."""

import time
from collections.abc import Mapping

from toolbridge.config import ProviderConfig, secret
from toolbridge.core.errors import ConfigError
from toolbridge.core.messages import Loss, Problem
from toolbridge.core.stage import Stage
from toolbridge.upstream.clouds import aws, chains
from toolbridge.upstream.clouds.betas import BetaFilter
from toolbridge.upstream.clouds.models import regional_profile
from toolbridge.upstream.clouds.remedies import join_url, lost_betas, with_missing
from toolbridge.upstream.clouds.renewal import Expiring, RenewedCredential
from toolbridge.upstream.clouds.sigv4 import AwsKeys, Scope, sign
from toolbridge.upstream.clouds.token_command import run_token_command
from toolbridge.upstream.http_request import HttpRequest, SignedRequest
from toolbridge.wire.aws_errors import needs_profile, read_aws_rejection
from toolbridge.wire.event_stream import CONTENT_TYPE

_SERVICES = {"bedrock": "bedrock", "mantle": "bedrock-mantle"}


class AwsEndpoint:
    """One provider on Amazon Bedrock."""

    def __init__(
        self, provider: str, provider_config: ProviderConfig, env: Mapping[str, str]
    ) -> None:
        self._provider = provider
        self._config = provider_config
        self._env = env
        self._credentials: RenewedCredential[str | AwsKeys] = RenewedCredential(self._fetch)
        self._betas = BetaFilter()
        self._names = dict(provider_config.deployments)
        """Model → the name it is sent under, also after Bedrock asked for a profile."""

    async def sign(self, api: str, model: str, request: HttpRequest, /) -> SignedRequest:
        try:
            region = aws.region_of(self._config.region, self._env, self._provider)
        except ConfigError as error:
            raise await with_missing(error, self._credentials.get) from None
        headers = self._betas.apply(model, request.headers)
        request = HttpRequest(request.path, request.body, headers)
        if self._config.cloud == "mantle":
            request = aws.mantle_request(api, request)
        else:
            request = aws.runtime_request(api, request, self._names)
        base = self._config.url.replace("{region}", region)
        url = join_url(base.replace("{domain}", aws.domain_of(region)), request.path)
        found = await self._credentials.get()
        if isinstance(found, str):
            headers = request.headers | {"authorization": f"Bearer {found}"}
        else:
            at = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
            scope = Scope(at, region, _SERVICES[self._config.cloud])
            headers = sign("POST", url, request.headers, request.body, found, scope)
        return SignedRequest(url, request.body, headers)

    async def _fetch(self) -> Expiring[str | AwsKeys]:
        """Return the first credentials there are. Anthropic's SDK prefers an API key, too."""
        env = self._env
        if key := secret(self._config.key, env):
            return Expiring(key)
        if self._config.token_command:
            return await run_token_command(self._config.token_command, self._provider)
        access, private = env.get("AWS_ACCESS_KEY_ID"), env.get("AWS_SECRET_ACCESS_KEY")
        if access and private and not self._config.profile:
            return Expiring(AwsKeys(access, private, env.get("AWS_SESSION_TOKEN", "")))
        profile = self._config.profile or env.get("AWS_PROFILE", "")
        return await chains.aws_keys(profile, self._provider)

    def renew(self) -> bool:
        return self._credentials.forget()

    def explain(
        self, problem: Problem, status: int, headers: Mapping[str, str], body: bytes, /
    ) -> Problem:
        if self._config.cloud == "bedrock" or "x-amzn-errortype" in headers:
            return read_aws_rejection(status, headers, body)
        return problem

    def unwrapping(self, api: str, content_type: str, /) -> Stage[bytes, bytes] | None:
        wrapped = api == "anthropic" and content_type.startswith(CONTENT_TYPE)
        return aws.InvokeEvents() if wrapped else None

    def adapt(self, model: str, problem: Problem, /) -> Loss | None:
        """Use the inference profile of a model that Bedrock serves in no other way."""
        if not needs_profile(problem) or model in self._names:
            return lost_betas(self._betas, model, problem)
        region = aws.region_of(self._config.region, self._env, self._provider)
        profile = regional_profile(model, region)
        if not profile:
            return None
        self._names[model] = profile
        why = f"{self._provider} serves it only as {profile}; set that name to save a request"
        return Loss("model", why, minor=True)
