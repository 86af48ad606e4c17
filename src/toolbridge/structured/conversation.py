"""The loop of a structured stream as a value machine: model events in, events for the client out.

    while (request := conversation.request()) is not None:
        for event in ask(request):
            deliver(conversation.feed(event))
            while (want := conversation.wants) is not None:
                deliver(fulfil(want))       # .tool_done, .tool_failed or .repaired
            if not conversation.listening:
                break                       # drop the rest of this answer
        else:
            deliver(conversation.close())
            while (want := conversation.wants) is not None:
                deliver(fulfil(want))

A frame is healed first, then the model is asked for it once more, alone, and then it is degraded to
the smallest value that fits: it never restarts the stream. Arguments that were cut off are never
completed by closing their brackets.
"""

from collections import deque
from collections.abc import Sequence
from typing import TypeAlias

from toolbridge.core import events as cv
from toolbridge.core.json import Json, JsonObject, dumps
from toolbridge.core.messages import Call, Request, Turn
from toolbridge.structured import pieces as pc
from toolbridge.structured.answer import AnswerReader
from toolbridge.structured.contract import WRITE, Contract, ToolReply
from toolbridge.structured.decisions import code_of, explain, reasons, too_large
from toolbridge.structured.effects import AskRepair, Effect, Out, RunTool
from toolbridge.structured.events import RunDone, RunError, RunTextDelta, RunToolCall, ToolResult
from toolbridge.structured.flaws import Flaw
from toolbridge.structured.frame import Frame, SettledValue
from toolbridge.structured.native import fresh_id
from toolbridge.structured.open_frames import FAILED, OpenFrames, own_members
from toolbridge.structured.read_value import read_repair, whole_numbers
from toolbridge.structured.results import failure, presentable

__all__ = ["AskRepair", "Effect", "Out", "RunTool", "StructuredConversation"]

_CallEvent: TypeAlias = cv.CallStart | cv.CallDelta | cv.CallEnd | cv.Healed
_Item: TypeAlias = pc.Piece | _CallEvent | cv.Failed | None
"""What waits to be taken; None is the end of the answer."""
_NOT_READ = Flaw(".", "was not read to its end")


