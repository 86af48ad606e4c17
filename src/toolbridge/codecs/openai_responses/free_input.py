"""The one text inside the arguments of a tool that takes free text, as it comes."""

from toolbridge.codecs.openai_responses.encode_items import free_text
from toolbridge.core.messages import Call
from toolbridge.wire.json_stream import JsonReader


class FreeInput:
    """Reads `{"input": "…"}` in pieces and gives the text within.

    What is not such an object is held until the call ends.
    """

    def __init__(self) -> None:
        self._reader = JsonReader()
        self._given: list[str] = []
        self._size = 0

    def feed(self, piece: str) -> str:
        if self._reader.fault:
            return ""
        self._reader.feed(piece)
        value = self._reader.value
        text = value.get("input") if isinstance(value, dict) else None
        if not isinstance(text, str):
            return ""
        return self._give(text)

    @property
    def cut(self) -> bool:
        """Whether the arguments are the beginning of JSON, and no more."""
        return not self._reader.complete and not self._reader.fault

    @property
    def given(self) -> str:
        return "".join(self._given)

    def close(self, call: Call) -> str:
        """Return what is missing of the text."""
        text = free_text(call)
        return self._give(text) if text.startswith(self.given) else ""

    def _give(self, text: str) -> str:
        piece = text[self._size :]
        self._size += len(piece)
        if piece:
            self._given.append(piece)
        return piece
