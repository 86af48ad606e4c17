"""The built-in providers, one TOML file each.

A file has the API, the URL, the variable of the key and the quirks of a provider. `routing/providers`
merges it with the user's `[providers.NAME]` table, whose values replace these.
"""

from functools import cache
from importlib.resources import files

from toolbridge.config import ProviderConfig
from toolbridge.config_file import parse_provider


@cache
def names() -> tuple[str, ...]:
    """Return the names of the built-in providers."""
    here = files(__name__).iterdir()
    return tuple(sorted(f.name.removesuffix(".toml") for f in here if f.name.endswith(".toml")))


@cache
def load(name: str) -> ProviderConfig:
    """Return the settings of a built-in provider, whose file is read once per process."""
    source = files(__name__) / f"{name}.toml"
    return parse_provider(source.read_text("utf-8"), f"{name}.toml")
