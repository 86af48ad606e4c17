"""A chain over JSON-RPC: contract reads, logs, fees, transactions and their receipts.

`ChainClient` wraps the Ethereum JSON-RPC methods that toolbridge uses (`eth_call`, `eth_getLogs`,
`eth_sendRawTransaction` …) and turns reverts into `Reverted`. `hosts` reads the registry with it,
`funding` pays with it.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from toolbridge.core.errors import BrokenWire, ConfigError, RateLimited, TimedOut, Unreachable
from toolbridge.core.json import Json, JsonObject
from toolbridge.node.chain import abi, multicall
from toolbridge.node.chain.abi import Value
from toolbridge.node.chain.contracts import FUNCTIONS
from toolbridge.node.chain.networks import Network
from toolbridge.node.chain.reverts import Reverted, advice_on, explain
from toolbridge.node.chain.rpc import Rpc, RpcRejected

_BATCH = 40
"""Reads per Multicall3 request."""
_MAX_DIGITS = 66
"""A number has at most 256 bits: `0x` and 64 hex digits."""
_REVERTED = 3
"""The JSON-RPC error code for a revert; older servers send -32000 and name it in the message."""


@dataclass(frozen=True)
class ReadCall:
    """A contract call that changes no state (`eth_call`)."""

    contract: str
    function: str
    arguments: tuple[Value, ...] = ()

    @property
    def data(self) -> bytes:
        signature, _ = FUNCTIONS[self.function]
        return abi.encode_call(signature, self.arguments)


Answer: TypeAlias = "list[Value] | Reverted"
"""The values that a contract returned, or why it reverted."""


@dataclass(frozen=True)
class Log:
    """An event that a contract emitted in `transaction`."""

    address: str
    topics: tuple[str, ...]
    data: bytes
    transaction: str


@dataclass(frozen=True)
class Receipt:
    """The receipt of a transaction that is included in a block."""

    hash: str
    succeeded: bool
    logs: tuple[Log, ...]
    cost: int
    """Wei for its gas, including the L1 data fee of a layer-2 chain (`l1Fee`)."""
    block: int


class ChainClient:
    """The chain of one network, reached through one JSON-RPC server."""

    def __init__(self, rpc: Rpc, network: Network) -> None:
        self.rpc = rpc
        self.network = network
        self._checked = False
        self._multicall: bool | None = None

    async def check(self) -> None:
        """Raise `ConfigError` if the server is on another chain; checked once (`eth_chainId`)."""
        if self._checked:
            return
        found = number(await self.rpc.ask("eth_chainId"))
        if found != self.network.chain_id:
            raise ConfigError(
                f"the JSON-RPC server {self.rpc.origin} is on chain {found}, not on "
                f"{self.network.chain_id}: "
                "check `rpc_url` and `chain_id`"
            )
        self._checked = True

    # ── reading contracts ──

    async def read(self, contract: str, function: str, *arguments: Value) -> list[Value]:
        """Return the values that a contract function returns; raise `Reverted` if it reverts."""
        call = ReadCall(contract, function, arguments)
        request: JsonObject = {"to": contract, "data": hexed(call.data)}
        return _decode(call, await self.simulate(request, function))

    async def simulate(self, call: JsonObject, what: str) -> bytes:
        """Return the result of `eth_call` on the latest block; raise `Reverted` if it reverts."""
        try:
            return unhexed(await self.rpc.ask("eth_call", call, "latest"))
        except RpcRejected as error:
            raise _maybe_revert(what, error) from None

    async def read_many(self, calls: Sequence[ReadCall]) -> list[Answer]:
        """Return the answer of each call, batched through Multicall3 where the chain has it."""
        answers: list[Answer] = []
        for start in range(0, len(calls), _BATCH):
            answers += await self._read_batch(calls[start : start + _BATCH])
        return answers

    async def _read_batch(self, calls: Sequence[ReadCall]) -> list[Answer]:
        if len(calls) > 1 and await self._has_multicall():
            data = multicall.encode_calls([(call.contract, call.data) for call in calls])
            batch: JsonObject = {"to": self.network.multicall, "data": hexed(data)}
            returned = await self.simulate(batch, "aggregate3")
            results = multicall.decode_results(returned, len(calls))
            return [_answer(call, *result) for call, result in zip(calls, results, strict=True)]
        return [await self._read_one(call) for call in calls]

    async def _read_one(self, call: ReadCall) -> Answer:
        try:
            return await self.read(call.contract, call.function, *call.arguments)
        except Reverted as error:
            return error

    async def _has_multicall(self) -> bool:
        if self._multicall is None:
            contract = self.network.multicall
            self._multicall = bool(contract) and await self.has_code(contract)
        return self._multicall

    async def has_code(self, address: str) -> bool:
        """Whether there is a contract at `address`."""
        return bool(unhexed(await self.rpc.ask("eth_getCode", address, "latest")))

    async def balance(self, account: str) -> int:
        """Return the wei that an account holds."""
        return number(await self.rpc.ask("eth_getBalance", account, "latest"))

    # ── transactions ──

    async def nonce(self, account: str, block: str = "pending") -> int:
        """Return the number of the account's next transaction."""
        return number(await self.rpc.ask("eth_getTransactionCount", account, block))

    async def fees(self) -> tuple[int, int]:
        """Return `maxFeePerGas` and `maxPriorityFeePerGas` (EIP-1559).

        Twice the base fee plus the tip stays valid for several full blocks: the base fee rises by at
        most 12.5 % per block.
        """
        block = await self.rpc.ask("eth_getBlockByNumber", "latest", False)
        base = number(block.get("baseFeePerGas") or "0x0") if isinstance(block, dict) else 0
        try:
            tip = number(await self.rpc.ask("eth_maxPriorityFeePerGas"))
        except RpcRejected:  # an old server without this method
            tip = 10**6
        return 2 * base + tip, tip

    async def estimate_gas(self, call: JsonObject, what: str) -> int:
        """Return the gas that a call needs; raise `Reverted` if it would fail."""
        try:
            return number(await self.rpc.ask("eth_estimateGas", call))
        except RpcRejected as error:
            why = _maybe_revert(what, error)
            raise (advised(what, why) if isinstance(why, RpcRejected) else why) from None

    async def send(self, raw: bytes) -> None:
        """Broadcast a signed transaction."""
        await self.rpc.ask("eth_sendRawTransaction", hexed(raw))

    async def receipt(self, hash: str) -> Receipt | None:
        """Return the receipt of a transaction; None while no block includes it."""
        found = await self.rpc.ask("eth_getTransactionReceipt", hash)
        receipt = _receipt(found) if isinstance(found, dict) else None
        if receipt is not None and receipt.hash.lower() != hash.lower():
            raise BrokenWire(
                f"the JSON-RPC server {self.rpc.origin} returned the receipt of another "
                "transaction; set another `rpc_url`"
            )
        return receipt

    async def confirmed(self, hash: str) -> Receipt | None:
        """Return the receipt of a transaction; None while its block has too few confirmations."""
        found = await self.receipt(hash)
        if found is None or self.network.confirmations <= 1:
            return found
        depth = await self.block_number() - found.block + 1
        return found if depth >= self.network.confirmations else None

    async def wait_for(self, hash: str, wait: float, pause: float = 0.5) -> Receipt | None:
        """Return the receipt of a transaction, or None if it is not confirmed after `wait`.

        A server that fails in between is asked again; a failure of the last request is raised.
        """
        until = asyncio.get_running_loop().time() + wait
        while True:
            late = asyncio.get_running_loop().time() + pause > until
            try:
                found = await self.confirmed(hash)
            except (Unreachable, TimedOut, BrokenWire, RateLimited):
                if late:
                    raise
                found = None
            if found is not None or late:
                return found
            await asyncio.sleep(pause)

    async def transaction(self, hash: str) -> JsonObject | None:
        """Return a transaction by its hash, as the server describes it."""
        found = await self.rpc.ask("eth_getTransactionByHash", hash)
        return found if isinstance(found, dict) else None

    async def block_number(self) -> int:
        return number(await self.rpc.ask("eth_blockNumber"))

    async def logs(
        self, address: str, topics: list[Json], blocks: tuple[str, str] = ("earliest", "latest")
    ) -> list[Log]:
        """Return the logs of a contract that match `topics` in a range of blocks."""
        first, last = blocks
        asked: JsonObject = {
            "address": address,
            "topics": topics,
            "fromBlock": first,
            "toBlock": last,
        }
        found = await self.rpc.ask("eth_getLogs", asked)
        return (
            [_log(one) for one in found if isinstance(one, dict)] if isinstance(found, list) else []
        )


