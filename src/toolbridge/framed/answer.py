"""One answer of the model while it is read: its pieces, its calls, and what it adds to history."""

from collections import deque

from msgspec.structs import replace

from toolbridge.core import events as cv
from toolbridge.core.fold import Fold
from toolbridge.core.json import Json, JsonObject, dumps
from toolbridge.core.messages import Call, Part, Result, StopReason, Text, Turn
from toolbridge.framed.contract import Contract, Told, tell_results
from toolbridge.framed.grammar import Grammar
from toolbridge.framed.pieces import Piece
from toolbridge.framed.sentinels import Kind, write_begin, write_end, write_frame

OWN_END = frozenset({"end", "tool_use", "stop_sequence"})
"""Reasons with which a model ends by itself; at any other it was interrupted."""
_FENCE = "```"
_MAX_BLANK = 1_000


class Answer:
    """Reads text through the grammar; in native mode, an answer that is JSON is the result."""

    def __init__(self, contract: Contract, used: set[str]) -> None:
        self._contract = contract
        # A copy: what is read ahead and dropped, behind a call, has used no ids.
        self._used = set(used)
        self._grammar = Grammar(contract.limits, self._used)
        self._text: list[str] = []
        self._fold = Fold()
        self._native = contract.mode == "native"
        self._looking = contract.native_result
        """Whether the first characters of a text may still show that it is the result."""
        self._held = ""
        self._result_id = ""
        self._arguments: dict[str, JsonObject] = {}
        self._results: list[Result] = []
        self.told: list[Told] = []
        self.calls: deque[Call] = deque()
        self.objects: dict[int, Grammar] = {}
        """Objects that are being written as native calls, by the index of their block."""
        self.stop: StopReason | None = None
        self.text_over = False

    def watch(self, event: cv.Event) -> None:
        """Keep what native history needs: thoughts with their signatures, and calls."""
        if self._native:
            self._fold.feed(event)

    # Text.

    def feed(self, text: str) -> list[Piece]:
        if not self._looking:
            return self._grammar.feed(text)
        self._held += text
        bare = self._held.lstrip()
        undecided = _FENCE.startswith(bare) and len(bare) < len(_FENCE)
        if undecided and len(self._held) < _MAX_BLANK:
            return []
        return self._decide(is_json=bare.startswith((*self._openers(), _FENCE)))

    def _openers(self) -> tuple[str, ...]:
        kind = self._contract.schemas.get(self._contract.result).get("type")
        return ("{",) if kind == "object" else ("{", "[")

    def _decide(self, *, is_json: bool) -> list[Piece]:
        held, self._held = self._held, ""
        self._looking = False
        if not is_json or self.calls:
            return self._grammar.feed(held)
        self._result_id = fresh_id("R", self._used)
        begin = write_begin("result", self._result_id, self._contract.result)
        return self._grammar.feed(begin + held)

    def end_text(self) -> list[Piece]:
        """Take the end of a text that the model ended by itself."""
        self.text_over = False
        pieces = self._decide(is_json=False) if self._held else []
        if self._result_id:
            pieces += self._grammar.feed(write_end("result", self._result_id))
            self._result_id = ""
        self._looking = self._contract.native_result
        return pieces

    def close(self) -> list[Piece]:
        """Take the end of the answer."""
        own_end = self.stop in OWN_END
        pieces = self.end_text() if own_end else []
        if self._held:
            pieces += self._decide(is_json=False)
        pieces += self._grammar.close()
        for grammar in self.objects.values():
            pieces += grammar.close()
        return pieces

    def expire(self) -> list[Piece]:
        pieces = self._grammar.expire()
        for grammar in self.objects.values():
            pieces += grammar.expire()
        return pieces

    @property
    def open_id(self) -> str:
        ids = [self._grammar.open_id, *(g.open_id for g in self.objects.values())]
        return next(filter(None, ids), "")

    # Objects that are written as native calls.

    def open_object(self, index: int, schema: str) -> tuple[str, list[Piece]]:
        grammar = self.objects[index] = Grammar(self._contract.limits, self._used)
        id = fresh_id("O", self._used)
        return id, grammar.feed(write_begin("object", id, schema))

    def end_object(self, index: int, id: str, call: Call) -> list[Piece]:
        """Take the end of a call; one whose JSON is broken was cut, and has no end."""
        grammar = self.objects.pop(index)
        end = "" if call.raw else write_end("object", id)
        return grammar.feed(end) + grammar.close()

    # What it adds to history.

    def say(self, text: str) -> None:
        self._text.append(text)

    def add_frame(self, kind: Kind, id: str, name: str, body: str) -> None:
        self._text.append(write_frame(kind, id, name, body))

    def tell(self, told: Told, arguments: JsonObject, call_id: str, *, failed: bool) -> None:
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
        said = "".join(self._text)
        turns = [Turn("assistant", (Text(said),))] if said.strip() else []
        if self.told:
            turns.append(Turn("user", (Text(tell_results(self.told)),)))
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


def fresh_id(letter: str, used: set[str]) -> str:
    number = 1
    while f"{letter}{number}" in used:
        number += 1
    return f"{letter}{number}"
