"""Errors of a connection to a provider; `upstream.http` turns them into errors that name the provider."""

CLOSED = "it closed the connection"
"""The text of the error where nothing else is known about it."""


class ConnectionClosed(Exception):
    """The server closed the connection before its response was complete."""


class InvalidResponse(Exception):
    """The server's bytes are not an HTTP response."""


class ProxyFailed(Exception):
    """A proxy opened no connection to the server; the text names the proxy, without its password."""

    def __init__(self, text: str, to_do: str, *, permanent: bool) -> None:
        super().__init__(text)
        self.to_do = to_do
        self.permanent = permanent
