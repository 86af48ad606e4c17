"""Effects: what a conversation needs from its caller before it can continue."""

from typing import TypeAlias

import msgspec

from toolbridge.core.json import JsonObject
from toolbridge.core.messages import Request
from toolbridge.structured.events import Event


class RunTool(msgspec.Struct, frozen=True):
    """Run a tool, then call `tool_done` or `tool_failed`. `RunToolCall` was already emitted."""

    id: str
    name: str
    args: JsonObject
    client: bool = False


class AskRepair(msgspec.Struct, frozen=True):
    """Ask the model to repair one frame, then call `repaired` with its answer."""

    request: Request
    frame_id: str


Effect: TypeAlias = RunTool | AskRepair
Out: TypeAlias = Event | Effect
