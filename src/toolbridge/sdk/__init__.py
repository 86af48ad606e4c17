"""The library with sockets: ask any model from Python, blocking or awaiting."""

from toolbridge.sdk.async_client import AsyncClient
from toolbridge.sdk.async_stream import AsyncStream
from toolbridge.sdk.blocking_stream import Stream
from toolbridge.sdk.client import Client
from toolbridge.sdk.options import Options
from toolbridge.sdk.pi import PiStream, complete, stream
from toolbridge.sdk.signal import Signal
from toolbridge.sdk.tool_loop import AsyncRun, Run
from toolbridge.tools.functions import Function, tool

__all__ = [
    "AsyncClient",
    "AsyncRun",
    "AsyncStream",
    "Client",
    "Function",
    "Options",
    "PiStream",
    "Run",
    "Signal",
    "Stream",
    "complete",
    "stream",
    "tool",
]
