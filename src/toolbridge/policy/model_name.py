"""Which names of models are taken from a client.

A name travels in paths, headers and logs. One that could change the meaning of these is refused
before anybody is asked; `wire.url_path` encodes the rest.
"""

import re

from toolbridge.core.errors import MalformedRequest

_UNSAFE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff?#\\]|\.\.")


def check_model_name(name: str) -> None:
    """Raise `MalformedRequest` for a name with a control character, `..`, `?`, `#` or a backslash."""
    found = _UNSAFE.search(name)
    if found is not None:
        raise MalformedRequest(
            f"a model's name cannot contain {found.group()!r}; `toolbridge models` lists the names",
            where="model",
        )
