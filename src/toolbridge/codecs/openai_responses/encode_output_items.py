"""Blocks of an answer to the events of output items.

OpenAI Responses, streaming events: `output_item.added`, the deltas of the item, and
`output_item.done` with the complete item. `sequence_number` counts all events from 0. Codex runs a
call as soon as its item is done.
"""

from typing import Protocol

from toolbridge.codecs.openai_responses.builtins import Builtin
from toolbridge.codecs.openai_responses.free_input import FreeInput
from toolbridge.codecs.openai_responses.item_fields import own_id
from toolbridge.codecs.openai_responses.output_items import (
    ToolNames,
    call_item,
    citations,
    custom_call_item,
    hidden_id,
    image_item,
    is_own,
    maybe_builtin_item,
    message_item,
    reasoning_item,
    refusal_item,
    seal_of,
    text_item,
    text_part,
)
from toolbridge.core import events as ev
from toolbridge.core.block_order import BlockEvent
from toolbridge.core.json import Json, JsonObject, dump_bytes, dumps
from toolbridge.core.messages import Call, Image, StopDetails, Text, Thinking
from toolbridge.wire.sse import write_event

# Most events are deltas: a template avoids encoding a dict for each of them.
_DELTA = (
    b"event: %(type)b\n"
    b'data: {"type":"%(type)b","sequence_number":%%d,"item_id":%%b,"output_index":%%d,'
    b'%(index)b"delta":%%b%(rest)b}\n\n'
)


def _delta(type: bytes, index: bytes = b"", rest: bytes = b"") -> bytes:
    return _DELTA % {b"type": type, b"index": index, b"rest": rest}


# OpenAI Responses, streaming events: the SDKs require `logprobs` in text deltas, also empty.
_TEXT = _delta(b"response.output_text.delta", b'"content_index":0,', b',"logprobs":[]')
_SUMMARY = _delta(b"response.reasoning_summary_text.delta", b'"summary_index":0,')
_ARGUMENTS = _delta(b"response.function_call_arguments.delta")
_INPUT = _delta(b"response.custom_tool_call_input.delta")


class OutputLog:
    """The output so far: numbers events and items, and keeps the complete items."""

    def __init__(self) -> None:
        self.stem = ""
        self.output: list[Json] = []
        self.logprobs: list[Json] = []
        """The log probabilities of the open text's tokens."""
        self.next_number = 0

    def event(self, type: str, fields: JsonObject) -> bytes:
        """Return an event with the next sequence number."""
        numbered: JsonObject = {"type": type, "sequence_number": self._next()}
        return write_event(dump_bytes(numbered | fields), type.encode())

    def delta(self, template: bytes, id: str, piece: str) -> bytes:
        """Return a delta of the current item."""
        number, index = self.next_number, len(self.output)
        self.next_number += 1
        return template % (number, dump_bytes(id), index, dump_bytes(piece))

    def own_id(self, prefix: str) -> str:
        return own_id(prefix, self.stem, len(self.output))

    def begin(self, item: JsonObject) -> bytes:
        """Return the event that announces an item."""
        fields: JsonObject = {"output_index": len(self.output), "item": item}
        return self.event("response.output_item.added", fields)

    def inside(self, id: str, type: str, fields: JsonObject) -> bytes:
        """Return an event of the current item."""
        named: JsonObject = {"item_id": id, "output_index": len(self.output)}
        return self.event(type, named | fields)

    def finish(self, item: JsonObject) -> bytes:
        """Return the event that completes the current item; the next item follows."""
        fields: JsonObject = {"output_index": len(self.output), "item": item}
        done = self.event("response.output_item.done", fields)
        self.output.append(item)
        return done

    def _next(self) -> int:
        self.next_number += 1
        return self.next_number - 1


class BlockWriter(Protocol):
    """Writes the events of one block."""

    def write(self, event: BlockEvent, /) -> list[bytes]: ...


def open_block(event: BlockEvent, log: OutputLog, names: ToolNames) -> BlockWriter:
    """Return the writer of the block that `event` begins."""
    match event:
        case ev.TextStart():
            return _MessageItem(log)
        case ev.ThinkingStart():
            return _ReasoningItem(log)
        case ev.CallStart(_, id, name):
            builtin = names.maybe_builtin(name)
            if builtin is not None:
                return _BuiltinCallItem(log, names, builtin)
            return (_CustomCallItem if names.is_custom(name) else _CallItem)(
                log, names, Call(id, name)
            )
        case _:
            return _PartItem(log)


