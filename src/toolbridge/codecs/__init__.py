"""One folder per API, the same rooms in each. Found by name, as the standard library's encodings."""

from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from toolbridge.core.codec import Codec
from toolbridge.core.errors import ConfigError


def names() -> list[str]:
    """Return the name of every API, in alphabetical order."""
    return sorted(module.name for module in iter_modules(__path__))


@cache
def load(name: str) -> Codec:
    """Return the codec of an API."""
    if name not in names():  # also keeps a configuration from importing any other module
        raise ConfigError(f"no API is called {name!r}; there are {', '.join(names())}", where="api")
    codec: Codec = import_module(f"{__name__}.{name}").CODEC
    return codec
