"""The account that pays: gas, nonces, and transactions whose outcome is always resolved.

The hash of a transaction is known before it is sent and can be recorded first (`note`). A
JSON-RPC error proves that a transaction was not accepted. After a timeout or a lost connection only
the chain can show whether it was; until then it is `TransactionUncertain`.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeAlias

from toolbridge.core.errors import BrokenWire, RateLimited, Rejected, TimedOut, Unreachable
from toolbridge.node.chain.address import address_of
from toolbridge.node.chain.calls import ContractCall
from toolbridge.node.chain.client import ChainClient, Receipt, advised
from toolbridge.node.chain.reverts import Reverted
from toolbridge.node.chain.rpc import RpcRejected
from toolbridge.node.chain.transaction import Signed, Transaction, sign
from toolbridge.node.funding.ledger import Budget, Ledger
from toolbridge.node.protocol import encryption
from toolbridge.node.protocol.encryption import Secret

Note: TypeAlias = Callable[[Signed], Awaitable[None]]
"""Records a signed transaction before it is sent."""

_TRIES = 3
_GAS_MARGIN = (5, 4)
"""The gas limit is 5/4 of the estimate, which is made on the latest block."""


class TransactionUncertain(TimedOut):
    """A transaction may have been sent, and no block includes it yet."""

    def __init__(self, hash: str, why: str) -> None:
        super().__init__(f"the outcome of the transaction {hash} is not known yet ({why})")
        self.hash = hash


class Account:
    """An account with its private key, and a daily budget for gas in the ledger."""

    def __init__(
        self, chain: ChainClient, key: Secret, ledger: Ledger, gas: Budget, *, wait: float = 120.0
    ) -> None:
        self._chain = chain
        self._key = key
        self._ledger = ledger
        self._gas = gas
        self._wait = wait
        self._sending = asyncio.Lock()
        self.address = address_of(encryption.public_key(key))

    async def prepare(self, call: ContractCall) -> Transaction:
        """Return the transaction of `call`, unsigned; raise `Reverted` if it would fail."""
        request = call.as_request(self.address)
        gas = await self._chain.estimate_gas(request, call.function)
        fee, tip = await self._chain.fees()
        numerator, denominator = _GAS_MARGIN
        return Transaction(
            self._chain.network.chain_id,
            await self._chain.nonce(self.address),
            call.contract,
            call.data,
            call.value,
            gas * numerator // denominator,
            fee,
            tip,
        )

    async def cost(self, transaction: Transaction) -> int:
        """Return the most that a transaction can cost in gas, with twice the current L1 data fee."""
        oracle = self._chain.network.fee_oracle
        if not oracle or not await self._chain.has_code(oracle):
            return transaction.cost
        raw = sign(transaction, self._key).raw
        (fee,) = await self._chain.read(oracle, "getL1Fee", raw)
        return transaction.cost + 2 * (fee if isinstance(fee, int) else 0)

    async def send(self, call: ContractCall, note: Note | None = None) -> Receipt:
        """Send a call as a transaction and return its receipt.

        `note` gets the signed transaction before it is sent. Raise `Reverted` if it fails in its
        block or the server rejects it, `TransactionUncertain` if its outcome stays unknown.
        """
        reservation, hash, doubt = await self._broadcast(call, note)
        receipt = await self.settled(hash, doubt)
        await self._ledger.release(reservation, receipt.cost)
        if not receipt.succeeded:
            raise await self._why(call)
        return receipt

    async def settled(self, hash: str, doubt: str = "") -> Receipt:
        """Return the receipt of a transaction; raise `TransactionUncertain` after the wait."""
        try:
            receipt = await self._chain.wait_for(hash, self._wait)
        except (Unreachable, TimedOut, BrokenWire, Rejected) as error:
            raise TransactionUncertain(hash, doubt or str(error)) from None
        if receipt is None:
            raise TransactionUncertain(
                hash, doubt or f"no block includes it after {self._wait:g} s"
            )
        return receipt

    async def again(self, raw: bytes) -> None:
        """Send the same signed transaction again; its nonce prevents a second payment."""
        with suppress(Unreachable, TimedOut, BrokenWire, Rejected):
            await self._chain.send(raw)

    async def _broadcast(self, call: ContractCall, note: Note | None) -> tuple[int, str, str]:
        """Return the ledger id of its gas, the hash, and why sending is uncertain (empty if not)."""
        async with self._sending:  # two at once would use the same nonce
            transaction = await self.prepare(call)
            reservation = await self._ledger.reserve(self._gas, await self.cost(transaction))
            try:
                return reservation, *await self._deliver(call, transaction, note)
            except Rejected:
                await self._ledger.release(reservation)
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
                if _is_known(error):
                    break
                if not left or not _nonce_used(error):
                    raise advised(call.function, error) from None
                transaction = await self.prepare(call)
                continue
            except (Unreachable, TimedOut, BrokenWire, RateLimited) as error:
                return signed.hash, str(error)
            break
        return signed.hash, ""

    async def _why(self, call: ContractCall) -> Reverted:
        """Return why a transaction failed in its block, by simulating the same call again."""
        try:
            await self._chain.simulate(call.as_request(self.address), call.function)
        except Reverted as error:
            return error
        except (Unreachable, TimedOut, BrokenWire, Rejected):
            pass
        return Reverted(
            call.function, "", "the state changed between estimate and block: try again"
        )


def _is_known(error: RpcRejected) -> bool:
    """Whether the server already has this transaction."""
    return "already known" in error.message or "already imported" in error.message


def _nonce_used(error: RpcRejected) -> bool:
    """Whether another transaction has used our nonce, so that ours can never be included."""
    message = error.message.lower()
    return "nonce too low" in message or "replacement transaction" in message
