"""Messages that name their recipient: Muse (`Recipients`) and Functionary 3.2 (`Recipes`).

The body of a message is reasoning, text or a call, depending on the recipient.
"""

import re
from dataclasses import dataclass, field

from toolbridge.dialects.engines.calls_json import stream_object
from toolbridge.dialects.engines.event_writer import EventWriter, escaped
from toolbridge.dialects.engines.mark_reader import CallReader, attempt
from toolbridge.dialects.engines.partial_marks import drop_half, is_half, value_until
from toolbridge.dialects.engines.speech import Ends, mentioned, speech, thought
from toolbridge.wire.tags import Marks, Wait

_RECIPIENT = re.compile(r"\bto=\s*([^\s<]+)")
_ROLE = re.compile(r"\s*(?:assistant)?\s*(?:to=\s*[^\s<]*)?\s*(?:[a-z]*)\s*")
_NAME = re.compile(r"[\w.:-]*")
_CODE_ENDS = Marks([">>>", "<|eot_id|>", "<|eom_id|>"])
_PEOPLE = frozenset({"self", "user"})


@dataclass(frozen=True)
class Recipients:
    """Messages with one recipient each: ` to=R<|message|>BODY<|eom|>`."""

    calls: CallReader
    openers: tuple[str, ...]
    """The marks at the beginning of a body with calls."""
    ends: tuple[str, ...] = ("<|eom|>", "<|eot|>")
    start: str = "<|start|>"
    message: str = "<|message|>"
    body_ends: Ends = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "body_ends", Ends([*self.ends, self.start]))

    def begun(self, prompt: str) -> str:
        """Return the header at the end of a prompt whose message is still open."""
        header, message, body = prompt[max(prompt.rfind(self.start), 0) :].partition(self.message)
        return header + message if message and not any(end in body for end in self.ends) else ""

    def __call__(self, writer: EventWriter, *, thinking: bool = False) -> Wait[None]:
        cursor = writer.cursor
        if thinking:
            yield from self._body(writer, is_thought=True)
            yield from cursor.accept(*self.ends)
        while (yield from cursor.peek()):
            head = yield from self._header(writer)
            writer.tail = ""
            recipient = _RECIPIENT.search(head)
            to = recipient.group(1) if recipient else ""
            if to in _PEOPLE:
                yield from self._body(writer, is_thought=to == "self")
            elif to and not writer.tools.offered:
                writer.text(head)
                yield from self._body(writer)
                writer.text((yield from cursor.accept(*self.ends)))
            else:
                yield from self._speech(writer, openers=self.openers if to else self.openers[:1])
            yield from cursor.accept(*self.ends)
            writer.tail = ""

    def _body(self, writer: EventWriter, *, is_thought: bool = False) -> Wait[None]:
        """Write a body up to the mark that ends it; `<|start|>` without a header is text."""
        thinks = is_thought and writer.thoughts
        read, write = (thought, writer.think) if thinks else (speech, writer.text)
        while (yield from read(writer, self.body_ends, keep=True)) == self.start:
            if (yield from self._opens(writer)):
                break
            write(writer.cursor.take(len(self.start)))
        if thinks:
            writer.end_thought()

    def _opens(self, writer: EventWriter) -> Wait[bool]:
        """Whether the header of a message begins here (Ollama's parser `glimmer` asks the same)."""
        cursor = writer.cursor
        position = cursor.remember()
        cursor.take(len(self.start))
        role = yield from cursor.match(_ROLE, 200)
        cursor.take(len(role))
        whole = yield from cursor.accept(self.message)
        found = not (yield from mentioned(writer)) if whole else is_half(cursor, [self.message])
        cursor.rewind(position)
        cursor.forget()
        recipient = _RECIPIENT.search(role)
        return found and (recipient is None or self._is_known(writer, recipient.group(1)))

    def _is_known(self, writer: EventWriter, to: str) -> bool:
        return to in _PEOPLE or not writer.tools.offered or writer.tools.resolve(to) is not None

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

    def _speech(self, writer: EventWriter, *, openers: tuple[str, ...]) -> Wait[None]:
        """Read a body that may contain calls."""
        cursor = writer.cursor
        while (yield from cursor.follows(*openers, at_end=False)):
            yield from cursor.skip()
            opener = yield from cursor.accept(*openers)
            if not (yield from attempt(writer, (self.calls,), opener)):
                writer.text(opener)
                break
        if writer.behind_call:
            drop_half(cursor, openers)
        yield from self._body(writer)


@dataclass(frozen=True)
class Recipes:
    """Messages that begin with `>>>` and a recipient; the prompt ends with the first `>>>`."""

    mark: str = ">>>"
    everyone: str = "all"
    code: str = "python"
    """The tool whose input may be code instead of JSON (ggml-org/llama.cpp, functionary v3.2)."""
    ends: Ends = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "ends", Ends([self.mark]))

    def __call__(self, writer: EventWriter, *, thinking: bool = False) -> Wait[None]:
        del thinking  # these models have no reasoning
        cursor = writer.cursor
        mark = yield from cursor.accept(self.mark)
        while True:
            to_all = yield from cursor.accept(self.everyone + "\n")
            if not to_all and not (yield from self._message(writer)):
                writer.text(mark)
            mark = yield from speech(writer, self.ends)
            if not mark:
                return

    def _message(self, writer: EventWriter) -> Wait[bool]:
        """Read a call; return False if no call begins here."""
        cursor = writer.cursor
        position = cursor.remember()
        yield from cursor.skip(" \t")
        written = yield from cursor.match(_NAME, 128)
        cursor.take(len(written))
        yield from cursor.skip(" \t")
        newline = yield from cursor.accept("\n", "\r\n")
        name = writer.tools.resolve(written) if written and writer.tools.offered else None
        if name and newline and (yield from self._input(writer, name)):
            return True
        cut = writer.ran_out
        writer.back(position)
        cursor.forget()
        return cut

    def _input(self, writer: EventWriter, name: str) -> Wait[bool]:
        """Read the input of a call: JSON, code or nothing; return False for anything else."""
        cursor = writer.cursor
        if (yield from cursor.follows("{", at_end=False)):
            yield from cursor.skip()
            writer.call(name)
            yield from stream_object(writer, self.ends.own)
            return True
        if not writer.tools.known:
            return False
        if (yield from cursor.follows(self.mark)):
            yield from cursor.skip()
            writer.call(name)
            if cursor.ended and not cursor.text[cursor.at :]:
                writer.end_or_cut()
            else:
                writer.end_call()
            return True
        if name != self.code:
            return False
        yield from self._code(writer, name)
        return True

    def _code(self, writer: EventWriter, name: str) -> Wait[None]:
        """Read code up to the next message as the only argument of `name`."""
        cursor = writer.cursor
        writer.call(name)
        writer.arguments('{"code": "')
        mark = yield from value_until(
            cursor, _CODE_ENDS, lambda code: writer.arguments(escaped(code))
        )
        if not mark and writer.cut_short:
            writer.cut_call()
            return
        writer.arguments('"}')
        writer.end_call()
