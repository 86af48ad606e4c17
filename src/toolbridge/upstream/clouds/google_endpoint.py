"""Google Vertex AI as an endpoint: access tokens, projects and locations."""

from collections.abc import Mapping

from toolbridge.config import ProviderConfig, secret
from toolbridge.core.messages import Loss, Problem
from toolbridge.core.stage import Stage
from toolbridge.upstream.clouds import chains
from toolbridge.upstream.clouds.available import find_file
from toolbridge.upstream.clouds.betas import BetaFilter
from toolbridge.upstream.clouds.google import Place, place_of, vertex_request
from toolbridge.upstream.clouds.google_tokens import CredentialsFile, fetch_token, read_file
from toolbridge.upstream.clouds.remedies import join_url, lost_betas, with_remedy
from toolbridge.upstream.clouds.renewal import Expiring, RenewedCredential
from toolbridge.upstream.clouds.token_command import run_token_command
from toolbridge.upstream.http import Upstream
from toolbridge.upstream.http_request import HttpRequest, SignedRequest


class GoogleEndpoint:
    """One provider on Vertex AI."""

    def __init__(
        self,
        provider: str,
        provider_config: ProviderConfig,
        upstream: Upstream,
        env: Mapping[str, str],
    ) -> None:
        self._provider = provider
        self._config = provider_config
        self._upstream = upstream
        self._env = env
        self._tokens: RenewedCredential[str] = RenewedCredential(self._fetch)
        self._betas = BetaFilter()
        self._file: CredentialsFile | None = None
        self._own_project = ""
        """The project of the credentials, known once there is a token."""

    async def sign(self, api: str, model: str, request: HttpRequest, /) -> SignedRequest:
        headers = self._betas.apply(model, request.headers)
        place = self._place()
        if (key := secret(self._config.key, self._env)) and self._is_express(place):
            headers["x-goog-api-key"] = key
        else:
            headers["authorization"] = f"Bearer {await self._tokens.get()}"
            place = self._place()
            if self._file is not None and self._file.quota_project_id:
                headers.setdefault("x-goog-user-project", self._file.quota_project_id)
        request = HttpRequest(request.path, request.body, headers)
        addressed = vertex_request(api, request, place, self._config.deployments)
        base = self._config.url.replace("{location_host}", place.host)
        return SignedRequest(join_url(base, addressed.path), addressed.body, addressed.headers)

    def _place(self) -> Place:
        given = self._config
        return place_of(given.project, given.location, self._env, self._provider, self._own_project)

    def _is_express(self, place: Place) -> bool:
        """Return whether the key alone is used: a project needs a token (google-genai does so)."""
        given = self._config
        return not (place.project or given.token_command or given.credentials_file)

    async def _fetch(self) -> Expiring[str]:
        if self._config.token_command:
            found = await run_token_command(self._config.token_command, self._provider)
            return Expiring(str(found.value), found.until)
        if path := find_file(self._config.credentials_file, self._env):
            file = read_file(path, self._provider)
            if file.type in {"service_account", "authorized_user"}:
                self._file, self._own_project = file, file.project_id
                return await fetch_token(self._upstream, file, self._provider)
        token, self._own_project = await chains.google_token(self._provider)
        return token

    def renew(self) -> bool:
        return self._tokens.forget()

    def explain(self, problem: Problem, status: int, _: Mapping[str, str], __: bytes, /) -> Problem:
        place = self._place()
        match status:
            case 401:
                return with_remedy(
                    problem,
                    "the token is not valid: run `gcloud auth application-default login`, or check "
                    f"`credentials_file` and `token_command` of {self._provider}",
                )
            case 403:
                return with_remedy(
                    problem,
                    f"enable the Vertex AI API in project {place.project or '?'}, and give this "
                    "account the role roles/aiplatform.user",
                )
            case 404:
                return with_remedy(
                    problem,
                    f"check the model id and `location` of {self._provider} (now {place.location}): "
                    "a model exists in some locations only, and Claude must be enabled in the Model "
                    "Garden",
                )
            case _:
                return problem

    def unwrapping(self, _: str, __: str, /) -> Stage[bytes, bytes] | None:
        return None

    def adapt(self, model: str, problem: Problem, /) -> Loss | None:
        return lost_betas(self._betas, model, problem)
