"""Contract calls that pay for a session, approve a token, and complete a session."""

from dataclasses import dataclass

from toolbridge.core.errors import ConfigError
from toolbridge.core.json import JsonObject
from toolbridge.node.chain.abi import Value, encode_call
from toolbridge.node.chain.amounts import Currency
from toolbridge.node.chain.contracts import FUNCTIONS, NATIVE

PRECISION = 1000
"""PRICE_PRECISION of the contracts: prices per token are multiplied by 1000."""


@dataclass(frozen=True)
class ContractCall:
    """A contract call that changes state and must be sent as a transaction."""

    contract: str
    function: str
    arguments: tuple[Value, ...] = ()
    value: int = 0

    @property
    def data(self) -> bytes:
        signature, _ = FUNCTIONS[self.function]
        return encode_call(signature, self.arguments)

    def as_request(self, account: str) -> JsonObject:
        """Return the call as `eth_call` and `eth_estimateGas` take it."""
        return {
            "from": account,
            "to": self.contract,
            "data": "0x" + self.data.hex(),
            "value": hex(self.value),
        }


@dataclass(frozen=True)
class SessionTerms:
    """The terms on which each session is paid."""

    marketplace: str
    model: bytes
    token: str
    """The address of an ERC-20 token; empty for the chain's own coin."""
    deposit: int
    decimals: int
    interval: int
    duration: int
    timeout: int
    symbol: str = "ETH"
    """The name of the currency, for messages."""

    def max_tokens(self, price: int) -> int:
        """Return how many tokens of an answer the deposit pays for."""
        return self.deposit * PRECISION // price if price else 0

    def create(self, host: str, price: int) -> ContractCall:
        """Return the call that pays for a session with `host` at `price`."""
        times = (price, self.duration, self.interval, self.timeout)
        if not self.token:
            name, given = "createSessionJobForModel", (host, self.model, *times)
            return ContractCall(self.marketplace, name, given, self.deposit)
        paid = (host, self.model, self.token, self.deposit, *times)
        return ContractCall(self.marketplace, "createSessionJobForModelWithToken", paid)

    def approve(self) -> ContractCall:
        """Return the ERC-20 approval of exactly one deposit."""
        return ContractCall(self.token, "approve", (self.marketplace, self.deposit))

    def complete(self, job: str) -> ContractCall:
        """Return the call that ends a job and refunds the rest of its deposit."""
        return ContractCall(self.marketplace, "completeSessionJob", (int(job), ""))

    def withdraw(self, token: str, amount: int) -> ContractCall:
        """Return the call that sends a balance in the marketplace back to the account."""
        if token == NATIVE:
            return ContractCall(self.marketplace, "withdrawNative", (amount,))
        return ContractCall(self.marketplace, "withdrawToken", (token, amount))

    def check(self, least: int, price: int) -> None:
        """Raise `ConfigError` if the marketplace would reject the deposit."""
        currency = Currency(self.token or NATIVE, self.decimals, self.symbol)
        have = currency.format(self.deposit)
        if not least and self.token:
            raise ConfigError(
                f"the marketplace accepts no deposits in the token {self.token}; check `token`"
            )
        if self.deposit < least:
            raise ConfigError(
                f"`deposit` is {have}, below the marketplace's minimum of "
                f"{currency.format(least)}; raise `deposit`"
            )
        if price and self.max_tokens(price) < self.interval:
            need = -(-self.interval * price // PRECISION)
            raise ConfigError(
                f"`deposit` is {have}; at this host's price one proof interval of {self.interval} "
                f"tokens costs {currency.format(need)}; raise `deposit`"
            )
