"""One block of an answer as the events of one item."""

from typing import Protocol, TypeAlias

from toolbridge.codecs.openai_responses.builtins import Builtin
from toolbridge.codecs.openai_responses.envelope import (
    ToolNames,
    call_item,
    citations,
    free_call_item,
    hidden_id,
    is_own,
    maybe_builtin_item,
    message_item,
    picture_item,
    refusal_item,
    seal_of,
    spoken_item,
    text_part,
    thought_item,
)
from toolbridge.codecs.openai_responses.free_input import FreeInput
from toolbridge.codecs.openai_responses.marks import own_id
from toolbridge.core import events as ev
from toolbridge.core.json import Json, JsonObject, dump_bytes, dumps
from toolbridge.core.messages import Call, Image, StopDetails, Text, Thinking
from toolbridge.wire.sse import write_frame

BlockEvent: TypeAlias = (
    ev.TextStart
    | ev.TextDelta
    | ev.TextEnd
    | ev.ThinkingStart
    | ev.ThinkingDelta
    | ev.ThinkingEnd
    | ev.CallStart
    | ev.CallDelta
    | ev.CallEnd
    | ev.PartAdded
)

# Most of a stream is deltas: constant bytes around two numbers and two strings.
_DELTA = (
    b"event: %(type)b\n"
    b'data: {"type":"%(type)b","sequence_number":%%d,"item_id":%%b,"output_index":%%d,'
    b'%(place)b"delta":%%b%(rest)b}\n\n'
)


def _delta(type: bytes, place: bytes = b"", rest: bytes = b"") -> bytes:
    return _DELTA % {b"type": type, b"place": place, b"rest": rest}


_TEXT = _delta(b"response.output_text.delta", b'"content_index":0,', b',"logprobs":[]')
_SUMMARY = _delta(b"response.reasoning_summary_text.delta", b'"summary_index":0,')
_ARGUMENTS = _delta(b"response.function_call_arguments.delta")
_INPUT = _delta(b"response.custom_tool_call_input.delta")


class EventNumbers:
    """Numbers events and items, and keeps the finished ones."""

    def __init__(self) -> None:
        self.stem = ""
        self.output: list[Json] = []
        self.logprobs: list[Json] = []
        """Of the tokens of the text that is open."""
        self.next_number = 0

    def frame(self, type: str, fields: JsonObject) -> bytes:
        numbered: JsonObject = {"type": type, "sequence_number": self._next()}
        return write_frame(dump_bytes(numbered | fields), type.encode())

    def delta(self, template: bytes, id: str, piece: str) -> bytes:
        number, place = self.next_number, len(self.output)
        self.next_number += 1
        return template % (number, dump_bytes(id), place, dump_bytes(piece))

    def own_id(self, prefix: str) -> str:
        return own_id(prefix, self.stem, len(self.output))

    def begin(self, item: JsonObject) -> bytes:
        fields: JsonObject = {"output_index": len(self.output), "item": item}
        return self.frame("response.output_item.added", fields)

    def inside(self, id: str, type: str, fields: JsonObject) -> bytes:
        """Return an event of the item that is being written."""
        named: JsonObject = {"item_id": id, "output_index": len(self.output)}
        return self.frame(type, named | fields)

    def finish(self, item: JsonObject) -> bytes:
        fields: JsonObject = {"output_index": len(self.output), "item": item}
        done = self.frame("response.output_item.done", fields)
        self.output.append(item)
        return done

    def _next(self) -> int:
        self.next_number += 1
        return self.next_number - 1


class BlockWriter(Protocol):
    def write(self, event: BlockEvent, /) -> list[bytes]: ...


def open_block(event: BlockEvent, tape: EventNumbers, names: ToolNames) -> BlockWriter:
    """Return the writer of the block that `event` begins."""
    match event:
        case ev.TextStart():
            return _Speech(tape)
        case ev.ThinkingStart():
            return _Thought(tape)
        case ev.CallStart(_, id, name):
            builtin = names.maybe_builtin(name)
            if builtin is not None:
                return _BuiltinCall(tape, names, builtin)
            return (_FreeCall if names.is_free(name) else _Call)(tape, names, Call(id, name))
        case _:
            return _Part(tape)


