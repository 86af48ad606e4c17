"""What a conversation needs from outside before it can go on."""

from typing import TypeAlias

import msgspec

from toolbridge.core.json import JsonObject
from toolbridge.core.messages import Request
from toolbridge.structured.events import Event


class RunTool(msgspec.Struct, frozen=True):
    """Run a tool, then call `tool_done` or `tool_failed`. `ToolCall` was said already."""

    id: str
    name: str
    args: JsonObject
    client: bool = False


class AskRepair(msgspec.Struct, frozen=True):
    """Ask the model for one frame alone, then call `repaired` with the text it answered."""

    request: Request
    frame_id: str


Effect: TypeAlias = RunTool | AskRepair
Out: TypeAlias = Event | Effect
