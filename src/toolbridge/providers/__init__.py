"""Places that speak an API, as data: one TOML file each. A user's table of the same name wins."""

from importlib.resources import files

from toolbridge.config import ProviderConfig, parse_provider


def names() -> list[str]:
    """Return the name of every place that is known without configuration."""
    here = files(__name__).iterdir()
    return sorted(f.name.removesuffix(".toml") for f in here if f.name.endswith(".toml"))


def load(name: str) -> ProviderConfig:
    source = files(__name__) / f"{name}.toml"
    return parse_provider(source.read_text("utf-8"), f"{name}.toml")
