"""Errors of the Converse API: an HTTP error, or an exception inside a stream."""

from collections.abc import Mapping

from toolbridge.core.json import maybe_object
from toolbridge.core.messages import Problem
from toolbridge.wire.aws_errors import read_aws_problem, read_aws_rejection
from toolbridge.wire.event_stream import EventMessage


def decode_rejection(status: int, headers: Mapping[str, str], body: bytes) -> Problem:
    """Return the problem that a status, its headers and an error body describe."""
    return read_aws_rejection(status, headers, body)


def decode_error(message: EventMessage) -> Problem:
    """Return the problem that an exception or error of a stream describes."""
    found = maybe_object(message.payload) or {}
    text = found.get("message") or message.headers.get(":error-message", "")
    return read_aws_problem(message.name, str(text))
