"""Requests to the Messages API, as our `Request`.

Fields that this codec does not know are kept in `Request.extra` and never rejected: Anthropic adds
fields without a new version of the API.
"""

import msgspec

from toolbridge.codecs.anthropic import shapes
from toolbridge.codecs.anthropic.decode_turns import TurnDecoder, decode_message, decode_system
from toolbridge.codecs.anthropic.known_messages import (
    LARGE,
    MARK,
    NONE_KNOWN,
    KnownMessages,
    keep_messages,
    marked,
    messages_start,
)
from toolbridge.codecs.anthropic.known_messages import memo as known_messages
from toolbridge.codecs.anthropic.mcp_toolsets import with_servers
from toolbridge.codecs.anthropic.shapes import NULL, ORIGIN, decode_rest
from toolbridge.codecs.anthropic.thinking import decode_effort, decode_thinking
from toolbridge.codecs.anthropic.tools import decode_choice, decode_tools
from toolbridge.core.errors import MalformedRequest
from toolbridge.core.json import JsonObject, loads
from toolbridge.core.messages import OutputFormat, Request, Sampling, Think, ToolChoice, Turn
from toolbridge.core.prefix_memo import LONG
from toolbridge.core.shared_tools import NO_TOOLS, tool_traits
from toolbridge.core.steps import Steps, stepwise
from toolbridge.wire import shapes as wire

_bodies = msgspec.json.Decoder(shapes.Body)
_strict_bodies = msgspec.json.Decoder(shapes.StrictBody)
_output = msgspec.json.Decoder(shapes.OutputConfig | None)
_formats = msgspec.json.Decoder(shapes.Format | None)
_metadata = msgspec.json.Decoder(shapes.Metadata | None)


@stepwise
def decode_request(
    body: bytes, *, model: str = "", stream: bool | None = None, counting: bool = False
) -> Steps[Request]:
    """Return the request in a body of `/v1/messages`, or of `/v1/messages/count_tokens`."""
    start = messages_start(body) if len(body) > LARGE else 0
    asked, extra, known = _decode_body(body, start)
    _check(asked, model=model, counting=counting)
    settings = _decode_settings(asked)
    messages = asked.messages or []
    turns: list[Turn] = []
    if len(messages) < LONG and not known.turns:
        for number, message in enumerate(messages):
            turns.append(decode_message(number, message))
    else:
        more = messages[1:] if known.turns else messages
        turns = yield from TurnDecoder([*known.turns], len(known.json)).add_known(more)
        if start:
            yield
            keep_messages(body, start, known, more, turns)
    for name, rest in settings.unknown.items():
        if rest:
            extra[name] = rest
    system = decode_system(asked.system) if asked.system else ()
    tools = decode_tools(asked.tools) if asked.tools else NO_TOOLS
    hosts = bool(tools) and tool_traits(tools).hosted
    return Request(
        model=model or asked.model,
        turns=tuple(turns),
        system=system,
        tools=with_servers(tools, extra.get("mcp_servers")) if hosts else tools,
        tool_choice=settings.choice,
        max_tokens=asked.max_tokens,
        stop=tuple(asked.stop_sequences or ()),
        sampling=Sampling(asked.temperature, asked.top_p, asked.top_k),
        think=settings.think,
        output=settings.output,
        stream=bool(asked.stream if stream is None else stream),
        user=settings.user,
        origin=ORIGIN,
        extra=extra,
    )


class _Settings(msgspec.Struct, frozen=True):
    """The objects of a body that are not its conversation."""

    think: Think = Think()
    output: OutputFormat | None = None
    choice: ToolChoice = ToolChoice()
    user: str = ""
    unknown: dict[str, JsonObject] = {}
    """The unknown fields of each."""


_PLAIN = _Settings()
_ABSENT = (NULL, NULL, NULL, NULL)


