"""Known networks: chain id, JSON-RPC server and contract addresses, one TOML file each.

`NodeSettings.chain` loads one and replaces the fields that the user has set.
"""

import tomllib
from functools import cache
from importlib.resources import files

import msgspec

from toolbridge.core.errors import ConfigError
from toolbridge.node.chain.address import is_address, same_account
from toolbridge.node.chain.amounts import ETH, Currency
from toolbridge.node.chain.contracts import NATIVE
from toolbridge.setting_errors import shorten


class Network(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A chain, a server to reach it, and the addresses of the contracts on it."""

    chain_id: int = 0
    rpc_url: str = ""
    marketplace: str = ""
    registry: str = ""
    token: str = ""
    """The ERC-20 stablecoin that can pay for sessions."""
    token_decimals: int = 6
    multicall: str = ""
    """Multicall3; without it, contracts are read one call at a time."""
    fee_oracle: str = ""
    """GasPriceOracle of an OP-stack chain, which computes the L1 data fee; empty on other chains."""
    token_symbol: str = ""
    confirmations: int = 1
    """Blocks from that of a transaction on until it counts; 1 is its own block, as on a layer-2 chain."""

    def currency(self, address: str) -> Currency:
        """Return the currency at `address`: the coin, the known token, or a token by its address."""
        if same_account(address, NATIVE):
            return ETH
        known = bool(self.token) and same_account(address, self.token) and self.token_symbol
        short = f"token {address[:6]}…{address[-4:]}"
        return Currency(address, self.token_decimals, self.token_symbol if known else short)


@cache
def names() -> tuple[str, ...]:
    """Return the names of all known networks."""
    here = files(__name__).iterdir()
    return tuple(sorted(f.name.removesuffix(".toml") for f in here if f.name.endswith(".toml")))


@cache
def load(name: str) -> Network:
    """Return the network `name`; raise `ConfigError` if it is unknown."""
    if name not in names():
        raise ConfigError(f"`network` {name!r} is unknown; use one of: {', '.join(names())}")
    text = (files(__name__) / f"{name}.toml").read_text("utf-8")
    return msgspec.convert(tomllib.loads(text), Network)


def check(network: Network) -> Network:
    """Return `network` if it is complete; raise `ConfigError` that names the missing field."""
    for name in ("rpc_url", "chain_id", "marketplace", "registry"):
        if not getattr(network, name):
            raise ConfigError(
                f"`{name}` is not set, and the network has no default for it; set `{name}`"
            )
    for name in ("marketplace", "registry", "token", "multicall"):
        value: str = getattr(network, name)
        if value and not is_address(value):
            raise ConfigError(
                f"`{name}` is not an address (0x and 40 hex digits): {shorten(value)}"
            )
    if not network.rpc_url.startswith(("http://", "https://")):
        raise ConfigError("`rpc_url` must begin with http:// or https://")
    return network
