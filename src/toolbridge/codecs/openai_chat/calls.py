"""Calls that come in pieces.

The API says that pieces belong together by `index`. Servers repeat an index for a new call, leave
it out, count it up with every piece, send the id each time or never, the name in pieces or after
the arguments. So a piece is matched by index, then id, then name; and a new id with a name, or a
whole object followed by another, begins a new call.
"""

import json
import re

from toolbridge.codecs.openai_chat.shapes import ORIGIN, ToolCall
from toolbridge.core.draft import Draft
from toolbridge.core.events import Event
from toolbridge.core.json import Json, dumps, replace_lone_surrogates
from toolbridge.core.messages import Opaque

_STRUCTURE = re.compile(r'["\\{}\[\]]')


class _Extent:
    """How far a JSON text has come: only its brackets and quotes are looked at, each once."""

    def __init__(self) -> None:
        self._depth = 0
        self._in_string = False
        self._escaped = False
        self.begun = False
        self.whole = False
        """Whether the outermost bracket is closed."""

    def feed(self, piece: str) -> int:
        """Return where in `piece` the value ends, or its length."""
        self.begun = self.begun or bool(piece.strip())
        at = 1 if self._escaped and piece else 0
        self._escaped = self._escaped and not piece
        while found := _STRUCTURE.search(piece, at):
            at = found.end()
            if self._take(found[0]):
                if at == len(piece):
                    self._escaped = True
                at += 1
            if self.whole:
                return found.end()
        return len(piece)

    def _take(self, mark: str) -> bool:
        """Follow one mark; return whether the character after it means nothing."""
        if mark == "\\":
            return self._in_string
        if mark == '"':
            self._in_string = not self._in_string
        elif not self._in_string:
            self._depth += 1 if mark in "{[" else -1
            self.whole = self._depth <= 0
        return False


class _Slot:
    """One call, from the first that was heard of it."""

    def __init__(self, id: str) -> None:
        self.id = id
        self.name = ""
        self.extent = _Extent()
        self.held: list[str] = []
        """Arguments that came before the name."""
        self.open = False
        self.ended = False
        self.custom = False
        self.opaque: Opaque | None = None