# ── JSON-RPC values ──


def hexed(data: bytes) -> str:
    """Return bytes as JSON-RPC writes them: hex with `0x`."""
    return "0x" + data.hex()


def unhexed(value: Json) -> bytes:
    try:
        return bytes.fromhex(str(value).removeprefix("0x"))
    except ValueError:
        raise BrokenWire("the JSON-RPC server returned a value that is not hex") from None


def number(value: Json) -> int:
    text = str(value)
    try:
        found = int(text, 16)
    except ValueError:
        found = -1
    if found < 0 or len(text) > _MAX_DIGITS:
        raise BrokenWire("the JSON-RPC server returned a value that is not a number")
    return found


def word(value: str | int) -> str:
    """Return an address or a number as a 32-byte log topic."""
    digits = f"{value:x}" if isinstance(value, int) else value.removeprefix("0x").lower()
    return "0x" + digits.rjust(64, "0")


def _decode(call: ReadCall, data: bytes) -> list[Value]:
    _, types = FUNCTIONS[call.function]
    try:
        return abi.decode(types, data)
    except abi.MalformedAnswer:
        if data:
            raise
        raise ConfigError(
            f"there is no contract with {call.function} at {call.contract}: check the addresses "
            "of the contracts and `rpc_url`"
        ) from None


def _answer(call: ReadCall, succeeded: bool, data: bytes) -> Answer:  # noqa: FBT001
    return _decode(call, data) if succeeded else explain(call.function, data)


def _maybe_revert(what: str, error: RpcRejected) -> RpcRejected | Reverted:
    """Return the error as a revert if a contract caused it."""
    reverted = error.code == _REVERTED or error.data or "revert" in error.message.lower()
    return explain(what, unhexed(error.data), error.message) if reverted else error


def advised(what: str, error: RpcRejected) -> Reverted:
    """Return a server's rejection of a transaction, with advice from `reverts.toml`."""
    return Reverted(what, error.message[:300], advice_on(error.message))


def _log(found: JsonObject) -> Log:
    topics = found.get("topics")
    return Log(
        str(found.get("address")),
        tuple(str(topic) for topic in topics) if isinstance(topics, list) else (),
        unhexed(found.get("data") or "0x"),
        str(found.get("transactionHash")),
    )


def _receipt(found: JsonObject) -> Receipt:
    logs = found.get("logs")
    gas = number(found.get("gasUsed") or "0x0") * number(found.get("effectiveGasPrice") or "0x0")
    return Receipt(
        str(found.get("transactionHash")),
        number(found.get("status") or "0x0") == 1,
        tuple(_log(one) for one in logs if isinstance(one, dict)) if isinstance(logs, list) else (),
        gas + number(found.get("l1Fee") or "0x0"),
        number(found.get("blockNumber") or "0x0"),
    )
