"""What a client asks in Anthropic's words, in ours."""

from typing import Literal

import msgspec

from toolbridge.codecs.anthropic import shapes
from toolbridge.codecs.anthropic.client_tools import read_client_tool
from toolbridge.codecs.anthropic.shapes import (
    BLOCKS,
    CHOICES,
    ORIGIN,
    THINKING_TYPES,
    is_own_citation,
    read_cache,
    read_signature,
    seal_caller,
)
from toolbridge.core.errors import MalformedRequest
from toolbridge.core.json import JsonObject
from toolbridge.core.messages import (
    Call,
    Document,
    Effort,
    Foreign,
    Image,
    Opaque,
    Origin,
    OutputFormat,
    Part,
    Reference,
    Request,
    Result,
    ResultPart,
    Sampling,
    Text,
    Think,
    Thinking,
    Tool,
    ToolChoice,
    Turn,
)
from toolbridge.core.source import sourced
from toolbridge.wire import shapes as wire

_bodies = msgspec.json.Decoder(shapes.Body)
_messages = wire.StrictDecoder(shapes.Message)
_tools = msgspec.json.Decoder(shapes.Tool)
_objects = msgspec.json.Decoder(wire.AnyObject)
_thinking = msgspec.json.Decoder(shapes.ThinkingConfig | None)
_output = msgspec.json.Decoder(shapes.OutputConfig | None)
_choices = msgspec.json.Decoder(shapes.Choice | None)
_formats = msgspec.json.Decoder(shapes.Format | None)
_system = msgspec.json.Decoder(shapes.SystemBlock)
_metadata = msgspec.json.Decoder(shapes.Metadata | None)

_EFFORTS: dict[str, Effort] = {
    "low": "low",
    "medium": "medium",
    "high": "high",
    "xhigh": "xhigh",
    "max": "max",
}
_SHOWS: dict[str, Literal["", "omitted", "summarized", "updates"]] = {
    "omitted": "omitted",
    "summarized": "summarized",
    "updates": "updates",
}


def decode_request(
    body: bytes, *, model: str = "", stream: bool | None = None, counting: bool = False
) -> Request:
    """Read a request. What is strange but harmless is kept or passed over, never refused."""
    asked = wire.decode_request(body, _bodies)
    _check(asked, model=model, counting=counting)
    think, output, configured = _decode_configs(asked)
    user, metadata = _decode_metadata(asked.metadata)
    choice = wire.decode_request(asked.tool_choice, _choices, "tool_choice")
    chosen = _rest(asked.tool_choice, shapes.Choice)
    kept = {"tool_choice": chosen, "metadata": metadata, **configured}
    return Request(
        model=model or asked.model,
        turns=tuple(_decode_turn(raw, i) for i, raw in enumerate(asked.messages or [])),
        system=_decode_system(asked.system),
        tools=tuple(_decode_tool(raw, f"tools.{i}") for i, raw in enumerate(asked.tools or [])),
        tool_choice=_decode_choice(choice),
        max_tokens=asked.max_tokens,
        stop=tuple(asked.stop_sequences or ()),
        sampling=Sampling(temperature=asked.temperature, top_p=asked.top_p, top_k=asked.top_k),
        think=think,
        output=output,
        stream=bool(asked.stream if stream is None else stream),
        user=user,
        origin=ORIGIN,
        extra=wire.leftovers(body, shapes.Body)
        | {name: rest for name, rest in kept.items() if rest},
    )


def _check(asked: shapes.Body, *, model: str, counting: bool) -> None:
    if not (model or asked.model):
        raise MalformedRequest("field required", where="model")
    if asked.messages is None:
        raise MalformedRequest("field required", where="messages")
    if not asked.messages:
        raise MalformedRequest("at least one message is required", where="messages")
    if counting:
        return
    if asked.max_tokens is None:
        raise MalformedRequest("field required", where="max_tokens")
    if asked.max_tokens <= 0:
        raise MalformedRequest("must be greater than 0", where="max_tokens")


def _decode_system(system: str | list[msgspec.Raw] | None) -> tuple[Text, ...]:
    if isinstance(system, str):
        return (Text(system, source=Origin(ORIGIN, "system")),) if system else ()
    return tuple(_decode_system_block(raw, f"system.{i}") for i, raw in enumerate(system or ()))


