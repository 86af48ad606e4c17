"""What a Python function gave back, or that it failed, as the result of a call."""

import dataclasses

import msgspec

from toolbridge.core.messages import Audio, Call, Document, Image, Result, ResultPart, Text

_DEEPEST = 32
"""Levels of a value in which media are looked for."""


def result_of(call: Call, value: object) -> Result:
    """Return what a function gave back, as the model reads it.

    A picture, a document or a list with one among texts is handed on as it is; anything else is
    written as JSON. Media deeper inside a value come after that JSON, which has their numbers.
    """
    return Result(call.id, _parts(value) or (Text(_written(value)),), name=call.name)


def _parts(value: object) -> tuple[ResultPart, ...]:
    """Return the parts of a result that holds media; nothing for any other value."""
    values = value if isinstance(value, list | tuple) else (value,)
    if any(isinstance(item, Image | Document | Audio | Text) for item in values):
        return tuple(part for item in values for part in _of_item(item))
    parts = _of_item(value)
    return parts if len(parts) > 1 else ()


def _of_item(item: object) -> tuple[ResultPart, ...]:
    """Return `item` as it is, or as JSON with the media that stood in it behind it."""
    if isinstance(item, Image | Document | Audio | Text):
        return (item,)
    media: list[ResultPart] = []
    plain = _without_media(item, media)
    return (Text(_written(plain if media else item)), *media)


def _without_media(value: object, media: list[ResultPart], depth: int = 0) -> object:
    """Return `value` with the number of each picture, document or recording in its place."""
    if isinstance(value, Image | Document | Audio):
        media.append(value)
        return f"[{type(value).__name__.lower()} {len(media)} below]"
    if depth > _DEEPEST:
        return value
    if isinstance(value, dict):
        return {key: _without_media(item, media, depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_without_media(item, media, depth + 1) for item in value]
    if isinstance(value, msgspec.Struct):
        members = msgspec.structs.asdict(value)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        members = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    else:
        return value
    found = len(media)
    plain = _without_media(members, media, depth + 1)
    return value if len(media) == found else plain


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
