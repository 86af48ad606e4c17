"""Read an HTTP reply that is a stream of server-sent events or one JSON body.

Servers answer a streaming request with a whole body, and the other way round; the content type is
often wrong. The first byte decides: `{` begins a whole body, anything else is a stream. The stream
decoders of the codecs use this reader. Ollama's does not: in NDJSON a whole body is one line.
"""

import msgspec

from toolbridge.core.errors import BrokenWire, Truncated
from toolbridge.wire.json_array import ArrayReader
from toolbridge.wire.shapes import decode_chunk
from toolbridge.wire.sse import BOM, SseEvent, SseReader

MAX_BODY = 64 * 1024 * 1024
"""The most bytes of a reply that is one JSON object."""
_BLANKS = b" \t\r\n"
_json = msgspec.json.Decoder(msgspec.Raw)


class WholeBody(msgspec.Struct, frozen=True):
    """A reply that is one JSON object."""

    data: bytes


class ReplyReader(msgspec.Struct, eq=False):
    """Bytes in; SSE events, or one whole body at the end, out.

    With `arrays`, each element of a reply that is one JSON array comes out as an event: Gemini
    streams like that without `alt=sse`.
    """

    arrays: bool = False
    sse: SseReader = msgspec.field(default_factory=SseReader)
    """Reads the events, if the reply is a stream of them."""
    begun: bool = False
    """True after the first byte that is not blank."""
    _chosen: bool = False
    """True after the byte that decides."""
    _held: bytes = b""
    """The beginning of a byte order mark."""
    _array: ArrayReader | None = None
    _body: list[bytes] | None = None
    """The pieces of a reply that is one JSON object."""
    _size: int = 0

    def feed(self, piece: bytes, /) -> list[SseEvent | WholeBody]:
        """Return the events that `piece` completes; raise `BrokenWire` if one or all is too long."""
        if not self._chosen:
            piece = self._begin(self._held + piece)
            if not piece:
                return []
        if self._body is not None:
            self._size += len(piece)
            if self._size > MAX_BODY:
                raise BrokenWire(f"the provider sent an answer of more than {MAX_BODY} bytes")
            self._body.append(piece)
            return []
        if self._array is not None:
            return [SseEvent(element) for element in self._array.feed(piece)]
        events: list[SseEvent | WholeBody] = self.sse.feed(piece)  # type: ignore[assignment]
        return events

    def skip_events(self) -> None:
        """Note that the first bytes were whole events, which something else has read."""
        self.begun = self._chosen = True
        self.sse.skip()

    def close(self) -> list[SseEvent | WholeBody]:
        """Return the whole body, or the last event if its end is missing; see `last_events`."""
        if self._body is not None:
            return [WholeBody(b"".join(self._body))]
        if self._array is not None:
            elements = [*map(SseEvent, map(complete_data, self._array.close()))]
            if self._array.is_open:
                raise Truncated("the provider's answer ended in the middle of its JSON array")
            return [*elements]
        return [*last_events(self.sse)]

    def _begin(self, piece: bytes) -> bytes:
        """Choose how the reply is read; return the first bytes of it, without a byte order mark."""
        piece = piece.lstrip(_BLANKS)
        self.begun = self.begun or bool(piece)
        self._held = piece if piece and BOM.startswith(piece) else b""
        if self._held:
            return b""  # a body of a mark alone is empty
        piece = piece.removeprefix(BOM).lstrip(_BLANKS)
        self._chosen = bool(piece)
        if piece.startswith(b"{"):
            self._body = []
        elif self.arrays and piece.startswith(b"["):
            self._array = ArrayReader()
        return piece


def last_events(sse: SseReader) -> list[SseEvent]:
    """Return the last event of a stream if only its empty line is missing.

    Raise `Truncated` if the stream ended inside the event: such an answer is never a success, not
    even after its stop reason.
    """
    events = sse.close()
    if sse.cut:
        raise _half_event()
    for event in events:
        complete_data(event.data)
    return events


def complete_data(data: bytes) -> bytes:
    """Return `data` if it is JSON, or the mark at the end of a stream; raise `Truncated` if not."""
    if data.strip() != b"[DONE]":
        try:
            decode_chunk(data, _json)
        except BrokenWire:
            raise _half_event() from None
    return data


def _half_event() -> Truncated:
    return Truncated("the provider's answer ended in the middle of an event")
