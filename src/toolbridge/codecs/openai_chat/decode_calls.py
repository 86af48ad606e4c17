"""Tool calls that arrive in pieces: `delta.tool_calls` of a stream.

OpenAI chat, streaming: pieces with the same `index` belong to one call; the id and the name come
with the first. Servers repeat an index for a new call (vLLM), leave it out, count it up with every
piece, send the id each time or never, and the name in pieces or after the arguments. So a piece is
matched by index, then by id, then by name. A new id with a name, or an object that follows a
complete object, begins a new call.
"""

import json
import re
from itertools import takewhile

import msgspec

from toolbridge.codecs.openai_chat.shapes import ORIGIN, ToolCall
from toolbridge.core.draft import Draft
from toolbridge.core.events import Event
from toolbridge.core.json import Json, dumps, replace_lone_surrogates
from toolbridge.core.messages import Opaque

_STRUCTURE = re.compile(r'["\\{}\[\]]')
_NEXT_OBJECT = re.compile(r"[ \t\r\n]*+\{")


class _Extent:
    """Finds the end of a JSON object that arrives in pieces; each character is read once."""

    def __init__(self) -> None:
        self._depth = 0
        self._in_string = False
        self._escaped = False
        self.whole = False
        """True once the outermost bracket is closed."""

    def feed(self, text: str, at: int = 0) -> int:
        """Read `text` from `at`; return the index after the object, or the end of `text`."""
        if self._escaped and at < len(text):
            self._escaped = False
            at += 1
        while found := _STRUCTURE.search(text, at):
            at = found.end()
            if self._take(found[0]):
                self._escaped = at == len(text)
                at += 1
            if self.whole:
                return at
        return len(text)

    def _take(self, mark: str) -> bool:
        """Read one bracket, quote or backslash; return True if it escapes the next character."""
        if mark == "\\":
            return self._in_string
        if mark == '"':
            self._in_string = not self._in_string
        elif not self._in_string:
            self._depth += 1 if mark in "{[" else -1
            self.whole = self._depth <= 0
        return False


class _Slot:
    """One call, from its first piece on."""

    def __init__(self, id: str) -> None:
        self.id = id
        self.name = ""
        self.extent = _Extent()
        self.held: list[str] = []
        """Arguments that arrived before the name."""
        self.open = False
        self.ended = False
        self.custom = False
        self.opaque: Opaque | None = None


