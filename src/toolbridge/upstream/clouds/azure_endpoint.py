"""Azure OpenAI and Microsoft Foundry as endpoints: keys, tokens, resources and content filters."""

from collections.abc import Mapping

import msgspec

from toolbridge.config import ProviderConfig, key_variable, secret
from toolbridge.core.errors import ConfigError
from toolbridge.core.json import Json, JsonObject, maybe_object
from toolbridge.core.messages import Loss, Problem
from toolbridge.core.stage import Stage
from toolbridge.upstream.clouds import azure, chains
from toolbridge.upstream.clouds.available import (
    AZURE_ENDPOINT,
    RESOURCES,
    is_resource,
    resource_problem,
)
from toolbridge.upstream.clouds.betas import BetaFilter
from toolbridge.upstream.clouds.remedies import join_url, lost_betas, with_missing, with_remedy
from toolbridge.upstream.clouds.renewal import Expiring, RenewedCredential
from toolbridge.upstream.clouds.token_command import run_token_command
from toolbridge.upstream.http_request import HttpRequest, SignedRequest

_FILTER = "content_filter"


class AzureEndpoint:
    """One Azure resource with models."""

    def __init__(
        self, provider: str, provider_config: ProviderConfig, env: Mapping[str, str]
    ) -> None:
        self._provider = provider
        self._config = provider_config
        self._env = env
        self._tokens: RenewedCredential[str] = RenewedCredential(self._fetch)
        self._betas = BetaFilter()

    async def sign(self, api: str, model: str, request: HttpRequest, /) -> SignedRequest:
        given = self._config
        headers = self._betas.apply(model, request.headers)
        request = HttpRequest(request.path, request.body, headers)
        addressed = azure.azure_request(api, request, given.api_version, given.deployments)
        key = secret(given.key, self._env)
        try:
            url = join_url(self._url(), addressed.path)
        except ConfigError as error:
            raise (error if key else await with_missing(error, self._tokens.get)) from None
        if key:
            authorization = azure.authorize(key, api)
        else:
            authorization = {"authorization": f"Bearer {await self._tokens.get()}"}
        return SignedRequest(url, addressed.body, addressed.headers | authorization)

    def _url(self) -> str:
        """Return the URL of the resource, from `url`, `resource` or the environment."""
        url = self._config.url
        if "{resource}" not in url:
            return azure.resource_url(url)
        if problem := resource_problem(self._provider, self._config, self._env):
            raise ConfigError(problem, where=f"providers.{self._provider}.resource")
        cloud = self._config.cloud
        resource = self._config.resource or self._env.get(RESOURCES[cloud], "")
        if cloud == "azure" and not is_resource(resource):
            return azure.resource_url(self._env[AZURE_ENDPOINT])
        return url.replace("{resource}", resource)

    async def _fetch(self) -> Expiring[str]:
        if self._config.token_command:
            found = await run_token_command(self._config.token_command, self._provider)
            return Expiring(str(found.value), found.until)
        if token := self._env.get("AZURE_OPENAI_AD_TOKEN"):
            return Expiring(token)
        scope = azure.OLD_SCOPE if self._config.api_version else azure.SCOPE
        return await chains.azure_token(scope, self._provider, key_variable(self._config.key))

    def renew(self) -> bool:
        return self._tokens.forget()

    def explain(
        self, problem: Problem, status: int, _: Mapping[str, str], body: bytes, /
    ) -> Problem:
        error = (maybe_object(body) or {}).get("error")
        found = error if isinstance(error, dict) else {}
        if found.get("code") == _FILTER:
            return _filtered(problem, found)
        if status in {401, 403}:
            return with_remedy(
                problem,
                f"check the key of {self._provider} and its `resource`: a key is valid for one resource; "
                "a token needs the role Cognitive Services User",
            )
        if status == 404:
            return with_remedy(
                problem,
                "the model must be the name of a deployment of this resource; list them with `az "
                f"cognitiveservices account deployment list`, and map names with `deployments` of "
                f"{self._provider}",
            )
        return problem

    def unwrapping(self, _: str, __: str, /) -> Stage[bytes, bytes] | None:
        return None

    def adapt(self, model: str, problem: Problem, /) -> Loss | None:
        return lost_betas(self._betas, model, problem)


def _filtered(problem: Problem, error: JsonObject) -> Problem:
    """Return the rejection of a prompt by Azure's content filter, with the categories."""
    inner = error.get("innererror")
    results = inner.get("content_filter_result") if isinstance(inner, dict) else None
    hit = (
        [name for name, result in (results or {}).items() if _is_hit(result)]
        if isinstance(results, dict)
        else []
    )
    why = f" ({', '.join(hit)})" if hit else ""
    text = f"Azure's content filter refused the prompt{why}: {problem.text}"
    return msgspec.structs.replace(problem, kind="rejected", status=400, text=text, permanent=True)


def _is_hit(result: Json) -> bool:
    return isinstance(result, dict) and bool(result.get("filtered") or result.get("detected"))
