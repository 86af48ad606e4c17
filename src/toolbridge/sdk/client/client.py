"""`Client`: the blocking client."""

import os
from collections.abc import Awaitable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar, Unpack, overload
from weakref import finalize

from toolbridge.config import Config
from toolbridge.core.embeddings import Embeddings
from toolbridge.core.errors import SchemaMismatch
from toolbridge.core.messages import Message
from toolbridge.sdk.client.async_client import AsyncClient
from toolbridge.sdk.client.tool_loop import Run, ToolLoop
from toolbridge.sdk.client.typed_answer import AnswerType, text_of
from toolbridge.sdk.streams.blocking_stream import Stream
from toolbridge.sdk.streams.loop_thread import LoopThread
from toolbridge.sdk.streams.options import Options, PreparedAsk, Prompt, prepare

T = TypeVar("T")


class Client:
    """A blocking client. It connects with the first request and closes when garbage-collected."""

    def __init__(
        self,
        config: Config | Path | str | None = None,
        *,
        env: Mapping[str, str] = os.environ,
    ) -> None:
        self._inner = AsyncClient(config, env=env)
        self._loop_thread = LoopThread(self._inner.aclose)
        # Also called at interpreter exit, so that the thread ends cleanly.
        self._finalizer = finalize(self, self._loop_thread.close)

    def stream(self, model: str, prompt: Prompt, **options: Unpack[Options]) -> Stream:
        """Return the answer as a stream of events; an error is its last event."""
        return self.send(prepare(model, prompt, options))

    def send(self, order: PreparedAsk) -> Stream:
        """Return the answer to a prepared request."""
        return Stream(self._inner.send(order), self._loop_thread, self)

    def complete(self, model: str, prompt: Prompt, **options: Unpack[Options]) -> Message:
        """Return the whole message, with its `problem` after a failure."""
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
        """Return the text of the answer, or a value of the type `into`; raise on failure."""
        if into is None:
            return text_of(self.complete(model, prompt, **options))
        shape = AnswerType(into)
        options["output"] = shape.output
        asked = prepare(model, prompt, options)
        message = self.send(asked).result()
        try:
            return shape.read(message)
        except SchemaMismatch:
            again = shape.without_tools(asked, message)
            if again is None:
                raise
        return shape.read(self.send(again).result())

    def embed(
        self, model: str, texts: str | Sequence[str], *, dimensions: int | None = None
    ) -> Embeddings:
        """Return one vector per text, in the order of the texts; raise on failure."""
        return self._loop_thread.wait(self._inner.embed(model, texts, dimensions=dimensions))

    def run(
        self, model: str, prompt: Prompt, *, max_turns: int = 10, **options: Unpack[Options]
    ) -> Run:
        """Run the tools that the model calls, in the caller's thread, until it calls no more."""
        return Run(ToolLoop(prepare(model, prompt, options), max_turns), self.send, self._wait)

    def _wait(self, value: Awaitable[object]) -> object:
        return self._loop_thread.wait(value)

    def close(self) -> None:
        """End all active streams, close every connection and end the thread."""
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
