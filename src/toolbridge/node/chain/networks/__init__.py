"""Chains with their contracts, as data: one TOML file each. A setting of the user's wins."""

import re
import tomllib
from importlib.resources import files

import msgspec

from toolbridge.core.errors import ConfigError

_ADDRESS = re.compile(r"0x[0-9a-fA-F]{40}")


class Network(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    chain_id: int = 0
    rpc_url: str = ""
    marketplace: str = ""
    registry: str = ""
    token: str = ""
    """The stable coin that sessions can be paid with."""
    token_decimals: int = 6
    multicall: str = ""
    """Multicall3; none means one question at a time."""
    fee_oracle: str = ""
    """Tells what a second layer adds to a transaction's gas for the first."""


def names() -> list[str]:
    here = files(__name__).iterdir()
    return sorted(f.name.removesuffix(".toml") for f in here if f.name.endswith(".toml"))


def load(name: str) -> Network:
    """Return a network that is known by name."""
    if name not in names():
        raise ConfigError(f"there is no network {name!r}; known are {', '.join(names())}")
    text = (files(__name__) / f"{name}.toml").read_text("utf-8")
    return msgspec.convert(tomllib.loads(text), Network)


def check(network: Network) -> Network:
    """Return `network` if it says enough to be used; raise `ConfigError` that names what is missing."""
    for name in ("rpc_url", "chain_id", "marketplace", "registry"):
        if not getattr(network, name):
            raise ConfigError(f"`{name}` is missing: neither the network nor the settings name it")
    for name in ("marketplace", "registry", "token", "multicall"):
        value: str = getattr(network, name)
        if value and not _ADDRESS.fullmatch(value):
            raise ConfigError(f"`{name}` is no address: 0x and 40 hex digits")
    if not network.rpc_url.startswith(("http://", "https://")):
        raise ConfigError("`rpc_url` begins with http:// or https://")
    return network
