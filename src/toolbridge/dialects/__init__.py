"""Tool calls and thoughts written as text: one file per dialect, found by its name."""

from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING

from toolbridge.core.errors import ConfigError
from toolbridge.dialects.dialect import Dialect
from toolbridge.dialects.models import MODELS

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "toolbridge.dialects"
"""The entry points of dialects that others bring."""
_ROOMS = frozenset({"auto", "dialect", "engines", "gate", "models", "prompt", "reader", "stage"})


@cache
def _own() -> frozenset[str]:
    return frozenset(module.name for module in iter_modules(__path__)) - _ROOMS


@cache
def _brought() -> "dict[str, EntryPoint]":
    from importlib.metadata import entry_points  # it loads much, and few need it

    return {entry.name: entry for entry in entry_points(group=GROUP)}


def names() -> list[str]:
    """Return the name of every dialect, in alphabetical order."""
    return sorted({*_own(), *_brought()})


@cache
def load(name: str) -> Dialect:
    """Return a dialect."""
    if name in _own():  # also keeps a configuration from importing any other module
        own: Dialect = import_module(f"{__name__}.{name}").DIALECT
        return own
    if name in _brought():
        brought: Dialect = _brought()[name].load()
        return brought
    raise ConfigError(
        f"no dialect is called {name!r}; there are {', '.join(names())}", where="dialect"
    )


def for_model(model: str) -> str | None:
    """Return the dialect that a model of this name writes; None where nobody knows."""
    lower = model.lower()
    return next((dialect for part, dialect in MODELS if part in lower), None)
