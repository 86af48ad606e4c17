"""Requests for Google Vertex AI: paths, bodies and hosts.

Vertex AI, REST reference: a model has the path of its publisher below a project and a location.
Gemini takes the body of the Gemini API, Claude the body of the Messages API without `model` and with
`anthropic_version`. In express mode there is an API key and no project.
"""

import re
from collections.abc import Mapping

import msgspec

from toolbridge.core.errors import ConfigError, Unsupported
from toolbridge.core.json import JsonObject, dump_bytes, maybe_object
from toolbridge.upstream.clouds.models import anthropic_version, vertex_name
from toolbridge.upstream.http_request import HttpRequest
from toolbridge.wire.url_path import quote_path

OLD_VERSION = "vertex-2023-10-16"
GLOBAL = "global"
_GEMINI = re.compile(r"/v1beta/(?:models/)?(?P<model>[^:?]+):(?P<method>\w+)(?P<query>\?.*)?")
_PLACE = re.compile(r"[a-z0-9-]+")
_PROJECT = re.compile(r"[A-Za-z0-9:.-]+")
_COUNTED = ("contents", "systemInstruction", "tools", "generationConfig")
"""Vertex AI, CountTokensRequest: the fields that a count may have."""
_members = msgspec.json.Decoder(dict[str, msgspec.Raw])


class Place(msgspec.Struct, frozen=True):
    """The project and the location that serve a request; no project in express mode."""

    project: str
    location: str

    @property
    def host(self) -> str:
        """The host of the location. Google, "Locations": three forms of hosts."""
        if self.location == GLOBAL:
            return "aiplatform.googleapis.com"
        if self.location in {"us", "eu"}:
            return f"aiplatform.{self.location}.rep.googleapis.com"
        return f"{self.location}-aiplatform.googleapis.com"

    @property
    def path(self) -> str:
        return f"/projects/{self.project}/locations/{self.location}" if self.project else ""


def place_of(
    project: str, location: str, env: Mapping[str, str], provider: str, own_project: str = ""
) -> Place:
    """Return project and location; `own_project` is that of the credentials."""
    project = (
        project
        or env.get("GOOGLE_CLOUD_PROJECT", "")
        or env.get("ANTHROPIC_VERTEX_PROJECT_ID", "")
        or own_project
    )
    location = (
        location or env.get("GOOGLE_CLOUD_LOCATION", "") or env.get("CLOUD_ML_REGION", "") or GLOBAL
    )
    for name, value, legal in (
        ("project", project, _PROJECT),
        ("location", location, _PLACE),
    ):
        if value and not legal.fullmatch(value):
            raise ConfigError(
                f"{value!r} is not a {name} of Google Cloud", where=f"providers.{provider}.{name}"
            )
    return Place(project, location)


def vertex_request(
    api: str, request: HttpRequest, place: Place, deployments: Mapping[str, str]
) -> HttpRequest:
    """Return a request of an API for Vertex AI."""
    if api == "gemini":
        return _gemini(request, place, deployments)
    if not place.project:
        raise ConfigError(
            "needs a project for this model; set `project`, or GOOGLE_CLOUD_PROJECT: an API key alone "
            "reaches only Gemini (express mode)"
        )
    if api == "anthropic":
        return _claude(request, place, deployments)
    # Vertex AI's own OpenAI endpoint for chat; OpenAI's models have their Responses API.
    below = "endpoints/openapi" if api == "openai_chat" else "publishers/openai/v1"
    headers = {name: v for name, v in request.headers.items() if not name.startswith("openai-")}
    return HttpRequest(f"/v1{place.path}/{below}{request.path}", request.body, headers)


def _gemini(request: HttpRequest, place: Place, deployments: Mapping[str, str]) -> HttpRequest:
    found = _GEMINI.fullmatch(request.path)
    if found is None or "mbed" in found["method"]:
        raise Unsupported(
            "embeddings of Vertex AI are not supported; use google/gemini-embedding-001",
            where="model",
        )
    model, method = found["model"], found["method"]
    model = quote_path(deployments.get(model, model))
    path = f"/v1beta1{place.path}/publishers/google/models/{model}:{method}{found['query'] or ''}"
    body = _count_body(request.body) if method == "countTokens" else request.body
    return HttpRequest(path, body, request.headers)


def _count_body(body: bytes) -> bytes:
    """Return the body of `countTokens`: Vertex AI has no `generateContentRequest` around it."""
    inner = (maybe_object(body) or {}).get("generateContentRequest")
    fields = inner if isinstance(inner, dict) else {}
    kept: JsonObject = {name: fields[name] for name in _COUNTED if name in fields}
    return dump_bytes(kept)


def _claude(request: HttpRequest, place: Place, deployments: Mapping[str, str]) -> HttpRequest:
    members = _members.decode(request.body)
    model = msgspec.json.decode(members.pop("model"), type=str)
    id = vertex_name(deployments.get(model, model))
    headers = {n.lower(): value for n, value in request.headers.items()}
    headers.pop("anthropic-version", None)
    members["anthropic_version"] = msgspec.Raw(dump_bytes(anthropic_version(model, OLD_VERSION)))
    below = f"/v1{place.path}/publishers/anthropic/models"
    if request.path.endswith("/count_tokens"):
        members["model"] = msgspec.Raw(dump_bytes(id))
        path = f"{below}/count-tokens:rawPredict"
    else:
        stream = bytes(members.get("stream", b"")) == b"true"
        path = f"{below}/{quote_path(id)}:{'streamRawPredict' if stream else 'rawPredict'}"
    return HttpRequest(path, msgspec.json.encode(members), headers)
