"""The library with sockets: ask any model from Python, blocking or awaiting."""

from toolbridge.sdk.client.async_client import AsyncClient
from toolbridge.sdk.client.client import Client
from toolbridge.sdk.client.tool_loop import AsyncRun, Run
from toolbridge.sdk.pi.stream import PiStream, complete, stream
from toolbridge.sdk.streams.async_stream import AsyncStream
from toolbridge.sdk.streams.blocking_stream import Stream
from toolbridge.sdk.streams.options import Options
from toolbridge.sdk.streams.signal import Signal
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
