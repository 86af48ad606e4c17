"""Records a run for its artifacts: requests, events, tool calls, usage and the result."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

import msgspec

from toolbridge.core import events as ev
from toolbridge.core.json import Json, JsonObject, loads
from toolbridge.core.messages import Loss, Request
from toolbridge.core.usage import Usage
from toolbridge.routing.route import Route
from toolbridge.runs.kept_events import Record
from toolbridge.runs.request import StreamRequest
from toolbridge.structured.contract import Mode
from toolbridge.structured.conversation import RunTool, StructuredConversation
from toolbridge.structured.events import Event, ResultDelta, ResultEnd, data_of
from toolbridge.tools.registry import ToolOutcome

if TYPE_CHECKING:
    from toolbridge.runs.artifacts import Artifacts, RunFiles


class Recorder:
    """The recorder of one run; without artifacts it does nothing."""

    def __init__(self, run: str, route: Route, artifacts: "Artifacts | None") -> None:
        self._run = run
        self._route = route
        self._artifacts = artifacts
        self._files: RunFiles | None = None
        self._prompt: JsonObject = {}
        self._requests: list[Json] = []
        self._losses: list[Json] = []
        self._complaints: list[Json] = []
        self._chunks: list[str] = []
        self._result: Json = None
        self._input = 0
        self._output = 0
        self._forget_answer()

    def begin(self, stream_request: StreamRequest) -> None:
        if self._artifacts is None:
            return
        self._prompt = {"order": msgspec.to_builtins(stream_request), "model": self._route.address}
        self._files = self._artifacts.open(self._run, self._prompt)

    def requested(self, request: Request) -> None:
        """Record a request to the model: the first in full, later ones shortened."""
        if self._files is None:
            return
        self._requests.append(_shown(request, whole=not self._requests))
        self._files.write("prompt", {**self._prompt, "requests": self._requests})

    def serve_by(self, route: Route) -> None:
        """Record the route that answers the run from now on."""
        self._route = route

    def lost(self, losses: tuple[Loss, ...]) -> None:
        self._losses = [str(loss) for loss in losses]

    def warn(self, text: str) -> None:
        self._complaints.append(text)

    def usage(self, event: ev.Event) -> None:
        if isinstance(event, ev.TextDelta):
            self._read += len(event.text)
        elif isinstance(event, ev.UsageReported):
            self._reported = event.usage
        elif isinstance(event, ev.Lost):
            self._lost.append(event.loss)
        elif isinstance(event, ev.Finished):
            self.add_answer(self._reported, self._lost)
            self._forget_answer()

    def left_early(self, tokens: int) -> None:
        """Record an answer that was left at a tool call; its usage is an estimate."""
        self._input += tokens
        self._output += -(-self._read // 4)
        self._forget_answer()

    def add_answer(self, usage: Usage, losses: Iterable[Loss]) -> None:
        """Add the counts and losses of an answer that has finished."""
        self._input += usage.input_total
        self._output += usage.output
        self._losses += [str(loss) for loss in losses]

    def _forget_answer(self) -> None:
        """Begin the next answer without the counts and losses of the last one."""
        self._read = 0
        self._reported = Usage()
        self._lost: list[Loss] = []

    def tool(self, effect: RunTool, outcome: ToolOutcome) -> None:
        if self._files is None:
            return
        entry: JsonObject = {"id": effect.id, "name": effect.name, "args": effect.args}
        shown: JsonObject = msgspec.to_builtins(outcome)
        self._files.tool({**entry, **shown, "client": effect.client})

    def sent(self, events: list[tuple[Record, Event]]) -> None:
        """Record events that were sent together."""
        if self._files is None:
            return
        for _, event in events:
            if isinstance(event, ResultDelta):
                self._chunks.append(event.chunk)
            elif isinstance(event, ResultEnd):
                self._end_result(event)
        self._files.frames([(record.n, record.name, data_of(event)) for record, event in events])

    def _end_result(self, event: ResultEnd) -> None:
        if event.value is not msgspec.UNSET:
            self._result = event.value
        else:
            self._result = loads("".join(self._chunks))
        self._chunks = []

    def end(self, conversation: StructuredConversation, mode: Mode) -> None:
        """Write the result, the mode and the usage."""
        if self._files is None:
            return
        metrics: JsonObject = {
            "model": self._route.address,
            "mode": mode,
            "first_try": conversation.first_try,
            "repairs": conversation.repairs,
            "tool_calls": conversation.tool_calls,
            "input_tokens": self._input,
            "output_tokens": self._output,
            "losses": self._losses,
            "complaints": self._complaints,
        }
        self._files.finish(self._result, metrics)


def _shown(request: Request, *, whole: bool) -> Json:
    """Return a request for `prompt.json`: the first in full, later ones with their last two turns."""
    kept = (
        request if whole else msgspec.structs.replace(request, turns=request.turns[-2:], system=())
    )
    shown: Json = msgspec.to_builtins(kept)
    return shown