class _PartItem:
    """A part that arrives whole: an item of this API, or an image; others are not written."""

    def __init__(self, log: OutputLog) -> None:
        self._log = log

    def write(self, event: BlockEvent, /) -> list[bytes]:
        if isinstance(event, ev.PartAdded) and is_own(event.part):
            raw = event.part.raw
            return [self._log.begin(raw), self._log.finish(raw)]
        if isinstance(event, ev.PartAdded) and isinstance(event.part, Image):
            return self._image(event.part)
        return []

    def _image(self, image: Image) -> list[bytes]:
        item = image_item(self._log.own_id("ig"), image)
        if item is None:
            return []
        id = str(item["id"])
        begun = item | {"status": "in_progress", "result": None}
        # OpenAI Responses, image generation: three progress events come before the item is done.
        steps = ("in_progress", "generating", "completed")
        return [
            self._log.begin(begun),
            *(self._log.inside(id, f"response.{begun['type']}.{step}", {}) for step in steps),
            self._log.finish(item),
        ]


class _MessageItem:
    def __init__(self, log: OutputLog) -> None:
        self._log = log
        self._id = log.own_id("msg")

    def write(self, event: BlockEvent, /) -> list[bytes]:
        match event:
            case ev.TextDelta(_, piece):
                return [self._log.delta(_TEXT, self._id, piece)]
            case ev.TextStart():
                return [
                    self._log.begin(message_item(self._id, "in_progress", [])),
                    self._inside("content_part.added", {"part": text_part(Text(""))}),
                ]
            case ev.TextEnd(_, part):
                cited = [
                    self._inside(
                        "output_text.annotation.added", {"annotation_index": i, "annotation": one}
                    )
                    for i, one in enumerate(citations(part))
                ]
                logprobs, self._log.logprobs = self._log.logprobs, []
                return [
                    *cited,
                    self._inside("output_text.done", {"text": part.text, "logprobs": logprobs}),
                    self._inside("content_part.done", {"part": text_part(part, logprobs)}),
                    self._log.finish(text_item(self._id, part, logprobs)),
                ]
            case _:
                return []

    def _inside(self, type: str, fields: JsonObject) -> bytes:
        index: JsonObject = {"content_index": 0}
        return self._log.inside(self._id, f"response.{type}", index | fields)


def write_refusal(log: OutputLog, details: StopDetails) -> list[bytes]:
    """Return the events of a message with the provider's explanation of a refusal."""
    id, text = log.own_id("msg"), details.explanation
    index: JsonObject = {"content_index": 0}

    def inside(type: str, fields: JsonObject) -> bytes:
        return log.inside(id, f"response.{type}", index | fields)

    return [
        log.begin(message_item(id, "in_progress", [])),
        inside("content_part.added", {"part": {"type": "refusal", "refusal": ""}}),
        inside("refusal.delta", {"delta": text}),
        inside("refusal.done", {"refusal": text}),
        inside("content_part.done", {"part": {"type": "refusal", "refusal": text}}),
        log.finish(refusal_item(id, details)),
    ]


class _ReasoningItem:
    def __init__(self, log: OutputLog) -> None:
        self._log = log
        self._id = log.own_id("rs")
        self._opened = False

    def write(self, event: BlockEvent, /) -> list[bytes]:
        match event:
            case ev.ThinkingDelta(_, piece):
                return [*self._open(), self._log.delta(_SUMMARY, self._id, piece)]
            case ev.ThinkingEnd(_, thought):
                return self._end(thought)
            case _:
                return []  # a thought without text is written only if it is encrypted

    def _open(self) -> list[bytes]:
        if self._opened:
            return []
        self._opened = True
        part: JsonObject = {"part": {"type": "summary_text", "text": ""}}
        return [
            self._log.begin(reasoning_item(self._id, "", None)),
            self._inside("part.added", part),
        ]

    def _end(self, thought: Thinking) -> list[bytes]:
        sealed = seal_of(thought)
        if not self._opened:
            if sealed is None:
                return []
            item = reasoning_item(hidden_id(thought, self._id), "", sealed)
            return [self._log.begin(item), self._log.finish(item)]
        return [
            self._inside("text.done", {"text": thought.text}),
            self._inside("part.done", {"part": {"type": "summary_text", "text": thought.text}}),
            self._log.finish(reasoning_item(self._id, thought.text, sealed)),
        ]

    def _inside(self, type: str, fields: JsonObject) -> bytes:
        index: JsonObject = {"summary_index": 0}
        return self._log.inside(self._id, f"response.reasoning_summary_{type}", index | fields)


