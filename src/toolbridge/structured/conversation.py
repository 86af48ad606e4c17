"""The loop of a structured stream as a value machine: model events in, events for the client out.

    while (request := conversation.request()) is not None:
        for event in ask(request):
            deliver(conversation.feed(event))
            while (effect := conversation.effect) is not None:
                deliver(perform(effect))    # .tool_done and .tool_failed, or .repaired
            if not conversation.listening:
                break                       # drop the rest of this answer
        else:
            deliver(conversation.close())
            while (effect := conversation.effect) is not None:
                deliver(perform(effect))

An invalid frame is healed; else the model is asked to repair it; else it is degraded to the smallest
value that fits its schema. The stream never restarts. Arguments that were cut off are never completed
by closing their brackets.

The calls of one answer are collected and then run together. After a call in a frame only further
calls may follow: other text was written without the call's result, and is dropped.
"""

from collections import deque
from typing import TypeAlias

from toolbridge.core import events as cv
from toolbridge.core.json import Json, dumps
from toolbridge.core.messages import Call, Request, Turn
from toolbridge.structured import pieces as pc
from toolbridge.structured.answer import AnswerReader
from toolbridge.structured.contract import WRITE, Contract, ToolReply
from toolbridge.structured.decisions import code_of, explain, reasons, too_large
from toolbridge.structured.effects import AskRepair, Effect, Out, RunTool, RunTools
from toolbridge.structured.events import RunDone, RunError, RunTextDelta
from toolbridge.structured.flaws import Flaw
from toolbridge.structured.frame import Frame, SettledValue
from toolbridge.structured.native import fresh_id
from toolbridge.structured.native_calls import CallEvent, read_call
from toolbridge.structured.open_frames import FAILED, OpenFrames, own_members
from toolbridge.structured.read_value import read_repair, whole_numbers
from toolbridge.structured.results import failure, presentable
from toolbridge.structured.tool_round import ToolCalls, arguments_text, ends_calls

__all__ = ["AskRepair", "Effect", "Out", "RunTool", "RunTools", "StructuredConversation"]

