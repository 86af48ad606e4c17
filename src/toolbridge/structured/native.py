"""Reads the text of an answer in native mode: JSON is the result, everything else is text.

Native mode has no sentinels: anything like a sentinel is text. Tools and objects are calls of the
API, and the result is the JSON that the request's schema demands.
"""

from collections.abc import Sized

from toolbridge.structured.body import FrameBody
from toolbridge.structured.contract import Contract
from toolbridge.structured.pieces import Piece, PlainText, join_pieces

_FENCE = "```"
_MAX_BLANK = 1_000


class NativeText:
    """A stage from text to pieces. While `calls` are not run yet, JSON is not the result."""

    def __init__(self, contract: Contract, used: set[str], calls: Sized) -> None:
        self._contract = contract
        self._used = used
        self._calls = calls
        self._held: str | None = ""
        """The first characters, until they show whether they are JSON or text."""
        self._result: FrameBody | None = None

    @property
    def open_id(self) -> str:
        result = self._result
        return result.id if result is not None and not result.muted else ""

    def feed(self, text: str, /) -> list[Piece]:
        if self._held is None:
            return self._write(text)
        self._held += text
        bare = self._held.lstrip()
        undecided = _FENCE.startswith(bare) and len(bare) < len(_FENCE)
        if undecided and len(self._held) < _MAX_BLANK:
            return []
        return self._decide(is_json=bare.startswith((*self._openers(), _FENCE)))

    def end_text(self) -> list[Piece]:
        """Close a text block that the model completed."""
        pieces = self._decide(is_json=False)
        if self._result is not None:
            pieces += self._result.finish(ended=True)
        self._held, self._result = "", None
        return join_pieces(pieces)

    def close(self) -> list[Piece]:
        """Close the answer; a result that is still open was cut off."""
        pieces = self._decide(is_json=False)
        if self._result is not None:
            pieces += self._result.finish(ended=False)
            self._result = None
        return join_pieces(pieces)

    def expire(self) -> list[Piece]:
        return [] if self._result is None else self._result.expire()

    def _openers(self) -> tuple[str, ...]:
        kind = self._contract.schemas.get(self._contract.result).get("type")
        return ("{",) if kind == "object" else ("{", "[")

    def _decide(self, *, is_json: bool) -> list[Piece]:
        held, self._held = self._held, None
        if not held:
            return []
        if not is_json or self._calls:
            return self._write(held)
        id = fresh_id("R", self._used)
        self._used.add(id)
        self._result = FrameBody("result", id, self._contract.result, self._contract.limits)
        return [self._result.opened, *self._write(held)]

    def _write(self, text: str) -> list[Piece]:
        if self._result is not None:
            return self._result.feed(text)
        return [PlainText(text)] if text else []


def fresh_id(letter: str, used: set[str], tag: str = "") -> str:
    """Return the next frame id that is not in `used`."""
    suffix = f"-{tag}" if tag else ""
    number = 1
    while f"{letter}{number}{suffix}" in used:
        number += 1
    return f"{letter}{number}{suffix}"
