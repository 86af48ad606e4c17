"""One answer of the model while it is read: its pieces, its calls, and what it adds to history."""

from collections import deque

from msgspec.structs import replace

from toolbridge.core import events as cv
from toolbridge.core.fold import Fold
from toolbridge.core.json import Json, JsonObject, dumps
from toolbridge.core.messages import Call, Part, Result, StopReason, Text, Turn
from toolbridge.structured.body import FrameBody
from toolbridge.structured.contract import Contract, ToolReply
from toolbridge.structured.grammar import Grammar
from toolbridge.structured.native import NativeText, fresh_id
from toolbridge.structured.pieces import Piece
from toolbridge.structured.sentinels import Kind, write_frame

OWN_END = frozenset({"end", "tool_use", "stop_sequence"})
"""Reasons with which a model ends by itself; at any other it was interrupted."""


class AnswerReader:
    """Reads an answer: its text by the grammar of its mode, its calls and objects as they come."""

    def __init__(self, contract: Contract, used: set[str]) -> None:
        self._contract = contract
        # A copy: what is read ahead and dropped, behind a call, has used no ids.
        self._used = set(used)
        self._words: list[str] = []
        """What was said, for history: text with its brackets escaped, and frames."""
        self._said: list[str] = []
        self._fold = Fold()
        self._native = contract.mode == "native"
        self._arguments: dict[str, JsonObject] = {}
        self._results: list[Result] = []
        self.told: list[ToolReply] = []
        self.calls: deque[Call] = deque()
        self._text: Grammar | NativeText = (
            NativeText(contract, self._used, self.calls)
            if self._native
            else Grammar(contract.limits, self._used, contract.tag)
        )
        self.objects: dict[int, FrameBody] = {}
        """Objects that are being written as native calls, by the index of their block."""
        self.stop: StopReason | None = None
        self.text_over = False

    def watch(self, event: cv.Event) -> None:
        """Keep what native history needs: thoughts with their signatures, and calls."""
        if self._native:
            self._fold.feed(event)

    # Text.

    @property
    def said(self) -> str:
        """The words of this answer so far, without its frames."""
        return "".join(self._said)

    def feed(self, text: str) -> list[Piece]:
        return self._text.feed(text)

    def end_text(self) -> list[Piece]:
        """Take the end of a text that the model ended by itself."""
        self.text_over = False
        return self._text.end_text() if isinstance(self._text, NativeText) else []

    def close(self) -> list[Piece]:
        """Take the end of the answer."""
        pieces = self.end_text() if self.stop in OWN_END else []
        pieces += self._text.close()
        for body in self.objects.values():
            pieces += body.finish(ended=False)
        return pieces

    def expire(self) -> list[Piece]:
        pieces = self._text.expire()
        for body in self.objects.values():
            pieces += body.expire()
        return pieces

    @property
    def open_id(self) -> str:
        objects = (body.id for body in self.objects.values() if not body.muted)
        return self._text.open_id or next(objects, "")

    # Objects that are written as native calls.

    def open_object(self, index: int, schema: str) -> tuple[str, list[Piece]]:
        id = fresh_id("O", self._used)
        self._used.add(id)
        body = self.objects[index] = FrameBody("object", id, schema, self._contract.limits)
        return id, [body.opened]

    def end_object(self, index: int, call: Call) -> list[Piece]:
        """Take the end of a call; one whose JSON is broken was cut, and has no end."""
        return self.objects.pop(index).finish(ended=not call.raw)

    # What it adds to history.

    def say(self, text: str) -> None:
        self._said.append(text)
        self._words.append(self._contract.quoted(text))

    def add_frame(self, kind: Kind, id: str, name: str, body: str) -> None:
        self._words.append(write_frame(kind, id, name, body))

    def tell(self, told: ToolReply, arguments: JsonObject, call_id: str, *, failed: bool) -> None:
        """Note what a tool gave back."""
        self.told.append(told)
        if call_id:
            self._arguments[call_id] = arguments
            text = Text(dumps(told.result))
            self._results.append(Result(call_id, (text,), is_error=failed, name=told.name))
        if not (self._native and call_id):
            self.add_frame("tool", told.id, told.name, dumps(arguments))

    def note_object(self, call_id: str, name: str, value: Json) -> None:
        """Note that an object that came as a call was taken."""
        self._arguments[call_id] = value if isinstance(value, dict) else {}
        self._results.append(Result(call_id, (Text("ok"),), name=name))

    @property
    def awaits_results(self) -> bool:
        return bool(self.told or self._results)

    def turns(self) -> list[Turn]:
        """Return the turns that this answer and its results are in the next request."""
        if self._native and self._results and len(self._results) >= len(self.told):
            return self._native_turns()
        said = "".join(self._words)
        turns = [Turn("assistant", (Text(said),))] if said.strip() else []
        if self.told:
            turns.append(Turn("user", (Text(self._contract.tell_results(self.told)),)))
        return turns

    def _native_turns(self) -> list[Turn]:
        content = (self._settled(part) for part in self._fold.message.content)
        kept = tuple(part for part in content if part is not None)
        return [Turn("assistant", kept), Turn("user", tuple(self._results))]

    def _settled(self, part: Part) -> Part | None:
        """Return a call with the arguments that counted; None for one that nobody answered."""
        if not isinstance(part, Call):
            return part
        arguments = self._arguments.get(part.id)
        return None if arguments is None else replace(part, arguments=arguments, raw="")
