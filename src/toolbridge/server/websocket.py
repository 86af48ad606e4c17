"""uvicorn's WebSocket protocol, which calls an ASGI application.

Loaded with the first WebSocket: most gateways never have one, and uvicorn and its own imports take
3 MB and 50 ms.
"""

import asyncio

import uvicorn
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from toolbridge.server.http_protocol import ServerState
from toolbridge.server.scopes import AsgiApp


def websocket_protocol(app: AsgiApp, state: ServerState, max_size: int) -> WebSocketsSansIOProtocol:
    """Return the protocol of a connection that a client upgrades; `max_size` is that of a message."""
    config = uvicorn.Config(
        app,
        interface="asgi3",
        http=asyncio.Protocol,  # not used: the connection is upgraded already
        ws="none",  # this one is
        ws_max_size=max_size,
        lifespan="off",
        log_config=None,  # it would be configured for `log_level` alone
        log_level="critical",
        access_log=False,
        proxy_headers=False,
    )
    return WebSocketsSansIOProtocol(config, state, app_state={})  # type: ignore[arg-type]
