"""What is true about an account, read from the chain itself and not from anything of ours."""

import asyncio
from dataclasses import dataclass

from tests.node.deployed import PAYER, Deployed, account

from toolbridge.node.chain.client import number, word
from toolbridge.node.chain.contracts import NATIVE

GENESIS = 0
_TRIES = 100


class ChainBroken(Exception):
    """The chain has lost a block: anvil 1.7, where a block is made while others are rolled back."""


@dataclass(frozen=True)
class Truth:
    """Every coin of the account, by where it is."""

    wallet: int
    gas: int
    """Burned by transactions of the account."""
    active: int
    """In sessions that have not ended."""
    credited: int
    """In the marketplace, for the account to withdraw."""
    billed: int
    """Kept by hosts and the treasury."""
    deposits: int
    """All that was ever paid into sessions."""
    refunded: int
    open_jobs: tuple[str, ...]

    @property
    def total(self) -> int:
        return self.wallet + self.gas + self.active + self.credited + self.billed


async def truth(home: Deployed, since: int = GENESIS, key=PAYER) -> Truth:
    """Count the coins of an account; gas is that of the blocks after `since`.

    A real chain makes a block while it is read, so the count is repeated until the head has stayed.
    """
    for _ in range(_TRIES):
        head = await home.chain.block_number()
        found = await _count(home, since, account(key))
        if found is not None and await home.chain.block_number() == head:
            return found
        await asyncio.sleep(0.02)
    raise ChainBroken


async def _count(home: Deployed, since: int, who: str) -> Truth | None:
    chain = home.chain
    gas = await _gas(home, who, since)
    if gas is None:
        return None
    jobs = []
    for job in range(1, await home.jobs() + 1):
        session = await home.session(str(job))
        if str(session[1]).lower() == who.lower() and session[3] == NATIVE:
            jobs.append(session)
    active = [one for one in jobs if one[12] == 0]
    over = [one for one in jobs if one[12] != 0]
    (credited,) = await chain.read(home.network.marketplace, "getDepositBalance", who, NATIVE)
    return Truth(
        await chain.balance(who),
        gas,
        sum(one[4] for one in active),
        credited,
        sum(one[4] - one[14] for one in over),
        sum(one[4] for one in jobs),
        sum(one[14] for one in over),
        tuple(str(one[0]) for one in active),
    )


async def _gas(home: Deployed, who: str, since: int) -> int | None:
    """Return the gas that was paid; None if a block or receipt is not there yet."""
    total = 0
    for height in range(since + 1, await home.chain.block_number() + 1):
        block = await home.chain.rpc.ask("eth_getBlockByNumber", hex(height), True)
        if block is None:
            return None
        for one in block["transactions"]:
            if word(one["from"]) == word(who):
                receipt = await home.chain.rpc.ask("eth_getTransactionReceipt", one["hash"])
                if receipt is None:
                    return None
                total += number(receipt["gasUsed"]) * number(receipt["effectiveGasPrice"])
    return total
