"""Any LLM client, any model, tool calls that work.

What is named here is public and stable; everything else may change. What needs sockets is loaded
when it is first named: the rest is pure, and quick to import.
"""

from importlib import import_module
from typing import TYPE_CHECKING

import toolbridge.cli_start  # noqa: F401 -- first, for Ctrl-C while the rest is imported
from toolbridge.core.embeddings import Embeddings
from toolbridge.core.errors import (
    ClientError,
    ConfigError,
    ModelError,
    ToolbridgeError,
    UpstreamError,
)
from toolbridge.core.events import (
    Alternative,
    CallDelta,
    CallEnd,
    CallStart,
    Event,
    Failed,
    Finished,
    Healed,
    LogprobsReported,
    Lost,
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
from toolbridge.core.messages import (
    Call,
    Image,
    Loss,
    Message,
    Problem,
    Request,
    Result,
    Text,
    Thinking,
    Tool,
    Turn,
)
from toolbridge.core.stage import Pipe, Stage
from toolbridge.core.usage import Cost, Usage
from toolbridge.dialects.reader import Reading, TextReader, read_text
from toolbridge.healing import Healing, heal
from toolbridge.translate import translate
from toolbridge.version import __version__ as __version__

if TYPE_CHECKING:
    from toolbridge.sdk import (
        AsyncClient,
        AsyncRun,
        AsyncStream,
        Client,
        Function,
        PiStream,
        Run,
        Signal,
        Stream,
        complete,
        stream,
        tool,
    )
    from toolbridge.sdk.structured.client import (
        AsyncStructuredStream,
        StreamDegraded,
        StreamFailed,
        StreamPiece,
        StructuredStream,
        astart_stream,
        start_stream,
        stream_events,
    )

__all__ = [
    "Alternative",
    "AsyncClient",
    "AsyncRun",
    "AsyncStream",
    "AsyncStructuredStream",
    "Call",
    "CallDelta",
    "CallEnd",
    "CallStart",
    "Client",
    "ClientError",
    "ConfigError",
    "Cost",
    "Embeddings",
    "Event",
    "Failed",
    "Finished",
    "Function",
    "Healed",
    "Healing",
    "Image",
    "LogprobsReported",
    "Loss",
    "Lost",
    "Message",
    "ModelError",
    "PartAdded",
    "PiStream",
    "Pipe",
    "Problem",
    "Reading",
    "Request",
    "Result",
    "Run",
    "Signal",
    "Stage",
    "Started",
    "Stream",
    "StreamDegraded",
    "StreamFailed",
    "StreamPiece",
    "StructuredStream",
    "Text",
    "TextDelta",
    "TextEnd",
    "TextReader",
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
    "astart_stream",
    "collect",
    "complete",
    "heal",
    "read_text",
    "start_stream",
    "stream",
    "stream_events",
    "tool",
    "translate",
]

_LATER = frozenset(
    {
        "AsyncClient", "AsyncRun", "AsyncStream", "Client", "Function", "PiStream", "Run", "Signal",
        "Stream", "complete", "stream", "tool",
    }
)  # fmt: skip
_OF_STREAMS = frozenset(
    {
        "AsyncStructuredStream", "StreamDegraded", "StreamFailed", "StreamPiece", "StructuredStream",
        "astart_stream", "start_stream", "stream_events",
    }
)  # fmt: skip
"""They need more than the rest, so they are loaded by themselves."""


def __getattr__(name: str) -> object:
    if name in _OF_STREAMS:
        room = "toolbridge.sdk.structured.client"
    elif name in _LATER:
        room = "toolbridge.sdk"
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found: object = getattr(import_module(room), name)
    return found


def __dir__() -> list[str]:
    return __all__
