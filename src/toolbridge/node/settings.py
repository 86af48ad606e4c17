"""Settings of a node provider: model, network, host, payment and spending limits.

They come from the table `[providers.NAME.node]`, from CLAUDE_BRIDGE_* variables, and from flags of
`toolbridge node`.
"""

from collections.abc import Mapping
from typing import Annotated, Literal, TypeAlias

import msgspec

from toolbridge.core.errors import ConfigError
from toolbridge.node.chain import networks
from toolbridge.node.chain.address import is_address, model_id, same_account
from toolbridge.node.chain.amounts import ETH, ETHER, Currency, parse_amount
from toolbridge.node.chain.networks import Network
from toolbridge.node.hosts.access import HostAccess
from toolbridge.node.hosts.candidates import NATIVE_PER_STABLE
from toolbridge.node.hosts.scoring import Mode
from toolbridge.node.protocol.encryption import compressed
from toolbridge.setting_errors import explain_value, shorten
from toolbridge.upstream.addresses import is_private_host
from toolbridge.upstream.hosts import hostname

Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]

_DEPOSIT = {"native": "0.0002", "token": "0.50"}
_LIMIT = {"native": "0.002", "token": "5"}
_LONGEST_ID = 19
"""Digits of the largest chain id."""
_STABLE_PRICE = 5000
"""5 dollars per million tokens, the default price of the vendor's bridge."""


class NodeSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The settings of one node provider."""

    model: str = ""
    """`repo:file`, or its 32-byte model id in hex."""
    network: str = "base-sepolia"
    chain_id: Count = 0
    """0 for that of the network."""
    rpc_url: str = ""
    marketplace: str = ""
    registry: str = ""
    token: str = ""
    multicall: str = ""
    host: str = ""
    """The address of the only host to use."""
    allow: tuple[str, ...] = ()
    """Addresses of the hosts that may be used; empty for all."""
    deny: tuple[str, ...] = ()
    """Addresses of hosts that are never used."""
    host_url: str = ""
    """The URL of that host; replaces the one in the registry."""
    host_key: str = ""
    """The public key of that host; with `host_url`, no chain and no payment is needed."""
    job_id: str = "1"
    """The job id that is sent to a direct host."""
    mode: Mode = "auto"
    pay: Literal["native", "token"] = "native"
    deposit: str = ""
    price: Count = 0
    """The highest price, in the unit of the contracts: 1000 times dollars per million tokens, or
    1000 times wei per token; 0 for the default, 5 dollars per million tokens."""
    proof_interval: Annotated[int, msgspec.Meta(ge=100)] = 100
    duration: Annotated[int, msgspec.Meta(ge=1, le=365 * 86400)] = 86400
    proof_timeout: Annotated[int, msgspec.Meta(ge=60, le=3600)] = 3600
    """Seconds without a proof after which anyone may end the session; the contracts allow 3600."""
    daily_limit: str = ""
    daily_gas: str = "0.001"
    confirmations: Annotated[int, msgspec.Meta(ge=0, le=1000)] = 0
    """Blocks until a payment counts; 0 for the default of the network."""
    sessions: Annotated[int, msgspec.Meta(ge=1, le=64)] = 1
    memory: Literal["fresh", "reset", "keep"] = "fresh"
    localhost_override: str = ""
    """Replaces `localhost` in the URLs of hosts; needed inside a container."""
    private_hosts: bool = False
    """Whether to use hosts at private addresses; anyone can register such a URL."""
    plain_hosts: bool = False
    """Whether to use public hosts without TLS (`http`, `ws`): others can see when and how much is
    sent, and can cut answers off."""
    old_nodes: bool = False
    """Whether to accept answers whose end the node does not confirm, as old versions do not."""
    count_tolerance: Annotated[float, msgspec.Meta(ge=0, le=100)] = 1.5
    """The factor by which a host's token count may differ from ours; 0 to accept any count."""
    seed: int | None = None
    """Seed of the random pick of a host, for repeatable runs."""

    @property
    def direct(self) -> bool:
        """Whether URL and key of the host are set, so that no chain is used and nothing is paid."""
        return bool(self.host_url and self.host_key)

    @property
    def access(self) -> HostAccess:
        """Which hosts may be contacted.

        With contracts of the user's own on a chain of the user's network, hosts are there too.
        """
        own_chain = not self.direct and not self.network and is_private_host(hostname(self.rpc_url))
        allowed = HostAccess(self.private_hosts or own_chain, self.plain_hosts or own_chain)
        return allowed.with_own(self.host_url)

    @property
    def currency(self) -> Currency:
        """The currency of payments: the chain's own coin, or the token."""
        return ETH if self.pay == "native" else self.chain.currency(self.chain.token)

    @property
    def chain(self) -> Network:
        """The network, with the fields that the settings replace."""
        known = networks.load(self.network) if self.network else Network()
        names = (
            "chain_id", "rpc_url", "marketplace", "registry", "token", "multicall", "confirmations",
        )  # fmt: skip
        given = {name: value for name in names if (value := getattr(self, name))}
        if self.token and not same_account(self.token, known.token):
            given["token_symbol"] = ""  # the known symbol is that of another token
        return networks.check(msgspec.structs.replace(known, **given))

    @property
    def deposit_amount(self) -> int:
        return parse_amount(self.deposit or _DEPOSIT[self.pay], self.currency.decimals, "`deposit`")

    @property
    def limit_amount(self) -> int:
        return parse_amount(
            self.daily_limit or _LIMIT[self.pay], self.currency.decimals, "`daily_limit`"
        )

    @property
    def gas_limit_amount(self) -> int:
        return parse_amount(self.daily_gas, ETHER, "`daily_gas`")

    @property
    def highest_price(self) -> int:
        """The highest price; without `price`, that of CB-06 in the currency of payment."""
        native = _STABLE_PRICE * NATIVE_PER_STABLE
        return self.price or (_STABLE_PRICE if self.pay == "token" else native)


