"""Formats that divide the whole answer into messages with a header.

The header names the recipient, the channel or the kind of a message; its body is reasoning, text or
the arguments of a call. Used by harmony (gpt-oss), muse_atem, inkling and functionary_v32.
"""

import re
from dataclasses import dataclass, field

from toolbridge.dialects.engines.calls_json import CallShape, stream_object
from toolbridge.dialects.engines.event_writer import EventWriter, NotACall
from toolbridge.dialects.engines.mark_reader import CallReader, attempt
from toolbridge.dialects.engines.partial_marks import drop_half, is_half, until
from toolbridge.dialects.engines.tag_json import JsonBody
from toolbridge.wire.tags import Marks, Wait

_RECIPIENT = re.compile(r"\bto=([^\s<]+)")
_CHANNEL = re.compile(r"<\|channel\|>\s*([a-z]+)")
_ROLE = re.compile(r"\s*(?:assistant)?\s*(?:to=[^\s<]*)?\s*(?:[a-z]*)\s*")
_HEAD = re.compile(r"\s*(?:[a-z]+)?\s*(?:to=\S+)?\s*")
_WORD = re.compile(r"[\w.:-]*")
_FILLER = frozenset({"", "commentary", "analysis", "final", "assistant", "json"})
_HEAD_WORDS = 4
_ENDS = ("<|end|>", "<|call|>", "<|return|>")


@dataclass(frozen=True)
class Harmony:
    """OpenAI Harmony: `<|start|>assistant to=R<|channel|>C<|message|>BODY<|end|>`."""

    heads: Marks = field(
        default_factory=lambda: Marks(["<|start|>", "<|channel|>", "<|message|>", *_ENDS])
    )
    body_ends: Marks = field(default_factory=lambda: Marks([*_ENDS, "<|start|>", "<|channel|>"]))

    def __call__(self, writer: EventWriter, *, thinking: bool = False) -> Wait[None]:
        cursor = writer.cursor
        has_text = False
        if thinking:
            yield from until(writer, self.body_ends, writer.think, keep=True)
            writer.end_thought()
            yield from cursor.accept(*_ENDS)
        yield from self._stripped(writer)
        while True:
            header: list[str] = []
            yield from self._before(writer, header)
            mark = yield from until(writer, self.heads, header.append)
            if not mark:
                self._write_text(writer, "".join(header))
                return
            if mark in _ENDS or not _is_head("".join(header)):
                self._write_text(writer, "".join(header))
                header.clear()
            if mark in _ENDS:
                continue
            while mark and mark != "<|message|>" and mark not in _ENDS:
                header.append(mark)
                mark = yield from until(writer, self.heads, header.append)
            if not mark and _is_head("".join(header).rsplit("|>", 1)[-1]):
                return  # the stream ends in a header
            if mark != "<|message|>":
                self._write_text(
                    writer, _HEAD.sub("", "".join(header).rsplit("|>", 1)[-1], count=1)
                )
                continue
            has_text = yield from self._body(writer, "".join(header), has_text=has_text)

    def _before(self, writer: EventWriter, header: list[str]) -> Wait[None]:
        """Write text that cannot be a header at once; keep text that may be one in `header`."""
        cursor = writer.cursor
        word = yield from cursor.match(_ROLE, 200)
        header.append(cursor.take(len(word)))
        if (yield from cursor.peek()) not in {"<", ""}:
            self._write_text(writer, header.pop())
            yield from until(writer, self.heads, writer.text, keep=True)

    def _stripped(self, writer: EventWriter) -> Wait[None]:
        """Read an answer whose control tokens the server removed: `analysis … assistantfinal …`."""
        cursor = writer.cursor
        if not writer.thoughts or not (yield from cursor.accept("analysis ")):
            return
        yield from cursor.until(Marks(["assistantfinal", "<|"]), writer.think, keep=True)
        yield from cursor.accept("assistantfinal")
        writer.end_thought()
        yield from until(writer, self.heads, writer.text, keep=True)

    def _write_text(self, writer: EventWriter, text: str) -> None:
        if text.strip() not in _FILLER:
            writer.text(text)

    def _body(self, writer: EventWriter, header: str, *, has_text: bool) -> Wait[bool]:
        cursor = writer.cursor
        channels = _CHANNEL.findall(header)
        channel = channels[-1] if channels else "final"
        recipient = _RECIPIENT.search(header)
        to = recipient.group(1) if recipient else ""
        if to and to != "assistant" and (yield from self._call(writer, to)):
            yield from cursor.until(self.body_ends, lambda _: None, keep=True)
            yield from cursor.accept(*_ENDS)
            return False
        if channel == "analysis" and writer.thoughts:
            yield from until(writer, self.body_ends, writer.think, keep=True)
            writer.end_thought()
        else:
            writer.text("\n" if has_text else "")
            yield from until(writer, self.body_ends, writer.text, keep=True)
            has_text = True
        yield from cursor.accept(*_ENDS)
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
            yield from stream_object(writer, self.body_ends)
        elif not here:
            writer.cut_call()
        else:  # a tool with one text as input, such as code
            yield from cursor.until(self.body_ends, writer.arguments, keep=True)
            writer.end_call()
        return True


def _is_head(text: str) -> bool:
    """Whether `text` may be part of a header: a role, a recipient, a channel or a type."""
    words = text.replace("<|constrain|>", " ").split()
    return len(words) <= _HEAD_WORDS and "<|" not in " ".join(words)


