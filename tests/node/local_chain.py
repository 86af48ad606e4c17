# ruff: noqa: N802  a server's methods have its own names
"""A chain in this process that speaks JSON-RPC over a real socket, and misbehaves on demand.

Transactions are decoded, their signatures and numbers checked, and contracts run in `evm`.
"""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import web
from tests.node.evm import Block, Machine, Message, Reverted, State

from toolbridge.node.chain.address import address_of, keccak256
from toolbridge.node.chain.transaction import rlp
from toolbridge.node.protocol import encryption

CHAIN_ID = 84532
BASE_FEE = 10**6
TIP = 10**5


class Refusal(Exception):
    def __init__(self, code: int, message: str, data: str = "") -> None:
        super().__init__(message)
        self.error = {"code": code, "message": message} | ({"data": data} if data else {})


@dataclass
class Sent:
    """A transaction that was taken in."""

    hash: str
    sender: int
    fields: list
    raw: bytes
    signature: tuple[int, bytes, bytes]
    receipt: dict | None = None

    @property
    def nonce(self) -> int:
        return _int(self.fields[1])


@dataclass
class Height:
    """What the chain was before a block."""

    state: State
    nonces: dict[int, int]
    logs: int
    included: list[Sent]
    """The transactions of the block."""


@dataclass
class LocalChain:
    url: str = ""
    heights: list[Height] = field(default_factory=list)
    base_fee: int = BASE_FEE
    results: dict[tuple, str] = field(default_factory=dict)
    """What contracts returned since the state changed."""
    state: State = field(default_factory=State)
    sent: dict[str, Sent] = field(default_factory=dict)
    waiting: list[Sent] = field(default_factory=list)
    nonces: dict[int, int] = field(default_factory=dict)
    logs: list[dict] = field(default_factory=list)
    number: int = 0
    shift: int = 0
    """Seconds by which its clock is ahead."""
    mining: bool = True
    """Whether it takes transactions into blocks at once."""
    asked: list[str] = field(default_factory=list)
    faults: dict[str, list[str]] = field(default_factory=dict)
    """What happens to the next questions of a kind: `down`, `garbage`, `busy`, `taken_in_silence`,
    `null`, or the words of a refusal."""

    # ── what it is asked ──

    async def answer(self, request: web.Request) -> web.StreamResponse:
        question = await request.json()
        method, params = question["method"], question["params"]
        self.asked.append(method)
        queue = self.faults.get(method) or self.faults.get("*") or []
        fault = queue.pop(0) if queue else None
        if fault in {"down", "garbage", "busy"}:
            status = {"down": 503, "garbage": 200, "busy": 429}[fault]
            return web.Response(status=status, text="<html>no</html>")
        reply = {"jsonrpc": "2.0", "id": question["id"]}
        try:
            reply["result"] = self._do(method, params, fault)
        except AttributeError:
            reply["error"] = {"code": -32601, "message": f"no method {method}"}
        except Refusal as refusal:
            reply["error"] = refusal.error
        if fault == "taken_in_silence":
            request.transport.abort()
        return web.json_response(reply)

    def _do(self, method: str, params: list, fault: str | None) -> object:
        if fault == "null":
            return None
        if fault is not None and fault != "taken_in_silence":
            raise Refusal(-32000, fault)
        return getattr(self, method)(*params)

    def eth_chainId(self):
        return hex(CHAIN_ID)

    def eth_blockNumber(self):
        return hex(self.number)

    def eth_getCode(self, address, _block):
        return "0x" + self.state.codes.get(int(address, 16), b"").hex()

    def eth_getBalance(self, address, _block):
        return hex(self.state.balances.get(int(address, 16), 0))

    def eth_getTransactionCount(self, address, block):
        account = int(address, 16)
        following = self.nonces.get(account, 0)
        waiting = {one.nonce for one in self.waiting if one.sender == account}
        while block == "pending" and following in waiting:
            following += 1
        return hex(following)

    def eth_getBlockByNumber(self, block, whole):
        found = {"number": hex(self.number), "baseFeePerGas": hex(self.base_fee)}
        if whole:
            number = _height(block, self.number)
            found["transactions"] = [
                {"hash": sent.hash, "from": address(sent.sender)}
                for sent in self.heights[number - 1].included
            ]
        return found

    def eth_maxPriorityFeePerGas(self):
        return hex(TIP)

    def eth_call(self, call, _block):
        asked = tuple(sorted(call.items()))
        if asked not in self.results:
            machine = Machine(self.state.copy(), self._block())
            self.results[asked] = "0x" + self._run(machine, _message(call)).hex()
        return self.results[asked]

    def eth_estimateGas(self, call):
        machine = Machine(self.state.copy(), self._block())
        message = _message(call)
        self._run(machine, message)
        return hex(21_000 + 16 * len(message.data) + machine.gas)

    def _run(self, machine: Machine, message: Message) -> bytes:
        if machine.state.balances.get(message.sender, 0) < message.value:
            raise Refusal(-32000, "insufficient funds for transfer")
        try:
            return machine.call(message)
        except Reverted as error:
            raise Refusal(3, "execution reverted", "0x" + error.data.hex()) from None

    def eth_sendRawTransaction(self, raw):
        sent = decode_transaction(bytes.fromhex(raw[2:]))
        if sent.hash in self.sent:
            raise Refusal(-32000, "already known")
        if sent.nonce < self.nonces.get(sent.sender, 0):
            raise Refusal(-32000, "nonce too low")
        value, gas, fee = (_int(sent.fields[n]) for n in (6, 4, 3))
        if self.state.balances.get(sent.sender, 0) < value + gas * fee:
            raise Refusal(-32003, "insufficient funds for gas * price + value")
        self._replace(sent)
        self.sent[sent.hash] = sent
        self.waiting.append(sent)
        if self.mining:
            self.mine()
        return sent.hash

    def _replace(self, sent: Sent) -> None:
        """Take the place of a waiting transaction with the same number, for a tenth more."""
        for other in self.waiting:
            if (other.sender, other.nonce) != (sent.sender, sent.nonce):
                continue
            for field_at in (2, 3):
                if _int(sent.fields[field_at]) * 10 < _int(other.fields[field_at]) * 11:
                    raise Refusal(-32000, "replacement transaction underpriced")
            self.waiting.remove(other)
            del self.sent[other.hash]
            return

    def eth_getTransactionReceipt(self, hash):
        return self.sent[hash].receipt if hash in self.sent else None

    def eth_getTransactionByHash(self, hash):
        if hash not in self.sent:
            return None
        sent = self.sent[hash]
        names = ("chainId", "nonce", "maxPriorityFeePerGas", "maxFeePerGas", "gas")
        found = {name: hex(_int(value)) for name, value in zip(names, sent.fields, strict=False)}
        parity, r, s = sent.signature
        return found | {
            "hash": hash, "type": "0x2", "to": "0x" + sent.fields[5].hex() if sent.fields[5] else None,
            "value": hex(_int(sent.fields[6])), "input": "0x" + sent.fields[7].hex(),
            "accessList": [], "yParity": hex(parity), "v": hex(parity),
            "r": "0x" + r.hex(), "s": "0x" + s.hex(), "from": address(sent.sender),
        }  # fmt: skip

    def eth_getLogs(self, asked):
        first, last = (_height(asked[n], self.number) for n in ("fromBlock", "toBlock"))
        return [
            log
            for log in self.logs
            if log["address"].lower() == asked["address"].lower()
            and first <= int(log["blockNumber"], 16) <= last
            and all(_matches(w, log["topics"], n) for n, w in enumerate(asked["topics"]))
        ]

    # ── what tests may do ──

    def anvil_setBalance(self, account, value):
        self.results.clear()
        self.state.balances[int(account, 16)] = int(value, 16)

    def evm_increaseTime(self, seconds):
        self.results.clear()
        self.shift += int(seconds, 16) if isinstance(seconds, str) else seconds

    def evm_setAutomine(self, mining):
        self.mining = mining

    def anvil_dropAllTransactions(self):
        self.drop()

    def evm_mine(self):
        self.mine()

    def anvil_rollback(self, depth):
        self.rollback(depth)

    def mine(self) -> None:
        """Make a block of what waits and can be part of it."""
        self.results.clear()
        before = Height(self.state.copy(), dict(self.nonces), len(self.logs), [])
        self.heights.append(before)
        self.number += 1
        for sent in sorted(self.waiting, key=lambda one: one.nonce):
            ready = self.nonces.get(sent.sender, 0) == sent.nonce
            if ready and _int(sent.fields[3]) >= self.base_fee:
                self.waiting.remove(sent)
                before.included.append(sent)
                self._execute(sent)

    def rollback(self, depth: int) -> None:
        """Take the last blocks back; their transactions are lost."""
        self.results.clear()
        for _ in range(min(depth, self.number)):
            before = self.heights.pop()
            self.number -= 1
            self.state, self.nonces = before.state, before.nonces
            del self.logs[before.logs :]
            for sent in before.included:
                del self.sent[sent.hash]

    def drop(self) -> None:
        """Forget what waits, as a server does that restarts."""
        for sent in self.waiting:
            del self.sent[sent.hash]
        self.waiting = []

    def _block(self) -> Block:
        return Block(self.number + 1, int(time.time()) + self.shift, CHAIN_ID)

    def _execute(self, sent: Sent) -> None:
        number = self.nonces.get(sent.sender, 0)
        self.nonces[sent.sender] = number + 1
        machine = Machine(self.state, self._block())
        self.state.logs = []
        to, value, data = sent.fields[5], _int(sent.fields[6]), sent.fields[7]
        made = keccak256(rlp([sent.sender.to_bytes(20, "big"), _digits(number)]))[12:]
        target = int.from_bytes(to or made, "big")
        try:
            code = None if to else data
            message = Message(sent.sender, target, data if to else b"", value, code)
            result = machine.call(message)
            if not to:
                self.state.codes[target] = result
            done = True
        except Reverted:
            done = False
        gas = 21_000 + 16 * len(data) + machine.gas
        price = min(_int(sent.fields[3]), self.base_fee + _int(sent.fields[2]))
        self.state.balances[sent.sender] -= gas * price
        logs = [self._log(sent.hash, *log) for log in self.state.logs] if done else []
        self.logs += logs
        sent.receipt = {
            "transactionHash": sent.hash, "status": hex(done), "gasUsed": hex(gas), "logs": logs,
            "effectiveGasPrice": hex(price), "blockNumber": hex(self.number),
            "contractAddress": None if to else address(target),
        }  # fmt: skip

    def _log(self, hash: str, provider: int, topics: list[int], data: bytes) -> dict:
        return {
            "address": address(provider), "topics": [f"0x{topic:064x}" for topic in topics],
            "data": "0x" + data.hex(), "transactionHash": hash, "blockNumber": hex(self.number),
        }  # fmt: skip


