"""The tool calls of one answer: collected while the model writes, run together, reported in order.

A model writes the calls of one answer without the results of the others. They run at the same time;
events, history and artifacts have their results in the order of the calls.
"""

from collections.abc import Mapping

import msgspec

from toolbridge.core.events import Failed
from toolbridge.core.json import Json, JsonObject, dumps
from toolbridge.core.messages import Call
from toolbridge.structured.contract import OfferedTool
from toolbridge.structured.effects import Out, RunTool, RunTools
from toolbridge.structured.events import RunError, RunToolCall, ToolResult
from toolbridge.structured.frame import Frame
from toolbridge.structured.pieces import FrameOpened, PlainText
from toolbridge.structured.results import failure


class CollectedCall(msgspec.Struct):
    """A call of the answer, and its result once there is one."""

    tool: RunTool
    call_id: str = ""
    """The model's id of a native call."""
    runs: bool = True
    """Whether the tool is run; a refused call has its result from the start."""
    finished: bool = False
    failed: bool = False
    result: Json = None
    cached: bool = False


class ToolRound:
    """The calls of one answer, in the order in which the model wrote them."""

    def __init__(self) -> None:
        self.calls: list[CollectedCall] = []
        self.over = False
        """Whether the model made more calls than the stream allows."""
        self._started = False
        self._reported = 0

    @property
    def collecting(self) -> bool:
        """Whether the model has written a call as a frame, so that only further calls may follow."""
        return bool(self.calls) and any(not call.call_id for call in self.calls)

    @property
    def waiting(self) -> bool:
        return any(not call.finished for call in self.calls)

    def is_running(self, id: str) -> bool:
        """Whether the result of the call with this id is expected."""
        return self._started and any(c.tool.id == id and not c.finished for c in self.calls)

    def add(self, tool: RunTool, call_id: str) -> None:
        """Add a call to run."""
        self.calls.append(CollectedCall(tool, call_id))

    def refuse(self, tool: RunTool, call_id: str, result: Json) -> None:
        """Add a call that is not run; `result` is its error."""
        refused = CollectedCall(tool, call_id, runs=False, finished=True, failed=True)
        refused.result = result
        self.calls.append(refused)

    def start(self) -> tuple[list[Out], RunTools | None]:
        """Return the events that begin the round, and the tools to run."""
        self._started = True
        tools = tuple(call.tool for call in self.calls if call.runs)
        begun: list[Out] = [RunToolCall(t.id, t.name, t.args, t.client) for t in tools]
        effect = RunTools(tools) if tools else None
        return [*begun, *self._report(), *([effect] if effect else [])], effect

    def finish(self, id: str, result: Json, *, failed: bool, cached: bool) -> list[Out]:
        """Record the result of a call that runs; return the events that are due."""
        for call in self.calls:
            if call.tool.id == id and not call.finished:
                call.result, call.failed, call.cached = result, failed, cached
                call.finished = True
        return self._report()

    def abandon(self, code: str, message: str) -> list[Out]:
        """Return the results of the calls that are still running."""
        for call in self.calls:
            if not call.finished:
                call.result, call.finished = failure(code, message), True
        return self._report()

    def _report(self) -> list[Out]:
        """Return the results that are complete up to the first call without one."""
        out: list[Out] = []
        for call in self.calls[self._reported :]:
            if not call.finished:
                break
            out.append(ToolResult(call.tool.id, call.tool.name, call.result, call.cached))
            self._reported += 1
        return out


class ToolCalls:
    """The tool calls of a whole stream: counted, and collected for each answer."""

    def __init__(self, offers: Mapping[str, OfferedTool], most: int) -> None:
        self._offers = offers
        self._most = most
        self.count = 0
        self.round = ToolRound()

    def begin_answer(self) -> None:
        self.round = ToolRound()

    def add(self, frame: Frame, args: JsonObject) -> list[Out]:
        """Add a call with valid arguments; an error if there are too many."""
        if not self._counted():
            return self._too_many(frame)
        client = self._offers[frame.name].client
        self.round.add(RunTool(frame.id, frame.name, args, client), frame.call_id)
        return []

    def refuse(self, frame: Frame, code: str, message: str, *, known: bool) -> list[Out]:
        """Add a call that is not run; `known` if the client has the error."""
        if not self._counted():
            return self._too_many(frame)
        call = RunTool(frame.id, frame.name, {})
        self.round.refuse(call, frame.call_id, failure(code, message))
        return [] if known else [RunError(code, message, frame.id)]

    def unknown(self, name: str) -> str:
        """Return the message for a tool that is not offered."""
        return f"there is no tool {name}; there are: {', '.join(self._offers) or 'none'}"

    def _counted(self) -> bool:
        if self.count >= self._most:
            return False
        self.count += 1
        return True

    def _too_many(self, frame: Frame) -> list[Out]:
        self.round.over = True
        text = f"{self._most} tool calls are allowed; {frame.name} was not run"
        return [RunError("too_many_tool_calls", text, frame.id)]


def ends_calls(item: object) -> bool:
    """Whether an item of the answer, after a call in a frame, ends the calls of the answer.

    Only white space and further calls do not: other text was written without the call's result.
    """
    if isinstance(item, PlainText):
        return not item.text.isspace()
    if isinstance(item, FrameOpened):
        return item.kind != "tool"
    return isinstance(item, Failed)


def arguments_text(call: Call, schema: JsonObject) -> str:
    """Return the arguments as the model wrote them; healing passes unreadable ones in `raw`."""
    only = call.arguments.get("raw") if len(call.arguments) == 1 else None
    properties = schema.get("properties")
    if isinstance(only, str) and not (isinstance(properties, dict) and "raw" in properties):
        return only
    return call.raw or dumps(call.arguments)
