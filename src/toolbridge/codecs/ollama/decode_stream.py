"""Ollama's answers, as our events.

Ollama, docs/api: a stream is NDJSON, one object per line; the last line has `done: true` and the
counts. A body without streaming is one such line, so both are read in the same way.
"""

import json
from itertools import islice, repeat
from operator import attrgetter

import msgspec

from toolbridge.codecs.ollama import shapes
from toolbridge.codecs.ollama.media import decode_media
from toolbridge.codecs.ollama.rejections import decode_error
from toolbridge.codecs.ollama.usage import decode_usage
from toolbridge.core.draft import Draft
from toolbridge.core.errors import BrokenWire, Truncated
from toolbridge.core.events import Event
from toolbridge.core.ids import Ids
from toolbridge.core.json import Json, JsonObject, dumps, replace_lone_surrogates
from toolbridge.core.logprobs import read_logprobs
from toolbridge.core.messages import Image
from toolbridge.wire.ndjson import BETWEEN, LineReader
from toolbridge.wire.shapes import decode_chunk
from toolbridge.wire.sse import BOM

_chunks = msgspec.json.Decoder(shapes.Chunk)
_text_chunks = msgspec.json.Decoder(shapes.TextChunk)
_UNDECODABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_objects = msgspec.json.Decoder(JsonObject)
_KEYED_ERROR = b'{"error parsing tool call":'
"""Ollama 0.11 (ollama#11704): the error's text is the key of the line."""
_KEYED = _KEYED_ERROR[:8]
_content = attrgetter("message.content")
_is_done = attrgetter("done")
_CALL = "call"
"""The key of every call in the draft: calls come whole, one after the other."""


