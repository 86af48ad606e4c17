"""Effects: what a conversation needs from its caller before it can continue."""

from typing import TypeAlias

import msgspec

from toolbridge.core.json import JsonObject
from toolbridge.core.messages import Request
from toolbridge.structured.events import Event


class RunTool(msgspec.Struct, frozen=True):
    """A tool to run; its `RunToolCall` was already emitted."""

    id: str
    name: str
    args: JsonObject
    client: bool = False


class RunTools(msgspec.Struct, frozen=True):
    """Run the tools of one answer, at the same time; call `tool_done` or `tool_failed` for each.

    The model wrote these calls without the results of the others, so they do not depend on them.
    """

    calls: tuple[RunTool, ...]


class AskRepair(msgspec.Struct, frozen=True):
    """Ask the model to repair one frame, then call `repaired` with its answer."""

    request: Request
    frame_id: str


Effect: TypeAlias = RunTools | AskRepair
Out: TypeAlias = Event | Effect