class _Part:
    """A block that came whole; what only another API understands is not written."""

    def __init__(self, tape: EventNumbers) -> None:
        self._tape = tape

    def write(self, event: BlockEvent, /) -> list[bytes]:
        if isinstance(event, ev.PartAdded) and is_own(event.part):
            raw = event.part.raw
            return [self._tape.begin(raw), self._tape.finish(raw)]
        if isinstance(event, ev.PartAdded) and isinstance(event.part, Image):
            return self._show(event.part)
        return []

    def _show(self, image: Image) -> list[bytes]:
        item = picture_item(self._tape.own_id("ig"), image)
        if item is None:
            return []
        id = str(item["id"])
        begun = item | {"status": "in_progress", "result": None}
        steps = ("in_progress", "generating", "completed")
        return [
            self._tape.begin(begun),
            *(self._tape.inside(id, f"response.{begun['type']}.{step}", {}) for step in steps),
            self._tape.finish(item),
        ]


class _Speech:
    def __init__(self, tape: EventNumbers) -> None:
        self._tape = tape
        self._id = tape.own_id("msg")

    def write(self, event: BlockEvent, /) -> list[bytes]:
        match event:
            case ev.TextDelta(_, piece):
                return [self._tape.delta(_TEXT, self._id, piece)]
            case ev.TextStart():
                return [
                    self._tape.begin(message_item(self._id, "in_progress", [])),
                    self._inside("content_part.added", {"part": text_part(Text(""))}),
                ]
            case ev.TextEnd(_, part):
                cited = [
                    self._inside(
                        "output_text.annotation.added", {"annotation_index": i, "annotation": one}
                    )
                    for i, one in enumerate(citations(part))
                ]
                likely, self._tape.logprobs = self._tape.logprobs, []
                return [
                    *cited,
                    self._inside("output_text.done", {"text": part.text, "logprobs": likely}),
                    self._inside("content_part.done", {"part": text_part(part, likely)}),
                    self._tape.finish(spoken_item(self._id, part, likely)),
                ]
            case _:
                return []

    def _inside(self, type: str, fields: JsonObject) -> bytes:
        place: JsonObject = {"content_index": 0}
        return self._tape.inside(self._id, f"response.{type}", place | fields)


def write_refusal(tape: EventNumbers, details: StopDetails) -> list[bytes]:
    """Return the events of an item that says why a provider refused."""
    id, text = tape.own_id("msg"), details.explanation
    place: JsonObject = {"content_index": 0}

    def inside(type: str, fields: JsonObject) -> bytes:
        return tape.inside(id, f"response.{type}", place | fields)

    return [
        tape.begin(message_item(id, "in_progress", [])),
        inside("content_part.added", {"part": {"type": "refusal", "refusal": ""}}),
        inside("refusal.delta", {"delta": text}),
        inside("refusal.done", {"refusal": text}),
        inside("content_part.done", {"part": {"type": "refusal", "refusal": text}}),
        tape.finish(refusal_item(id, details)),
    ]


class _Thought:
    def __init__(self, tape: EventNumbers) -> None:
        self._tape = tape
        self._id = tape.own_id("rs")
        self._opened = False

    def write(self, event: BlockEvent, /) -> list[bytes]:
        match event:
            case ev.ThinkingDelta(_, piece):
                return [*self._open(), self._tape.delta(_SUMMARY, self._id, piece)]
            case ev.ThinkingEnd(_, thought):
                return self._end(thought)
            case _:
                return []  # It may turn out to be hidden, or to be nothing at all.

    def _open(self) -> list[bytes]:
        if self._opened:
            return []
        self._opened = True
        part: JsonObject = {"part": {"type": "summary_text", "text": ""}}
        return [
            self._tape.begin(thought_item(self._id, "", None)),
            self._inside("part.added", part),
        ]

    def _end(self, thought: Thinking) -> list[bytes]:
        sealed = seal_of(thought)
        if not self._opened:
            if sealed is None:
                return []
            item = thought_item(hidden_id(thought, self._id), "", sealed)
            return [self._tape.begin(item), self._tape.finish(item)]
        return [
            self._inside("text.done", {"text": thought.text}),
            self._inside("part.done", {"part": {"type": "summary_text", "text": thought.text}}),
            self._tape.finish(thought_item(self._id, thought.text, sealed)),
        ]

    def _inside(self, type: str, fields: JsonObject) -> bytes:
        place: JsonObject = {"summary_index": 0}
        return self._tape.inside(self._id, f"response.reasoning_summary_{type}", place | fields)


