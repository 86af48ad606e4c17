"""Messages of the Messages API, as our turns.

A block of a type that is newer than this codec is kept whole, as `Foreign`. The client's own JSON
is attached to every part, so that Anthropic gets it back unchanged.
"""

from collections.abc import Sequence

import msgspec

from toolbridge.codecs.anthropic import shapes
from toolbridge.codecs.anthropic.citations import is_own_citation
from toolbridge.codecs.anthropic.server_blocks import decode_server_block
from toolbridge.codecs.anthropic.shapes import BLOCKS, MESSAGE, ORIGIN, decode_cache
from toolbridge.codecs.anthropic.signatures import decode_caller, decode_signature
from toolbridge.core.byte_memo import ByteMemo
from toolbridge.core.errors import MalformedRequest
from toolbridge.core.messages import (
    Call,
    Document,
    Foreign,
    Image,
    Opaque,
    Origin,
    Part,
    Reference,
    Result,
    ResultPart,
    Text,
    Thinking,
    Turn,
)
from toolbridge.core.prefix_memo import mark_repeated
from toolbridge.core.source import sourced
from toolbridge.core.steps import EVERY, Steps
from toolbridge.wire import shapes as wire

_memo: ByteMemo[bytes, Turn] = ByteMemo(4 * 1024 * 1024)
"""Turns by the index and the JSON of their messages. They are shared between requests."""
_system_memo: ByteMemo[bytes, Text] = ByteMemo(2 * 1024 * 1024)
"""The same for the blocks of system prompts."""
_key = b"%d:%b".__mod__
_AT_ONCE = 64
"""Messages that are found in one step, which takes less than the decoding of one of them."""
_messages = wire.StrictDecoder(shapes.Message)
_system = msgspec.json.Decoder(shapes.SystemBlock)
_objects = msgspec.json.Decoder(wire.AnyObject)


def decode_system(system: str | list[msgspec.Raw] | None) -> tuple[Text, ...]:
    """Return the texts of the field `system`."""
    # Anthropic, Messages API: a string is short for one text block.
    if isinstance(system, str):
        return (Text(system, source=Origin(ORIGIN, "system")),) if system else ()
    if not system:
        return ()
    return tuple(_system_block(number, raw) for number, raw in enumerate(system))


def _system_block(number: int, raw: msgspec.Raw) -> Text:
    """Return a block of the system prompt, which an agent sends with every request of a session."""
    key = b"%d:%b" % (number, raw)
    found = _system_memo.get(key)
    if found is None:
        # A `Raw` of a decoder refers to the whole body; a copy has its own bytes.
        found = _decode_system_block(raw.copy(), f"system.{number}")
        _system_memo.put(key, found)
    return found


def _decode_system_block(raw: msgspec.Raw, where: str) -> Text:
    block = wire.decode_request(raw, _system, where)
    names = wire.unknown_names(raw, shapes.SystemBlock, where)
    text = Text(block.text, cache=decode_cache(block.cache_control))
    return sourced(text, Origin(ORIGIN, where, raw, names))


class TurnDecoder(msgspec.Struct, eq=False):
    """The messages so far, as turns: one turn for each message."""

    turns: list[Turn]
    size: int = 0
    """The bytes of the messages."""

    def add_known(self, messages: Sequence[msgspec.Raw]) -> Steps[list[Turn]]:
        """Read more messages of a long conversation; return all turns.

        Messages that a request before had are known.
        """
        for begin in range(0, len(messages), _AT_ONCE):
            some = messages[begin : begin + _AT_ONCE]
            first = len(self.turns)
            keys = [*map(_key, enumerate(some, first))]
            self.size += sum(map(len, keys))
            found = _memo.get_all(keys)
            missing = enumerate(found) if None in found else ()
            for index in [index for index, turn in missing if turn is None]:
                # A `Raw` of a decoder refers to the whole body; a copy has its own bytes.
                turn = found[index] = decode_message(first + index, some[index].copy())
                _memo.put(keys[index], turn)
                if index % EVERY == EVERY - 1:
                    yield
            self.turns += filter(None, found)
            yield
        mark_repeated(self.turns, self.size)
        return self.turns


def decode_message(number: int, raw: msgspec.Raw) -> Turn:
    """Return a message as a turn; `number` is its index."""
    where = f"messages.{number}"
    message, unknown = _messages.decode(raw, where)
    # Anthropic, Messages API: a string is short for one text block.
    if isinstance(message.content, str):
        source = Origin(ORIGIN, f"{where}.content")
        parts: list[Part] = [Text(message.content, source=source)] if message.content else []
    else:
        blocks = enumerate(message.content or ())
        parts = [_decode_block(block, f"{where}.content.{j}") for j, block in blocks]
    # Anthropic, tool use: results come first in the content of a message.
    if len(parts) > 1:
        parts.sort(key=lambda part: not isinstance(part, Result))
    if unknown:
        fields = wire.leftovers(raw, shapes.Message, where)
        source = Origin(ORIGIN, where, unknown=tuple(fields))
        parts.append(Foreign(ORIGIN, MESSAGE, fields, source))
    return Turn(message.role, tuple(parts), Origin(ORIGIN, where))


def _decode_block(raw: msgspec.Raw, where: str) -> Part:
    block, unknown = BLOCKS.decode_named(raw, where)
    if isinstance(block, wire.Unknown):
        server_part = decode_server_block(block.raw, where)
        if server_part is not None:
            return server_part
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
            return Thinking(thinking, decode_signature(signature))
        case shapes.RedactedBlock(data):
            # Anthropic, extended thinking: `data` is encrypted and goes back unchanged.
            return Thinking("", (Opaque(ORIGIN, "redacted", data),))
        case shapes.ToolUseBlock(id, name, input, cache, caller):
            return Call(id, name, input, opaque=decode_caller(caller), cache=decode_cache(cache))
        case shapes.ToolResultBlock():
            return _decode_result(block, where)
        case _:
            return _decode_content(block, raw, where)


def _decode_result(block: shapes.ToolResultBlock, where: str) -> Result:
    return Result(
        block.tool_use_id,
        _decode_result_content(block.content, where),
        is_error=bool(block.is_error),
        cache=decode_cache(block.cache_control),
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
    """Return a block that may stand in a message or inside a result."""
    match block:
        case shapes.TextBlock(text, citations, cache):
            # An object is the switch `{"enabled": true}`, which belongs to documents.
            given = citations if isinstance(citations, list) else []
            cited = tuple(one for one in given if not is_own_citation(one))
            return Text(text, citations=cited, cache=decode_cache(cache))
        case shapes.ImageBlock(source, cache) if source.type in {"base64", "url", "file"}:
            return _decode_image(source, cache)
        case shapes.DocumentBlock() if block.source.type in {"base64", "text", "url", "file"}:
            return _decode_document(block)
        case shapes.ReferenceBlock(name):
            return Reference(name)
        case wire.Unknown("", _):
            raise MalformedRequest("field required", where=f"{where}.type")
        # Anthropic, versioning: new block types may come at any time, for instance search_result.
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
        cache=decode_cache(cache),
    )


def _decode_document(block: shapes.DocumentBlock) -> Document:
    source = block.source
    # Anthropic, PDF support: the source "text" holds plain text in `data`, not base64.
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
        cache=decode_cache(block.cache_control),
    )