@asynccontextmanager
async def local_chain() -> AsyncIterator[LocalChain]:
    chain = LocalChain()
    app = web.Application()
    app.router.add_post("/", chain.answer)
    runner = web.AppRunner(app, shutdown_timeout=0)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    chain.url = f"http://127.0.0.1:{site._server.sockets[0].getsockname()[1]}"
    try:
        yield chain
    finally:
        await runner.cleanup()


# ── forms ──


def decode_transaction(raw: bytes) -> Sent:
    """Read a signed transaction and find out who signed it."""
    assert raw[0] == 2
    items, rest = _unrlp(raw[1:])
    assert not rest
    *fields, parity, r, s = items
    assert _int(fields[0]) == CHAIN_ID
    signature = r.rjust(32, b"\0") + s.rjust(32, b"\0") + bytes([_int(parity)])
    public = encryption.recover(keccak256(b"\x02" + rlp(fields)), signature)
    hash = "0x" + keccak256(raw).hex()
    return Sent(hash, int(address_of(public), 16), fields, raw, (_int(parity), r, s))


def _unrlp(data: bytes) -> tuple[bytes | list, bytes]:
    first = data[0]
    if first < 0x80:
        return data[:1], data[1:]
    listed = first >= 0xC0
    size = first - (0xC0 if listed else 0x80)
    start = 1
    if size > 55:
        start = 1 + size - 55
        size = int.from_bytes(data[1:start], "big")
    inside, rest = data[start : start + size], data[start + size :]
    if not listed:
        return inside, rest
    items = []
    while inside:
        item, inside = _unrlp(inside)
        items.append(item)
    return items, rest


def _int(data: bytes) -> int:
    return int.from_bytes(data, "big")


def _digits(number: int) -> bytes:
    return number.to_bytes((number.bit_length() + 7) // 8, "big")


def address(number: int) -> str:
    return f"0x{number:040x}"


def _message(call: dict) -> Message:
    return Message(
        int(call.get("from", "0x0"), 16),
        int(call["to"], 16),
        bytes.fromhex(call.get("data", "0x")[2:]),
        int(call.get("value", "0x0"), 16),
    )


def _height(block: str, latest: int) -> int:
    return {"earliest": 0, "latest": latest}[block] if block[0] in "el" else int(block, 16)


def _matches(wanted: str | list | None, topics: list[str], at: int) -> bool:
    if wanted is None:
        return True
    return len(topics) > at and topics[at] in (wanted if isinstance(wanted, list) else [wanted])
