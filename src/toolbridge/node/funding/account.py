"""An account that sends transactions: gas, numbering, and never a doubt about what was sent.

The hash of a transaction is known before it is sent, and whoever pays writes it down first. After a
refusal it is certain that nothing was sent; after silence it is not, and only the chain can tell.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeAlias

from toolbridge.core.errors import BrokenWire, RateLimited, Rejected, TimedOut, Unreachable
from toolbridge.node.chain.address import address_of
from toolbridge.node.chain.calls import ContractCall
from toolbridge.node.chain.client import Chain, Receipt, advised
from toolbridge.node.chain.reverts import Reverted
from toolbridge.node.chain.rpc import RpcRejected
from toolbridge.node.chain.transaction import Signed, Transaction, sign
from toolbridge.node.funding.ledger import Budget, Ledger
from toolbridge.node.protocol import encryption
from toolbridge.node.protocol.encryption import Secret

Note: TypeAlias = Callable[[Signed], Awaitable[None]]

_TRIES = 3
_ROOM = (5, 4)
"""Gas is estimated on the last block; the next one may need some more."""


class TransactionUncertain(TimedOut):
    """A transaction was sent, or maybe not, and is not part of the chain yet."""

    def __init__(self, hash: str, why: str) -> None:
        super().__init__(f"nobody knows yet what became of the transaction {hash} ({why})")
        self.hash = hash


class Account:
    def __init__(
        self, chain: Chain, key: Secret, ledger: Ledger, gas: Budget, *, wait: float = 120.0
    ) -> None:
        self._chain = chain
        self._key = key
        self._ledger = ledger
        self._gas = gas
        self._wait = wait
        self._sending = asyncio.Lock()
        self.address = address_of(encryption.public_key(key))

    async def prepare(self, call: ContractCall) -> Transaction:
        """Return the transaction that would be sent now; raise `Reverted` if it would fail."""
        asked = call.asked_by(self.address)
        gas = await self._chain.estimate_gas(asked, call.function)
        fee, tip = await self._chain.fees()
        more, of = _ROOM
        return Transaction(
            self._chain.network.chain_id,
            await self._chain.nonce(self.address),
            call.contract,
            call.data,
            call.value,
            gas * more // of,
            fee,
            tip,
        )

    async def cost(self, transaction: Transaction) -> int:
        """Return the most that a transaction's gas can cost, on both layers."""
        oracle = self._chain.network.fee_oracle
        if not oracle or not await self._chain.has_code(oracle):
            return transaction.cost
        raw = sign(transaction, self._key).raw
        (fee,) = await self._chain.read(oracle, "getL1Fee", raw)
        return transaction.cost + 2 * (fee if isinstance(fee, int) else 0)

    async def send(self, call: ContractCall, note: Note | None = None) -> Receipt:
        """Send a call and wait for the chain to take it.

        `note` is told the signed transaction before it is sent. Raise `Reverted` when it failed on
        the chain, `RpcRejected` when it was not taken, `TransactionUncertain` when nobody knows.
        """
        line, hash, doubt = await self._broadcast(call, note)
        receipt = await self.settled(hash, doubt)
        await self._ledger.release(line, receipt.cost)
        if not receipt.succeeded:
            raise await self._why(call)
        return receipt

    async def settled(self, hash: str, doubt: str = "") -> Receipt:
        """Return what became of a transaction; raise `TransactionUncertain` when that stays unknown."""
        try:
            receipt = await self._chain.wait_for(hash, self._wait)
        except (Unreachable, TimedOut, BrokenWire, Rejected) as error:
            raise TransactionUncertain(hash, doubt or str(error)) from None
        if receipt is None:
            raise TransactionUncertain(
                hash, doubt or f"not part of the chain after {self._wait:g} s"
            )
        return receipt

    async def again(self, raw: bytes) -> None:
        """Send a signed transaction once more: nothing is spent twice, whatever the answer."""
        with suppress(Unreachable, TimedOut, BrokenWire, Rejected):
            await self._chain.send(raw)

    async def _broadcast(self, call: ContractCall, note: Note | None) -> tuple[int, str, str]:
        """Return the line of its gas, the hash, and why it is doubtful that it was sent."""
        async with self._sending:  # two at once would take the same number
            transaction = await self.prepare(call)
            line = await self._ledger.reserve(self._gas, await self.cost(transaction))
            try:
                return line, *await self._deliver(call, transaction, note)
            except Rejected:
                await self._ledger.release(line)
                raise

    async def _deliver(
        self, call: ContractCall, transaction: Transaction, note: Note | None
    ) -> tuple[str, str]:
        for left in reversed(range(_TRIES)):
            signed = sign(transaction, self._key)
            if note is not None:
                await note(signed)
            try:
                await self._chain.send(signed.raw)
            except RpcRejected as error:
                if _known(error):
                    break
                if not left or not _taken(error):
                    raise advised(call.function, error) from None
                transaction = await self.prepare(call)
                continue
            except (Unreachable, TimedOut, BrokenWire, RateLimited) as error:
                return signed.hash, str(error)
            break
        return signed.hash, ""

    async def _why(self, call: ContractCall) -> Reverted:
        """Return why a call failed that had looked well: the same call tells, asked again."""
        try:
            await self._chain.simulate(call.asked_by(self.address), call.function)
        except Reverted as error:
            return error
        except (Unreachable, TimedOut, BrokenWire, Rejected):
            pass
        return Reverted(call.function, "", "something changed in the same moment: try again")


def _known(error: RpcRejected) -> bool:
    """Whether the server has this very transaction already."""
    return "already known" in error.message or "already imported" in error.message


def _taken(error: RpcRejected) -> bool:
    """Whether another transaction has our number, so that ours can never be taken."""
    words = error.message.lower()
    return "nonce too low" in words or "replacement transaction" in words