def _decode_system_block(raw: msgspec.Raw, where: str) -> Text:
    block = wire.decode_request(raw, _system, where)
    names = wire.unknown_names(raw, shapes.SystemBlock, where)
    text = Text(block.text, cache=read_cache(block.cache_control))
    return sourced(text, Origin(ORIGIN, where, raw, names))


# ── turns ────────────────────────────────────────────────────────────────────


def _decode_turn(raw: msgspec.Raw, i: int) -> Turn:
    where = f"messages.{i}"
    message, unknown = _messages.decode(raw, where)
    if isinstance(message.content, str):
        said = Origin(ORIGIN, f"{where}.content")
        parts: list[Part] = [Text(message.content, source=said)] if message.content else []
    else:
        blocks = enumerate(message.content or ())
        parts = [_decode_block(block, f"{where}.content.{j}") for j, block in blocks]
    # Results stand in front of whatever else is said with them: every API wants them there.
    parts.sort(key=lambda part: not isinstance(part, Result))
    if unknown:
        fields = wire.leftovers(raw, shapes.Message, where)
        source = Origin(ORIGIN, where, unknown=tuple(fields))
        parts.append(Foreign(ORIGIN, "message", fields, source))
    return Turn(message.role, tuple(parts), Origin(ORIGIN, where))


def _decode_block(raw: msgspec.Raw, where: str) -> Part:
    block, unknown = BLOCKS.decode_named(raw, where)
    return sourced(_decode_known(block, raw, where), _source(block, raw, where, unknown))


def _source(
    block: shapes.AnyBlock | wire.Unknown, raw: msgspec.Raw, where: str, unknown: tuple[str, ...]
) -> Origin:
    if isinstance(block, wire.Unknown):
        return Origin(ORIGIN, where)
    return Origin(ORIGIN, where, raw, unknown)


def _decode_known(block: shapes.AnyBlock | wire.Unknown, raw: msgspec.Raw, where: str) -> Part:
    match block:
        case shapes.ThinkingBlock(thinking, signature):
            return Thinking(thinking, read_signature(signature))
        case shapes.RedactedBlock(data):
            return Thinking("", (Opaque(ORIGIN, "redacted", data),))
        case shapes.ToolUseBlock(id, name, input, cache, caller):
            return Call(id, name, input, opaque=seal_caller(caller), cache=read_cache(cache))
        case shapes.ToolResultBlock():
            return _decode_result(block, where)
        case _:
            return _decode_content(block, raw, where)


def _decode_result(block: shapes.ToolResultBlock, where: str) -> Result:
    return Result(
        block.tool_use_id,
        _decode_result_content(block.content, where),
        is_error=bool(block.is_error),
        cache=read_cache(block.cache_control),
    )


def _decode_result_content(
    content: str | list[msgspec.Raw] | None, where: str
) -> tuple[ResultPart, ...]:
    if isinstance(content, str):
        return (Text(content, source=Origin(ORIGIN, f"{where}.content")),) if content else ()
    found: list[ResultPart] = []
    for i, raw in enumerate(content or ()):
        inside = f"{where}.content.{i}"
        block, unknown = BLOCKS.decode_named(raw, inside)
        part = _decode_content(block, raw, inside)
        found.append(sourced(part, _source(block, raw, inside, unknown)))
    return tuple(found)


def _decode_content(
    block: shapes.AnyBlock | wire.Unknown, raw: msgspec.Raw, where: str
) -> ResultPart:
    """Read a block that may stand anywhere, also inside a result."""
    match block:
        case shapes.TextBlock(text, citations, cache):
            # An object here is the switch for citations, which belongs to a document.
            given = citations if isinstance(citations, list) else []
            cited = tuple(one for one in given if not is_own_citation(one))
            return Text(text, citations=cited, cache=read_cache(cache))
        case shapes.ImageBlock(source, cache) if source.type in {"base64", "url", "file"}:
            return _decode_image(source, cache)
        case shapes.DocumentBlock() if block.source.type in {"base64", "text", "url", "file"}:
            return _decode_document(block)
        case shapes.ReferenceBlock(name):
            return Reference(name)
        case wire.Unknown("", _):
            raise MalformedRequest("field required", where=f"{where}.type")
        case wire.Unknown(kind, fields):
            return Foreign(ORIGIN, kind, fields)
        case _:
            whole = wire.decode_request(raw, _objects, where)
            return Foreign(ORIGIN, whole["type"], whole)


