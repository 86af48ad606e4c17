"""Errors of a connection to a provider; `upstream.http` turns them into errors that name the provider."""

import os

CLOSED = "it closed the connection"
"""The text of the error where nothing else is known about it."""


class ConnectFailed(Exception):
    """No connection could be opened."""

    def __init__(self, error: OSError) -> None:
        super().__init__(str(error))
        self.os_error = error


class ConnectTimedOut(Exception):
    """No connection was opened in time; with `accepted`, only TLS was missing."""

    def __init__(self, *, accepted: bool = False) -> None:
        super().__init__()
        self.accepted = accepted


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


def reason(error: BaseException) -> str:
    """Return the reason of a failed connection as text."""
    cause = error.os_error if isinstance(error, ConnectFailed) else error
    if not isinstance(cause, OSError):
        return str(cause) or type(cause).__name__
    number = cause.errno or 0
    # `strerror` knows the system's numbers; those of a resolver are negative.
    if number > 0 and type(cause).__module__ == "builtins":
        return os.strerror(number)
    return cause.strerror or str(cause) or type(cause).__name__
