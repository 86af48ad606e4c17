"""The response to a model request as a log: its head, its events, and its end.

The bytes are those of the client's API, so that a repeat gets the same ones whichever API it is. An
event is one event of SSE, one line of NDJSON, or one write of any other body.
"""

import re
from typing import Literal, TypeAlias

import msgspec
from typing_extensions import override

from toolbridge.core.json import dump_bytes
from toolbridge.core.redaction import Redactor
from toolbridge.explain.recording import redact_body, redact_headers
from toolbridge.server.answer_redactor import AnswerRedactor
from toolbridge.store.interface import Numbered
from toolbridge.store.shared_log import LogPlace, SharedLog

EntryKind: TypeAlias = Literal["head", "event", "end"]
_TAGS: dict[EntryKind, bytes] = {"head": b"H", "event": b"E", "end": b"Z"}
_KINDS: dict[bytes, EntryKind] = {tag: kind for kind, tag in _TAGS.items()}
_SSE_END = re.compile(rb"\n\n|\r\n\r\n|\r\r")


class AnswerHead(msgspec.Struct, frozen=True):
    """The status and the headers of a response, and the request that it answers."""

    status: int
    headers: dict[str, str]
    whole: bool = False
    """Whether the response is one body instead of a stream."""
    path: str = ""
    api: str = ""
    model: str = ""

    @property
    def content_type(self) -> str:
        return self.headers.get("content-type", "")

    @property
    def is_sse(self) -> bool:
        return self.content_type.startswith("text/event-stream")


class AnswerEnd(msgspec.Struct, frozen=True):
    """How a response ended."""

    finished: bool = False
    """Whether it was sent to its end."""
    cut: bool = False
    """Whether further events exist, which were not kept."""


class AnswerEntry(msgspec.Struct, frozen=True):
    """One entry of the log."""

    kind: EntryKind
    data: bytes


_head = msgspec.json.Decoder(AnswerHead)
_end = msgspec.json.Decoder(AnswerEnd)


def head_of(entry: AnswerEntry) -> AnswerHead:
    return _head.decode(entry.data)


def end_of(entry: AnswerEntry) -> AnswerEnd:
    return _end.decode(entry.data)


class AnswerForm:
    """How the entries of one response are stored."""

    def __init__(self, redactor: Redactor) -> None:
        self._plain = redactor
        # Used in the store's thread only.
        self._redactor = AnswerRedactor(redactor)
        self._whole = False

    def encode(self, _: int, entry: AnswerEntry) -> bytes:
        return _TAGS[entry.kind] + entry.data

    def decode(self, _: int, data: bytes) -> AnswerEntry:
        kind = _KINDS.get(data[:1])
        if kind is None:
            raise msgspec.DecodeError("an entry of another version")
        return AnswerEntry(kind, data[1:])

    def redact(self, items: list[tuple[int, AnswerEntry]]) -> list[Numbered]:
        return [one for n, entry in items for one in self._redacted(n, entry)]

    def _redacted(self, n: int, entry: AnswerEntry) -> list[Numbered]:
        if entry.kind == "event" and self._whole:
            return [(n, b"E" + redact_body(entry.data, self._plain).encode())]
        if entry.kind == "event":
            return _events(self._redactor.feed(n, entry.data))
        data = entry.data
        if entry.kind == "head":
            head = head_of(entry)
            self._whole = head.whole
            headers = redact_headers(list(head.headers.items()), self._plain)
            data = msgspec.json.encode(msgspec.structs.replace(head, headers=headers))
        return [*_events(self._redactor.close()), (n, _TAGS[entry.kind] + data)]

    def cut(self, _: int) -> list[AnswerEntry]:
        return [AnswerEntry("end", dump_bytes({"cut": True}))]


def _events(found: list[Numbered]) -> list[Numbered]:
    return [(n, b"E" + data) for n, data in found]


class AnswerLog(SharedLog[AnswerEntry]):
    """The log of one response that this process makes."""

    def __init__(self, place: LogPlace) -> None:
        super().__init__(place, AnswerForm(place.store.redactor))
        self.head: AnswerHead | None = None
        self.first = b""
        """The first event."""
        self._rest = b""

    @override
    async def room(self) -> None:
        """Wait while the readers are behind; without readers nothing waits."""
        while self.is_full and self.readers:
            await self.drained()

    def begin(self, head: AnswerHead) -> None:
        self.head = head
        self.append(AnswerEntry("head", msgspec.json.encode(head)))

    def write(self, piece: bytes) -> None:
        """Add the events in `piece`; an event that is not complete waits for the next piece."""
        *events, self._rest = self._split(self._rest + piece)
        self.first = self.first or next(iter(events), b"")
        for event in events:
            self.append(AnswerEntry("event", event))

    async def finish(self, end: AnswerEnd) -> None:
        """End the response; its readers get the end when all of it is stored."""
        if self._rest:
            self.append(AnswerEntry("event", self._rest))
            self._rest = b""
        await self.seal(AnswerEntry("end", msgspec.json.encode(end)))

    def _split(self, data: bytes) -> list[bytes]:
        """Return the events in `data`, and what follows the last of them."""
        head = self.head
        if head is not None and head.is_sse:
            marks = [found.end() for found in _SSE_END.finditer(data)]
        elif head is not None and head.content_type.startswith("application/x-ndjson"):
            marks = [at + 1 for at, byte in enumerate(data) if byte == 0x0A]
        else:
            marks = [len(data)] if data else []
        starts = [0, *marks]
        return [data[start:end] for start, end in zip(starts, [*marks, len(data)], strict=True)]
