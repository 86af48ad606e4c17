"""Validate model names from clients.

A name is written into paths, headers and logs. A name with characters that could change their
meaning is rejected before any provider is asked; `wire.url_path` percent-encodes the others.
"""

import re

from toolbridge.core.errors import MalformedRequest

_UNSAFE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff?#\\]|\.\.")


def check_model_name(name: str) -> None:
    """Raise `MalformedRequest` for a name with a control character, `..`, `?`, `#` or a backslash."""
    found = _UNSAFE.search(name)
    if found is not None:
        raise MalformedRequest(
            f"a model name cannot contain {found.group()!r}; run `toolbridge models` to list the names",
            where="model",
        )
