"""What leaves the process: the same bytes without secrets."""

import msgspec

from toolbridge.core.json import loads
from toolbridge.core.redaction import Redactor


def masked(redactor: Redactor, data: bytes) -> bytes:
    """Return JSON, MessagePack or text without secrets; the same bytes if it has none.

    `Redactor.encoded` writes JSON anew, with other white space. A log of bytes must not change.
    """
    text = data.decode("utf-8", "replace")
    if "\\" not in text and redactor.is_plain(text):  # an escape may hide a secret, or its name
        return data
    if redactor.text(text) == text and not _has_secret_members(redactor, data):
        return data
    return redactor.encoded(data)


def _has_secret_members(redactor: Redactor, data: bytes) -> bool:
    """Return whether a part of JSON or MessagePack is a secret because of its name or position."""
    try:
        value: object = loads(data)
        return redactor.value(value) != value
    except ValueError:
        pass
    try:
        value = msgspec.msgpack.decode(data)
    except (msgspec.DecodeError, ValueError):
        return False
    return redactor.value(value, packed=True) != value
