"""The ASGI types; uvicorn's WebSocket protocol calls an ASGI application."""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, TypeAlias  # noqa: TID251  ASGI's own types are Any

Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]
AsgiApp: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]