@dataclass(frozen=True)
class Recipients:
    """Messages with one recipient each: ` to=R<|message|>BODY<|eom|>`."""

    calls: CallReader
    opener: str
    """The mark at the beginning of a body with calls."""
    ends: tuple[str, ...] = ("<|eom|>", "<|eot|>")
    start: str = "<|start|>"
    message: str = "<|message|>"
    body_ends: Marks = field(init=False)
    heads: Marks = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "body_ends", Marks([*self.ends, self.start]))
        object.__setattr__(self, "heads", Marks([*self.ends, self.start, self.message]))

    def __call__(self, writer: EventWriter, *, thinking: bool = False) -> Wait[None]:
        cursor = writer.cursor
        if thinking:
            yield from until(writer, self.body_ends, writer.think)
            writer.end_thought()
        while (yield from cursor.peek()):
            head = yield from self._header(writer)
            recipient = _RECIPIENT.search(head)
            to = recipient.group(1) if recipient else ""
            if to == "self" and writer.thoughts:
                yield from until(writer, self.body_ends, writer.think, keep=True)
                writer.end_thought()
            elif to in {"self", "user"}:
                yield from until(writer, self.body_ends, writer.text, keep=True)
            elif to and not writer.tools.offered:
                writer.text(head)
                yield from until(writer, self.body_ends, writer.text, keep=True)
                writer.text((yield from cursor.accept(*self.ends)))
            else:
                yield from self._speech(writer)
            yield from cursor.accept(*self.ends)

    def _header(self, writer: EventWriter) -> Wait[str]:
        """Read a header and return it; return an empty string if no header begins here."""
        cursor = writer.cursor
        position = cursor.remember()
        space = yield from cursor.skip()
        started = yield from cursor.accept(self.start)
        role = yield from cursor.match(_ROLE, 200)
        cursor.take(len(role))
        if (yield from cursor.accept(self.message)):
            cursor.forget()
            return space + started + role + self.message
        if started and is_half(cursor, [self.message]):
            cursor.take(len(self.message))  # the stream ends in a header
            cursor.forget()
            return ""
        cursor.rewind(position)
        cursor.forget()
        if started:  # a message without a header: its mark is not text
            cursor.take(len(space + started))
        return ""

    def _speech(self, writer: EventWriter) -> Wait[None]:
        """Read a body that may contain calls."""
        cursor = writer.cursor
        while (yield from cursor.follows(self.opener, at_end=False)):
            yield from cursor.skip()
            yield from cursor.accept(self.opener)
            if not (yield from attempt(writer, (self.calls,), self.opener)):
                writer.text(self.opener)
                break
        if writer.behind_call:
            drop_half(cursor, [self.opener])
        yield from until(writer, self.body_ends, writer.text, keep=True)


@dataclass(frozen=True)
class Blocks:
    """Messages of one kind each: `<|message_model|>NAME<|content_KIND|>BODY<|end_message|>`."""

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
    marks: Marks = field(init=False)

    def __post_init__(self) -> None:
        kinds = (self.thinking, self.text, self.calls, self.start)
        object.__setattr__(self, "marks", Marks([*kinds, *self.ends, *self.other]))

    def __call__(self, writer: EventWriter, *, thinking: bool = False) -> Wait[None]:
        cursor = writer.cursor
        reader = JsonBody(close=self.ends, shape=CallShape(ends=self.ends, strict=True), only="{")
        write = writer.think if thinking and writer.thoughts else writer.text
        name = yield from self._name(writer)
        while mark := (yield from until(writer, self.marks, write)):
            if write == writer.think:
                writer.end_thought()
            head = name
            if mark == self.start:
                name = yield from self._name(writer)
                head, mark = mark + name, (yield from cursor.accept(*self.marks.all))
            write = writer.think if mark == self.thinking and writer.thoughts else writer.text
            if mark in self.tools and not writer.tools.offered:
                writer.text(head + mark)
                writer.text((yield from cursor.until(Marks(self.ends), writer.text)))
            elif mark == self.calls and not (yield from attempt(writer, (reader,), mark)):
                writer.text(name)
            name = ""

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


@dataclass(frozen=True)
class Recipes:
    """Messages that begin with `>>>` and a recipient; the prompt ends with the first `>>>`."""

    mark: str = ">>>"
    everyone: str = "all"

    def __call__(self, writer: EventWriter, *, thinking: bool = False) -> Wait[None]:
        del thinking  # these models have no reasoning
        cursor = writer.cursor
        mark = yield from cursor.accept(self.mark)
        while True:
            if not (yield from self._message(writer)):
                to_all = yield from cursor.accept(self.everyone + "\n")
                writer.text("" if to_all else mark)
            mark = yield from until(writer, Marks([self.mark]), writer.text)
            if not mark:
                return

    def _message(self, writer: EventWriter) -> Wait[bool]:
        """Read a call; return False if no call begins here."""
        cursor = writer.cursor
        position = cursor.remember()
        written = yield from cursor.match(re.compile(r"[\w.:-]+"), 128)
        cursor.take(len(written))
        yield from cursor.skip(" \t")
        newline = yield from cursor.accept("\n")
        name = writer.tools.resolve(written) if written and writer.tools.offered else None
        yield from cursor.skip()
        if not name or not newline or (yield from cursor.peek()) != "{":
            cut = writer.ran_out
            writer.back(position)
            cursor.forget()
            return cut
        writer.call(name)
        yield from stream_object(writer, Marks([self.mark]))
        return True
