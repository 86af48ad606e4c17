"""The calls that pay for a session and end it."""

from dataclasses import dataclass

from toolbridge.core.errors import ConfigError
from toolbridge.core.json import JsonObject
from toolbridge.node.chain.abi import Value, encode_call
from toolbridge.node.chain.amounts import format_amount
from toolbridge.node.chain.contracts import FUNCTIONS

PRECISION = 1000
"""Prices are a thousand times what a token costs."""


@dataclass(frozen=True)
class ContractCall:
    """A call that changes something."""

    contract: str
    function: str
    arguments: tuple[Value, ...] = ()
    value: int = 0

    @property
    def data(self) -> bytes:
        signature, _ = FUNCTIONS[self.function]
        return encode_call(signature, self.arguments)

    def asked_by(self, account: str) -> JsonObject:
        return {
            "from": account,
            "to": self.contract,
            "data": "0x" + self.data.hex(),
            "value": hex(self.value),
        }


@dataclass(frozen=True)
class SessionTerms:
    """What every session is paid for with."""

    marketplace: str
    model: bytes
    token: str
    """The address of the token; nothing for the chain's own coin."""
    deposit: int
    decimals: int
    interval: int
    duration: int
    timeout: int

    def max_tokens(self, price: int) -> int:
        """Return how many tokens the deposit pays for."""
        return self.deposit * PRECISION // price if price else 0

    def create(self, host: str, price: int) -> ContractCall:
        """Return the call that pays for a session with `host`."""
        times = (price, self.duration, self.interval, self.timeout)
        if not self.token:
            name, given = "createSessionJobForModel", (host, self.model, *times)
            return ContractCall(self.marketplace, name, given, self.deposit)
        paid = (host, self.model, self.token, self.deposit, *times)
        return ContractCall(self.marketplace, "createSessionJobForModelWithToken", paid)

    def approve(self) -> ContractCall:
        """Return the call that lets the marketplace take one deposit, and no more than that."""
        return ContractCall(self.token, "approve", (self.marketplace, self.deposit))

    def complete(self, job: str) -> ContractCall:
        return ContractCall(self.marketplace, "completeSessionJob", (int(job), ""))

    def check(self, least: int, price: int) -> None:
        """Raise `ConfigError` when the marketplace would refuse the deposit."""
        have = format_amount(self.deposit, self.decimals)
        if not least and self.token:
            raise ConfigError(f"the marketplace takes no deposits in the token {self.token}")
        if self.deposit < least:
            raise ConfigError(
                f"`deposit` is {have}; the marketplace takes "
                f"{format_amount(least, self.decimals)} or more"
            )
        if price and self.max_tokens(price) < self.interval:
            need = -(-self.interval * price // PRECISION)
            raise ConfigError(
                f"`deposit` is {have}; at this host's price {format_amount(need, self.decimals)} "
                f"is needed for {self.interval} tokens"
            )
