"""Requests for Azure OpenAI and Microsoft Foundry: paths and headers.

Azure OpenAI, "API version lifecycle": `/openai/v1` needs no `api-version`, and `model` is the name
of a deployment; the older addresses have the deployment in the path. Foundry also serves Claude, at
`/anthropic`.
"""

import re
from collections.abc import Mapping

import msgspec

from toolbridge.core.json import dump_bytes
from toolbridge.upstream.http_request import HttpRequest
from toolbridge.wire.url_path import quote_segment

SCOPE = "https://ai.azure.com/.default"
OLD_SCOPE = "https://cognitiveservices.azure.com/.default"
"""Microsoft Entra ID: the scope of a token for `/openai/v1` and Foundry, and for older addresses."""
_BASE = re.compile(r"/(?:openai(?:/v1)?|anthropic)/?$")
_members = msgspec.json.Decoder(dict[str, msgspec.Raw])


def resource_url(url: str) -> str:
    """Return the URL of a resource without the path of an API, as the portal sometimes shows it."""
    return _BASE.sub("", url.rstrip("/"))


def azure_request(
    api: str, request: HttpRequest, api_version: str, deployments: Mapping[str, str]
) -> HttpRequest:
    """Return a request of an API for a resource."""
    body, model = _with_deployment(request.body, deployments)
    path = request.path
    if api == "anthropic":
        return HttpRequest(f"/anthropic{path}", body, request.headers)
    if not api_version:
        return HttpRequest(f"/openai/v1{path}", body, request.headers)
    # Azure OpenAI, REST reference: the Responses API has no deployment in its path.
    below = "" if path.startswith("/responses") else f"/deployments/{quote_segment(model)}"
    path = f"/openai{below}{path}?api-version={quote_segment(api_version)}"
    return HttpRequest(path, body, request.headers)


def authorize(key: str, api: str) -> dict[str, str]:
    """Return the headers with a resource's key. Claude on Foundry reads it from either header."""
    return {"api-key": key, "x-api-key": key} if api == "anthropic" else {"api-key": key}


def _with_deployment(body: bytes, deployments: Mapping[str, str]) -> tuple[bytes, str]:
    members = _members.decode(body)
    model = msgspec.json.decode(members.get("model", b'""'), type=str)
    if model not in deployments:
        return body, model
    members["model"] = msgspec.Raw(dump_bytes(deployments[model]))
    return msgspec.json.encode(members), deployments[model]
