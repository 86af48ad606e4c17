"""Quirks: switches for what differs between the providers of one API.

Each codec defines its closed list of switches as a struct `Quirks` in its `quirks.py`. Providers
and the configuration set them by name, for a whole provider or for one model.
"""

from collections.abc import Collection
from functools import lru_cache
from typing import TypeVar

import msgspec

from toolbridge.core.allowed_values import with_allowed
from toolbridge.core.close_names import close_names
from toolbridge.core.errors import ConfigError
from toolbridge.core.json import JsonObject

Q = TypeVar("Q", bound=msgspec.Struct)

_encode = msgspec.json.Encoder().encode


def decode_quirks(given: JsonObject, shape: type[Q]) -> Q:
    """Return the quirks as a struct; raise `ConfigError` for an unknown name or a wrong type."""
    quirks: Q = _decoded(shape, _encode(given) if given else b"{}")
    return quirks


@lru_cache(maxsize=256)
def _decoded(shape: type[Q], given: bytes) -> Q:
    """Return the quirks; a provider has the same ones in all of its requests."""
    quirks = msgspec.json.decode(given, type=JsonObject)
    check_quirks(quirks, shape.__struct_fields__)
    try:
        return msgspec.convert(quirks, shape)
    except msgspec.ValidationError as error:
        text, _, path = with_allowed(str(error), shape).partition(" - at `$.")
        raise ConfigError(text, where=f"quirks.{path.removesuffix('`')}") from None


def check_quirks(given: JsonObject, known: Collection[str]) -> None:
    """Raise `ConfigError` for the first name in `given` that is not in `known`."""
    for name in given:
        if name not in known:
            near = close_names(name, known, 1)
            way = f"did you mean `{near[0]}`?" if near else f"use one of {', '.join(sorted(known))}"
            raise ConfigError(f"there is no quirk {name!r}; {way}", where=f"quirks.{name}")
