"""Read an HTTP reply that is a stream of server-sent events or one JSON body.

Servers answer a streaming request with a whole body, and the other way round; the content type is
often wrong. The first byte decides: `{` begins a whole body, anything else is a stream. The stream
decoders of the codecs use this reader. Ollama's does not: in NDJSON a whole body is one line.
"""

import msgspec

from toolbridge.core.errors import BrokenWire
from toolbridge.wire.json_array import ArrayReader
from toolbridge.wire.sse import SseEvent, SseReader

MAX_BODY = 64 * 1024 * 1024
"""The most bytes of a reply that is one JSON object."""
_BLANKS = b" \t\r\n"


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
    _begun: bool = False
    _array: ArrayReader | None = None
    _body: list[bytes] | None = None
    """The pieces of a reply that is one JSON object."""
    _size: int = 0

    def feed(self, piece: bytes, /) -> list[SseEvent | WholeBody]:
        """Return the events that `piece` completes; raise `BrokenWire` if one or all is too long."""
        if not self._begun:
            piece = piece.lstrip(_BLANKS)
            if not piece:
                return []
            self._begin(piece)
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

    def close(self) -> list[SseEvent | WholeBody]:
        """Return the whole body, or the event that the end of the stream cut (`whole` is False)."""
        if self._body is not None:
            return [WholeBody(b"".join(self._body))]
        if self._array is not None:
            return [SseEvent(element, whole=False) for element in self._array.close()]
        return [*self.sse.close()]

    def _begin(self, piece: bytes) -> None:
        self._begun = True
        if piece.startswith(b"{"):
            self._body = []
        elif self.arrays and piece.startswith(b"["):
            self._array = ArrayReader()