class CallDecoder(msgspec.Struct, eq=False):
    """Assigns pieces to calls and writes the calls into a draft."""

    _draft: Draft
    _by_index: dict[int, _Slot] = {}
    _by_id: dict[str, _Slot] = {}
    _last: _Slot | None = None
    _waiting: dict[_Slot, None] = {}
    """Calls that have not begun: the name is missing, or may still continue."""
    _running: dict[_Slot, None] = {}
    """Calls that have begun and not ended."""
    _ripe: dict[_Slot, None] = {}
    """Running calls whose arguments are complete."""

    def feed(self, piece: ToolCall) -> list[Event]:
        """Return the events of one element of `tool_calls`."""
        name, written, custom = _read(piece)
        # Gemini, OpenAI compatibility: a call is signed in `extra_content.google`.
        google = piece.extra_content and piece.extra_content.google
        signature = google and google.thought_signature
        if not (piece.id or name or written or signature):
            return []
        slot = self._find(piece, name)
        slot.custom = slot.custom or (custom and not slot.open)
        if signature:
            slot.opaque = Opaque(ORIGIN, "thought_signature", signature)
        if name and not slot.open:
            # The name arrives at once, in pieces, or repeated with every piece.
            slot.name = name if name.startswith(slot.name) else slot.name + name
        return self._write(slot, piece.index, written)

    def settle(self) -> list[Event]:
        """Begin calls that have a name and end complete ones, before text or a thought follows."""
        if not self._waiting and not self._ripe:
            return []
        return self._begin_waiting(None) + self._end_ripe()

    def close(self) -> list[Event]:
        """End every call; one without a name is written only if it has arguments."""
        events = self._begin_waiting(None)
        for slot in list(self._waiting):
            events += self._begin(slot) if slot.held else []
        for slot in list(self._running):
            events += self._end(slot)
        return events

    # ── matching pieces to calls ──

    def _find(self, piece: ToolCall, name: str) -> _Slot:
        slot = self._match(piece, name) or self._new(piece.id or "")
        if piece.index is not None:
            self._by_index[piece.index] = slot
        if piece.id:
            slot.id = slot.id or piece.id
            self._by_id.setdefault(piece.id, slot)
        self._last = slot
        return slot

    def _match(self, piece: ToolCall, name: str) -> _Slot | None:
        same = self._by_id.get(piece.id) if piece.id else None
        slot = None if piece.index is None else self._by_index.get(piece.index)
        if slot is None:
            slot = same
            if slot is None and piece.index is None and not (piece.id and name):
                slot = self._last
        elif piece.id and slot.id and piece.id != slot.id:
            # Some servers send a new id with every piece; only with a name is it another call.
            slot = same or (None if name or slot.extent.whole else slot)
        if slot is not None and name and slot.name and self._begins_anew(slot, piece, name):
            return None
        return slot

    def _begins_anew(self, slot: _Slot, piece: ToolCall, name: str) -> bool:
        """Return True if a name after a name, or after arguments, belongs to another call."""
        if piece.index is None and not piece.id and name != slot.name:
            return True
        repeated = name == slot.name and (piece.id or slot.id) == slot.id
        return slot.extent.whole and not repeated

    def _new(self, id: str) -> _Slot:
        slot = _Slot(id)
        self._waiting[slot] = None
        return slot

    # ── writing events ──

    def _write(self, slot: _Slot, index: int | None, written: str) -> list[Event]:
        if slot.custom:
            return self._pour(slot, json.dumps(written, ensure_ascii=False)[1:-1])
        events: list[Event] = []
        at = 0
        while at < len(written):
            if slot.extent.whole and _NEXT_OBJECT.match(written, at):
                slot = self._follow(slot, index)
            end = len(written) if slot.extent.whole else slot.extent.feed(written, at)
            events += self._pour(slot, written[at:end])
            if slot.extent.whole and slot.open and not slot.ended:
                self._ripe[slot] = None
            at = end
        return events

    def _follow(self, slot: _Slot, index: int | None) -> _Slot:
        """Return a new call of the same tool: a second object follows a complete one."""
        another = self._new("")
        another.name = slot.name
        self._last = another
        if index is not None:
            self._by_index[index] = another
        return another

    def _pour(self, slot: _Slot, written: str) -> list[Event]:
        if not written or slot.ended:
            return []
        if not slot.name:
            slot.held.append(written)
            return []
        return self._open(slot) + self._draft.arguments(slot, written)

    def _open(self, slot: _Slot) -> list[Event]:
        return [] if slot.open else self._begin_waiting(slot) + self._begin(slot)

    def _begin_waiting(self, until: _Slot | None) -> list[Event]:
        """Begin the calls that arrived before `until`: their names are complete."""
        earlier = takewhile(lambda slot: slot is not until, list(self._waiting))
        return [event for slot in earlier if slot.name for event in self._begin(slot)]

    def _begin(self, slot: _Slot) -> list[Event]:
        events = self._end_ripe()
        self._waiting.pop(slot)
        self._running[slot] = None
        slot.open = True
        events += self._draft.call(slot, name=slot.name, id=slot.id)
        events += self._draft.arguments(slot, '{"input":"' if slot.custom else "")
        events += self._draft.arguments(slot, "".join(slot.held))
        slot.held = []
        if slot.extent.whole:
            self._ripe[slot] = None
        return events

    def _end_ripe(self) -> list[Event]:
        """End the calls with complete arguments, so that the next block need not wait for them."""
        ripe, self._ripe = self._ripe, {}
        return [event for slot in ripe for event in self._end(slot)]

    def _end(self, slot: _Slot) -> list[Event]:
        events = self._draft.arguments(slot, '"}') if slot.custom else []
        if slot.opaque is not None:
            self._draft.tag_call(slot, slot.opaque)
        slot.ended = True
        self._running.pop(slot, None)
        return events + self._draft.end(slot)


def _read(piece: ToolCall) -> tuple[str, str, bool]:
    """Return the name, the arguments as text, and True if the tool is `custom` (free text)."""
    if piece.custom is not None:
        return piece.custom.name or "", piece.custom.input or "", True
    if piece.function is None:
        return "", "", False
    return piece.function.name or "", _arguments(piece.function.arguments), False


def _arguments(value: Json) -> str:
    """Return arguments as JSON text; a string is passed on as it is, valid or not."""
    if isinstance(value, str):
        return value
    if value is None or value == {}:
        return ""
    try:
        return dumps(value)
    except UnicodeEncodeError:  # a lone surrogate, which only the standard library can write
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        return replace_lone_surrogates(text)
