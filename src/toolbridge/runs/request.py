"""Reads and checks the body of `POST /v1/stream`, and makes the contract of a run from it."""

import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Literal, TypeAlias

import msgspec

from toolbridge.core.allowed_values import with_allowed
from toolbridge.core.close_names import close_names, did_you_mean
from toolbridge.core.codec import OutputSupport
from toolbridge.core.errors import ClientError, MalformedRequest
from toolbridge.core.json import JsonObject
from toolbridge.core.messages import Sampling, Text, Turn
from toolbridge.runs.client_calls import result_fault
from toolbridge.runs.profiles import DEMO_OBJECTS, DEMO_TOOLS
from toolbridge.structured.contract import REPLY, Contract, Mode, OfferedTool
from toolbridge.structured.limits import Limits
from toolbridge.structured.schemas import InvalidSchema, Schemas, UnknownSchema
from toolbridge.tools.registry import Registry

Milliseconds: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=3_600_000)]
Few: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=100)]
Name: TypeAlias = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9_.:/-]{1,128}$")]
_MOST_TOOLS = 128
_OF_THE_DEMO = (
    'it belongs to the demo: send "profile": "demo", or set `demo = true` under `[stream]`'
)


class UnknownTool(ClientError):
    """The request names a tool that the server does not offer."""

    kind = "unknown_tool"


