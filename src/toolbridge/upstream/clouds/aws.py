"""Requests for Amazon Bedrock: paths, bodies, hosts, and the stream of Anthropic's models.

Amazon Bedrock, API reference: InvokeModel takes an Anthropic body without `model` and `stream`,
both of which are in the path; Converse takes one body for the models of every vendor. The newer host
`bedrock-mantle` serves Anthropic's and OpenAI's APIs unchanged.
"""

import re
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Mapping
from urllib.parse import unquote

import msgspec

from toolbridge.core.errors import BrokenWire, ConfigError
from toolbridge.core.json import JsonObject, dump_bytes, maybe_object
from toolbridge.upstream.clouds.available import find_region, region_problem
from toolbridge.upstream.clouds.models import anthropic_version, without_profile
from toolbridge.upstream.http_request import HttpRequest
from toolbridge.wire.aws_errors import read_aws_problem
from toolbridge.wire.event_stream import EventMessage, EventStreamReader
from toolbridge.wire.sse import write_event
from toolbridge.wire.url_path import quote_segment

OLD_VERSION = "bedrock-2023-05-31"
_DOMAINS = {"cn-": "amazonaws.com.cn", "eusc-": "amazonaws.eu"}
_MODEL = re.compile(r"^/model/([^/]+)/")
_members = msgspec.json.Decoder(dict[str, msgspec.Raw])
_lists = msgspec.json.Decoder(list[str])


def region_of(given: str, env: Mapping[str, str], provider: str) -> str:
    """Return the region; raise `ConfigError` if none is set or it is not one."""
    region = find_region(given, env)
    if problem := region_problem(region, provider):
        raise ConfigError(problem, where=f"providers.{provider}.region")
    return region


def domain_of(region: str) -> str:
    """Return the domain of AWS's hosts for a region."""
    return next((d for start, d in _DOMAINS.items() if region.startswith(start)), "amazonaws.com")


def runtime_request(api: str, request: HttpRequest, deployments: Mapping[str, str]) -> HttpRequest:
    """Return a request of an API for the host `bedrock-runtime`."""
    if api == "bedrock":
        return _with_deployment(request, deployments)
    if api == "anthropic":
        return _invoke(request, deployments)
    return msgspec.structs.replace(request, path=f"/openai/v1{request.path}")


def mantle_request(api: str, request: HttpRequest) -> HttpRequest:
    """Return a request of an API for the host `bedrock-mantle`."""
    prefix = "/anthropic" if api == "anthropic" else "/openai/v1"
    return msgspec.structs.replace(request, path=prefix + request.path)


def _with_deployment(request: HttpRequest, deployments: Mapping[str, str]) -> HttpRequest:
    found = _MODEL.match(request.path)
    if found is None:
        return request
    model = unquote(found[1])
    id = deployments.get(model, model)
    if request.path.endswith("/count-tokens"):
        id = without_profile(id)  # CountTokens takes the model's own id
    path = f"/model/{quote_segment(id)}/{request.path[found.end() :]}"
    return msgspec.structs.replace(request, path=path)


def _invoke(request: HttpRequest, deployments: Mapping[str, str]) -> HttpRequest:
    """Return a request for `/v1/messages` as one for InvokeModel or CountTokens."""
    members = _members.decode(request.body)
    model = msgspec.json.decode(members.pop("model"), type=str)
    stream = bytes(members.pop("stream", b"false")) == b"true"
    headers = {name.lower(): value for name, value in request.headers.items()}
    headers.pop("anthropic-version", None)
    betas = [beta for beta in headers.pop("anthropic-beta", "").split(",") if beta]
    if own := members.get("anthropic_beta"):
        betas = [*dict.fromkeys([*_lists.decode(own), *betas])]
    if betas:
        members["anthropic_beta"] = msgspec.Raw(dump_bytes(betas))
    version = anthropic_version(model, OLD_VERSION)
    members["anthropic_version"] = msgspec.Raw(dump_bytes(version))
    headers["accept"] = "application/json"
    id = deployments.get(model, model)
    if request.path.endswith("/count_tokens"):
        # Amazon Bedrock, CountTokens: the body is one of InvokeModel, which needs `max_tokens`.
        members.setdefault("max_tokens", msgspec.Raw(b"1"))
        body = b64encode(msgspec.json.encode(members)).decode()
        input: JsonObject = {"input": {"invokeModel": {"body": body}}}
        path = f"/model/{quote_segment(without_profile(id))}/count-tokens"
        return HttpRequest(path, dump_bytes(input), headers)
    method = "invoke-with-response-stream" if stream else "invoke"
    path = f"/model/{quote_segment(id)}/{method}"
    return HttpRequest(path, msgspec.json.encode(members), headers)


_ERROR_TYPES = {
    "rate_limited": "rate_limit_error",
    "overloaded": "overloaded_error",
    "timed_out": "timeout_error",
}
_STATUS_TYPES = {
    400: "invalid_request_error",
    403: "permission_error",
    404: "not_found_error",
}


class InvokeEvents:
    """A stage that unwraps the stream of InvokeModel into Anthropic's own server-sent events."""

    def __init__(self) -> None:
        self._messages = EventStreamReader()

    def feed(self, piece: bytes, /) -> list[bytes]:
        return [_unwrap(message) for message in self._messages.feed(piece)]

    def close(self) -> list[bytes]:
        return [_unwrap(message) for message in self._messages.close()]


def _unwrap(message: EventMessage) -> bytes:
    payload = maybe_object(message.payload) or {}
    if message.type != "event":
        text = payload.get("message") or message.headers.get(":error-message", "")
        return _failure(message.name, str(text))
    if message.name != "chunk":
        return b""  # an event that is newer than this code
    try:
        event = b64decode(str(payload.get("bytes", "")), validate=True)
    except Base64Error:
        raise BrokenWire("Bedrock sent a chunk that is not base64") from None
    name = (maybe_object(event) or {}).get("type")
    return write_event(event, str(name).encode() if name else b"")


def _failure(type: str, text: str) -> bytes:
    """Return an exception of the stream as Anthropic's `error` event."""
    problem = read_aws_problem(type, text)
    found = _ERROR_TYPES.get(problem.kind) or _STATUS_TYPES.get(problem.status, "api_error")
    error: JsonObject = {"type": "error", "error": {"type": found, "message": problem.text}}
    return write_event(dump_bytes(error), b"error")