def read_settings(table: Mapping[str, object], source: str = "the settings") -> NodeSettings:
    """Return the settings in `table`; raise `ConfigError` that names the invalid one."""
    try:
        found = msgspec.convert(dict(table), NodeSettings)
    except msgspec.ValidationError as error:
        text = explain_value(str(error), table, NodeSettings)
        raise ConfigError(text, where=source) from None
    try:
        _check(found)
    except ConfigError as error:
        raise ConfigError(str(error), where=source) from None
    return found


def _check(settings: NodeSettings) -> None:
    """Raise for errors that would otherwise show up after a payment."""
    if not settings.model:
        raise ConfigError(
            "no model is set; set --model, CLAUDE_BRIDGE_MODEL, or model = … in the table of the node to "
            "repo:file"
        )
    model_id(settings.model)
    if settings.host and not is_address(settings.host):
        raise ConfigError(
            f"`host` is not an address (0x and 40 hex digits): {shorten(settings.host)}; put a URL "
            "into `host_url`"
        )
    for name in ("allow", "deny"):
        if wrong := [one for one in getattr(settings, name) if not is_address(one)]:
            raise ConfigError(
                f"`{name}` has {shorten(wrong[0])}, which is not an address of a host (0x and 40 hex "
                "digits)"
            )
    if settings.host_url and not (settings.host or settings.host_key):
        raise ConfigError("`host_url` also needs `host` (the host's address) or `host_key`")
    if settings.host_key:
        read_public(settings.host_key)
    if not settings.direct:
        _check_money(settings)


def _check_money(settings: NodeSettings) -> None:
    network = settings.chain
    if settings.pay == "token" and not network.token:
        raise ConfigError(
            '`pay` is "token", but `token` is not set; set it to the address of a token'
        )
    if settings.deposit_amount <= 0:
        raise ConfigError(
            "`deposit` is 0, so no session can be paid; set `deposit` to an amount such as "
            f"{_DEPOSIT[settings.pay]}"
        )
    if settings.deposit_amount > settings.limit_amount:
        raise ConfigError(
            "`daily_limit` is below one `deposit`, so no session can be paid; raise `daily_limit`"
        )
    if settings.gas_limit_amount <= 0:
        raise ConfigError("`daily_gas` is 0, so no transaction can be sent; raise it")


def read_public(text: str) -> bytes:
    """Return the public key that hex digits encode."""
    try:
        return compressed(bytes.fromhex(text.strip().removeprefix("0x")))
    except ValueError:
        raise ConfigError("`host_key` is not a public key (66 hex digits)") from None


VARIABLES = {
    "model": "CLAUDE_BRIDGE_MODEL",
    "host": "CLAUDE_BRIDGE_HOST",
    "rpc_url": "CLAUDE_BRIDGE_RPC_URL",
    "deposit": "CLAUDE_BRIDGE_DEPOSIT",
    "localhost_override": "CLAUDE_BRIDGE_LOCALHOST_OVERRIDE",
    "chain_id": "CLAUDE_BRIDGE_CHAIN_ID",
}
"""Settings that have an environment variable, with its name."""


def from_env(env: Mapping[str, str]) -> dict[str, object]:
    """Return the settings from environment variables; flags replace them."""
    found: dict[str, object] = {name: env[var] for name, var in VARIABLES.items() if env.get(var)}
    if number := env.get(VARIABLES["chain_id"]):
        if not (number.isascii() and number.isdigit() and len(number) <= _LONGEST_ID):
            raise ConfigError(
                f"CLAUDE_BRIDGE_CHAIN_ID is not a number of at most {_LONGEST_ID} digits: "
                f"{shorten(number)}"
            )
        found["chain_id"] = int(number)
    return found
