"""Any LLM client, any model, tool calls that work.

What is named here is public and stable; everything else may change.
"""

from toolbridge.core.errors import (
    ClientError,
    ConfigError,
    ModelError,
    ToolbridgeError,
    UpstreamError,
)
from toolbridge.core.events import (
    CallDelta,
    CallEnd,
    CallStart,
    Event,
    Failed,
    Finished,
    Healed,
    PartAdded,
    Started,
    TextDelta,
    TextEnd,
    TextStart,
    ThinkingDelta,
    ThinkingEnd,
    ThinkingStart,
    UsageReported,
)
from toolbridge.core.fold import collect
from toolbridge.core.messages import Call, Message, Request, Result, Text, Thinking, Tool, Turn
from toolbridge.core.stage import Pipe, Stage
from toolbridge.core.usage import Cost, Usage
from toolbridge.healing import Healing, heal
from toolbridge.translate import translate

__all__ = [
    "Call",
    "CallDelta",
    "CallEnd",
    "CallStart",
    "ClientError",
    "ConfigError",
    "Cost",
    "Event",
    "Failed",
    "Finished",
    "Healed",
    "Healing",
    "Message",
    "ModelError",
    "PartAdded",
    "Pipe",
    "Request",
    "Result",
    "Stage",
    "Started",
    "Text",
    "TextDelta",
    "TextEnd",
    "TextStart",
    "Thinking",
    "ThinkingDelta",
    "ThinkingEnd",
    "ThinkingStart",
    "Tool",
    "ToolbridgeError",
    "Turn",
    "UpstreamError",
    "Usage",
    "UsageReported",
    "collect",
    "heal",
    "translate",
]
