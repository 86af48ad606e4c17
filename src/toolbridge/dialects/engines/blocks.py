"""Messages of one kind each (Inkling): `<|message_model|>NAME<|content_KIND|>BODY<|end_message|>`.

A mark that a text quotes is text (speech.py).
"""

import re
from dataclasses import dataclass, field

from toolbridge.dialects.engines.calls_json import CallShape
from toolbridge.dialects.engines.event_writer import EventWriter
from toolbridge.dialects.engines.mark_reader import attempt
from toolbridge.dialects.engines.partial_marks import is_half
from toolbridge.dialects.engines.speech import Ends, speech, thought
from toolbridge.dialects.engines.tag_json import JsonBody
from toolbridge.wire.tags import Marks, Wait

_WORD = re.compile(r"[ \t]*[\w.:-]*[ \t]*")


@dataclass(frozen=True)
class Blocks:
    """Reads an answer in blocks."""

    thinking: str = "<|content_thinking|>"
    text: str = "<|content_text|>"
    calls: str = "<|content_invoke_tool_json|>"
    start: str = "<|message_model|>"
    ends: tuple[str, ...] = ("<|end_message|>", "<|content_model_end_sampling|>")
    other: tuple[str, ...] = (
        "<|content_tool_error|>", "<|content_invoke_tool_text|>", "<|message_user|>",
        "<|content_audio_input|>", "<|audio_end|>",
    )  # fmt: skip
    tools: frozenset[str] = frozenset(
        {"<|content_invoke_tool_json|>", "<|content_invoke_tool_text|>"}
    )
    marks: Ends = field(init=False)

    def __post_init__(self) -> None:
        kinds = (self.thinking, self.text, self.calls, self.start)
        object.__setattr__(self, "marks", Ends([*kinds, *self.ends, *self.other]))

    def begun(self, prompt: str) -> str:
        """Return the last mark of a prompt if its message is still open."""
        found = max(self.marks.all, key=prompt.rfind)
        return found if prompt.rfind(found) >= 0 and found not in self.ends else ""

    def __call__(self, writer: EventWriter, *, thinking: bool = False) -> Wait[None]:
        cursor = writer.cursor
        reader = JsonBody(close=self.ends, shape=CallShape(ends=self.ends), only="{")
        thinks = thinking and writer.thoughts
        name = "" if thinks else (yield from self._name(writer))
        while mark := (yield from (thought if thinks else speech)(writer, self.marks)):
            if thinks:
                writer.end_thought()
            head = name
            if mark == self.start:
                name = yield from self._name(writer)
                head, mark = mark + name, (yield from cursor.accept(*self.marks.all))
            thinks = mark == self.thinking and writer.thoughts
            if mark in self.tools and not writer.tools.offered:
                writer.text(head + mark)
                writer.text((yield from cursor.until(Marks(self.ends), writer.text)))
            elif mark == self.calls and not (yield from attempt(writer, (reader,), mark)):
                writer.text(name)
            name = ""
            writer.tail = ""

    def _name(self, writer: EventWriter) -> Wait[str]:
        """Read the name of a tool before its call; write any other word as text."""
        cursor = writer.cursor
        word = yield from cursor.match(_WORD, 200)
        cursor.take(len(word))
        if (yield from cursor.stands(*self.tools)):
            return word
        if writer.behind_call and is_half(cursor, self.tools):
            return word
        writer.text(word)
        return ""
