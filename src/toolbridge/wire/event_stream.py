"""Read AWS event streams (`application/vnd.amazon.eventstream`).

Amazon, "Event stream encoding": a message has its total length, the length of its headers and a
CRC-32 of both, then headers, payload and a CRC-32 of everything before. Amazon Bedrock streams its
answers in such messages. A message is returned only after both checksums were compared, so that a
damaged one never becomes an event.
"""

from zlib import crc32

import msgspec

from toolbridge.core.errors import BrokenWire, Truncated

CONTENT_TYPE = "application/vnd.amazon.eventstream"
MAX_HEADERS = 128 * 1024
MAX_PAYLOAD = 24 * 1024 * 1024
"""Amazon, "Event stream encoding": the largest headers and the largest payload of a message."""
_PRELUDE = 12
_AROUND = 16
"""Bytes of a message that are neither headers nor payload."""
_TEXT = 7
_SIZES = {0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16}
"""Type of a header value → its size; types 6 (bytes) and 7 (text) begin with their length."""


class EventMessage(msgspec.Struct, frozen=True):
    """One message of a stream."""

    headers: dict[str, str]
    """The headers whose values are texts."""
    payload: bytes

    @property
    def type(self) -> str:
        """`event`, `exception` or `error`."""
        return self.headers.get(":message-type", "")

    @property
    def name(self) -> str:
        """The type of the event or exception, or the code of the error."""
        kinds = {"exception": ":exception-type", "error": ":error-code"}
        return self.headers.get(kinds.get(self.type, ":event-type"), "")


class EventStreamReader:
    """A stage that takes bytes and returns messages."""

    def __init__(self, *, max_payload: int = MAX_PAYLOAD) -> None:
        self._max_payload = max_payload
        self._held = bytearray()
        self._total = 0
        """The length of the message that begins in `_held`; 0 until its prelude has arrived."""
        self._broken: BrokenWire | None = None

    def feed(self, piece: bytes, /) -> list[EventMessage]:
        """Return the messages that `piece` completes; raise `BrokenWire` for a damaged one."""
        if self._broken:
            raise self._broken
        self._held += piece
        messages: list[EventMessage] = []
        try:
            while message := self._next():
                messages.append(message)
        except BrokenWire as error:
            # Messages before the fault are returned first, wherever the network cut.
            self._broken = error
            if not messages:
                raise
        return messages

    def close(self) -> list[EventMessage]:
        """Return nothing; raise for a fault that was found before, and `Truncated` for half a message."""
        if self._broken:
            raise self._broken
        if self._held:
            raise Truncated("the provider's answer ended in the middle of an event")
        return []

    def _next(self) -> EventMessage | None:
        held = self._held
        if not self._total:
            if len(held) < _PRELUDE:
                return None
            self._total = self._length(bytes(held[:_PRELUDE]))
        if len(held) < self._total:
            return None
        whole = bytes(held[: self._total])
        del held[: self._total]
        self._total = 0
        return _read_message(whole)

    def _length(self, prelude: bytes) -> int:
        if crc32(prelude[:8]) != int.from_bytes(prelude[8:]):
            raise BrokenWire("the provider sent an event whose length has a wrong checksum")
        total, headers = int.from_bytes(prelude[:4]), int.from_bytes(prelude[4:8])
        payload = total - headers - _AROUND
        if headers > MAX_HEADERS or not 0 <= payload <= self._max_payload:
            raise BrokenWire(f"the provider sent an event of {total} bytes, which is not allowed")
        return total


def _read_message(whole: bytes) -> EventMessage:
    if crc32(whole[:-4]) != int.from_bytes(whole[-4:]):
        raise BrokenWire("the provider sent an event with a wrong checksum")
    end = _PRELUDE + int.from_bytes(whole[4:8])
    try:
        headers = _read_headers(whole[_PRELUDE:end])
    except (IndexError, KeyError, UnicodeDecodeError):
        raise BrokenWire("the provider sent an event with invalid headers") from None
    return EventMessage(headers, whole[end:-4])


def _read_headers(data: bytes) -> dict[str, str]:
    found: dict[str, str] = {}
    at = 0
    while at < len(data):
        name, at = _take(data, at + 1, data[at])
        kind = data[at]
        at += 1
        if kind in _SIZES:
            _, at = _take(data, at, _SIZES[kind])
            continue
        length, at = _take(data, at, 2)
        value, at = _take(data, at, int.from_bytes(length))
        if kind == _TEXT:
            found[name.decode()] = value.decode()
        elif kind != _TEXT - 1:
            raise KeyError(kind)
    return found


def _take(data: bytes, at: int, size: int) -> tuple[bytes, int]:
    """Return `size` bytes from the position `at`, and the position after them."""
    if at + size > len(data):
        raise IndexError(at)
    return data[at : at + size], at + size
