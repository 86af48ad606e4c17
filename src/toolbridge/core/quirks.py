"""Quirks: switches for what differs between the providers of one API.

Each codec defines its closed list of switches as a struct `Quirks` in its `quirks.py`. Providers
and the configuration set them by name, for a whole provider or for one model.
"""

from typing import TypeVar

import msgspec

from toolbridge.core.errors import ConfigError
from toolbridge.core.json import JsonObject

Q = TypeVar("Q", bound=msgspec.Struct)


def decode_quirks(given: JsonObject, shape: type[Q]) -> Q:
    """Return the quirks as a struct; raise `ConfigError` for an unknown name or a wrong type."""
    known = shape.__struct_fields__
    for name in given:
        if name not in known:
            text = f"there is no quirk {name!r}; there are {', '.join(sorted(known))}"
            raise ConfigError(text, where=f"quirks.{name}")
    try:
        return msgspec.convert(given, shape)
    except msgspec.ValidationError as error:
        text, _, path = str(error).partition(" - at `$.")
        raise ConfigError(text, where=f"quirks.{path.removesuffix('`')}") from None
