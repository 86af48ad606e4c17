"""`toolbridge.stream` and `toolbridge.complete`: pi's API, for blocking and async callers.

Each call opens a client with the first event and closes it with the last. Pass a `client` to keep
connections between calls.
"""

from collections.abc import AsyncGenerator, Generator
from contextlib import aclosing
from typing import Self, Unpack

from toolbridge import config_file
from toolbridge.config import Config
from toolbridge.core.messages import Message
from toolbridge.sdk.client.async_client import AsyncClient
from toolbridge.sdk.client.client import Client
from toolbridge.sdk.pi.context import Context, request_of
from toolbridge.sdk.pi.events import PiEncoder, PiEvent
from toolbridge.sdk.streams.options import Options, PreparedAsk, Thinks, prepare
from toolbridge.sdk.streams.signal import ASKED, Signal


class PiOptions(Options, total=False):
    reasoning: Thinks
    """pi's name for `think`."""
    client: Client | AsyncClient


def stream(model: str, context: Context, **options: Unpack[PiOptions]) -> "PiStream":
    """Return the answer as a stream of pi's events; iterate it with `for` or `async for`.

    Errors and aborts are events, never exceptions; only an invalid context raises.
    """
    client = options.pop("client", None)
    if (reasoning := options.pop("reasoning", None)) is not None:
        options.setdefault("think", reasoning)
    request, tools = request_of(context)
    if tools:
        options["tools"] = (*options.get("tools", ()), *tools)
    signal = Signal()
    if (given := options.get("signal")) is not None:
        given.attach(signal)
    options["signal"] = signal
    order = prepare(model, request, options)
    return PiStream(order, signal, config_file.load() if client is None else client)


def complete(model: str, context: Context, **options: Unpack[PiOptions]) -> Message:
    """Return the whole message, with its `problem` after a failure."""
    return stream(model, context, **options).result()


class PiStream:
    """An answer in pi's events. Read it in one way only: with `for`, or with `async for`."""

    def __init__(
        self, order: PreparedAsk, signal: Signal, via: Client | AsyncClient | Config
    ) -> None:
        self._order = order
        self._signal = signal
        self._via = via
        self._encoder = PiEncoder()
        self._events_iterator: Generator[PiEvent, None, None] | None = None
        self._awaited: AsyncGenerator[PiEvent, None] | None = None

    @property
    def message(self) -> Message:
        """The message so far."""
        return self._encoder.message

    def abort(self, why: str = ASKED) -> None:
        """End the stream, from any thread: the next event is an `error` with the reason `aborted`."""
        self._signal.abort(why)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> PiEvent:
        if self._events_iterator is None:
            if self._awaited is not None or isinstance(self._via, AsyncClient):
                raise TypeError("this answer is read with `async for`")
            self._events_iterator = _events(self._order, self._encoder, self._via)
        return next(self._events_iterator)

    def result(self) -> Message:
        """Read the rest; return the whole message. In async code, `await` the stream instead."""
        for _ in self:
            pass
        return self.message

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> PiEvent:
        if self._awaited is None:
            if self._events_iterator is not None or isinstance(self._via, Client):
                raise TypeError("this answer is read with `for`")
            self._awaited = _events_async(self._order, self._encoder, self._via)
        return await anext(self._awaited)

    def __await__(self) -> Generator[object, None, Message]:
        return self._result().__await__()

    async def _result(self) -> Message:
        async for _ in self:
            pass
        return self.message


# The generators have no reference to their `PiStream`: a dropped stream must end at once, not with
# the next garbage collection.


def _events(
    order: PreparedAsk, encoder: PiEncoder, via: Client | Config
) -> Generator[PiEvent, None, None]:
    if isinstance(via, Config):
        with Client(via) as own:
            yield from _events(order, encoder, own)
        return
    for event in via.send(order):
        yield from encoder.feed(event)


async def _events_async(
    order: PreparedAsk, encoder: PiEncoder, via: AsyncClient | Config
) -> AsyncGenerator[PiEvent, None]:
    if isinstance(via, Config):
        async with AsyncClient(via) as own, aclosing(_events_async(order, encoder, own)) as events:
            async for written in events:
                yield written
        return
    async with via.send(order) as answer:
        async for event in answer:
            for written in encoder.feed(event):
                yield written
