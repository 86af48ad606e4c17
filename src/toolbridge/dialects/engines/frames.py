"""OpenAI Harmony: the whole answer is divided into messages with a channel and a recipient.

`<|start|>assistant to=R<|channel|>C<|message|>BODY<|end|>`: the body is reasoning (`analysis`), text
(`final`, `commentary`) or, with a recipient, the arguments of a call.
"""

import re
from dataclasses import dataclass, field

from toolbridge.dialects.engines.calls_json import stream_object
from toolbridge.dialects.engines.event_writer import EventWriter, NotACall
from toolbridge.dialects.engines.partial_marks import STOPS, until
from toolbridge.dialects.engines.speech import Ends, mentioned, speech, stops_from, thought
from toolbridge.wire.tags import Marks, Wait

_RECIPIENT = re.compile(r"\bto=\s*([^\s<]+)")
_MISPLACED = re.compile(r"<\|channel\|>\s*(functions\.[^\s<]+)")
"""A recipient in the place of the channel, which gpt-oss writes in long conversations."""
_CHANNEL = re.compile(r"<\|channel\|>\s*([a-z]+)")
_ROLE = re.compile(r"\s*(?:assistant)?\s*(?:to=\s*[^\s<]*)?\s*(?:[a-z]*)\s*")
_HEAD = re.compile(r"\s*(?:[a-z]+)?\s*(?:to=\S+)?\s*")
_WORD = re.compile(r"[a-z]*")
_FILLER = frozenset({"", "commentary", "analysis", "final", "assistant", "json"})
_HEAD_WORDS = 4
_ENDS = ("<|end|>", "<|call|>", "<|return|>")
_SELF = "assistant"
"""The recipient of messages that the model writes to itself."""


@dataclass(frozen=True)
class Harmony:
    """OpenAI Harmony: `<|start|>assistant to=R<|channel|>C<|message|>BODY<|end|>`."""

    heads: Ends = field(
        default_factory=lambda: Ends(["<|start|>", "<|channel|>", "<|message|>", *_ENDS])
    )
    body_ends: Ends = field(default_factory=lambda: Ends([*_ENDS, "<|start|>", "<|channel|>"]))

    def begun(self, prompt: str) -> str:
        """Return the header at the end of a prompt whose message is still open."""
        start = max(prompt.rfind("<|start|>"), prompt.rfind("<|end|>"), 0)
        header, message, _ = prompt[start:].partition("<|message|>")
        return header + message if "<|channel|>" in header else ""

    def __call__(self, writer: EventWriter, *, thinking: bool = False) -> Wait[None]:
        cursor = writer.cursor
        has_text = False
        if thinking:
            yield from thought(writer, self.body_ends, keep=True)
            writer.end_thought()
            yield from cursor.accept(*_ENDS)
        yield from self._stripped(writer)
        framed = thinking
        while True:
            header, mark = yield from self._before(writer, framed=framed)
            framed = True
            if not mark:
                return
            if mark in _ENDS:
                continue
            parts = [header, mark]
            while mark and mark != "<|message|>" and mark not in _ENDS:
                mark = yield from until(writer, self.heads.own, parts.append)
                parts.append(mark)
            header = "".join(parts[:-1])
            if mark == "<|message|>":
                has_text = yield from self._body(writer, header, has_text=has_text)
            elif mark or not _is_head(header.rsplit("|>", 1)[-1]):
                _write_text(writer, _HEAD.sub("", header.rsplit("|>", 1)[-1], count=1))
            else:
                return  # the stream ends in a header

    def _before(self, writer: EventWriter, *, framed: bool) -> Wait[tuple[str, str]]:
        """Write the text before a header; return the beginning of the header and its first mark."""
        cursor = writer.cursor
        while True:
            word = yield from cursor.match(_ROLE, 200)
            header = cursor.take(len(word))
            header += yield from cursor.accept("<|constrain|>")
            if header.endswith("|>"):
                header += cursor.take(len((yield from cursor.match(_WORD))))
            mark = yield from cursor.stands(*self.heads.plain.all)
            if not mark or not _opens(header):
                _write_text(writer, header, framed=framed)
                header = ""
                mark = yield from speech(writer, self.heads, keep=True)
            cursor.take(len(mark))
            if mark in STOPS and mark not in _ENDS:
                _write_text(writer, header)
                writer.text((yield from stops_from(writer, mark)))
            elif mark in _ENDS and header.strip():
                _write_text(writer, header)
                writer.text(mark if (yield from mentioned(writer)) else "")
            else:
                return header, mark

    def _stripped(self, writer: EventWriter) -> Wait[None]:
        """Read an answer whose control tokens the server removed: `analysis … assistantfinal …`."""
        cursor = writer.cursor
        if not writer.thoughts or not (yield from cursor.accept("analysis ")):
            return
        yield from cursor.until(Marks(["assistantfinal", "<|"]), writer.think, keep=True)
        yield from cursor.accept("assistantfinal")
        writer.end_thought()
        yield from speech(writer, self.heads, keep=True)

    def _body(self, writer: EventWriter, header: str, *, has_text: bool) -> Wait[bool]:
        cursor = writer.cursor
        writer.tail = ""
        channels = _CHANNEL.findall(header)
        channel = channels[-1] if channels else "final"
        recipient = _MISPLACED.search(header) or _RECIPIENT.search(header)
        to = recipient.group(1) if recipient else ""
        if to and to != _SELF and (yield from self._call(writer, to)):
            yield from cursor.until(self.body_ends.own, lambda _: None, keep=True)
            yield from cursor.accept(*_ENDS)
            return False
        if writer.thoughts and (channel == "analysis" or (to == _SELF and channel != "final")):
            yield from thought(writer, self.body_ends, keep=True)
            writer.end_thought()
        else:
            writer.text("\n" if has_text else "")
            yield from speech(writer, self.body_ends, keep=True)
            has_text = True
        yield from cursor.accept(*_ENDS)
        writer.tail = ""
        return has_text

    def _call(self, writer: EventWriter, to: str) -> Wait[bool]:
        """Read the body as the arguments of a call; return False if `to` is no declared tool."""
        cursor = writer.cursor
        if not writer.tools.offered:
            return False
        try:
            name = writer.resolve(to.removeprefix("functions."))
        except NotACall:
            return False
        yield from cursor.skip()
        writer.call(name)
        here = yield from cursor.peek()
        if here == "{":
            yield from stream_object(writer, self.body_ends.own)
        elif not here:
            writer.cut_call()
        else:  # a tool with one text as input, such as code
            yield from cursor.until(self.body_ends.own, writer.arguments, keep=True)
            writer.end_call()
        return True


def _write_text(writer: EventWriter, text: str, *, framed: bool = True) -> None:
    """Write text between messages; `assistant`, `final` and their like are parts of a header."""
    if not framed or text.strip() not in _FILLER:
        writer.text(text)


def _opens(text: str) -> bool:
    """Whether `text` may begin a header, before its first mark: the prompt may have opened it."""
    words = text.replace("<|constrain|>", " ").split()
    return all(word in _FILLER or word.startswith("to=") for word in words)


def _is_head(text: str) -> bool:
    """Whether `text` may be part of a header: a role, a recipient, a channel or a type."""
    words = text.replace("<|constrain|>", " ").split()
    return len(words) <= _HEAD_WORDS and "<|" not in " ".join(words)
