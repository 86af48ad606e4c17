"""The plan of a payment: host, price, deposit and contract calls, without sending anything.

`toolbridge node serve --dry-run` prints it.
"""

from dataclasses import dataclass

from toolbridge.core.errors import ToolbridgeError
from toolbridge.node.chain.abi import Value
from toolbridge.node.chain.amounts import ETH, Currency
from toolbridge.node.chain.calls import PRECISION, ContractCall
from toolbridge.node.funding.account import Account
from toolbridge.node.funding.chain_funding import ChainFunding
from toolbridge.node.funding.context import FundingContext
from toolbridge.node.hosts.candidates import HostCandidate
from toolbridge.node.hosts.finder import Finder

_SESSION_GAS = 500_000
"""Gas of a session when the chain cannot estimate it, because an approval must come first."""


@dataclass(frozen=True)
class PlannedCall:
    """A contract call that would be sent."""

    to: str
    function: str
    arguments: tuple[Value, ...]
    value: int
    data: str

    def line(self) -> str:
        """Return the call as one line of text."""
        given = ", ".join(_shown(value) for value in self.arguments)
        value = f" with {ETH.format(self.value)}" if self.value else ""
        return f"{self.function}({given}) to {self.to}{value}"


@dataclass(frozen=True)
class PaymentPlan:
    """What the next payment would be."""

    account: str
    host: HostCandidate
    price: int
    deposit: int
    currency: Currency
    max_tokens: int
    gas: int
    """The most it can cost, in wei."""
    spent: int
    """Spent or reserved in the last 24 hours."""
    limit: int
    calls: tuple[PlannedCall, ...]
    warnings: tuple[str, ...] = ()

    def lines(self) -> list[str]:
        """Return the plan as lines of text."""
        host = self.host
        spent, limit, deposit, per_million = map(
            self.currency.format,
            (self.spent, self.limit, self.deposit, self.price * 10**6 // PRECISION),
        )
        return [
            f"account   {self.account}",
            f"host      {host.address} at {host.url} (score {host.score:.3f})",
            f"price     {self.price} ({per_million} per million tokens)",
            f"deposit   {deposit} for up to {self.max_tokens} tokens",
            f"gas       {ETH.format(self.gas)} at most",
            f"limit     {spent} of {limit} spent or reserved in 24 hours",
            *(f"call      {call.line()}" for call in self.calls),
            *(f"warning   {text}" for text in self.warnings),
        ]


def _shown(value: Value) -> str:
    return "0x" + value.hex() if isinstance(value, bytes) else str(value)


async def make_plan(finder: Finder, funding: ChainFunding, context: FundingContext) -> PaymentPlan:
    """Return what `funding.open` would do now; raise the errors that it would raise before paying."""
    await context.chain.check()
    order = await finder.order()
    answering, silent = await finder.answering(order)
    host = (answering or order)[0]
    calls = [context.terms.approve()] if await funding.must_approve() else []
    calls.append(context.terms.create(host.address, host.price))
    warnings = [f"host does not answer: {text}" for text in silent]
    gas, doubts = await _gas(context.account, calls)
    warnings += doubts + await _obstacles(funding, context, host, gas)
    terms = context.terms
    return PaymentPlan(
        context.account.address,
        host,
        host.price,
        terms.deposit,
        context.budget.currency,
        terms.max_tokens(host.price),
        gas,
        await context.ledger.spent(context.budget),
        context.budget.limit,
        tuple(_planned(call) for call in calls),
        tuple(warnings),
    )


def _planned(call: ContractCall) -> PlannedCall:
    return PlannedCall(
        call.contract, call.function, call.arguments, call.value, "0x" + call.data.hex()
    )


async def _gas(account: Account, calls: list[ContractCall]) -> tuple[int, list[str]]:
    """Return the most that the gas of all calls can cost, and why the first call would fail."""
    first = calls[0]
    try:
        transaction = await account.prepare(first)
    except ToolbridgeError as error:
        return 0, [str(error)]
    later = (len(calls) - 1) * _SESSION_GAS * transaction.fee
    return await account.cost(transaction) + later, []


async def _obstacles(
    funding: ChainFunding, context: FundingContext, host: HostCandidate, gas: int
) -> list[str]:
    """Return the reasons for which the payment would fail."""
    found: list[str] = []
    terms = context.terms
    try:
        terms.check(await funding.least_deposit(), host.price)
    except ToolbridgeError as error:
        found.append(str(error))
    if await context.ledger.spent(context.budget) + terms.deposit > context.budget.limit:
        found.append(f"the deposit would exceed `{context.budget.setting}`")
    found += await _cap_obstacles(context)
    if not terms.token and gas > terms.deposit:
        found.append(
            f"the gas can cost {ETH.format(gas)}, more than the deposit; raise `deposit`, or pay with "
            "a token"
        )
    coins = await context.chain.balance(context.account.address)
    if coins < gas + (0 if terms.token else terms.deposit):
        found.append(f"the account holds only {ETH.format(coins)}; send ETH to it")
    if terms.token:
        (held,) = await context.chain.read(terms.token, "balanceOf", context.account.address)
        if isinstance(held, int) and held < terms.deposit:
            found.append(
                f"the account holds only {context.budget.currency.format(held)}; send some to it"
            )
    return found


async def _cap_obstacles(context: FundingContext) -> list[str]:
    """Return why the hard cap of the account would stop the payment."""
    currency, deposit = context.budget.currency, context.terms.deposit
    cap = await context.ledger.cap(currency)
    if deposit > cap.job:
        return [f"the deposit exceeds the hard cap of {currency.format(cap.job)} per job"]
    if await context.ledger.capped(currency) + deposit > cap.day:
        return [f"the deposit would exceed the hard cap of {currency.format(cap.day)} per day"]
    return []