class GivenMessage(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    role: Literal["user", "assistant"]
    content: str


class GivenTool(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A tool that the caller describes: run by the caller (`client`), or at a `url`."""

    name: Name
    description: str = ""
    parameters: JsonObject = {}
    client: bool = False
    returns: JsonObject = {}
    """A JSON Schema of the result, which is checked; the page makes a form of it."""
    url: str = ""


class GivenLimits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Limits of one request; they can lower the server's limits, not raise them."""

    frame: Annotated[int, msgspec.Meta(ge=1)] | None = None
    depth: Annotated[int, msgspec.Meta(ge=1)] | None = None
    arguments: Annotated[int, msgspec.Meta(ge=1)] | None = None
    result: Annotated[int, msgspec.Meta(ge=1)] | None = None

    def under(self, own: Limits) -> Limits:
        asked = {name: value for name in Limits.__struct_fields__ if (value := getattr(self, name))}
        return own.lowered(msgspec.structs.replace(own, **asked))


class StreamRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A request for a structured stream; docs/reference/stream.md explains each field."""

    prompt: str = ""
    messages: tuple[GivenMessage, ...] = ()
    system: str = ""
    model: str = ""
    schemas: dict[Name, JsonObject] = {}
    objects: tuple[str, ...] | None = None
    result: str = REPLY
    tools: Annotated[tuple[str | GivenTool, ...], msgspec.Meta(max_length=_MOST_TOOLS)] = ()
    profile: str = ""
    mode: Literal["auto", "sentinel", "native"] = "auto"
    frame_tag: bool | None = None
    hold_results: bool = False
    temperature: Annotated[float, msgspec.Meta(ge=0, le=2)] | None = None
    seed: int | None = None
    max_tokens: Annotated[int, msgspec.Meta(ge=1)] | None = None
    limits: GivenLimits = GivenLimits()
    frame_timeout_ms: Milliseconds = 15_000
    tool_timeout_ms: Milliseconds = 8_000
    request_timeout_ms: Milliseconds = 120_000
    tool_retries: Few = 1
    repair_retries: Few = 1
    max_tool_calls: Few = 16

    @property
    def turns(self) -> tuple[Turn, ...]:
        if self.messages:
            return tuple(Turn(message.role, (Text(message.content),)) for message in self.messages)
        return (Turn("user", (Text(self.prompt),)),)

    @property
    def given(self) -> tuple[GivenTool, ...]:
        """The tools that the caller describes."""
        return tuple(tool for tool in self.tools if isinstance(tool, GivenTool))


def read_request(
    body: JsonObject, profiles: Mapping[str, JsonObject], defaults: JsonObject | None = None
) -> StreamRequest:
    """Return the request; values of `body` go before those of its profile, then `defaults`."""
    profile = body.get("profile") or ""
    if profile and profile not in profiles:
        there = ", ".join(sorted(profiles))
        raise MalformedRequest(
            f"there is no profile {profile!r}; known profiles: {there}"
            f"{did_you_mean(str(profile), profiles)}",
            where="profile",
        )
    given = {name: value for name, value in body.items() if value is not None}
    values = {**(defaults or {}), **profiles.get(str(profile), {}), **given}
    try:
        stream_request = msgspec.convert(values, StreamRequest)
    except msgspec.ValidationError as error:
        raise _fault(with_allowed(str(error), StreamRequest)) from None
    _check_question(stream_request)
    return stream_request


def _check_question(stream_request: StreamRequest) -> None:
    if stream_request.prompt and stream_request.messages:
        raise MalformedRequest("give `prompt` or `messages`, not both", where="prompt")
    if not stream_request.prompt.strip() and not stream_request.messages:
        raise MalformedRequest("`prompt` or `messages` is required", where="prompt")
    if stream_request.messages and stream_request.messages[-1].role != "user":
        raise MalformedRequest("the last message must have the role `user`", where="messages")
    names: set[str] = set()
    for at, tool in enumerate(stream_request.tools):
        name = tool if isinstance(tool, str) else tool.name
        if name in names:
            raise MalformedRequest(f"{name!r} is listed twice", where=f"tools.{at}")
        names.add(name)
        if isinstance(tool, GivenTool) and tool.client == bool(tool.url):
            text = 'needs either "client": true (the caller runs it) or a "url"'
            raise MalformedRequest(f"{tool.name} {text}", where=f"tools.{at}")


def _fault(text: str) -> MalformedRequest:
    """Return msgspec's error with its path and, for an unknown field, the nearest known one."""
    text, _, at = text.partition(" - at `")
    where = re.sub(r"\[(\d+|\.\.\.)\]", r".\1", at.removesuffix("`").removeprefix("$")).strip(".")
    unknown = re.fullmatch(r"Object contains unknown field `(.+)`", text)
    if unknown is None:
        return MalformedRequest(f"{text[:1].lower()}{text[1:]}", where=where)
    holder = next((s for n, s in _HOLDERS.items() if where.startswith(n)), StreamRequest)
    near = nearest_name(unknown[1], holder.__struct_fields__)
    hint = f"; did you mean `{near}`?" if near else ""
    return MalformedRequest(f"there is no field `{unknown[1]}`{hint}", where=where)


def nearest_name(name: str, known: Iterable[str]) -> str:
    """Return the most similar known name, or an empty string; swapped letters match first."""
    names = list(known)
    swapped = [other for other in names if sorted(other) == sorted(name)]
    return next(iter(swapped or close_names(name, names, 1)), "")


_HOLDERS: dict[str, type[msgspec.Struct]] = {
    "limits": GivenLimits,
    "messages": GivenMessage,
    "tools": GivenTool,
}


class Catalog(msgspec.Struct, frozen=True):
    """The schemas, tools and limits that a server offers to a stream."""

    schemas: Schemas
    tools: Registry
    limits: Limits = Limits()


def contract_of(
    stream_request: StreamRequest,
    terms: Catalog,
    model: str,
    mode: Mode,
    tag: str = "",
    support: OutputSupport | None = None,
) -> Contract:
    """Return the contract of a run; raise for an unknown schema or tool.

    With a `tag`, only frames whose ids end in it are accepted. `support` describes the provider.
    """
    support = support or OutputSupport()
    schemas = terms.schemas.extended(stream_request.schemas)
    objects = _objects(stream_request)
    for where, names in (("result", (stream_request.result,)), ("objects", objects)):
        for name in names:
            _check_schema(name, schemas, where)
    is_object = schemas.get(stream_request.result).get("type") == "object"
    return Contract(
        model=model,
        turns=stream_request.turns,
        schemas=schemas,
        objects=objects,
        result=stream_request.result,
        tools=tuple(_offer(tool, at, terms.tools) for at, tool in enumerate(stream_request.tools)),
        system=stream_request.system,
        mode=mode,
        tag=tag if mode == "sentinel" else "",
        bound=support.bound,
        with_tools=support.with_tools,
        document=mode == "native" and support.bound and (bool(objects) or not is_object),
        hold_results=stream_request.hold_results,
        limits=stream_request.limits.under(terms.limits),
        sampling=Sampling(temperature=stream_request.temperature, seed=stream_request.seed),
        max_tokens=stream_request.max_tokens,
        repair_retries=stream_request.repair_retries,
        max_tool_calls=stream_request.max_tool_calls,
    )


def _objects(stream_request: StreamRequest) -> tuple[str, ...]:
    if stream_request.objects is not None:
        return stream_request.objects
    return tuple(name for name in stream_request.schemas if name != stream_request.result)


def _check_schema(name: str, schemas: Schemas, where: str) -> None:
    if name not in schemas:
        near = close_names(name, schemas.names(), 1)
        hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(schemas.names())}"
        hint = _OF_THE_DEMO if name in DEMO_OBJECTS else hint
        raise UnknownSchema(f"there is no schema {name[:128]!r}; {hint}", where=where)


def _offer(tool: str | GivenTool, at: int, registry: Registry) -> OfferedTool:
    if isinstance(tool, GivenTool):
        if tool.name in registry:
            text = f"{tool.name!r} is the name of a tool of this server; use another name"
            raise MalformedRequest(text, where=f"tools.{at}")
        offered = OfferedTool(
            tool.name, tool.description, tool.parameters, tool.client, tool.returns
        )
        try:
            result_fault(tool.name, tool.returns, None)  # compiles the schema
        except InvalidSchema as error:
            raise InvalidSchema(error.problem.text, where=f"tools.{at}.returns") from None
        return offered
    found = registry.get(tool)
    if found is None:
        near = registry.nearest(tool)
        hint = f"did you mean {near!r}?" if near else f"known: {', '.join(registry.names)}"
        hint = _OF_THE_DEMO if tool in DEMO_TOOLS else hint
        raise UnknownTool(f"there is no tool {tool[:128]!r}; {hint}", where=f"tools.{at}")
    return OfferedTool(found.name, found.description, found.parameters)
