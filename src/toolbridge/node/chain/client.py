"""A chain as we use it: questions to contracts, logs, and what has become of a transaction."""

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
_REVERTED = 3
"""The code with which servers say that a contract reverted; older ones use -32000 and words."""


@dataclass(frozen=True)
class ReadCall:
    """A call that changes nothing."""

    contract: str
    function: str
    arguments: tuple[Value, ...] = ()

    @property
    def data(self) -> bytes:
        signature, _ = FUNCTIONS[self.function]
        return abi.encode_call(signature, self.arguments)


Answer: TypeAlias = "list[Value] | Reverted"


@dataclass(frozen=True)
class Log:
    address: str
    topics: tuple[str, ...]
    data: bytes
    transaction: str


@dataclass(frozen=True)
class Receipt:
    """What became of a transaction that is part of the chain."""

    hash: str
    succeeded: bool
    logs: tuple[Log, ...]
    cost: int
    """What its gas cost, with what a second layer pays to the first."""
    block: int


class Chain:
    def __init__(self, rpc: Rpc, network: Network) -> None:
        self.rpc = rpc
        self.network = network
        self._checked = False
        self._multicall: bool | None = None

    async def check(self) -> None:
        """Raise `ConfigError` when the server is on another chain than we mean: once."""
        if self._checked:
            return
        found = number(await self.rpc.ask("eth_chainId"))
        if found != self.network.chain_id:
            raise ConfigError(
                f"{self.rpc.place} is on chain {found}, not on {self.network.chain_id}: "
                "check `rpc_url` and `chain_id`"
            )
        self._checked = True

    # ── questions ──

    async def read(self, contract: str, function: str, *arguments: Value) -> list[Value]:
        """Return what a contract answers; raise `Reverted` when it refuses."""
        question = ReadCall(contract, function, arguments)
        call: JsonObject = {"to": contract, "data": hexed(question.data)}
        return _decode(question, await self.simulate(call, function))

    async def simulate(self, call: JsonObject, what: str) -> bytes:
        """Return what a call would return now; raise `Reverted` where it would fail."""
        try:
            return unhexed(await self.rpc.ask("eth_call", call, "latest"))
        except RpcRejected as error:
            raise _maybe_revert(what, error) from None

    async def read_many(self, questions: Sequence[ReadCall]) -> list[Answer]:
        """Return every answer, or why there is none; in few requests where the chain allows it."""
        answers: list[Answer] = []
        for at in range(0, len(questions), _BATCH):
            answers += await self._read_batch(questions[at : at + _BATCH])
        return answers

    async def _read_batch(self, questions: Sequence[ReadCall]) -> list[Answer]:
        if len(questions) > 1 and await self._has_multicall():
            data = multicall.encode_questions([(q.contract, q.data) for q in questions])
            call: JsonObject = {"to": self.network.multicall, "data": hexed(data)}
            found = multicall.decode_answers(await self.simulate(call, "aggregate3"))
            return [_judge(q, *one) for q, one in zip(questions, found, strict=True)]
        return [await self._read_one(question) for question in questions]

    async def _read_one(self, question: ReadCall) -> Answer:
        try:
            return await self.read(question.contract, question.function, *question.arguments)
        except Reverted as error:
            return error

    async def _has_multicall(self) -> bool:
        if self._multicall is None:
            place = self.network.multicall
            self._multicall = bool(place) and await self.has_code(place)
        return self._multicall

    async def has_code(self, address: str) -> bool:
        return bool(unhexed(await self.rpc.ask("eth_getCode", address, "latest")))

    async def balance(self, account: str) -> int:
        return number(await self.rpc.ask("eth_getBalance", account, "latest"))

    # ── transactions ──

    async def nonce(self, account: str, block: str = "pending") -> int:
        return number(await self.rpc.ask("eth_getTransactionCount", account, block))

    async def fees(self) -> tuple[int, int]:
        """Return the most to pay per unit of gas, and the tip in it: good for several blocks."""
        block = await self.rpc.ask("eth_getBlockByNumber", "latest", False)
        base = number(block.get("baseFeePerGas") or "0x0") if isinstance(block, dict) else 0
        try:
            tip = number(await self.rpc.ask("eth_maxPriorityFeePerGas"))
        except RpcRejected:  # an old server without the method
            tip = 10**6
        return 2 * base + tip, tip

    async def estimate_gas(self, call: JsonObject, what: str) -> int:
        """Return how much gas a call needs; raise `Reverted` where it would fail."""
        try:
            return number(await self.rpc.ask("eth_estimateGas", call))
        except RpcRejected as error:
            why = _maybe_revert(what, error)
            raise (advised(what, why) if isinstance(why, RpcRejected) else why) from None

    async def send(self, raw: bytes) -> None:
        await self.rpc.ask("eth_sendRawTransaction", hexed(raw))

    async def receipt(self, hash: str) -> Receipt | None:
        """Return what became of a transaction; None while it is not part of the chain."""
        found = await self.rpc.ask("eth_getTransactionReceipt", hash)
        return _receipt(found) if isinstance(found, dict) else None

    async def wait_for(self, hash: str, wait: float, pause: float = 0.5) -> Receipt | None:
        """Return what became of a transaction, or None when the chain does not know after `wait`.

        A server that fails meanwhile is asked again; one that fails at the end has told nothing.
        """
        until = asyncio.get_running_loop().time() + wait
        while True:
            late = asyncio.get_running_loop().time() + pause > until
            try:
                found = await self.receipt(hash)
            except (Unreachable, TimedOut, BrokenWire, RateLimited):
                if late:
                    raise
                found = None
            if found is not None or late:
                return found
            await asyncio.sleep(pause)

    async def transaction(self, hash: str) -> JsonObject | None:
        found = await self.rpc.ask("eth_getTransactionByHash", hash)
        return found if isinstance(found, dict) else None

    async def block_number(self) -> int:
        return number(await self.rpc.ask("eth_blockNumber"))

    async def logs(
        self, address: str, topics: list[Json], blocks: tuple[str, str] = ("earliest", "latest")
    ) -> list[Log]:
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


