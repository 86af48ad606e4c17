"""Our turns, as messages of the Messages API.

A part that came from an Anthropic client and was not changed is written in the client's own JSON.
"""

from toolbridge.codecs.anthropic.server_blocks import encode_server_block, is_vendors
from toolbridge.codecs.anthropic.shapes import MESSAGE, ORIGIN, encode_cache
from toolbridge.codecs.anthropic.signatures import encode_caller, own_tokens
from toolbridge.core.json import Json, JsonObject
from toolbridge.core.messages import (
    Audio,
    Call,
    Document,
    Foreign,
    Image,
    Loss,
    Part,
    Reference,
    Result,
    ResultPart,
    Text,
    Thinking,
    Turn,
)
from toolbridge.core.server_tool_text import server_text
from toolbridge.core.server_tools import ServerCall, ServerResult
from toolbridge.core.shared_fields import foreign_why
from toolbridge.core.source import own_words, unknown_fields


def encode_system(system: tuple[Text, ...]) -> list[Json]:
    """Return the blocks of the field `system`."""
    return [own_words(part, ORIGIN) or _encode_text(part) for part in system]


class TurnEncoder:
    """Writes the messages of one request and reports what a message cannot hold."""

    def __init__(self, losses: list[Loss]) -> None:
        self.losses = losses
        self.calls: dict[str, str] = {}
        """Nothing is needed of the calls: this API pairs results with them by their ids."""

    def _lose(self, what: str, why: str) -> None:
        self.losses.append(Loss(what, why))

    def encode(self, number: int, turn: Turn) -> list[JsonObject]:
        """Return the message of a turn, or nothing if no part of it is left."""
        message: JsonObject = {"role": turn.role}
        results: list[Json] = []
        others: list[Json] = []
        for index, part in enumerate(turn.content):
            where = f"turns.{number}.content.{index}"
            if isinstance(part, Foreign) and (part.origin, part.kind) == (ORIGIN, MESSAGE):
                message |= part.raw
            elif (block := self._part(part, where)) is not None:
                (results if isinstance(part, Result) else others).append(block)
        # Anthropic, tool use: results come first in the content of a message.
        content = results + others
        if turn.content and not content:
            return []  # Anthropic rejects a message without content; its parts are losses already.
        return [message | {"content": content}]

    def _part(self, part: Part, where: str) -> JsonObject | None:
        if isinstance(part, ServerCall | ServerResult) and not is_vendors(part):
            return {"type": "text", "text": server_text(part)}
        written = _as_written(part)
        if written is not None:
            return written
        block = self._block(part, where)
        return block if block is None else unknown_fields(part, ORIGIN) | block

    def _block(self, part: Part, where: str) -> JsonObject | None:
        match part:
            case Thinking():
                return self._thought(part, where)
            case Call():
                return _encode_call(part)
            case Result():
                return self._result(part, where)
            case ServerCall() | ServerResult():
                return encode_server_block(part)
            case _:
                return self._content(part, where)

    def _thought(self, thought: Thinking, where: str) -> JsonObject | None:
        # Anthropic, extended thinking: "Invalid `signature` in `thinking` block" is a 400.
        if signatures := own_tokens(thought, "signature"):
            return {"type": "thinking", "thinking": thought.text, "signature": signatures[0]}
        if redacted := own_tokens(thought, "redacted"):
            return {"type": "redacted_thinking", "data": redacted[0]}
        self._lose(where, "Anthropic accepts only thoughts with its own signature")
        return None

    def _result(self, result: Result, where: str) -> JsonObject:
        block: JsonObject = {"type": "tool_result", "tool_use_id": result.call_id}
        parts = enumerate(result.content)
        found = (self._part(part, f"{where}.content.{i}") for i, part in parts)
        content: list[Json] = [inner for inner in found if inner is not None]
        # Anthropic, tool use: a result may have no `content`.
        if content:
            block["content"] = content
        if result.is_error:
            block["is_error"] = True
        return block | encode_cache(result.cache)

    def _content(self, part: ResultPart, where: str) -> JsonObject | None:
        """Return a block that may stand in a message or inside a result."""
        match part:
            case Text():
                return _encode_text(part)
            case Image():
                if part.detail:
                    self._lose(f"{where}.detail", "Anthropic's images have no detail setting")
                return _encode_image(part)
            case Document():
                return _encode_document(part)
            # Anthropic, tool search tool: a reference inside a result loads the deferred tool.
            case Reference(name):
                return {"type": "tool_reference", "tool_name": name}
            case Foreign(origin, _, raw) if origin == ORIGIN:
                return raw
            case Foreign(origin, kind):
                self._lose(where, foreign_why(origin, kind))
                return None
            # Anthropic, Messages API: there is no block for audio.
            case Audio():
                self._lose(where, "Anthropic's API takes no audio")
                return None


def _as_written(part: Part) -> JsonObject | None:
    """Return the client's own block; None for a thought that Anthropic did not sign."""
    if isinstance(part, Thinking) and not part.opaque:
        return None
    written = own_words(part, ORIGIN)
    if written is not None and written.get("content", "") is None:
        del written["content"]  # some clients send null for an empty result, which is a 400
    return written


def _encode_call(call: Call) -> JsonObject:
    # Anthropic, tool use: `input` is an object, so invalid arguments are sent as a text in one.
    input: JsonObject = {"raw": call.raw} if call.raw else call.arguments
    block: JsonObject = {"type": "tool_use", "id": call.id, "name": call.name, "input": input}
    return block | encode_caller(call) | encode_cache(call.cache)


def _encode_text(part: Text) -> JsonObject:
    block: JsonObject = {"type": "text", "text": part.text}
    if part.citations:
        block["citations"] = list(part.citations)
    return block | encode_cache(part.cache)


def _encode_image(image: Image) -> JsonObject:
    block: JsonObject = {"type": "image", "source": _encode_source(image)}
    return block | encode_cache(image.cache)


def _encode_document(document: Document) -> JsonObject:
    source = _encode_source(document)
    if document.text:
        source = {"type": "text", "media_type": "text/plain", "data": document.text}
    block: JsonObject = {"type": "document", "source": source}
    if document.title:
        block["title"] = document.title
    if document.context:
        block["context"] = document.context
    # Anthropic, citations: they are switched on for each document.
    if document.cite:
        block["citations"] = {"enabled": True}
    return block | encode_cache(document.cache)


def _encode_source(media: Image | Document) -> JsonObject:
    # Anthropic, vision: a source is a URL, the id of a file (Files API), or base64.
    if media.url:
        return {"type": "url", "url": media.url}
    if media.file_id:
        return {"type": "file", "file_id": media.file_id}
    return {"type": "base64", "media_type": media.media_type, "data": media.data}