class StructuredConversation:
    """One stream, from the question to `RunDone`."""

    def __init__(self, contract: Contract) -> None:
        self._contract = contract
        self._open_frames = OpenFrames(contract)
        self._turns: list[Turn] = contract.opening_turns()
        self._used: set[str] = set()
        self._answer: AnswerReader | None = None
        self._queue: deque[_Item] = deque()
        self._mending: Frame | None = None
        self._running: Frame | None = None
        self._want: Effect | None = None
        self._deaf = False
        self._rounds = 0
        self.repairs = 0
        """How often the model was asked for a frame again."""
        self.tool_calls = 0
        self.finished = False
        """Whether `RunDone` was said."""

    @property
    def degraded(self) -> int:
        """How many frames ended with a value that is not the model's."""
        return self._open_frames.degraded

    @property
    def wants(self) -> Effect | None:
        """What has to be done before the model is read on; nothing is fed while it is set."""
        return self._want

    @property
    def listening(self) -> bool:
        """Whether the answer to the last request is still read; if not, drop it."""
        return self._answer is not None and not self._deaf and not self.finished

    @property
    def open_frame(self) -> str:
        """The id of the frame that is being written, for the frame timeout; empty if none is."""
        return self._answer.open_id if self._answer is not None and self.listening else ""

    # The shell's side.

    def request(self) -> Request | None:
        """Return the next thing to ask of the model, and listen to its answer; None: finished."""
        if self.finished:
            return None
        if self._want is not None or self.listening:
            raise RuntimeError("the answer before is not over")
        self._answer = AnswerReader(self._contract, self._used)
        self._deaf = False
        self._rounds += 1
        return self._contract.request(self._turns)

    def feed(self, event: cv.Event, /) -> list[Out]:
        """Take one event of the model's answer."""
        if isinstance(event, cv.Failed) and (self._want is not None or not self.listening):
            return self._take(event)
        answer = self._answer
        if answer is None or not self.listening:
            return []
        answer.watch(event)
        match event:
            case cv.TextDelta(_, text):
                self._queue.extend(answer.feed(text))
            case cv.TextEnd():
                answer.text_over = True
            case cv.CallDelta() | cv.CallEnd() | cv.Healed() | cv.Failed():
                self._queue.append(event)
            case cv.Finished(reason):
                answer.stop = reason
            case cv.TextStart() | cv.CallStart():
                # Only what follows tells that a text was not cut by the end of the answer.
                self._queue.extend(answer.end_text() if answer.text_over else ())
                self._queue.extend([event] if isinstance(event, cv.CallStart) else ())
            case _:
                pass
        return self._pump()

    def close(self) -> list[Out]:
        """Take the end of the model's answer."""
        if self._answer is None or not self.listening:
            return []
        self._queue.extend(self._answer.close())
        self._queue.append(None)
        return self._pump()

    def tool_done(self, id: str, result: Json, *, cached: bool = False) -> list[Out]:
        """Take what a tool gave back."""
        want = self._want
        if not isinstance(want, RunTool) or want.id != id:
            return []
        result = presentable(result, self._contract.limits.result)
        failed = isinstance(result, dict) and result.keys() == {"error"}
        after = self._after_tool(want, result, failed=failed)
        return [ToolResult(id, want.name, result, cached), *after]

    def tool_failed(self, id: str, code: str, message: str) -> list[Out]:
        """Take that a tool failed for good: `tool_timeout`, `tool_failed`. The model is told."""
        want = self._want
        if not isinstance(want, RunTool) or want.id != id:
            return []
        return [RunError(code, message, id), *self.tool_done(id, failure(code, message))]

    def repaired(self, text: str) -> list[Out]:
        """Take the answer to a repair; the empty text when there was none."""
        frame = self._mending
        if frame is None or not isinstance(self._want, AskRepair):
            return []
        self._want = self._mending = None
        limits = self._contract.limits
        most = limits.arguments if frame.kind == "tool" else limits.frame
        mended = read_repair(text, frame.compiled, limits, most)
        if mended.closed:
            value, _ = own_members(frame, mended.value)
            settled = SettledValue(value, "repaired", dumps(value))
            return self._accept(frame, settled) + self._pump()
        if "{" in text or "[" in text:  # words say nothing about what is wrong
            frame.reject(text, reasons(mended))
        return self._repair(frame) + self._pump()

    def expire_frame(self) -> list[Out]:
        """Give up the frame that is being written: it took too long."""
        if self._answer is None or not self.listening:
            return []
        self._queue.extend(self._answer.expire())
        return self._pump()

    def abort(self, code: str, message: str) -> list[Out]:
        """End now, from any state: `aborted`, `request_timeout`, `upstream_error` and the like."""
        if self.finished:
            return []
        said: list[Out] = []
        if isinstance(self._want, RunTool):
            said.append(ToolResult(self._want.id, self._want.name, failure(code, message)))
        if self._mending is not None and not self._mending.missing:
            self._open_frames.reopen(self._mending)
        said += self._open_frames.abandon(code)
        return [*said, RunError(code, message), *self._finish()]

    # One thing after the other; a want stops the row until it is fulfilled.

    def _pump(self) -> list[Out]:
        said: list[Out] = []
        while self._queue and self._want is None and not self.finished:
            said += self._take(self._queue.popleft())
        return said

    def _take(self, item: "_Item") -> list[Out]:
        match item:
            case pc.PlainText(text):
                return self._say(text)
            case pc.FrameOpened():
                self._used.add(item.id)
                return [*self._open_frames.open(item)]
            case pc.FrameText(id, chunk):
                return [*self._open_frames.write(id, chunk)]
            case pc.FrameClosed():
                return self._close(item)
            case pc.FrameFault(code, message, id):
                return [RunError(code, message, id)]
            case cv.Failed(problem):
                return self.abort(code_of(problem), problem.text)
            case None if self._heard.stop == "context_overflow":
                return self.abort("context_overflow", "the conversation is too long for the model")
            case None:
                return self._next_call()
            case _:
                self._take_call(item)
                return []

    def _say(self, text: str) -> list[Out]:
        self._heard.say(text)
        self._open_frames.hear(text)
        return [RunTextDelta(text)]

    @property
    def _heard(self) -> AnswerReader:
        if self._answer is None:
            raise RuntimeError("there is no answer to read")
        return self._answer

    # Frames.

    def _close(self, closed: pc.FrameClosed) -> list[Out]:
        frame = self._open_frames.close(closed)
        if frame is None:
            return []
        if frame.kind == "tool":
            # Whatever the model wrote after a call, it wrote without its result.
            self._deaf = True
            self._queue.clear()
        if closed.trouble:
            frame.drafts.append(closed.body)
            return self._give_up(frame, closed.trouble, (_NOT_READ,))
        return self._settle(frame, closed)

    def _settle(self, frame: Frame, closed: pc.FrameClosed) -> list[Out]:
        if frame.kind == "tool" and frame.name not in self._open_frames.offers:
            return self._unknown_tool(frame)
        settled = self._open_frames.settle(frame, closed)
        return self._repair(frame) if settled is None else self._accept(frame, settled)

    def _accept(self, frame: Frame, settled: SettledValue) -> list[Out]:
        """Take the value of a frame: run the tool, or tell the end of the object or result."""
        value = settled.value
        if frame.kind == "tool":
            args = whole_numbers(value)
            return self._call(frame, args if isinstance(args, dict) else {})
        told: list[Out] = [*self._open_frames.end(frame, settled)]
        if frame.kind == "object" and not frame.call_id:
            self._heard.add_frame("object", frame.id, frame.name, settled.written)
        return told + self._after_frame(frame, value)

    def _after_frame(self, frame: Frame, value: Json) -> list[Out]:
        if frame.kind == "result":
            return self._finish()
        if frame.call_id:
            self._heard.note_object(frame.call_id, f"{WRITE}{frame.name}", value)
        return []

    def _repair(self, frame: Frame) -> list[Out]:
        """Ask the model for a frame once more, if it may be asked."""
        if frame.tries >= self._contract.repair_retries:
            return self._give_up(frame, "no_result" if frame.missing else FAILED, frame.flaws)
        frame.tries += 1
        self.repairs += 1
        if frame.missing and not frame.written:
            request = self._contract.result_request(self._turns)
        else:
            schema = frame.compiled.schema
            request = self._contract.repair_request(frame.name, schema, frame.written, frame.flaws)
        self._mending = frame
        self._want = AskRepair(request, frame.id)
        return [self._want]

    def _give_up(self, frame: Frame, code: str, flaws: tuple[Flaw, ...]) -> list[Out]:
        """Let a frame end with a value that is not the model's, or a call with an error."""
        if frame.kind == "tool" and code == FAILED:
            return self._refuse(frame, "invalid_arguments", explain(flaws))
        if frame.kind == "tool":
            return self._refuse(frame, code, "the call was not read to its end", known=True)
        told: list[Out] = [*self._open_frames.degrade(frame, code, flaws)]
        if frame.missing:
            told.append(RunError(code, "the model wrote no result", frame.id))
        return told + self._after_frame(frame, None)

    # Tools.

    def _call(self, frame: Frame, args: JsonObject) -> list[Out]:
        if self.tool_calls >= self._contract.max_tool_calls:
            return self._too_many(frame)
        self.tool_calls += 1
        client = self._open_frames.offers[frame.name].client
        self._running = frame
        self._want = RunTool(frame.id, frame.name, args, client)
        return [RunToolCall(frame.id, frame.name, args, client), self._want]

    def _unknown_tool(self, frame: Frame) -> list[Out]:
        there = ", ".join(self._open_frames.offers) or "none"
        text = f"there is no tool {frame.name}; there are: {there}"
        return self._refuse(frame, "unknown_tool", text)

    def _refuse(self, frame: Frame, code: str, message: str, *, known: bool = False) -> list[Out]:
        """Tell the client and the model that a call is not run; `known` if the client knows why."""
        if self.tool_calls >= self._contract.max_tool_calls:
            return self._too_many(frame)
        self.tool_calls += 1
        said: list[Out] = [] if known else [RunError(code, message, frame.id)]
        result = failure(code, message)
        said.append(ToolResult(frame.id, frame.name, result))
        self._running = frame
        return said + self._after_tool(RunTool(frame.id, frame.name, {}), result, failed=True)

    def _after_tool(self, call: RunTool, result: Json, *, failed: bool) -> list[Out]:
        self._want = None
        told = ToolReply(call.id, call.name, result)
        call_id = self._running.call_id if self._running else ""
        self._heard.tell(told, call.args, call_id, failed=failed)
        return self._next_call() if call_id else self._turn_over()

    def _too_many(self, frame: Frame) -> list[Out]:
        most = self._contract.max_tool_calls
        text = f"{most} tool calls are allowed; {frame.name} was not run"
        return [RunError("too_many_tool_calls", text, frame.id), *self._want_result()]

    # Native calls.

    def _take_call(self, event: "_CallEvent") -> None:
        """Take a part of a native call: objects are told as they come, tools wait for the end."""
        match event:
            case cv.CallStart(index, call_id, name):
                schema = self._contract.object_of(name)
                if schema:
                    id, opened = self._heard.open_object(index, schema)
                    self._open_frames.open_native(index, id, schema, call_id)
                    self._ahead(opened)
            case cv.CallDelta(index, json):
                if index in self._heard.objects:
                    self._ahead(self._heard.objects[index].feed(json))
            case cv.Healed(index, report):
                self._open_frames.note_healing(index, report.steps)
            case cv.CallEnd(index, call):
                frame = self._open_frames.end_native(index)
                if frame is None:
                    self._heard.calls.append(call)
                else:
                    self._ahead(self._heard.end_object(index, call))

    def _ahead(self, pieces: Sequence[pc.Piece]) -> None:
        """Take `pieces` before all that came later."""
        self._queue.extendleft(reversed(pieces))

    def _next_call(self) -> list[Out]:
        """Go on after the end of an answer: the next of its calls, the next answer, or the result."""
        answer = self._heard
        if answer.calls:
            self._deaf = True
            return self._begin_call(answer.calls.popleft())
        return self._turn_over() if answer.awaits_results else self._want_result()

    def _begin_call(self, call: Call) -> list[Out]:
        id = fresh_id("T", self._used, self._contract.tag)
        self._used.add(id)
        frame = self._open_frames.tool_frame(id, call.name, call.id)
        text = _written(call, frame.compiled.schema)
        if trouble := too_large(text, call, self._contract.limits):
            return self._refuse(frame, *trouble)
        return self._settle(frame, pc.FrameClosed("tool", id, frame.name, text))

    # Ends.

    def _turn_over(self) -> list[Out]:
        """Go on with the next answer, unless there were too many."""
        too_many = self._rounds > self._contract.max_tool_calls
        return self._want_result() if too_many else self._leave()

    def _leave(self) -> list[Out]:
        """Add the answer to history; nothing of it is read any more."""
        self._deaf = True
        self._queue.clear()
        self._turns += self._heard.turns()
        return [*self._open_frames.abandon("unclosed_frame")]

    def _want_result(self) -> list[Out]:
        """Take the result that stands in the text, or ask for it alone."""
        told = self._leave()
        id = fresh_id("R", self._used)
        self._used.add(id)
        frame = self._open_frames.missing_result(id)
        settled = self._open_frames.find(frame, self._heard.said)
        return told + (self._repair(frame) if settled is None else self._accept(frame, settled))

    def _finish(self) -> list[Out]:
        self.finished = True
        self._want = self._mending = None
        self._queue.clear()
        return [*self._open_frames.abandon("unclosed_frame"), RunDone()]


def _written(call: Call, schema: JsonObject) -> str:
    """Return what the model wrote as arguments; healing hands on what it cannot read as `raw`."""
    only = call.arguments.get("raw") if len(call.arguments) == 1 else None
    properties = schema.get("properties")
    if isinstance(only, str) and not (isinstance(properties, dict) and "raw" in properties):
        return only
    return call.raw or dumps(call.arguments)
