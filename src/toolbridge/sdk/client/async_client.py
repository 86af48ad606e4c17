"""`AsyncClient`: the async client."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar, Unpack, overload
from weakref import WeakSet

from toolbridge import config_file
from toolbridge.config import Config
from toolbridge.core.embeddings import EmbeddingRequest, Embeddings
from toolbridge.core.errors import SchemaMismatch
from toolbridge.core.messages import Message
from toolbridge.sdk.client.tool_loop import AsyncRun, ToolLoop
from toolbridge.sdk.client.typed_answer import AnswerType, text_of
from toolbridge.sdk.streams.answers import AnswerNotes, Answers
from toolbridge.sdk.streams.async_stream import AsyncStream
from toolbridge.sdk.streams.loop_thread import LoopClosed
from toolbridge.sdk.streams.options import Options, PreparedAsk, Prompt, prepare

T = TypeVar("T")


class AsyncClient:
    """An async client. It connects with the first request; close it with `aclose` or `async with`."""

    def __init__(
        self,
        config: Config | Path | str | None = None,
        *,
        env: Mapping[str, str] = os.environ,
    ) -> None:
        if not isinstance(config, Config):
            path = None if config is None else Path(config)
            config = config_file.load(path, env=env)
        self._answers = Answers(config, env)
        self._streams: WeakSet[AsyncStream] = WeakSet()
        self._closed = False

    def stream(self, model: str, prompt: Prompt, **options: Unpack[Options]) -> AsyncStream:
        """Return the answer as a stream of events; an error is its last event."""
        return self.send(prepare(model, prompt, options))

    def send(self, order: PreparedAsk) -> AsyncStream:
        """Return the answer to a prepared request."""
        if self._closed:
            raise LoopClosed("the client is closed")
        notes = AnswerNotes()
        stream = AsyncStream(self._answers.answer(order, notes), order, notes)
        self._streams.add(stream)
        return stream

    async def complete(self, model: str, prompt: Prompt, **options: Unpack[Options]) -> Message:
        """Return the whole message, with its `problem` after a failure."""
        return await self.stream(model, prompt, **options).result()

    @overload
    async def ask(self, model: str, prompt: Prompt, **options: Unpack[Options]) -> str: ...
    @overload
    async def ask(
        self, model: str, prompt: Prompt, *, into: type[T], **options: Unpack[Options]
    ) -> T: ...
    async def ask(
        self,
        model: str,
        prompt: Prompt,
        *,
        into: type[T] | None = None,
        **options: Unpack[Options],
    ) -> T | str:
        """Return the text of the answer, or a value of the type `into`; raise on failure."""
        if into is None:
            return text_of(await self.complete(model, prompt, **options))
        shape = AnswerType(into)
        options["output"] = shape.output
        asked = prepare(model, prompt, options)
        message = await self.send(asked).result()
        try:
            return shape.read(message)
        except SchemaMismatch:
            again = shape.without_tools(asked, message)
            if again is None:
                raise
        return shape.read(await self.send(again).result())

    async def embed(
        self, model: str, texts: str | Sequence[str], *, dimensions: int | None = None
    ) -> Embeddings:
        """Return one vector per text, in the order of the texts; raise on failure."""
        if self._closed:
            raise LoopClosed("the client is closed")
        inputs = (texts,) if isinstance(texts, str) else tuple(texts)
        return await self._answers.embed(EmbeddingRequest(model, inputs, dimensions))

    def run(
        self, model: str, prompt: Prompt, *, max_turns: int = 10, **options: Unpack[Options]
    ) -> AsyncRun:
        """Run the tools that the model calls, until it calls no more."""
        return AsyncRun(ToolLoop(prepare(model, prompt, options), max_turns), self.send)

    def refuse(self) -> None:
        """Reject further requests."""
        self._closed = True

    async def aclose(self) -> None:
        """End all active streams and close every connection."""
        self.refuse()
        for stream in list(self._streams):
            await stream.aclose("the client was closed")
        await self._answers.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()