class _Call:
    def __init__(self, tape: EventNumbers, names: ToolNames, call: Call) -> None:
        self._tape = tape
        self._names = names
        self._call = call
        self._id = tape.own_id("fc")
        self._pieces: list[str] = []

    def write(self, event: BlockEvent, /) -> list[bytes]:
        match event:
            case ev.CallDelta(_, piece):
                self._pieces.append(piece)
                return [self._tape.delta(_ARGUMENTS, self._id, piece)]
            case ev.CallStart():
                item = call_item(self._id, self._call, self._names, "")
                return [self._tape.begin(item | {"status": "in_progress"})]
            case ev.CallEnd(_, call):
                return self._end(call)
            case _:
                return []

    def _end(self, call: Call) -> list[bytes]:
        written: list[bytes] = []
        arguments = "".join(self._pieces)
        if not arguments.strip():  # a call without arguments often comes as nothing at all
            missing = dumps(call.arguments)
            written.append(self._tape.delta(_ARGUMENTS, self._id, missing))
            arguments += missing
        named: JsonObject = {"name": self._names.fields(call.name)["name"]}
        done = named | {"arguments": arguments}
        return [
            *written,
            self._tape.inside(self._id, "response.function_call_arguments.done", done),
            self._tape.finish(call_item(self._id, call, self._names, arguments)),
        ]


class _FreeCall:
    """A call of a tool that takes free text: the text alone is given, without its JSON."""

    def __init__(self, tape: EventNumbers, names: ToolNames, call: Call) -> None:
        self._tape = tape
        self._names = names
        self._call = call
        self._id = tape.own_id("ctc")
        self._input = FreeInput()

    def write(self, event: BlockEvent, /) -> list[bytes]:
        match event:
            case ev.CallDelta(_, piece):
                return self._give(self._input.feed(piece))
            case ev.CallStart():
                item = free_call_item(self._id, self._call, self._names, "")
                return [self._tape.begin(item | {"status": "in_progress"})]
            case ev.CallEnd(_, call):
                return self._end(call)
            case _:
                return []

    def _give(self, text: str) -> list[bytes]:
        return [self._tape.delta(_INPUT, self._id, text)] if text else []

    def _end(self, call: Call) -> list[bytes]:
        if call.raw and self._input.cut:
            # Clients run a call as soon as its item is done, and half a text looks like a whole.
            item = free_call_item(self._id, call, self._names, self._input.given)
            self._tape.output.append(item | {"status": "incomplete"})
            return []
        rest = self._give(self._input.close(call))
        item = free_call_item(self._id, call, self._names, self._input.given)
        done: JsonObject = {"input": self._input.given}
        return [
            *rest,
            self._tape.inside(self._id, "response.custom_tool_call_input.done", done),
            self._tape.finish(item),
        ]


class _BuiltinCall:
    """A call of a tool that the client knows by its type: told when it is whole.

    Clients run the item as it is, so one that asks for nothing such a tool could do is told as a
    call of a function. The client answers that with an error, which the model reads.
    """

    def __init__(self, tape: EventNumbers, names: ToolNames, builtin: Builtin) -> None:
        self._tape = tape
        self._names = names
        self._builtin = builtin
        self._held: list[BlockEvent] = []

    def write(self, event: BlockEvent, /) -> list[bytes]:
        self._held.append(event)
        return self._end(event.call) if isinstance(event, ev.CallEnd) else []

    def _end(self, call: Call) -> list[bytes]:
        item = maybe_builtin_item(self._tape.own_id(self._builtin.prefix), call, self._builtin)
        if item is None:
            plain = _Call(self._tape, self._names, Call(call.id, call.name))
            return [written for event in self._held for written in plain.write(event)]
        begun = item | {"status": "in_progress"}
        commands = _commands(item)
        if commands:
            begun["action"] = {"commands": []}
        written = [self._tape.begin(begun)]
        for number, command in enumerate(commands):
            written += [
                self._command("added", number, {"command": ""}),
                self._command("delta", number, {"delta": command}),
                self._command("done", number, {"command": command}),
            ]
        return [*written, self._tape.finish(item)]

    def _command(self, step: str, number: int, fields: JsonObject) -> bytes:
        place: JsonObject = {"output_index": len(self._tape.output), "command_index": number}
        return self._tape.frame(f"response.shell_call_command.{step}", place | fields)


def _commands(item: JsonObject) -> list[Json]:
    """Return the commands of a shell, which are told one after the other; of others, none."""
    action = item.get("action")
    commands = action.get("commands") if isinstance(action, dict) else None
    return commands if isinstance(commands, list) else []
