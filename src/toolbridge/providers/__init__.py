"""The built-in providers, one TOML file each.

A file has the API, the URL, the variable of the key and the quirks of a provider. `routing/providers`
merges it with the user's `[providers.NAME]` table, whose values replace these.
"""

from functools import cache
from pathlib import Path

from toolbridge.config import ProviderConfig
from toolbridge.config_file import parse_provider

_HERE = Path(__file__).parent
"""A path, because `importlib.resources` takes 10 ms of each start."""


@cache
def names() -> tuple[str, ...]:
    """Return the names of the built-in providers."""
    return tuple(sorted(file.stem for file in _HERE.glob("*.toml")))


@cache
def load(name: str) -> ProviderConfig:
    """Return the settings of a built-in provider, whose file is read once per process."""
    source = _HERE / f"{name}.toml"
    return parse_provider(source.read_text("utf-8"), source.name)
