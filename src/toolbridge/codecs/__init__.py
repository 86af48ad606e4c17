"""One folder per API, the same rooms in each. Found by name, as the standard library's encodings."""

from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from toolbridge.core.close_names import did_you_mean
from toolbridge.core.codec import Codec, TargetCodec
from toolbridge.core.embeddings import EmbeddingCodec
from toolbridge.core.errors import ConfigError

_TARGETS_ONLY = frozenset({"bedrock"})
"""APIs of providers that no client of the gateway uses."""


def names() -> list[str]:
    """Return the name of every API that clients use, in alphabetical order."""
    return [name for name in target_names() if name not in _TARGETS_ONLY]


def target_names() -> list[str]:
    """Return the name of every API that a provider can have, in alphabetical order."""
    return list(_modules())


@cache
def _modules() -> tuple[str, ...]:
    """Return the folders of this package; every request needs the list, and it does not change."""
    return tuple(sorted(module.name for module in iter_modules(__path__)))


@cache
def load(name: str) -> Codec:
    """Return the codec of an API that clients use."""
    codec = load_target(name)
    if not isinstance(codec, Codec):
        raise ConfigError(f"{name!r} is the API of a provider, not of clients", where="api")
    return codec


@cache
def load_target(name: str) -> TargetCodec:
    """Return the part of an API's codec that providers need."""
    known = target_names()
    if name not in known:  # also keeps a configuration from importing any other module
        meant = did_you_mean(name, known)
        raise ConfigError(
            f"no API is called {name!r}; there are {', '.join(known)}{meant}", where="api"
        )
    codec: TargetCodec = import_module(f"{__name__}.{name}").CODEC
    return codec


_EMBEDDINGS = {
    "openai_chat": "openai_chat",
    "openai_responses": "openai_chat",  # a provider with either API has both
    "ollama": "ollama",
    "gemini": "gemini",
}


def load_embeddings(name: str) -> EmbeddingCodec | None:
    """Return the embedding codec of an API; None for an API that has no embeddings."""
    if name not in _EMBEDDINGS:
        return None
    found: EmbeddingCodec = import_module(f"{__name__}.{_EMBEDDINGS[name]}.embeddings").EMBEDDINGS
    return found
