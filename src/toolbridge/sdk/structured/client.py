"""`start_stream`: text, objects and a result that fits its schema, with tools in between.

with start_stream("Find pizza near me.", tools=["places.search"], url="http://127.0.0.1:3456") as s:
    for event in s:
        ...
    reply = s.result()
"""

import inspect
import os
import secrets
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Generic, Self, TypeVar, Unpack, overload
from weakref import finalize

from toolbridge import config_file
from toolbridge.config import Config
from toolbridge.core.json import Json
from toolbridge.sdk.streams.loop_thread import LoopClosed, LoopThread
from toolbridge.sdk.structured.async_client import AsyncStructuredStream
from toolbridge.sdk.structured.errors import StreamDegraded, StreamFailed
from toolbridge.sdk.structured.fold import ReceivedObject, StreamPiece, UsedTool
from toolbridge.sdk.structured.options import PreparedStream, Prompt, StreamOptions, read_options
from toolbridge.sdk.structured.transports import IDLE, HttpTransport, LocalTransport, Transport
from toolbridge.structured import events as fe

__all__ = [
    "AsyncStructuredStream",
    "StreamDegraded",
    "StreamFailed",
    "StreamOptions",
    "StreamPiece",
    "StructuredStream",
    "astart_stream",
    "start_stream",
    "stream_events",
]

T = TypeVar("T")
stream_events = fe


class StructuredStream(Generic[T]):
    """Iterate it for events; `result()` reads the rest and returns the result.

    The stream starts when it is first read, and an unread stream makes the server wait. Callbacks are
    called in the thread that reads; tools run in other threads.
    """

    def __init__(self, inner: AsyncStructuredStream[T]) -> None:
        self._inner = inner
        self._loop_thread = LoopThread(inner.aclose)
        # Also called at interpreter exit, so that the thread ends cleanly.
        self._finalizer = finalize(self, self._loop_thread.close)

    @property
    def run(self) -> str:
        """The id of the run; known with the first event."""
        return self._inner.run

    @property
    def last_event_id(self) -> str:
        return self._inner.last_event_id

    @property
    def text(self) -> str:
        """The text so far."""
        return self._inner.text

    @property
    def objects(self) -> tuple[ReceivedObject, ...]:
        """The complete objects so far."""
        return self._inner.objects

    @property
    def tools(self) -> tuple[UsedTool, ...]:
        """The tool calls so far, with their results."""
        return self._inner.tools

    @property
    def errors(self) -> tuple[fe.RunError, ...]:
        """The errors that did not end the stream."""
        return self._inner.errors

    @property
    def found(self) -> ReceivedObject | None:
        """The result with its schema and status; None before it has arrived."""
        return self._inner.found

    @property
    def usage(self) -> Json:
        """The tokens and the cost of all model calls; set at the end, if a provider reported them."""
        return self._inner.usage

    @property
    def paused(self) -> bool:
        return self._inner.paused

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> fe.Event:
        try:
            self._loop_thread.run(self._inner.fill())
        except LoopClosed:
            raise StopIteration from None
        except StreamFailed:
            self.close()
            raise
        if self._inner.ended:
            self.close()
            raise StopIteration
        event, calls = self._inner.pop()
        for call in calls:
            if inspect.isawaitable(call):
                self._loop_thread.wait(call)
        return event

    def result(self) -> T:
        """Read the rest; return the result, or raise `StreamFailed`."""
        for _ in self:
            pass
        return self._inner.outcome()

    def pause(self) -> None:
        """Stop reading until `resume`; may be called from any thread."""
        self._inner.pause()

    def resume(self) -> None:
        self._inner.resume()

    def abort(self) -> None:
        """Stop the run: the model and the tool. The stream still gets its final events."""
        with suppress(LoopClosed):
            self._loop_thread.run(self._inner.abort())

    def close(self) -> None:
        """Disconnect. A run at a server continues for a while; a local one ends."""
        self._finalizer()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


@overload
def start_stream(
    prompt: Prompt, *, result: type[T], **options: Unpack[StreamOptions]
) -> StructuredStream[T]: ...
@overload
def start_stream(
    prompt: Prompt, *, result: str = "", **options: Unpack[StreamOptions]
) -> StructuredStream[Json]: ...
def start_stream(
    prompt: Prompt, *, result: type[T] | str = "", **options: Unpack[StreamOptions]
) -> StructuredStream[T] | StructuredStream[Json]:
    """Return a structured stream for blocking callers.

    With `url` it runs at a server, else in this process. `result` is the name of a schema or a type.
    """
    inner: AsyncStructuredStream[T] = _stream(prompt, result, options)
    return StructuredStream(inner)


@overload
def astart_stream(
    prompt: Prompt, *, result: type[T], **options: Unpack[StreamOptions]
) -> AsyncStructuredStream[T]: ...
@overload
def astart_stream(
    prompt: Prompt, *, result: str = "", **options: Unpack[StreamOptions]
) -> AsyncStructuredStream[Json]: ...
def astart_stream(
    prompt: Prompt, *, result: type[T] | str = "", **options: Unpack[StreamOptions]
) -> AsyncStructuredStream[T] | AsyncStructuredStream[Json]:
    """Return a structured stream for async callers; otherwise as `start_stream`."""
    inner: AsyncStructuredStream[T] = _stream(prompt, result, options)
    return inner


def _stream(
    prompt: Prompt, result: type[T] | str, options: StreamOptions
) -> AsyncStructuredStream[T]:
    ordered = read_options(prompt, result, options)
    return AsyncStructuredStream(_line(ordered, options), ordered, options)


def _line(ordered: PreparedStream, options: StreamOptions) -> Transport:
    key = options.get("idempotency_key", "")
    url = options.get("url", "")
    if not url:
        here = _config(options.get("config"))
        return LocalTransport(here, ordered.body, key=key, keep=options.get("keep", True))
    headers = dict(options.get("headers", {}))
    secret = options.get("api_key", "")
    if secret:
        headers["authorization"] = f"Bearer {secret}"
    # With an idempotency key, a request whose response was lost can be sent again.
    key = key or f"sdk-{secrets.token_hex(16)}"
    return HttpTransport(
        url, ordered.body, headers, key=key, idle=options.get("idle_timeout", IDLE)
    )


def _config(given: Config | Path | str | None) -> Config:
    if isinstance(given, Config):
        return given
    return config_file.load(None if given is None else Path(given), env=os.environ)
