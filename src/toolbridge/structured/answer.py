"""Reads one answer of the model: its text, its calls, and the turns that it adds to history."""

from collections import deque

from msgspec.structs import replace

from toolbridge.core import events as cv
from toolbridge.core.fold import Fold
from toolbridge.core.json import Json, JsonObject, dumps
from toolbridge.core.messages import Call, Part, Result, StopReason, Text, Turn
from toolbridge.structured.body import FrameBody
from toolbridge.structured.contract import Contract, ToolReply
from toolbridge.structured.document_text import DocumentText
from toolbridge.structured.grammar import Grammar
from toolbridge.structured.native import NativeText, fresh_id
from toolbridge.structured.pieces import Piece
from toolbridge.structured.sentinels import Kind, write_frame

OWN_END = frozenset({"end", "tool_use", "stop_sequence"})
"""Stop reasons of a complete answer; with any other the answer was interrupted."""


class AnswerReader:
    """Reads one answer: text by the grammar of the mode, native calls and objects as they arrive."""

    def __init__(self, contract: Contract, used: set[str]) -> None:
        self._contract = contract
        # A copy: text after a call is dropped, so the ids in it are not used.
        self._used = set(used)
        self._words: list[str] = []
        """The answer for history: text with escaped brackets, and frames."""
        self._chunks: list[str] = []
        self._fold = Fold()
        self._native = contract.mode == "native"
        self._arguments: dict[str, JsonObject] = {}
        self._results: list[Result] = []
        self.replies: list[ToolReply] = []
        self.calls: deque[Call] = deque()
        self._grammar = self._grammar_of(contract)
        self.objects: dict[int, FrameBody] = {}
        """Objects being written as native calls, by block index."""
        self.stop: StopReason | None = None
        self.text_over = False

    def _grammar_of(self, contract: Contract) -> Grammar | NativeText | DocumentText:
        if not self._native:
            return Grammar(contract.limits, self._used, contract.tag)
        reads = DocumentText if contract.document else NativeText
        return reads(contract, self._used, self.calls)

    def watch(self, event: cv.Event) -> None:
        """Keep the parts that native history needs: thinking with signatures, and calls."""
        if self._native:
            self._fold.feed(event)

    # Text.

    @property
    def text(self) -> str:
        """The text of this answer so far, without its frames."""
        return "".join(self._chunks)

    def feed(self, text: str) -> list[Piece]:
        return self._grammar.feed(text)

    def end_text(self) -> list[Piece]:
        """Close a text block that the model completed."""
        self.text_over = False
        return [] if isinstance(self._grammar, Grammar) else self._grammar.end_text()

    def close(self) -> list[Piece]:
        """Close the answer."""
        pieces = self.end_text() if self.stop in OWN_END else []
        pieces += self._grammar.close()
        for body in self.objects.values():
            pieces += body.finish(ended=False)
        return pieces

    def expire(self) -> list[Piece]:
        pieces = self._grammar.expire()
        for body in self.objects.values():
            pieces += body.expire()
        return pieces

    @property
    def open_id(self) -> str:
        objects = (body.id for body in self.objects.values() if not body.muted)
        return self._grammar.open_id or next(objects, "")

    # Objects that are written as native calls.

    def open_object(self, index: int, schema: str) -> tuple[str, list[Piece]]:
        id = fresh_id("O", self._used)
        self._used.add(id)
        body = self.objects[index] = FrameBody("object", id, schema, self._contract.limits)
        return id, [body.opened]

    def end_object(self, index: int, call: Call) -> list[Piece]:
        """Close a native object; a call with broken JSON was cut off and is not closed."""
        return self.objects.pop(index).finish(ended=not call.raw)

    # What it adds to history.

    def add_text(self, text: str) -> None:
        self._chunks.append(text)
        self._words.append(self._contract.quoted(text))

    def add_frame(self, kind: Kind, id: str, name: str, body: str) -> None:
        self._words.append(write_frame(kind, id, name, body))

    def add_result(
        self, reply: ToolReply, arguments: JsonObject, call_id: str, *, failed: bool
    ) -> None:
        """Add a tool's result to history."""
        self.replies.append(reply)
        if call_id:
            self._arguments[call_id] = arguments
            text = Text(dumps(reply.result))
            self._results.append(Result(call_id, (text,), is_error=failed, name=reply.name))
        if not (self._native and call_id):
            self.add_frame("tool", reply.id, reply.name, dumps(arguments))

    def note_object(self, call_id: str, name: str, value: Json) -> None:
        """Add the result of a native object call to history: it was accepted."""
        self._arguments[call_id] = value if isinstance(value, dict) else {}
        self._results.append(Result(call_id, (Text("ok"),), name=name))

    @property
    def awaits_results(self) -> bool:
        return bool(self.replies or self._results)

    def turns(self) -> list[Turn]:
        """Return this answer and its tool results as turns for the next request."""
        if self._native and self._results and len(self._results) >= len(self.replies):
            return self._native_turns()
        text = "".join(self._words)
        turns = [Turn("assistant", (Text(text),))] if text.strip() else []
        if self.replies:
            turns.append(Turn("user", (Text(self._contract.results_text(self.replies)),)))
        return turns

    def _native_turns(self) -> list[Turn]:
        content = (self._settled(part) for part in self._fold.message.content)
        kept = tuple(part for part in content if part is not None)
        return [Turn("assistant", kept), Turn("user", tuple(self._results))]

    def _settled(self, part: Part) -> Part | None:
        """Return a call with the arguments that were used; None for a call without a result."""
        if not isinstance(part, Call):
            return part
        arguments = self._arguments.get(part.id)
        return None if arguments is None else replace(part, arguments=arguments, raw="")
