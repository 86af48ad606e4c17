"""The library with sockets, for callers that block."""

import os
from collections.abc import Awaitable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar, Unpack, overload
from weakref import finalize

from toolbridge.config import Config
from toolbridge.core.embeddings import Embeddings
from toolbridge.core.messages import Message
from toolbridge.sdk.client.async_client import AsyncClient
from toolbridge.sdk.client.tool_loop import Run, ToolLoop
from toolbridge.sdk.client.typed_answer import AnswerType, text_of
from toolbridge.sdk.streams.blocking_stream import Stream
from toolbridge.sdk.streams.loop_thread import LoopThread
from toolbridge.sdk.streams.options import Options, PreparedAsk, Prompt, order_of

T = TypeVar("T")


class Client:
    """Asks models. It opens with the first request, and closes when nobody holds it any more."""

    def __init__(
        self,
        config: Config | Path | str | None = None,
        *,
        env: Mapping[str, str] = os.environ,
    ) -> None:
        self._inner = AsyncClient(config, env=env)
        self._loop_thread = LoopThread(self._inner.aclose)
        # Also called when the interpreter ends, so that no thread is left to be killed.
        self._finalizer = finalize(self, self._loop_thread.close)

    def stream(self, model: str, prompt: Prompt, **options: Unpack[Options]) -> Stream:
        """Return the answer as it comes. Whatever goes wrong with it is its last event."""
        return self.send(order_of(model, prompt, options))

    def send(self, order: PreparedAsk) -> Stream:
        """Return the answer to what `order_of` has made of a prompt."""
        return Stream(self._inner.send(order), self._loop_thread, self)

    def complete(self, model: str, prompt: Prompt, **options: Unpack[Options]) -> Message:
        """Return the whole answer, with its `problem` if there is one."""
        return self.stream(model, prompt, **options).result()

    @overload
    def ask(self, model: str, prompt: Prompt, **options: Unpack[Options]) -> str: ...
    @overload
    def ask(
        self, model: str, prompt: Prompt, *, into: type[T], **options: Unpack[Options]
    ) -> T: ...
    def ask(
        self,
        model: str,
        prompt: Prompt,
        *,
        into: type[T] | None = None,
        **options: Unpack[Options],
    ) -> T | str:
        """Return the answer's words, or a value of the type `into`; raise what goes wrong."""
        if into is None:
            return text_of(self.complete(model, prompt, **options))
        shape = AnswerType(into)
        options["output"] = shape.output
        return shape.read(self.complete(model, prompt, **options))

    def embed(
        self, model: str, texts: str | Sequence[str], *, dimensions: int | None = None
    ) -> Embeddings:
        """Return one vector per text, in the order of the texts; raise what goes wrong."""
        return self._loop_thread.wait(self._inner.embed(model, texts, dimensions=dimensions))

    def run(
        self, model: str, prompt: Prompt, *, max_turns: int = 10, **options: Unpack[Options]
    ) -> Run:
        """Run the tools that the model calls until it calls no more, in the caller's thread."""
        return Run(ToolLoop(order_of(model, prompt, options), max_turns), self.send, self._wait)

    def _wait(self, value: Awaitable[object]) -> object:
        return self._loop_thread.wait(value)

    def close(self) -> None:
        """End what is under way, close every connection and end the thread."""
        self._inner.refuse()
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
