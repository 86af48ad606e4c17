"""`toolbridge.stream` and `toolbridge.complete`: pi's contract, for those who block or await.

One call, one connection: a client of its own is opened with the first event and closed with the
last. Give it a `client` to keep connections between calls.
"""

from collections.abc import AsyncGenerator, Generator
from contextlib import aclosing
from typing import Self, Unpack

from toolbridge import config as configuration
from toolbridge.config import Config
from toolbridge.core.messages import Message
from toolbridge.sdk.client.async_client import AsyncClient
from toolbridge.sdk.client.client import Client
from toolbridge.sdk.pi.context import Context, request_of
from toolbridge.sdk.pi.events import PiEncoder, PiEvent
from toolbridge.sdk.streams.options import Options, PreparedAsk, Thinks, order_of
from toolbridge.sdk.streams.signal import ASKED, Signal


class PiOptions(Options, total=False):
    reasoning: Thinks
    """pi's word for `think`."""
    client: Client | AsyncClient


def stream(model: str, context: Context, **options: Unpack[PiOptions]) -> "PiStream":
    """Return the answer as it comes, in pi's events; iterate it with `for` or `async for`.

    Errors and aborts are events, never exceptions; only a context that nobody can read raises.
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
    order = order_of(model, request, options)
    return PiStream(order, signal, configuration.load() if client is None else client)


def complete(model: str, context: Context, **options: Unpack[PiOptions]) -> Message:
    """Return the whole answer, with its `problem` if there is one."""
    return stream(model, context, **options).result()


class PiStream:
    """An answer in pi's events. Read it in one way only: with `for`, or with `async for`."""

    def __init__(
        self, order: PreparedAsk, signal: Signal, via: Client | AsyncClient | Config
    ) -> None:
        self._order = order
        self._signal = signal
        self._via = via
        self._teller = PiEncoder()
        self._told: Generator[PiEvent, None, None] | None = None
        self._awaited: AsyncGenerator[PiEvent, None] | None = None

    @property
    def message(self) -> Message:
        """The answer as far as it was told."""
        return self._teller.message

    def abort(self, why: str = ASKED) -> None:
        """End it, from any thread: the next event is an `error` with the reason `aborted`."""
        self._signal.abort(why)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> PiEvent:
        if self._told is None:
            if self._awaited is not None or isinstance(self._via, AsyncClient):
                raise TypeError("this answer is read with `async for`")
            self._told = _tell(self._order, self._teller, self._via)
        return next(self._told)

    def result(self) -> Message:
        """Read what is left; return the whole message. Where you await, `await` the stream."""
        for _ in self:
            pass
        return self.message

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> PiEvent:
        if self._awaited is None:
            if self._told is not None or isinstance(self._via, Client):
                raise TypeError("this answer is read with `for`")
            self._awaited = _tell_async(self._order, self._teller, self._via)
        return await anext(self._awaited)

    def __await__(self) -> Generator[object, None, Message]:
        return self._result().__await__()

    async def _result(self) -> Message:
        async for _ in self:
            pass
        return self.message


# The generators do not know their `PiStream`: one that is dropped half-way must end at once, not
# when the collector comes by.


def _tell(
    order: PreparedAsk, teller: PiEncoder, via: Client | Config
) -> Generator[PiEvent, None, None]:
    if isinstance(via, Config):
        with Client(via) as own:
            yield from _tell(order, teller, own)
        return
    for event in via.send(order):
        yield from teller.feed(event)


async def _tell_async(
    order: PreparedAsk, teller: PiEncoder, via: AsyncClient | Config
) -> AsyncGenerator[PiEvent, None]:
    if isinstance(via, Config):
        async with AsyncClient(via) as own, aclosing(_tell_async(order, teller, own)) as events:
            async for told in events:
                yield told
        return
    async with via.send(order) as answer:
        async for event in answer:
            for told in teller.feed(event):
                yield told
