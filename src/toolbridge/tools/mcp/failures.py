"""What can go wrong with an MCP server.

McpFailure
├── McpRejection       the server answered with a JSON-RPC error
├── McpTimedOut        the server did not answer in time
├── McpClosed          the connection or the process ended
│   └── SessionLost    the server has forgotten the session; a new handshake may help
└── LoginNeeded        the server requires a login (401)
"""


class McpFailure(Exception):
    """A server failed; the text states how, and the next step."""


class McpRejection(McpFailure):
    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


class McpTimedOut(McpFailure):
    """The server did not answer in time."""


class McpClosed(McpFailure):
    """The connection, or the process of the server, has ended."""


class SessionLost(McpClosed):
    """The server does not know the session any more."""


class LoginNeeded(McpFailure):
    """The server requires an access token; `challenge` is its `WWW-Authenticate`."""

    def __init__(self, text: str, challenge: str) -> None:
        super().__init__(text)
        self.challenge = challenge