def _decode_settings(asked: shapes.Body) -> _Settings:
    raw = (asked.output_config, asked.thinking, asked.metadata, asked.tool_choice)
    if raw == _ABSENT and asked.output_format is None:
        return _PLAIN
    think, output, configured = _decode_configs(asked)
    user, metadata = _decode_metadata(asked.metadata)
    choice, chosen = decode_choice(asked.tool_choice)
    unknown = {"tool_choice": chosen, "metadata": metadata, **configured}
    return _Settings(think, output, choice, user, unknown)


def _decode_body(body: bytes, start: int) -> tuple[shapes.Body, JsonObject, KnownMessages]:
    """Return the fields that this codec knows, and the others; those of most clients in one pass.

    The third value are the messages that are known, with a mark in their place. `start` is where
    the messages begin, or 0.
    """
    known, asked = NONE_KNOWN, None
    if start:
        known = known_messages.find(body, start)
        asked = _decode_marked(body, start, known) if known.turns else None
    if asked is None:
        known, asked = NONE_KNOWN, _decode_strictly(body)
    if asked is None:
        loose = wire.decode_request(body, _bodies)
        return loose, wire.leftovers(body, shapes.Body), known
    return asked, {} if asked.context_management is NULL else _extra_of(asked, body), known


def _decode_strictly(body: bytes) -> shapes.StrictBody | None:
    try:
        return _strict_bodies.decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None


def _decode_marked(body: bytes, start: int, known: KnownMessages) -> shapes.StrictBody | None:
    """Return the fields of a body with the mark; None if known messages are not its first ones."""
    short = marked(body, start, known)
    asked = _decode_strictly(short)
    if asked is None or not asked.messages or bytes(asked.messages[0]) != MARK:
        return None
    return asked if short.count(MARK) == 1 else None  # a client may write the mark itself


def _extra_of(asked: shapes.StrictBody, body: bytes) -> JsonObject:
    # Claude Code sends this with every request.
    try:
        return {"context_management": loads(bytes(asked.context_management))}
    except (ValueError, RecursionError):
        return wire.leftovers(body, shapes.Body)  # raises with the path


def _check(asked: shapes.Body, *, model: str, counting: bool) -> None:
    if not (model or asked.model):
        raise MalformedRequest("field required", where="model")
    if asked.messages is None:
        raise MalformedRequest("field required", where="messages")
    # Anthropic, Messages API: `messages` must not be empty.
    if not asked.messages:
        raise MalformedRequest("at least one message is required", where="messages")
    if counting:  # Anthropic, count_tokens: the same body without `max_tokens`
        return
    # Anthropic, Messages API: `max_tokens` is required, unlike in every other API.
    if asked.max_tokens is None:
        raise MalformedRequest("field required", where="max_tokens")
    if asked.max_tokens <= 0:
        raise MalformedRequest("must be greater than 0", where="max_tokens")


def _decode_configs(asked: shapes.Body) -> tuple[Think, OutputFormat | None, dict[str, JsonObject]]:
    """Return the thinking settings, the output format, and the unknown fields of both objects."""
    if asked.output_config is NULL and asked.thinking is NULL and asked.output_format is None:
        return Think(), None, {}
    config = wire.decode_request(asked.output_config, _output, "output_config")
    config = config or shapes.OutputConfig()
    rest = decode_rest(asked.output_config, shapes.OutputConfig)
    effort = decode_effort(config.effort)
    if config.effort and not effort:
        rest["effort"] = config.effort
    think, thinking_rest = decode_thinking(asked.thinking, effort)
    format = wire.decode_request(config.format, _formats, "output_config.format")
    if described := decode_rest(config.format, shapes.Format):
        rest["format"] = described
    # Anthropic, structured outputs: `output_format` is the deprecated name of the beta.
    format = format or asked.output_format
    output = OutputFormat(schema=format.schema) if format else None
    return think, output, {"output_config": rest, "thinking": thinking_rest}


def _decode_metadata(raw: msgspec.Raw) -> tuple[str, JsonObject]:
    if raw is NULL:
        return "", {}
    metadata = wire.decode_request(raw, _metadata, "metadata")
    return (metadata and metadata.user_id) or "", decode_rest(raw, shapes.Metadata)