class StreamDecoder:
    """Decodes the bytes of `/api/chat` or `/api/generate` into events."""

    __slots__ = ("_draft", "_in_text", "_lines")

    def __init__(self, ids: Ids) -> None:
        self._lines = LineReader()
        self._draft = Draft(ids)
        self._in_text = False
        """True after a line of text: the next one mostly has text as well, and nothing else."""

    def feed(self, piece: bytes, /) -> list[Event]:
        draft = self._draft
        if draft.ended:
            return []
        if draft.started:
            line = self._lines.only_line(piece)  # nearly every piece, and nearly always text
            if line and self._in_text and line[:8] != _KEYED:
                try:
                    chunk = _text_chunks.decode(line)
                    if not chunk.done:
                        return draft.text(chunk.message.content)
                except _UNDECODABLE:
                    self._in_text = False
            if line:
                return self._decode(line)
        elif (cut := self._lines.last_line(piece)) and (whole := self._plain(piece, cut)):
            return whole
        try:
            lines = self._lines.feed(piece)
        except BrokenWire as error:
            return draft.fail(error.problem)
        return self._decode_all(lines) if lines else []

    def _decode_all(self, lines: list[bytes]) -> list[Event]:
        events: list[Event] = []
        at, keyed = 0, any(map(bytes.startswith, lines, repeat(_KEYED)))
        while at < len(lines) and not self._draft.ended:
            if self._in_text and not keyed and (texts := _texts_of(lines, at)):
                events += self._draft.text_pieces(texts)
                at += len(texts)
                self._in_text = at == len(lines)
            else:
                events += self._decode(lines[at])
                at += 1
        return events

    def _plain(self, lines: bytes, cut: int = 0) -> list[Event]:
        """Return the events of an answer that arrived whole and is one text; none for any other.

        Short answers are so. The last line begins at `cut`. The result is that of `_decode_all`,
        without a call for each line.
        """
        if self._draft.started or _KEYED in lines:
            return []
        chunks: list[shapes.TextChunk] = []
        try:
            last = _chunks.decode(lines[cut:])
            if not last.done:
                return []
            if cut:
                joined = lines[: cut - 1].replace(BETWEEN, b"}{")
                chunks = _text_chunks.decode_lines(joined)
                if len(chunks) != cut - len(joined) or b"\n" in joined:
                    return []  # an object on two lines, or two on one line
        except _UNDECODABLE:
            return []
        message, usage = last.message, decode_usage(last)
        if (
            message is None
            or usage is None
            or message.thinking
            or message.images
            or message.tool_calls
            or last.logprobs is not None
            or last.error is not None
            or any(map(_is_done, chunks))
        ):
            return []
        pieces = [*filter(None, map(_content, chunks))] if chunks else []
        if message.content:
            pieces.append(message.content)
        reason = shapes.STOPS.get(last.done_reason or "", "end")
        first = chunks[0] if chunks else last
        return self._draft.plain(pieces, usage, reason, model=first.model or "")

    def close(self) -> list[Event]:
        if self._draft.ended:
            return []
        events: list[Event] = []
        try:
            last = self._lines.close()
        except BrokenWire as error:
            return self._draft.fail(error.problem)
        for line in last:  # mostly a body without streaming
            events = self._plain(line) or self._decode(line, last=True)
        if not self._draft.ended:  # the end of the bytes alone ends no answer
            why = "the upstream closed the stream before a line with `done: true`"
            events += self._draft.fail(Truncated(why).problem)
        return events

    def _decode(self, line: bytes, *, last: bool = False) -> list[Event]:
        if not self._draft.started:
            line = line.removeprefix(BOM)
        try:
            chunk = _chunks.decode(line)
        except _UNDECODABLE:
            try:
                chunk = decode_chunk(line, _chunks)
            except BrokenWire as error:
                return [] if last and _is_cut(line) else self._draft.fail(error.problem)
        keyed = line.startswith(_KEYED_ERROR)
        # Ollama, docs/api: an error after the first byte is a line `{"error": …}`.
        if chunk.error is not None:
            return self._draft.fail(decode_error(chunk.error))
        if keyed:
            return self._draft.fail(decode_error(line.decode("utf-8", "replace").strip("{}")))
        return self._read(chunk)

    def _read(self, chunk: shapes.Chunk) -> list[Event]:
        draft = self._draft
        events = [] if draft.started else draft.start(model=chunk.model or "")
        message = chunk.message or shapes.Message(
            content=chunk.response, thinking=chunk.thinking, tool_calls=chunk.tool_calls
        )
        # One token can end the thought and begin the answer, so a line may hold all three.
        if message.thinking:
            events += draft.think(message.thinking)
        if message.content:
            events += draft.text(message.content)
            self._in_text = True
        for image in message.images or ():
            part = decode_media(image)
            if isinstance(part, Image):
                events += draft.add(part)
            else:
                events += draft.lose("answer.images", "one of them is not an image")
        # Ollama, docs/api: a call comes whole, in any line, also in the last one.
        for call in message.tool_calls or ():
            events += self._call(call)
        if chunk.logprobs is not None:
            events += draft.logprobs(read_logprobs(chunk.logprobs))
        if (usage := decode_usage(chunk)) is not None:
            events += draft.usage(usage)
        if chunk.done:
            events += draft.finish(shapes.STOPS.get(chunk.done_reason or "", "end"))
        return events

    def _call(self, call: shapes.ToolCall) -> list[Event]:
        events = self._draft.call(_CALL, name=call.function.name or "", id=call.id or "")
        events += self._draft.arguments(_CALL, _arguments(call.function.arguments))
        return events + self._draft.end(_CALL)


def _texts_of(lines: list[bytes], begin: int) -> list[str]:
    """Return the texts of the lines from `begin` on, up to the first that has more than text.

    A delivery may have hundreds of lines, so there is no line of Python for each one.
    """
    chunks: list[shapes.TextChunk] = []
    try:  # noqa: SIM105  a context manager takes longer
        chunks.extend(map(_text_chunks.decode, islice(lines, begin, None)))
    except _UNDECODABLE:
        pass
    if any(map(_is_done, chunks)):
        del chunks[[*map(_is_done, chunks)].index(True) :]
    return [*map(_content, chunks)]


def _arguments(value: Json) -> str:
    """Return arguments as JSON text; a string is that text already, valid or not."""
    if value is None:
        return "{}"
    if isinstance(value, str):
        return value
    try:
        return dumps(value)
    except UnicodeEncodeError:  # half a surrogate pair, which only the slow writer accepts
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        return replace_lone_surrogates(text)


def _is_cut(line: bytes) -> bool:
    """Return whether the last line is an object without its end: a connection that broke off."""
    if not line.startswith(b"{"):
        return False
    try:
        decode_chunk(line, _objects)
    except BrokenWire:
        return True
    return False
