"""What a Python function gave back, or that it failed, as the result of a call."""

import msgspec

from toolbridge.core.messages import Audio, Call, Document, Image, Result, ResultPart, Text


def result_of(call: Call, value: object) -> Result:
    """Return what a function gave back, as the model reads it.

    A picture, a document or a list with one among texts is handed on as it is; anything else is
    written as JSON.
    """
    return Result(call.id, _parts(value) or (Text(_written(value)),), name=call.name)


def _parts(value: object) -> tuple[ResultPart, ...]:
    """Return the parts of a result that holds media; nothing for any other value."""
    values = value if isinstance(value, list | tuple) else (value,)
    if not any(isinstance(item, Image | Document | Audio | Text) for item in values):
        return ()
    return tuple(
        item if isinstance(item, Image | Document | Audio | Text) else Text(_written(item))
        for item in values
    )


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
