"""Errors of a connection to a provider; `upstream.http` turns them into errors that name the provider."""

CLOSED = "it closed the connection"
"""The text of the error where nothing else is known about it."""


class ConnectionClosed(Exception):
    """The server closed the connection before its response was complete."""


class InvalidResponse(Exception):
    """The server's bytes are not an HTTP response."""