# ── their forms ──


def hexed(data: bytes) -> str:
    return "0x" + data.hex()


def unhexed(value: Json) -> bytes:
    try:
        return bytes.fromhex(str(value).removeprefix("0x"))
    except ValueError:
        raise BrokenWire("the chain answered with something that is no hex") from None


def number(value: Json) -> int:
    try:
        return int(str(value), 16)
    except ValueError:
        raise BrokenWire("the chain answered with something that is no number") from None


def word(value: str | int) -> str:
    """Return an address or a number as a log's topic."""
    digits = f"{value:x}" if isinstance(value, int) else value.removeprefix("0x").lower()
    return "0x" + digits.rjust(64, "0")


def _decode(question: ReadCall, data: bytes) -> list[Value]:
    _, types = FUNCTIONS[question.function]
    try:
        return abi.decode(types, data)
    except abi.MalformedAnswer:
        if data:
            raise
        raise ConfigError(
            f"there is no contract at {question.contract} that knows {question.function}: "
            "check the addresses and the chain"
        ) from None


def _judge(question: ReadCall, done: bool, data: bytes) -> Answer:  # noqa: FBT001
    return _decode(question, data) if done else explain(question.function, data)


def _maybe_revert(what: str, error: RpcRejected) -> RpcRejected | Reverted:
    """Return a refusal as a revert if a contract is behind it."""
    reverted = error.code == _REVERTED or error.data or "revert" in error.message.lower()
    return explain(what, unhexed(error.data), error.message) if reverted else error


def advised(what: str, error: RpcRejected) -> Reverted:
    """Return a server's refusal of a transaction, with what to do about it."""
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
