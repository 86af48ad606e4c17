"""The loop of a structured stream as a value machine: model events in, events for the client out.

    while (request := conversation.request()) is not None:
        for event in ask(request):
            deliver(conversation.feed(event))
            while (effect := conversation.effect) is not None:
                deliver(perform(effect))    # .tool_done, .tool_failed or .repaired
            if not conversation.listening:
                break                       # drop the rest of this answer
        else:
            deliver(conversation.close())
            while (effect := conversation.effect) is not None:
                deliver(perform(effect))

An invalid frame is healed; else the model is asked to repair it; else it is degraded to the smallest
value that fits its schema. The stream never restarts. Arguments that were cut off are never completed
by closing their brackets.
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
"""An item of the queue; None is the end of the answer."""
_NOT_READ = Flaw(".", "was not read to its end")


class StructuredConversation:
    """One structured stream, from the prompt to `RunDone`."""

    def __init__(self, contract: Contract) -> None:
        self._contract = contract
        self._open_frames = OpenFrames(contract)
        self._turns: list[Turn] = contract.opening_turns()
        self._used: set[str] = set()
        self._answer: AnswerReader | None = None
        self._queue: deque[_Item] = deque()
        self._repairing: Frame | None = None
        self._running: Frame | None = None
        self._effect: Effect | None = None
        self._deaf = False
        self._rounds = 0
        self.repairs = 0
        """How many repairs the model was asked for."""
        self.tool_calls = 0
        self.finished = False
        """Whether `RunDone` was emitted."""

    @property
    def degraded(self) -> int:
        """How many frames were degraded."""
        return self._open_frames.degraded

    @property
    def effect(self) -> Effect | None:
        """The tool to run or the repair to ask for before the next event may be fed; None if none."""
        return self._effect

    @property
    def listening(self) -> bool:
        """Whether the answer to the last request is still needed; if not, drop it."""
        return self._answer is not None and not self._deaf and not self.finished

    @property
    def open_frame(self) -> str:
        """The id of the frame being written, for the frame timeout; empty without one."""
        return self._answer.open_id if self._answer is not None and self.listening else ""

    # Called by the run.

    def request(self) -> Request | None:
        """Return the next request to the model and read its answer; None at the end."""
        if self.finished:
            return None
        if self._effect is not None or self.listening:
            raise RuntimeError("the previous answer is still being read")
        self._answer = AnswerReader(self._contract, self._used)
        self._deaf = False
        self._rounds += 1
        return self._contract.request(self._turns)

    def feed(self, event: cv.Event, /) -> list[Out]:
        """Process one event of the model's answer."""
        if isinstance(event, cv.Failed) and (self._effect is not None or not self.listening):
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
                # Only the next event shows that the text was not cut by the end of the answer.
                self._queue.extend(answer.end_text() if answer.text_over else ())
                self._queue.extend([event] if isinstance(event, cv.CallStart) else ())
            case _:
                pass
        return self._pump()

    def close(self) -> list[Out]:
        """Process the end of the model's answer."""
        if self._answer is None or not self.listening:
            return []
        self._queue.extend(self._answer.close())
        self._queue.append(None)
        return self._pump()

    def tool_done(self, id: str, result: Json, *, cached: bool = False) -> list[Out]:
        """Process a tool's result."""
        effect = self._effect
        if not isinstance(effect, RunTool) or effect.id != id:
            return []
        result = presentable(result, self._contract.limits.result)
        failed = isinstance(result, dict) and result.keys() == {"error"}
        after = self._after_tool(effect, result, failed=failed)
        return [ToolResult(id, effect.name, result, cached), *after]

    def tool_failed(self, id: str, code: str, message: str) -> list[Out]:
        """Process the final failure of a tool (`tool_timeout`, `tool_failed`); the model gets it too."""
        effect = self._effect
        if not isinstance(effect, RunTool) or effect.id != id:
            return []
        return [RunError(code, message, id), *self.tool_done(id, failure(code, message))]

    def repaired(self, text: str) -> list[Out]:
        """Process the answer to a repair; an empty text if the repair failed."""
        frame = self._repairing
        if frame is None or not isinstance(self._effect, AskRepair):
            return []
        self._effect = self._repairing = None
        limits = self._contract.limits
        most = limits.arguments if frame.kind == "tool" else limits.frame
        read = read_repair(text, frame.compiled, limits, most)
        if read.closed:
            value, _ = own_members(frame, read.value)
            settled = SettledValue(value, "repaired", dumps(value))
            return self._accept(frame, settled) + self._pump()
        if "{" in text or "[" in text:  # prose without JSON gives no new flaws
            frame.reject(text, reasons(read))
        return self._repair(frame) + self._pump()

    def expire_frame(self) -> list[Out]:
        """Close the frame being written at its timeout."""
        if self._answer is None or not self.listening:
            return []
        self._queue.extend(self._answer.expire())
        return self._pump()

    def abort(self, code: str, message: str) -> list[Out]:
        """End at once, in any state, with a code such as `aborted` or `request_timeout`."""
        if self.finished:
            return []
        out: list[Out] = []
        if isinstance(self._effect, RunTool):
            out.append(ToolResult(self._effect.id, self._effect.name, failure(code, message)))
        if self._repairing is not None and not self._repairing.missing:
            self._open_frames.reopen(self._repairing)
        out += self._open_frames.abandon(code)
        return [*out, RunError(code, message), *self._finish()]

    # The queue: one item after the other; an effect stops it until it is performed.

    def _pump(self) -> list[Out]:
        out: list[Out] = []
        while self._queue and self._effect is None and not self.finished:
            out += self._take(self._queue.popleft())
        return out

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
            case None if self._reader.stop == "context_overflow":
                return self.abort("context_overflow", "the conversation is too long for the model")
            case None:
                return self._next_call()
            case _:
                self._take_call(item)
                return []

    def _say(self, text: str) -> list[Out]:
        self._reader.add_text(text)
        self._open_frames.add_text(text)
        return [RunTextDelta(text)]

    @property
    def _reader(self) -> AnswerReader:
        if self._answer is None:
            raise RuntimeError("no answer is being read")
        return self._answer

    # Frames.

    def _close(self, closed: pc.FrameClosed) -> list[Out]:
        frame = self._open_frames.close(closed)
        if frame is None:
            return []
        if frame.kind == "tool":
            # Text after a call was written without the call's result, so it is dropped.
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
        """Use a frame's value: run the tool, or emit the end of the object or result."""
        value = settled.value
        if frame.kind == "tool":
            args = whole_numbers(value)
            return self._call(frame, args if isinstance(args, dict) else {})
        out: list[Out] = [*self._open_frames.end(frame, settled)]
        if frame.kind == "object" and not frame.call_id:
            self._reader.add_frame("object", frame.id, frame.name, settled.written)
        return out + self._after_frame(frame, value)

    def _after_frame(self, frame: Frame, value: Json) -> list[Out]:
        if frame.kind == "result":
            return self._finish()
        if frame.call_id:
            self._reader.note_object(frame.call_id, f"{WRITE}{frame.name}", value)
        return []

    def _repair(self, frame: Frame) -> list[Out]:
        """Ask the model to repair a frame, if repairs are left; else degrade it."""
        if frame.tries >= self._contract.repair_retries:
            return self._give_up(frame, "no_result" if frame.missing else FAILED, frame.flaws)
        frame.tries += 1
        self.repairs += 1
        if frame.missing and not frame.written:
            request = self._contract.result_request(self._turns)
        else:
            schema = frame.compiled.schema
            request = self._contract.repair_request(frame.name, schema, frame.written, frame.flaws)
        self._repairing = frame
        self._effect = AskRepair(request, frame.id)
        return [self._effect]

    def _give_up(self, frame: Frame, code: str, flaws: tuple[Flaw, ...]) -> list[Out]:
        """End a frame with a degraded value, or a call with an error."""
        if frame.kind == "tool" and code == FAILED:
            return self._refuse(frame, "invalid_arguments", explain(flaws))
        if frame.kind == "tool":
            return self._refuse(frame, code, "the call was not read to its end", known=True)
        out: list[Out] = [*self._open_frames.degrade(frame, code, flaws)]
        if frame.missing:
            out.append(RunError(code, "the model wrote no result", frame.id))
        return out + self._after_frame(frame, None)

    # Tools.

    def _call(self, frame: Frame, args: JsonObject) -> list[Out]:
        if self.tool_calls >= self._contract.max_tool_calls:
            return self._too_many(frame)
        self.tool_calls += 1
        client = self._open_frames.offers[frame.name].client
        self._running = frame
        self._effect = RunTool(frame.id, frame.name, args, client)
        return [RunToolCall(frame.id, frame.name, args, client), self._effect]

    def _unknown_tool(self, frame: Frame) -> list[Out]:
        there = ", ".join(self._open_frames.offers) or "none"
        text = f"there is no tool {frame.name}; there are: {there}"
        return self._refuse(frame, "unknown_tool", text)

    def _refuse(self, frame: Frame, code: str, message: str, *, known: bool = False) -> list[Out]:
        """Report to client and model that a call is not run; `known` if the client has the error."""
        if self.tool_calls >= self._contract.max_tool_calls:
            return self._too_many(frame)
        self.tool_calls += 1
        out: list[Out] = [] if known else [RunError(code, message, frame.id)]
        result = failure(code, message)
        out.append(ToolResult(frame.id, frame.name, result))
        self._running = frame
        return out + self._after_tool(RunTool(frame.id, frame.name, {}), result, failed=True)

    def _after_tool(self, call: RunTool, result: Json, *, failed: bool) -> list[Out]:
        self._effect = None
        reply = ToolReply(call.id, call.name, result)
        call_id = self._running.call_id if self._running else ""
        self._reader.add_result(reply, call.args, call_id, failed=failed)
        return self._next_call() if call_id else self._turn_over()

    def _too_many(self, frame: Frame) -> list[Out]:
        most = self._contract.max_tool_calls
        text = f"{most} tool calls are allowed; {frame.name} was not run"
        return [RunError("too_many_tool_calls", text, frame.id), *self._require_result()]

    # Native calls.

    def _take_call(self, event: "_CallEvent") -> None:
        """Process a part of a native call: objects stream as they arrive, tools wait for the end."""
        match event:
            case cv.CallStart(index, call_id, name):
                schema = self._contract.object_of(name)
                if schema:
                    id, opened = self._reader.open_object(index, schema)
                    self._open_frames.open_native(index, id, schema, call_id)
                    self._ahead(opened)
            case cv.CallDelta(index, json):
                if index in self._reader.objects:
                    self._ahead(self._reader.objects[index].feed(json))
            case cv.Healed(index, report):
                self._open_frames.note_healing(index, report.steps)
            case cv.CallEnd(index, call):
                frame = self._open_frames.end_native(index)
                if frame is None:
                    self._reader.calls.append(call)
                else:
                    self._ahead(self._reader.end_object(index, call))

    def _ahead(self, pieces: Sequence[pc.Piece]) -> None:
        """Put `pieces` in front of the queue."""
        self._queue.extendleft(reversed(pieces))

    def _next_call(self) -> list[Out]:
        """Continue after the end of an answer: the next call, the next answer, or the result."""
        answer = self._reader
        if answer.calls:
            self._deaf = True
            return self._begin_call(answer.calls.popleft())
        return self._turn_over() if answer.awaits_results else self._require_result()

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
        """Continue with the next answer, unless the model made too many tool calls."""
        too_many = self._rounds > self._contract.max_tool_calls
        return self._require_result() if too_many else self._leave()

    def _leave(self) -> list[Out]:
        """Add the answer to history and stop reading it."""
        self._deaf = True
        self._queue.clear()
        self._turns += self._reader.turns()
        return [*self._open_frames.abandon("unclosed_frame")]

    def _require_result(self) -> list[Out]:
        """Use a result found in the text, or ask the model for the result alone."""
        out = self._leave()
        id = fresh_id("R", self._used)
        self._used.add(id)
        frame = self._open_frames.missing_result(id)
        settled = self._open_frames.find(frame, self._reader.text)
        return out + (self._repair(frame) if settled is None else self._accept(frame, settled))

    def _finish(self) -> list[Out]:
        self.finished = True
        self._effect = self._repairing = None
        self._queue.clear()
        return [*self._open_frames.abandon("unclosed_frame"), RunDone()]


def _written(call: Call, schema: JsonObject) -> str:
    """Return the arguments as the model wrote them; healing passes unreadable ones in `raw`."""
    only = call.arguments.get("raw") if len(call.arguments) == 1 else None
    properties = schema.get("properties")
    if isinstance(only, str) and not (isinstance(properties, dict) and "raw" in properties):
        return only
    return call.raw or dumps(call.arguments)
