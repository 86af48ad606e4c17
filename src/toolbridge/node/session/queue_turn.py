"""The turn of one request in the queue of a session; `NodeSession` runs one at a time."""

from collections.abc import Callable

from toolbridge.node.session.exchange import Batch, NodeExchange


class QueueTurn:
    """A request at the head of a session's queue; it leaves the queue once."""

    def __init__(self, leave: Callable[[NodeExchange | None], None]) -> None:
        self._leave = leave
        self._left = False
        self.exchange: NodeExchange | None = None

    @property
    def ended(self) -> bool:
        """Whether the last event of the answer has been read."""
        return self.exchange is not None and self.exchange.decoder.ended

    async def read(self) -> Batch:
        return await self.exchange.read() if self.exchange is not None else []

    def leave(self) -> None:
        if not self._left:
            self._left = True
            self._leave(self.exchange)
