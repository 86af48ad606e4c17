"""The Python SDK: ask any model, with blocking or async code.

It has four parts: `client` (Client and AsyncClient), `streams` (one answer as events), `structured`
(structured streams, `start_stream`) and `pi` (the API of the pi-ai library).
"""

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
