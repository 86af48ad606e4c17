"""What a session would cost and which calls would be sent for it, without sending any."""

from dataclasses import dataclass

from toolbridge.core.errors import ToolbridgeError
from toolbridge.node.chain.abi import Value
from toolbridge.node.chain.amounts import ETHER, format_amount
from toolbridge.node.chain.calls import PRECISION, ContractCall
from toolbridge.node.funding.account import Account
from toolbridge.node.funding.chain_funding import ChainFunding, FundingContext
from toolbridge.node.hosts.candidates import HostCandidate
from toolbridge.node.hosts.finder import Finder

_SESSION_GAS = 500_000
"""What to expect where the chain cannot estimate yet, because an approval comes first."""


@dataclass(frozen=True)
class PlannedCall:
    to: str
    function: str
    arguments: tuple[Value, ...]
    value: int
    data: str

    def line(self) -> str:
        given = ", ".join(_shown(value) for value in self.arguments)
        value = f" with {format_amount(self.value, ETHER)} ETH" if self.value else ""
        return f"{self.function}({given}) to {self.to}{value}"


@dataclass(frozen=True)
class Plan:
    account: str
    host: HostCandidate
    price: int
    deposit: int
    decimals: int
    currency: str
    """`ETH`, or the address of a token."""
    max_tokens: int
    gas: int
    """Wei, at the most."""
    spent: int
    """Of the limit, in the last 24 hours."""
    limit: int
    calls: tuple[PlannedCall, ...]
    warnings: tuple[str, ...] = ()

    def lines(self) -> list[str]:
        """Return the plan for a person to read."""
        host = self.host
        spent, limit, deposit = (
            format_amount(amount, self.decimals)
            for amount in (self.spent, self.limit, self.deposit)
        )
        per_million = format_amount(self.price * 10**6 // PRECISION, self.decimals)
        return [
            f"account   {self.account}",
            f"host      {host.address} at {host.url} (score {host.score:.3f})",
            f"price     {self.price} ({per_million} {self.currency} per million tokens)",
            f"deposit   {deposit} {self.currency} for up to {self.max_tokens} tokens",
            f"gas       {format_amount(self.gas, ETHER)} ETH at the most",
            f"limit     {spent} of {limit} spent or set aside in 24 hours",
            *(f"call      {call.line()}" for call in self.calls),
            *(f"warning   {text}" for text in self.warnings),
        ]


def _shown(value: Value) -> str:
    return "0x" + value.hex() if isinstance(value, bytes) else str(value)


async def make_plan(finder: Finder, funding: ChainFunding, means: FundingContext) -> Plan:
    """Return what `funding.open` would do now; raise what it would raise before paying."""
    await means.chain.check()
    order = await finder.order()
    answering, silent = await finder.answering(order)
    host = (answering or order)[0]
    calls = [means.terms.approve()] if await funding.must_approve() else []
    calls.append(means.terms.create(host.address, host.price))
    warnings = [f"no answer from {text}" for text in silent]
    gas, doubts = await _gas(means.account, calls)
    warnings += doubts + await _shortcomings(funding, means, host, gas)
    terms = means.terms
    return Plan(
        means.account.address,
        host,
        host.price,
        terms.deposit,
        terms.decimals,
        terms.token or "ETH",
        terms.max_tokens(host.price),
        gas,
        await means.ledger.spent(means.budget),
        means.budget.limit,
        tuple(_planned(call) for call in calls),
        tuple(warnings),
    )


def _planned(call: ContractCall) -> PlannedCall:
    return PlannedCall(
        call.contract, call.function, call.arguments, call.value, "0x" + call.data.hex()
    )


async def _gas(account: Account, calls: list[ContractCall]) -> tuple[int, list[str]]:
    """Return what the gas of all calls costs at the most, and why a call would fail."""
    first = calls[0]
    try:
        transaction = await account.prepare(first)
    except ToolbridgeError as error:
        return 0, [str(error)]
    later = (len(calls) - 1) * _SESSION_GAS * transaction.fee
    return await account.cost(transaction) + later, []


async def _shortcomings(
    funding: ChainFunding, means: FundingContext, host: HostCandidate, gas: int
) -> list[str]:
    """Return why the payment would not be made."""
    found: list[str] = []
    terms = means.terms
    try:
        terms.check(await funding.least_deposit(), host.price)
    except ToolbridgeError as error:
        found.append(str(error))
    if await means.ledger.spent(means.budget) + terms.deposit > means.budget.limit:
        found.append(f"the deposit would pass `{means.budget.setting}`")
    coins = await means.chain.balance(means.account.address)
    if coins < gas + (0 if terms.token else terms.deposit):
        found.append(f"the account holds only {format_amount(coins, ETHER)} ETH")
    if terms.token:
        (held,) = await means.chain.read(terms.token, "balanceOf", means.account.address)
        if isinstance(held, int) and held < terms.deposit:
            found.append(
                f"the account holds only {format_amount(held, terms.decimals)} of the token"
            )
    return found
