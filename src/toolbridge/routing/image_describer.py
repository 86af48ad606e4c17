"""Asks a model that sees for descriptions of images, and keeps them.

`translated.TranslatedRequest` uses it where the model of a request accepts no images and the
setting `describe_images` names another one. Each image is described once: the description is kept
by the hash of its content.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from toolbridge.accounting.count import estimate_request
from toolbridge.core.errors import ToolbridgeError
from toolbridge.core.messages import Image, Loss, Message, Request
from toolbridge.policy.image_descriptions import (
    bounded_description,
    describing_request,
    images_of,
    with_descriptions,
)
from toolbridge.routing.charge import InnerCharges, RequestSize
from toolbridge.routing.route import Route
from toolbridge.routing.sources import Batch, Source

AskModel: TypeAlias = Callable[[Route, Request], Awaitable[Message]]
"""Sends a request to a model, and returns its answer."""
FindRoute: TypeAlias = Callable[[], Awaitable[Route]]
"""Returns the route of the model that describes; raises if no model accepts images."""
_KEPT = 256
"""Descriptions that are kept; each has at most 6000 characters."""
_AT_ONCE = 4
"""Images of one request that are described at the same time."""
_LIMIT = 60.0
"""Seconds for one description."""


class ImageDescriber:
    """The descriptions of images by one model."""

    def __init__(self, model: str, find: FindRoute, ask: AskModel) -> None:
        self._model = model
        self._find = find
        self._ask = ask
        self._kept: dict[str, str] = {}
        """Hash of an image → its description; the last used are last."""

    def source(self, describe: Callable[[], Awaitable[Source]]) -> Source:
        """Return a source that calls `describe` at its first read."""
        return DescribedSource(describe)

    async def describe(
        self, request: Request, meter: InnerCharges | None
    ) -> tuple[Request, tuple[Loss, ...]]:
        """Return `request` with its images described, and the losses.

        An image that cannot be described stays, and is left out as without this setting. `meter`
        is asked whether the caller may use the model, and charges it.
        """
        gate = asyncio.Semaphore(_AT_ONCE)
        images = images_of(request)
        try:
            route = await self._find()
            if meter is not None:
                meter.permit(route.address)
        except ToolbridgeError as error:
            return request, (Loss("images", f"{self._model} did not describe an image: {error}"),)
        texts = await asyncio.gather(
            *(self._text(key, images[key], gate, (route, meter)) for key in images)
        )
        found = dict(zip(images, texts, strict=True))
        described = {key: text for key, text in found.items() if isinstance(text, str)}
        request, losses = with_descriptions(request, described, self._model)
        failed = [text for text in found.values() if isinstance(text, Loss)]
        return request, (*losses, *failed)

    async def _text(
        self,
        key: str,
        image: Image,
        gate: asyncio.Semaphore,
        by: tuple[Route, InnerCharges | None],
    ) -> str | Loss:
        if key in self._kept:
            self._kept[key] = self._kept.pop(key)
            return self._kept[key]
        try:
            async with gate, asyncio.timeout(_LIMIT):
                message = await self._charged(describing_request(image), *by)
        except (ToolbridgeError, TimeoutError) as error:
            why = str(error) or f"no answer within {_LIMIT:.0f} seconds"
            return Loss("images", f"{self._model} did not describe an image: {why}")
        text = bounded_description(message.text)
        if not text:
            return Loss("images", f"{self._model} returned an empty description of an image")
        self._kept[key] = text
        while len(self._kept) > _KEPT:
            del self._kept[next(iter(self._kept))]
        return text

    async def _charged(self, request: Request, route: Route, meter: InnerCharges | None) -> Message:
        if meter is None:
            return await self._ask(route, request)
        asked = RequestSize(estimate_request(request), request.max_tokens)
        async with meter.call(route, asked) as charge:
            message = charge.message = await self._ask(route, request)
        return message


class DescribedSource:
    """The source of an answer to a request whose images are described at the first read."""

    passing = False

    def __init__(self, describe: Callable[[], Awaitable[Source]]) -> None:
        self._describe = describe
        self._source: Source | None = None

    async def read(self) -> Batch | None:
        if self._source is None:
            self._source = await self._describe()
        return await self._source.read()

    async def close(self) -> None:
        if self._source is not None:
            await self._source.close()
