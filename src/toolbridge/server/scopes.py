"""The ASGI types; uvicorn's WebSocket protocol calls an ASGI application."""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, TypeAlias  # noqa: TID251  ASGI's own types are Any

from toolbridge.server.http import IncomingRequest
from toolbridge.server.http_head import Head

Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]
AsgiApp: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]


def request_of(scope: Scope) -> IncomingRequest:
    """Return the request that opened a WebSocket."""
    headers = dict(scope["headers"])
    return IncomingRequest(Head("GET", scope["path"], scope.get("query_string", b""), headers))
