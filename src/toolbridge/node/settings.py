"""What a user says of nodes: the model, whom to ask for it, and how much money it may cost."""

import re
from collections.abc import Mapping
from typing import Annotated, Literal, TypeAlias

import msgspec

from toolbridge.core.errors import ConfigError
from toolbridge.node.chain import networks
from toolbridge.node.chain.address import model_id
from toolbridge.node.chain.amounts import ETHER, parse_amount
from toolbridge.node.chain.contracts import NATIVE
from toolbridge.node.chain.networks import Network
from toolbridge.node.hosts.scoring import Mode
from toolbridge.node.protocol.encryption import compressed

Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]

_ADDRESS = re.compile(r"0x[0-9a-fA-F]{40}")
_DEPOSIT = {"native": "0.0002", "token": "0.50"}
_LIMIT = {"native": "0.002", "token": "5"}
_STABLE_PRICE = 5000


class NodeSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    model: str = ""
    """As `repo:file`, or the hash of that."""
    network: str = "base-sepolia"
    chain_id: Count = 0
    """0 for the network's own."""
    rpc_url: str = ""
    marketplace: str = ""
    registry: str = ""
    token: str = ""
    multicall: str = ""
    host: str = ""
    """The address of the only host to work with."""
    host_url: str = ""
    """Where that host is, whatever the registry says."""
    host_key: str = ""
    """Its public key; together with `host_url` it makes do without a chain."""
    job_id: str = "1"
    """The job to name where no chain is asked."""
    mode: Mode = "auto"
    pay: Literal["native", "token"] = "native"
    deposit: str = ""
    price: Count = 0
    """The most to pay per token, as contracts count: a thousand
    times dollars per million tokens, or a thousand times wei per token."""
    proof_interval: Annotated[int, msgspec.Meta(ge=100)] = 100
    duration: Annotated[int, msgspec.Meta(ge=1, le=365 * 86400)] = 86400
    proof_timeout: Annotated[int, msgspec.Meta(ge=60, le=3600)] = 3600
    """After this long without proof anyone may end the session, so the longest is the best."""
    daily_limit: str = ""
    daily_gas: str = "0.001"
    sessions: Annotated[int, msgspec.Meta(ge=1, le=64)] = 1
    memory: Literal["fresh", "reset", "keep"] = "fresh"
    localhost_override: str = ""
    """What to write instead of `localhost` in a host's URL, as seen from inside a container."""
    private_hosts: bool = False
    """Whether to call hosts at private addresses, which a stranger may have entered."""
    seed: int | None = None
    """Makes the pick of a host repeatable."""

    @property
    def direct(self) -> bool:
        """Whether the host is known in full, so that no chain is asked and nothing is paid."""
        return bool(self.host_url and self.host_key)

    @property
    def currency(self) -> str:
        """What is paid with, as contracts name it."""
        return NATIVE if self.pay == "native" else self.chain.token

    @property
    def chain(self) -> Network:
        """The network, with what the settings say otherwise."""
        known = networks.load(self.network) if self.network else Network()
        names = ("chain_id", "rpc_url", "marketplace", "registry", "token", "multicall")
        said = {name: value for name in names if (value := getattr(self, name))}
        return networks.check(msgspec.structs.replace(known, **said))

    @property
    def decimals(self) -> int:
        return ETHER if self.pay == "native" else self.chain.token_decimals

    @property
    def deposit_amount(self) -> int:
        return parse_amount(self.deposit or _DEPOSIT[self.pay], self.decimals, "`deposit`")

    @property
    def limit_amount(self) -> int:
        return parse_amount(self.daily_limit or _LIMIT[self.pay], self.decimals, "`daily_limit`")

    @property
    def gas_limit_amount(self) -> int:
        return parse_amount(self.daily_gas, ETHER, "`daily_gas`")

    @property
    def most_per_token(self) -> int:
        """The highest price; 0 for none."""
        return self.price or (_STABLE_PRICE if self.pay == "token" else 0)


def read_settings(table: Mapping[str, object], source: str = "the settings") -> NodeSettings:
    """Return the settings of `table`; raise `ConfigError` that names what is wrong."""
    try:
        found = msgspec.convert(dict(table), NodeSettings)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{source}: {error}") from None
    try:
        _check(found)
    except ConfigError as error:
        raise ConfigError(f"{source}: {error}") from None
    return found


def _check(settings: NodeSettings) -> None:
    """Raise for what would fail only later, when money may have been spent."""
    if not settings.model:
        raise ConfigError("no `model` is set: name one as repo:file (CLAUDE_BRIDGE_MODEL)")
    model_id(settings.model)
    if settings.host and not _ADDRESS.fullmatch(settings.host):
        raise ConfigError("`host` is no address: 0x and 40 hex digits (a URL goes to `host_url`)")
    if settings.host_url and not (settings.host or settings.host_key):
        raise ConfigError("`host_url` needs `host` (its address) or `host_key` beside it")
    if settings.host_key:
        read_public(settings.host_key)
    if not settings.direct:
        _check_money(settings)


def _check_money(settings: NodeSettings) -> None:
    network = settings.chain
    if settings.pay == "token" and not network.token:
        raise ConfigError("`pay` is a token, but no `token` is named")
    if settings.deposit_amount > settings.limit_amount:
        raise ConfigError("`daily_limit` is below one `deposit`: no session could ever be paid")
    if settings.gas_limit_amount <= 0:
        raise ConfigError("`daily_gas` is nothing: no transaction could ever be sent")


def read_public(text: str) -> bytes:
    """Return a public key from its hex digits."""
    try:
        return compressed(bytes.fromhex(text.strip().removeprefix("0x")))
    except ValueError:
        raise ConfigError("`host_key` is no public key: 66 hex digits") from None


_ENV = {
    "model": "CLAUDE_BRIDGE_MODEL",
    "host": "CLAUDE_BRIDGE_HOST",
    "rpc_url": "CLAUDE_BRIDGE_RPC_URL",
    "deposit": "CLAUDE_BRIDGE_DEPOSIT",
    "localhost_override": "CLAUDE_BRIDGE_LOCALHOST_OVERRIDE",
}


def from_env(env: Mapping[str, str]) -> dict[str, object]:
    """Return what the environment says; a flag that was given goes before it."""
    found: dict[str, object] = {name: env[var] for name, var in _ENV.items() if env.get(var)}
    if number := env.get("CLAUDE_BRIDGE_CHAIN_ID"):
        if not number.isascii() or not number.isdigit():
            raise ConfigError(f"CLAUDE_BRIDGE_CHAIN_ID is no number: {number!r}")
        found["chain_id"] = int(number)
    return found
