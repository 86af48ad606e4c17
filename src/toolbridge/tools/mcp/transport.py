"""The interface of the two transports of MCP."""

from collections.abc import Awaitable, Callable
from typing import Protocol, TypeAlias

from toolbridge.core.json import JsonObject

MAX_MESSAGE = 16 * 1024 * 1024
"""The most bytes of one message of a server."""

Receiver: TypeAlias = Callable[[JsonObject], JsonObject | None]
"""Gets a request or a notification of the server; returns the answer to a request."""
Connect: TypeAlias = Callable[[Receiver], Awaitable["McpTransport"]]


class McpTransport(Protocol):
    """Carries JSON-RPC messages to one server. Every method may raise `McpFailure`."""

    @property
    def closed(self) -> bool:
        """Whether the connection has ended."""

    async def request(self, message: JsonObject) -> JsonObject:
        """Send a request and return the server's answer, which has the same `id`."""

    async def notify(self, message: JsonObject) -> None:
        """Send a message that has no answer."""

    def negotiated(self, version: str) -> None:
        """Take the protocol version that both sides use from now on."""

    async def close(self) -> None:
        """End the session and free its resources."""
