"""What a structured stream may use, and what its calls of the model cost.

The server passes a `Meter` for the caller's key; the SDK's local streams have none.
"""

from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Protocol

from toolbridge.routing.charge import Charge, InnerCharges, RequestSize
from toolbridge.routing.failover import AnswerChain
from toolbridge.routing.route import Route
from toolbridge.runs.usage import CallTokens


class Meter(Protocol):
    """Checks the scopes and limits of a key, and charges each call of the model to it."""

    run: str
    """The id of the run, once it has one."""

    @property
    def key_name(self) -> str:
        """The name of the caller's created key; empty without one."""
        ...

    @property
    def descriptions(self) -> InnerCharges:
        """Charges the descriptions of images to the key."""
        ...

    async def permit(self, address: str, tools: Iterable[str]) -> None:
        """Raise if the key may not use the model or a tool, or has nothing left."""

    def allowed(self, addresses: Sequence[str]) -> Sequence[str]:
        """Return those addresses that the key may use."""
        ...

    def call(self, route: Route, asked: RequestSize) -> AbstractAsyncContextManager[Charge]:
        """Reserve for one call of the model, and settle it at the end of the context."""


@asynccontextmanager
async def metered(
    meter: Meter | None, chain: AnswerChain, asked: RequestSize, count: CallTokens
) -> AsyncIterator[None]:
    """Charge one call of the model, whose tokens are in `count`."""
    if meter is None:
        yield
        return
    async with meter.call(chain.route, asked) as charge:

        async def reserve(route: Route) -> None:
            await charge.fit(route, asked)

        chain.reserve = reserve
        try:
            yield
        finally:
            charge.message = count.answer