class Calls:
    """Writes pieces of calls into a draft."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._slots: list[_Slot] = []
        self._by_index: dict[int, _Slot] = {}
        self._by_id: dict[str, _Slot] = {}
        self._last: _Slot | None = None
        self._unsettled: list[_Slot] = []
        """Calls that have not ended."""

    def feed(self, piece: ToolCall) -> list[Event]:
        name, written, custom = _read(piece)
        google = piece.extra_content and piece.extra_content.google
        signature = google and google.thought_signature
        if not (piece.id or name or written or signature or piece.index is not None):
            return []
        slot = self._find(piece, name)
        slot.custom = slot.custom or custom
        if signature:
            slot.opaque = Opaque(ORIGIN, "thought_signature", signature)
        self._name(slot, name)
        return self._write(slot, piece, written)

    def settle(self) -> list[Event]:
        """End the calls that are whole, before something else is said."""
        said: list[Event] = []
        for slot in self._unsettled:
            said += self._open(slot) if slot.name else []
            said += self._end(slot) if slot.extent.whole and slot.open else []
        self._unsettled = [slot for slot in self._unsettled if not slot.ended]
        return said

    def close(self) -> list[Event]:
        """End every call. One whose name never came is told without it, if it says anything."""
        said: list[Event] = []
        for slot in self._unsettled:
            if slot.name or slot.held:
                said += self._open(slot) + self._end(slot)
        self._unsettled = []
        return said

    # ── which call ──

    def _find(self, piece: ToolCall, name: str) -> _Slot:
        slot = self._match(piece, name)
        if slot is None:
            slot = self._new(piece.id or "")
        if piece.index is not None:
            self._by_index[piece.index] = slot
        if piece.id and not slot.id:
            slot.id = piece.id
        if piece.id:
            self._by_id.setdefault(piece.id, slot)
        self._last = slot
        return slot

    def _match(self, piece: ToolCall, name: str) -> _Slot | None:
        slot = None if piece.index is None else self._by_index.get(piece.index)
        same = self._by_id.get(piece.id) if piece.id else None
        if slot is None and piece.index is None:
            slot = same or (None if piece.id and name else self._last)
        elif slot is None:
            slot = same
        elif piece.id and slot.id and piece.id != slot.id:
            # Some servers draw a new id for every piece; only with a name is it another call.
            slot = same or (None if name or slot.extent.whole else slot)
        if slot is not None and name and self._begins_anew(slot, piece, name):
            return None
        return slot

    def _begins_anew(self, slot: _Slot, piece: ToolCall, name: str) -> bool:
        """Whether a name that comes after arguments is the name of another call."""
        if not slot.extent.begun or not slot.name:
            return False
        repeated = name == slot.name and piece.id in {None, "", slot.id}
        if slot.extent.whole:
            return not repeated or bool(_read(piece)[1].strip())
        return name != slot.name and piece.index is None and not piece.id

    def _new(self, id: str) -> _Slot:
        slot = _Slot(id)
        self._slots.append(slot)
        self._unsettled.append(slot)
        if id:
            self._by_id[id] = slot
        return slot

    # ── what it says ──

    def _name(self, slot: _Slot, name: str) -> None:
        if not name or slot.open:
            return
        # A name comes whole, in pieces, or whole again with every piece.
        slot.name = name if name.startswith(slot.name) else slot.name + name

    def _write(self, slot: _Slot, piece: ToolCall, written: str) -> list[Event]:
        if not written:
            return []
        if slot.custom:
            slot.extent.begun = True
            return self._pour(slot, json.dumps(written, ensure_ascii=False)[1:-1])
        end = 0 if slot.extent.whole else slot.extent.feed(written)
        rest = written[end:]
        said = self._pour(slot, written[:end])
        if not slot.extent.whole or not rest.strip():
            return said if slot.ended else said + self._pour(slot, rest)
        if not rest.lstrip().startswith("{"):
            return said if slot.ended else said + self._pour(slot, rest)
        another = self._new("")
        another.name = slot.name
        if piece.index is not None:
            self._by_index[piece.index] = another
        self._last = another
        return said + self._write(another, piece, rest)

    def _pour(self, slot: _Slot, written: str) -> list[Event]:
        if not written:
            return []
        if not slot.name:
            slot.held.append(written)
            return []
        return self._open(slot) + self._draft.arguments(slot, written)

    def _open(self, slot: _Slot) -> list[Event]:
        if slot.open or slot.ended:
            return []
        said = self._end_others(slot)
        slot.open = True
        said += self._draft.call(slot, name=slot.name, id=slot.id)
        said += self._draft.arguments(slot, '{"input":"' if slot.custom else "")
        said += self._draft.arguments(slot, "".join(slot.held))
        slot.held = []
        return said

    def _end_others(self, slot: _Slot) -> list[Event]:
        """End the calls before this one that are whole, so that it need not wait for them."""
        said: list[Event] = []
        for other in self._unsettled:
            if other is not slot and other.open and other.extent.whole:
                said += self._end(other)
        self._unsettled = [other for other in self._unsettled if not other.ended]
        return said

    def _end(self, slot: _Slot) -> list[Event]:
        said = self._draft.arguments(slot, '"}') if slot.custom else []
        if slot.opaque is not None:
            self._draft.tag_call(slot, slot.opaque)
        slot.ended = True
        return said + self._draft.end(slot)


def _read(piece: ToolCall) -> tuple[str, str, bool]:
    """Return the name, the arguments as text, and whether they are free text."""
    if piece.custom is not None:
        return piece.custom.name or "", piece.custom.input or "", True
    if piece.function is None:
        return "", "", False
    return piece.function.name or "", _arguments(piece.function.arguments), False


def _arguments(value: Json) -> str:
    """Return arguments as JSON text; a string is that text already, well written or not."""
    if isinstance(value, str):
        return value
    if value is None or value == {}:
        return ""
    try:
        return dumps(value)
    except UnicodeEncodeError:  # half a surrogate pair, which only the slow writer lets through
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        return replace_lone_surrogates(text)