def _decode_image(source: shapes.Source, cache: shapes.CacheControl | None) -> Image:
    return Image(
        data=source.data,
        media_type=source.media_type,
        url=source.url,
        file_id=source.file_id,
        cache=read_cache(cache),
    )


def _decode_document(block: shapes.DocumentBlock) -> Document:
    source = block.source
    plain = source.type == "text"
    return Document(
        data="" if plain else source.data,
        text=source.data if plain else "",
        media_type=source.media_type,
        url=source.url,
        file_id=source.file_id,
        title=block.title or "",
        context=block.context or "",
        cite=isinstance(block.citations, dict) and block.citations.get("enabled") is True,
        cache=read_cache(block.cache_control),
    )


# ── tools ────────────────────────────────────────────────────────────────────


def _decode_tool(raw: msgspec.Raw, where: str) -> Tool:
    given = wire.decode_request(raw, _tools, where)
    names = wire.unknown_names(raw, shapes.Tool, where)
    tool = _decode_typed(given, raw, where) or _decode_own(given, where)
    return sourced(tool, Origin(ORIGIN, where, raw, () if tool.hosted else names))


def _decode_typed(given: shapes.Tool, raw: msgspec.Raw, where: str) -> Tool | None:
    """Return a tool that is known by its type; None for one with a schema."""
    if given.input_schema is not None or given.type in {None, "custom"}:
        return None
    declared = wire.decode_request(raw, _objects, where)
    known = read_client_tool(declared)
    return known or Tool(given.name or given.type, origin=ORIGIN, hosted=declared)


def _decode_own(tool: shapes.Tool, where: str) -> Tool:
    if not tool.name:
        raise MalformedRequest("field required", where=f"{where}.name")
    if tool.input_schema is None:
        raise MalformedRequest("field required", where=f"{where}.input_schema")
    return Tool(
        tool.name,
        description=tool.description or "",
        schema=tool.input_schema,
        strict=tool.strict,
        deferred=bool(tool.defer_loading),
        cache=read_cache(tool.cache_control),
    )


def _decode_choice(choice: shapes.Choice | None) -> ToolChoice:
    if choice is None:
        return ToolChoice()
    if choice.type == "tool" and not choice.name:
        raise MalformedRequest("field required", where="tool_choice.name")
    serial = choice.disable_parallel_tool_use
    return ToolChoice(
        CHOICES[choice.type],
        names=(choice.name,) if choice.type == "tool" else (),
        parallel=None if serial is None else not serial,
    )


# ── settings ─────────────────────────────────────────────────────────────────


def _decode_configs(asked: shapes.Body) -> tuple[Think, OutputFormat | None, dict[str, JsonObject]]:
    """Return how to think, what to answer with, and what is said of both that we do not know."""
    config = wire.decode_request(asked.output_config, _output, "output_config")
    config = config or shapes.OutputConfig()
    rest = _rest(asked.output_config, shapes.OutputConfig)
    effort: Effort = _EFFORTS.get(config.effort or "", "")
    if config.effort and not effort:
        rest["effort"] = config.effort
    think, thinking_rest = _decode_thinking(asked.thinking, effort)
    format = wire.decode_request(config.format, _formats, "output_config.format")
    if described := _rest(config.format, shapes.Format):
        rest["format"] = described
    format = format or asked.output_format
    output = OutputFormat(schema=format.schema) if format else None
    return think, output, {"output_config": rest, "thinking": thinking_rest}


def _decode_thinking(raw: msgspec.Raw, effort: Effort) -> tuple[Think, JsonObject]:
    config = wire.decode_request(raw, _thinking, "thinking")
    if config is None:
        return Think(effort=effort), {}
    if config.type not in THINKING_TYPES:  # a kind of thinking that is newer than we are
        return Think(effort=effort), wire.decode_request(raw, _objects)
    rest = _rest(raw, shapes.ThinkingConfig)
    show = _SHOWS.get(config.display or "", "")
    if config.display and not show:
        rest["display"] = config.display
    return Think(THINKING_TYPES[config.type], config.budget_tokens, effort, show), rest


def _decode_metadata(raw: msgspec.Raw) -> tuple[str, JsonObject]:
    metadata = wire.decode_request(raw, _metadata, "metadata")
    return (metadata and metadata.user_id) or "", _rest(raw, shapes.Metadata)


def _rest(raw: msgspec.Raw, shape: type[msgspec.Struct]) -> JsonObject:
    return {} if bytes(raw) == b"null" else wire.leftovers(raw, shape)