class _CallItem:
    def __init__(self, log: OutputLog, names: ToolNames, call: Call) -> None:
        self._log = log
        self._names = names
        self._call = call
        self._id = log.own_id("fc")
        self._pieces: list[str] = []

    def write(self, event: BlockEvent, /) -> list[bytes]:
        match event:
            case ev.CallDelta(_, piece):
                self._pieces.append(piece)
                return [self._log.delta(_ARGUMENTS, self._id, piece)]
            case ev.CallStart():
                item = call_item(self._id, self._call, self._names, "")
                return [self._log.begin(item | {"status": "in_progress"})]
            case ev.CallEnd(_, call):
                return self._end(call)
            case _:
                return []

    def _end(self, call: Call) -> list[bytes]:
        written: list[bytes] = []
        arguments = "".join(self._pieces)
        if not arguments.strip():  # a call without arguments may have no delta; clients need `{}`
            missing = dumps(call.arguments)
            written.append(self._log.delta(_ARGUMENTS, self._id, missing))
            arguments += missing
        named: JsonObject = {"name": self._names.fields(call.name)["name"]}
        # OpenAI Responses, streaming events: `.done` repeats the complete arguments.
        done = named | {"arguments": arguments}
        return [
            *written,
            self._log.inside(self._id, "response.function_call_arguments.done", done),
            self._log.finish(call_item(self._id, call, self._names, arguments)),
        ]


class _CustomCallItem:
    """A custom tool call: its input is written as text, without the JSON around it."""

    def __init__(self, log: OutputLog, names: ToolNames, call: Call) -> None:
        self._log = log
        self._names = names
        self._call = call
        self._id = log.own_id("ctc")
        self._input = FreeInput()

    def write(self, event: BlockEvent, /) -> list[bytes]:
        match event:
            case ev.CallDelta(_, piece):
                return self._deltas(self._input.feed(piece))
            case ev.CallStart():
                item = custom_call_item(self._id, self._call, self._names, "")
                return [self._log.begin(item | {"status": "in_progress"})]
            case ev.CallEnd(_, call):
                return self._end(call)
            case _:
                return []

    def _deltas(self, text: str) -> list[bytes]:
        return [self._log.delta(_INPUT, self._id, text)] if text else []

    def _end(self, call: Call) -> list[bytes]:
        if call.raw and self._input.cut:
            # Codex runs a call as soon as its item is done, and cannot see that a text is cut.
            item = custom_call_item(self._id, call, self._names, self._input.given)
            self._log.output.append(item | {"status": "incomplete"})
            return []
        rest = self._deltas(self._input.close(call))
        item = custom_call_item(self._id, call, self._names, self._input.given)
        done: JsonObject = {"input": self._input.given}
        return [
            *rest,
            self._log.inside(self._id, "response.custom_tool_call_input.done", done),
            self._log.finish(item),
        ]


class _BuiltinCallItem:
    """A call of a built-in tool, written when its arguments are complete.

    Arguments that do not fit the tool are written as a function call: the client rejects it with an
    error, which the model reads.
    """

    def __init__(self, log: OutputLog, names: ToolNames, builtin: Builtin) -> None:
        self._log = log
        self._names = names
        self._builtin = builtin
        self._held: list[BlockEvent] = []

    def write(self, event: BlockEvent, /) -> list[bytes]:
        self._held.append(event)
        return self._end(event.call) if isinstance(event, ev.CallEnd) else []

    def _end(self, call: Call) -> list[bytes]:
        item = maybe_builtin_item(self._log.own_id(self._builtin.prefix), call, self._builtin)
        if item is None:
            plain = _CallItem(self._log, self._names, Call(call.id, call.name))
            return [written for event in self._held for written in plain.write(event)]
        # OpenAI Responses, shell: the commands of a call stream one after the other.
        begun = item | {"status": "in_progress"}
        commands = _commands(item)
        if commands:
            begun["action"] = {"commands": []}
        written = [self._log.begin(begun)]
        for number, command in enumerate(commands):
            written += [
                self._command("added", number, {"command": ""}),
                self._command("delta", number, {"delta": command}),
                self._command("done", number, {"command": command}),
            ]
        return [*written, self._log.finish(item)]

    def _command(self, step: str, number: int, fields: JsonObject) -> bytes:
        index: JsonObject = {"output_index": len(self._log.output), "command_index": number}
        return self._log.event(f"response.shell_call_command.{step}", index | fields)


def _commands(item: JsonObject) -> list[Json]:
    """Return the commands of a shell call; empty for other tools."""
    action = item.get("action")
    commands = action.get("commands") if isinstance(action, dict) else None
    return commands if isinstance(commands, list) else []
