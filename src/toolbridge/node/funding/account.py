"""The account that pays: gas, nonces, and transactions whose outcome is always resolved.

The hash of a transaction is known before it is sent and is recorded first, in the journal. A
JSON-RPC error proves that a transaction was not accepted. After a timeout or a lost connection only
the chain can show whether it was; until then it is `TransactionUncertain`.
"""

import asyncio
import sqlite3
from contextlib import suppress
from dataclasses import dataclass, replace

from toolbridge.core.errors import BrokenWire, RateLimited, Rejected, TimedOut, Unreachable
from toolbridge.node.chain.address import address_of
from toolbridge.node.chain.amounts import ETH
from toolbridge.node.chain.calls import ContractCall
from toolbridge.node.chain.client import ChainClient, Receipt, advised
from toolbridge.node.chain.contracts import NATIVE
from toolbridge.node.chain.reverts import Reverted
from toolbridge.node.chain.rpc import RpcRejected
from toolbridge.node.chain.transaction import Transaction, sign
from toolbridge.node.funding.books import BookEntry
from toolbridge.node.funding.journal import Journal, JournalRow, NonceTaken, Note, Outcome, Sending
from toolbridge.node.funding.ledger import Budget, Ledger
from toolbridge.node.protocol import encryption
from toolbridge.node.protocol.encryption import Secret

_TRIES = 5
_TURN = 0.3
"""Seconds until another process has sent its transaction, and the server counts its nonce."""
_GAS_MARGIN = (5, 4)
"""The gas limit is 5/4 of the estimate, which is made on the latest block."""
MAX_AHEAD = 16
"""Transactions of the account that may wait for a block. A higher nonce is refused: it could not be
included, and everything after it would wait for ever."""
_MAX_JUMP = 10_000
"""How far the account's nonce may be above the highest one that is recorded here."""


class TransactionUncertain(TimedOut):
    """A transaction may have been sent, and no block includes it yet."""

    def __init__(self, hash: str, why: str) -> None:
        super().__init__(f"the outcome of the transaction {hash} is not known yet ({why})")
        self.hash = hash


class NonceRefused(Rejected):
    """The server reports a nonce that the account cannot have."""


