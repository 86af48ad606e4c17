"""What a Python function gave back, or that it failed, as the result of a call."""

import msgspec

from toolbridge.core.messages import Call, Result, Text


def result_of(call: Call, value: object) -> Result:
    """Return what a function gave back, as the model reads it."""
    return Result(call.id, (Text(_written(value)),), name=call.name)


def failure_of(call: Call, error: Exception) -> Result:
    """Return an exception as a result: the model reads it, and mostly knows what to do."""
    text = f"{type(error).__name__}: {error}"
    return Result(call.id, (Text(text),), is_error=True, name=call.name)


def _written(value: object) -> str:
    if value is None:
        return "done"
    if isinstance(value, str):
        return value
    try:
        return msgspec.json.encode(value).decode()
    except (TypeError, ValueError):
        return str(value)
