"""The text input of a custom tool, extracted from JSON arguments that arrive in pieces.

OpenAI Responses, custom tools: `input` is plain text and streams as text. Other APIs have only
functions, whose arguments are `{"input": "…"}`.
"""

from toolbridge.codecs.openai_responses.encode_turns import free_text
from toolbridge.core.messages import Call
from toolbridge.wire.json_stream import JsonReader


class FreeInput:
    """Pieces of `{"input": "…"}` in, pieces of the text out.

    Arguments of any other shape give nothing until the call ends.
    """

    def __init__(self) -> None:
        self._reader = JsonReader()
        self._given: list[str] = []
        self._size = 0

    def feed(self, piece: str) -> str:
        """Return the text that `piece` adds."""
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
        """True if the arguments end in the middle of valid JSON."""
        return not self._reader.complete and not self._reader.fault

    @property
    def given(self) -> str:
        """The text so far."""
        return "".join(self._given)

    def close(self, call: Call) -> str:
        """Return the rest of the text; nothing if the call has another text than was given."""
        text = free_text(call)
        return self._give(text) if text.startswith(self.given) else ""

    def _give(self, text: str) -> str:
        piece = text[self._size :]
        self._size += len(piece)
        if piece:
            self._given.append(piece)
        return piece