@dataclass(frozen=True)
class SendOptions:
    """How a call is sent: the deposit that it transfers, and whether limits apply to its gas."""

    note: Note | None = None
    payment: int = 0
    limited: bool = True


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
        self.journal = Journal(ledger)
        self.address = address_of(encryption.public_key(key))

    async def prepare(self, call: ContractCall) -> Transaction:
        """Return the transaction of `call`, unsigned; raise `Reverted` if it would fail."""
        request = call.as_request(self.address)
        gas = await self._chain.estimate_gas(request, call.function)
        fee, tip = await self._chain.fees()
        numerator, denominator = _GAS_MARGIN
        return Transaction(
            self._chain.network.chain_id,
            await self._next_nonce(),
            call.contract,
            call.data,
            call.value,
            gas * numerator // denominator,
            fee,
            tip,
        )

    async def _next_nonce(self) -> int:
        """Return the nonce of the next transaction; raise `NonceRefused` if it is not credible."""
        following = await self._chain.nonce(self.address)
        included = await self._chain.nonce(self.address, "latest")
        known = await self.journal.highest()
        if following > included + MAX_AHEAD or (known >= 0 and included > known + _MAX_JUMP):
            highest = included if following > included + MAX_AHEAD else known
            raise NonceRefused(
                f"the JSON-RPC server {self._chain.rpc.origin} reports the nonce {following} for "
                f"{self.address}, far above {highest}; nothing is signed with it, because no block "
                "could include it. Set another `rpc_url`"
            )
        return following

    async def cost(self, transaction: Transaction) -> int:
        """Return the most that a transaction can cost in gas, with twice the current L1 data fee."""
        oracle = self._chain.network.fee_oracle
        if not oracle or not await self._chain.has_code(oracle):
            return transaction.cost
        raw = sign(transaction, self._key).raw
        (fee,) = await self._chain.read(oracle, "getL1Fee", raw)
        return transaction.cost + 2 * (fee if isinstance(fee, int) else 0)

    async def send(self, call: ContractCall, options: SendOptions | None = None) -> Receipt:
        """Send a call as a transaction and return its receipt.

        Raise `Reverted` if it fails in its block or the server rejects it, `TransactionUncertain`
        if its outcome stays unknown.
        """
        hash, doubt = await self._broadcast(call, options or SendOptions())
        receipt = await self.settled(hash, doubt)
        if not receipt.succeeded:
            why = await self._why(call)
            why.in_block = True
            raise why
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
        await self.close(receipt)
        return receipt

    async def close(self, receipt: Receipt) -> None:
        """Record the outcome of a transaction and the gas that it has cost, all at once."""
        await self._ledger.file.run(lambda db: self._close_in(db, receipt))

    def _close_in(self, db: sqlite3.Connection, receipt: Receipt) -> None:
        rows = [one for one in self.journal.pending_in(db) if one.hash == receipt.hash]
        state: Outcome = "included" if receipt.succeeded else "failed"
        for row in rows:
            # Others with its nonce are gone, and their gas is free.
            for gas in {one.gas for one in self.journal.with_nonce_in(db, row.nonce)}:
                cost = receipt.cost if gas == row.gas else 0
                self._ledger.release_in(db, gas, cost, "done")
            self.journal.close_in(db, row.hash, state)
            entry = BookEntry(
                "gas", ETH.address, ETH.decimals, receipt.cost, hash=row.hash,
                state="done" if receipt.succeeded else "failed", note=row.function,
            )  # fmt: skip
            self._ledger.record_in(db, entry, ETH)
            if receipt.succeeded and row.function in {"withdrawNative", "withdrawToken"}:
                self._record_withdrawal(db, row)

    def _record_withdrawal(self, db: sqlite3.Connection, row: JournalRow) -> None:
        """Write a withdrawal into the books, by the arguments of its call."""
        words = row.transaction.data[4:]
        token = NATIVE if row.function == "withdrawNative" else "0x" + words[12:32].hex()
        currency = self._chain.network.currency(token)
        amount = int.from_bytes(words[-32:], "big")
        entry = BookEntry("withdrawal", token, currency.decimals, amount, hash=row.hash)
        self._ledger.record_in(db, entry, currency)

    async def again(self, raw: bytes) -> None:
        """Send the same signed transaction again; its nonce prevents a second payment."""
        with suppress(Unreachable, TimedOut, BrokenWire, Rejected):
            await self._chain.send(raw)

    async def send_at(self, transaction: Transaction, what: Sending) -> str:
        """Send a transaction with a given nonce and return its hash.

        Its gas is recorded without a limit: the fee is bounded, and money waits for it.
        """
        async with self._sending:
            cost = await self.cost(transaction)
            reserved = await self._ledger.reserve(self._gas, cost, limited=False)
            signed = sign(transaction, self._key)
            await self.journal.write(signed, replace(what, gas=reserved))
            try:
                await self._chain.send(signed.raw)
            except RpcRejected as error:
                await self.journal.close(signed.hash, "rejected")
                await self._ledger.release(reserved)
                raise advised(what.function, error) from None
            return signed.hash

    async def _broadcast(self, call: ContractCall, options: SendOptions) -> tuple[str, str]:
        """Return the hash of the sent transaction, and why sending is uncertain (empty if not)."""
        async with self._sending:  # two at once would use the same nonce
            if not options.payment and (sent := await self._same(call)):
                await self.again(bytes.fromhex(sent.raw))
                return sent.hash, ""
            transaction = await self.prepare(call)
            cost = await self.cost(transaction)
            reservation = await self._ledger.reserve(self._gas, cost, limited=options.limited)
            try:
                return await self._deliver(call, transaction, options, reservation)
            except BaseException:
                if all(one.gas != reservation for one in await self.journal.pending()):
                    await self._ledger.release(reservation)
                raise

    async def _same(self, call: ContractCall) -> JournalRow | None:
        """Return a pending transaction with the same call, which an earlier try sent."""
        for row in await self.journal.pending():
            one = row.transaction
            if row.kind != "cancel" and (one.to, one.data, one.value) == (
                call.contract, call.data, call.value,
            ):  # fmt: skip
                return row
        return None

    async def _deliver(
        self, call: ContractCall, transaction: Transaction, options: SendOptions, gas: int
    ) -> tuple[str, str]:
        what = Sending(call.function, options.payment, gas)
        for left in reversed(range(_TRIES)):
            signed = sign(transaction, self._key)
            try:
                await self.journal.write(signed, what, options.note)
                await self._chain.send(signed.raw)
            except NonceTaken:
                if not left:
                    raise Reverted(
                        call.function,
                        "another process of this account sends a transaction",
                        "try again",
                    ) from None
                await asyncio.sleep(_TURN)
                transaction = await self.prepare(call)
                continue
            except RpcRejected as error:
                if _is_known(error):
                    break
                await self.journal.close(signed.hash, "rejected")
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
