"""Converts a function's return value, or its exception, to the result of a tool call."""

import dataclasses

import msgspec

from toolbridge.core.messages import Audio, Call, Document, Image, Result, ResultPart, Text

_DEEPEST = 32
"""The most levels of a value that are searched for media."""


def result_of(call: Call, value: object) -> Result:
    """Return a function's return value as a tool result.

    An image, audio, a document, or a list of those and strings is passed as parts; any other value
    is encoded as JSON. Media inside such a value follow the JSON, which refers to them by number.
    """
    return Result(call.id, _parts(value) or (Text(_written(value)),), name=call.name)


def _parts(value: object) -> tuple[ResultPart, ...]:
    """Return the parts of a value that contains media; empty for any other value."""
    values = value if isinstance(value, list | tuple) else (value,)
    if any(isinstance(item, Image | Document | Audio | Text) for item in values):
        return tuple(part for item in values for part in _of_item(item))
    parts = _of_item(value)
    return parts if len(parts) > 1 else ()


def _of_item(item: object) -> tuple[ResultPart, ...]:
    """Return a media item unchanged, and any other as JSON followed by the media inside it."""
    if isinstance(item, Image | Document | Audio | Text):
        return (item,)
    media: list[ResultPart] = []
    plain = _without_media(item, media)
    return (Text(_written(plain if media else item)), *media)


def _without_media(value: object, media: list[ResultPart], depth: int = 0) -> object:
    """Return `value` with each image, document or audio replaced by its number."""
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
    """Return an exception as an error result: models often correct their call after reading it."""
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