_Item: TypeAlias = pc.Piece | CallEvent | cv.Failed | None
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
        self._calls = ToolCalls(self._open_frames.offers, contract.max_tool_calls)
        self._effect: Effect | None = None
        self._deaf = False
        self._rounds = 0
        self._final = False
        self._aborted = False
        self.repairs = 0
        """How many repairs the model was asked for."""
        self.finished = False
        """Whether `RunDone` was emitted."""

    @property
    def degraded(self) -> int:
        """How many frames were degraded."""
        return self._open_frames.degraded

    @property
    def tool_calls(self) -> int:
        return self._calls.count

    @property
    def first_try(self) -> bool | None:
        """Whether every frame was valid without asking the model again; None after an abort."""
        return None if self._aborted else not (self.repairs or self.degraded)

    @property
    def effect(self) -> Effect | None:
        """The tools to run or the repair to ask for before the next event may be fed; None if none."""
        return self._effect

    @property
    def listening(self) -> bool:
        """Whether the answer to the last request is still needed; if not, drop it."""
        return self._answer is not None and not self._deaf and not self.finished

    @property
    def open_frame(self) -> str:
        """The id of the frame being written, for the frame timeout; empty without one."""
        return self._answer.open_id if self._answer is not None and self.listening else ""

    @property
    def collecting(self) -> bool:
        """Whether the answer has a tool call and may continue with another one."""
        return self.listening and self._calls.round.collecting and not self.open_frame

    # Called by the run.

    def request(self) -> Request | None:
        """Return the next request to the model and read its answer; None at the end."""
        if self.finished:
            return None
        if self._effect is not None or self.listening:
            raise RuntimeError("the previous answer is still being read")
        self._answer = AnswerReader(self._contract, self._used)
        self._calls.begin_answer()
        self._deaf = False
        self._rounds += 1
        return self._contract.request(self._turns, final=self._final)

    def feed(self, event: cv.Event, /) -> list[Out]:
        """Process one event of the model's answer."""
        if isinstance(event, cv.Failed) and (self._effect is not None or not self.listening):
            return self.abort(code_of(event.problem), event.problem.text)
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
        if not self._calls.round.is_running(id):
            return []
        result = presentable(result, self._contract.limits.result)
        failed = isinstance(result, dict) and result.keys() == {"error"}
        due = self._calls.round.finish(id, result, failed=failed, cached=cached)
        return due if self._calls.round.waiting else due + self._round_over()

    def tool_failed(self, id: str, code: str, message: str) -> list[Out]:
        """Process the final failure of a tool (`tool_timeout`, `tool_failed`); the model gets it too."""
        if not self._calls.round.is_running(id):
            return []
        return [RunError(code, message, id), *self.tool_done(id, failure(code, message))]

    def end_calls(self) -> list[Out]:
        """Run the calls of the answer so far, and drop the rest of the answer."""
        return self._cut() if self.collecting else []

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
        self._aborted = True
        running = isinstance(self._effect, RunTools)
        out = self._calls.round.abandon(code, message) if running else []
        if self._repairing is not None and not self._repairing.missing:
            self._open_frames.reopen(self._repairing)
        out += self._open_frames.abandon(code)
        return [*out, RunError(code, message), *self._finish()]

    # The queue: one item after the other; an effect stops it until it is performed.

    def _pump(self) -> list[Out]:
        out: list[Out] = []
        while self._queue and self._effect is None and not self.finished:
            take = self._take_after_call if self._calls.round.collecting else self._take
            out += take(self._queue.popleft())
        return out

    def _take_after_call(self, item: "_Item") -> list[Out]:
        if ends_calls(item):
            return self._cut()
        return [] if isinstance(item, pc.PlainText) else self._take(item)

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
            case None:
                return self._end_answer()
            case _:
                pieces = read_call(item, self._contract, self._reader, self._open_frames)
                self._queue.extendleft(reversed(pieces))
                return []

    def _end_answer(self) -> list[Out]:
        """Continue after the end of an answer: its native calls, then all calls that it made."""
        answer = self._reader
        if answer.stop == "context_overflow":
            return self.abort("context_overflow", "the conversation is too long for the model")
        if not answer.calls:
            return self._run_calls()
        self._queue.appendleft(None)  # come back after this call, and its repair
        return self._begin_call(answer.calls.popleft())

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
        if closed.trouble:
            frame.drafts.append(closed.body)
            out = self._give_up(frame, closed.trouble, (_NOT_READ,))
            return out + self._cut() if self.collecting else out
        return self._settle(frame, closed)

    def _settle(self, frame: Frame, closed: pc.FrameClosed) -> list[Out]:
        if frame.kind == "tool" and frame.name not in self._open_frames.offers:
            return self._refuse(frame, "unknown_tool", self._calls.unknown(frame.name))
        settled = self._open_frames.settle(frame, closed)
        return self._repair(frame) if settled is None else self._accept(frame, settled)

    def _accept(self, frame: Frame, settled: SettledValue) -> list[Out]:
        """Use a frame's value: run the tool, or emit the end of the object or result."""
        value = settled.value
        if frame.kind == "tool":
            args = whole_numbers(value)
            return self._added(self._calls.add(frame, args if isinstance(args, dict) else {}))
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

    def _refuse(self, frame: Frame, code: str, message: str, *, known: bool = False) -> list[Out]:
        return self._added(self._calls.refuse(frame, code, message, known=known))

    def _added(self, out: list[Out]) -> list[Out]:
        return out + self._cut() if self._calls.round.over else out

    def _cut(self) -> list[Out]:
        """Drop the rest of the answer and run its calls so far."""
        self._deaf = True
        self._queue.clear()
        self._reader.calls.clear()
        return self._run_calls()

    def _run_calls(self) -> list[Out]:
        """Run the calls of the answer; without any, continue with the next answer or the result."""
        if not self._calls.round.calls:
            over = self._calls.round.over or not self._reader.awaits_results
            return self._require_result() if over else self._turn_over()
        self._deaf = True
        out, self._effect = self._calls.round.start()
        return out if self._effect is not None else out + self._round_over()

    def _round_over(self) -> list[Out]:
        """Add the results to history and continue with the next answer."""
        self._effect = None
        for call in self._calls.round.calls:
            reply = ToolReply(call.tool.id, call.tool.name, call.result)
            self._reader.add_result(reply, call.tool.args, call.call_id, failed=call.failed)
        return self._require_result() if self._calls.round.over else self._turn_over()

    def _begin_call(self, call: Call) -> list[Out]:
        id = fresh_id("T", self._used, self._contract.tag)
        self._used.add(id)
        frame = self._open_frames.tool_frame(id, call.name, call.id)
        text = arguments_text(call, frame.compiled.schema)
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
        frame = self._open_frames.missing_result(id)
        settled = self._open_frames.find(frame, self._reader.text)
        simpler = None if settled else self._contract.simplified(final=self._final)
        if simpler is not None:
            self._contract, self._final = simpler, True
            return out
        self._used.add(id)
        return out + (self._repair(frame) if settled is None else self._accept(frame, settled))

    def _finish(self) -> list[Out]:
        self.finished = True
        self._effect = self._repairing = None
        self._queue.clear()
        return [*self._open_frames.abandon("unclosed_frame"), RunDone()]
