"""A machine for contracts, small and slow: enough to run ours without a chain.

It knows the instructions that the compiler uses. Gas is a rough count; the same stories run on a real
chain in `tests/real`, which keeps it honest.
"""

from dataclasses import dataclass, field
from functools import cache

from toolbridge.node.chain.address import keccak256

WORD = 2**256
_SIGN = 2**255


class Reverted(Exception):
    def __init__(self, data: bytes = b"") -> None:
        super().__init__(data.hex())
        self.data = data


@dataclass
class State:
    """Everything that transactions change."""

    balances: dict[int, int] = field(default_factory=dict)
    codes: dict[int, bytes] = field(default_factory=dict)
    storage: dict[tuple[int, int], int] = field(default_factory=dict)
    logs: list[tuple[int, list[int], bytes]] = field(default_factory=list)

    def copy(self) -> "State":
        return State(dict(self.balances), dict(self.codes), dict(self.storage), list(self.logs))

    def restore(self, other: "State") -> None:
        self.balances, self.codes = other.balances, other.codes
        self.storage, self.logs = other.storage, other.logs


@dataclass
class Message:
    sender: int
    to: int
    data: bytes
    value: int = 0
    code: bytes | None = None


@dataclass
class Block:
    number: int
    time: int
    chain_id: int


class Machine:
    def __init__(self, state: State, block: Block) -> None:
        self.state = state
        self.block = block
        self.gas = 0

    def call(self, message: Message) -> bytes:
        """Run a message; whatever it did is undone when it reverts."""
        before = self.state.copy()
        try:
            self._move(message.sender, message.to, message.value)
            code = self.state.codes.get(message.to, b"") if message.code is None else message.code
            return Frame(self, message, code).run() if code else b""
        except Reverted:
            self.state.restore(before)
            raise

    def _move(self, sender: int, to: int, value: int) -> None:
        balances = self.state.balances
        if balances.get(sender, 0) < value:
            raise Reverted
        balances[sender] = balances.get(sender, 0) - value
        balances[to] = balances.get(to, 0) + value


def _signed(value: int) -> int:
    return value - WORD if value >= _SIGN else value


_PURE = {
    0x01: lambda a, b: a + b,
    0x02: lambda a, b: a * b,
    0x03: lambda a, b: a - b,
    0x04: lambda a, b: a // b if b else 0,
    0x06: lambda a, b: a % b if b else 0,
    0x0A: lambda a, b: pow(a, b, WORD),
    0x10: lambda a, b: a < b,
    0x11: lambda a, b: a > b,
    0x12: lambda a, b: _signed(a) < _signed(b),
    0x13: lambda a, b: _signed(a) > _signed(b),
    0x14: lambda a, b: a == b,
    0x16: lambda a, b: a & b,
    0x17: lambda a, b: a | b,
    0x18: lambda a, b: a ^ b,
    0x1A: lambda a, b: (b >> (8 * (31 - a))) & 0xFF if a < 32 else 0,
    0x1B: lambda a, b: b << a if a < 256 else 0,
    0x1C: lambda a, b: b >> a if a < 256 else 0,
    0x1D: lambda a, b: _signed(b) >> min(a, 255),
}


@cache
def _pushed(code: bytes) -> dict[int, tuple[int, int]]:
    """Return the value of every PUSH and where the code goes on, by the place behind its byte."""
    found, at = {}, 0
    while at < len(code):
        op, at = code[at], at + 1
        if 0x5F <= op <= 0x7F:
            size = op - 0x5F
            value = int.from_bytes(code[at : at + size].ljust(size, b"\0"), "big")
            found[at] = value, at + size
            at += size
    return found


class Frame:
    """One contract at work."""

    def __init__(self, machine: Machine, message: Message, code: bytes) -> None:
        self.machine = machine
        self.message = message
        self.code = code
        self.stack: list[int] = []
        self.memory = bytearray()
        self.returned = b""
        self.gas = 0

    def run(self) -> bytes:
        """Run the code; what it does most often is done here, because calls are what costs time."""
        code, stack, pushed = self.code, self.stack, _pushed(self.code)
        at, end = 0, len(code)
        try:
            while at < end:
                op = code[at]
                at += 1
                self.gas += 3
                if 0x5F <= op <= 0x7F:
                    value, at = pushed[at]
                    stack.append(value)
                elif 0x80 <= op <= 0x8F:
                    stack.append(stack[0x7F - op])
                elif 0x90 <= op <= 0x9F:
                    stack[-1], stack[0x8E - op] = stack[0x8E - op], stack[-1]
                elif op == 0x5B:
                    continue
                elif op in {0x56, 0x57}:
                    to = stack.pop()
                    if op == 0x56 or stack.pop():
                        assert code[to] == 0x5B
                        at = to
                elif op in _PURE:
                    stack.append(int(_PURE[op](stack.pop(), stack.pop())) % WORD)
                elif op in {0x00, 0xF3}:
                    return self._slice() if op else b""
                elif op in {0xFD, 0xFE}:
                    raise Reverted(self._slice() if op == 0xFD else b"")
                else:
                    self._step(op)
        finally:
            self.machine.gas += self.gas
        return b""

    def _step(self, op: int) -> None:
        if 0xA0 <= op <= 0xA4:
            self._log(op - 0xA0)
        elif op in {0xF1, 0xFA}:
            self._call(op)
        elif op in _REST:
            _REST[op](self)
        else:
            raise NotImplementedError(f"instruction {op:#x}")

    def _push(self, value: int) -> None:
        self.stack.append(int(value) % WORD)

    def _pop(self) -> int:
        return self.stack.pop()

    def _slice(self) -> bytes:
        start, size = self._pop(), self._pop()
        return self._read(start, size)

    def _read(self, start: int, size: int) -> bytes:
        self._grow(start + size if size else 0)
        return bytes(self.memory[start : start + size])

    def _write(self, start: int, data: bytes) -> None:
        self._grow(start + len(data) if data else 0)
        self.memory[start : start + len(data)] = data

    def _grow(self, size: int) -> None:
        if size > 10_000_000:
            raise Reverted  # out of gas
        self.memory.extend(bytes(max(0, (size + 31) // 32 * 32 - len(self.memory))))

    def _copy(self, source: bytes) -> None:
        to, start, size = self._pop(), self._pop(), self._pop()
        self._write(to, source[start : start + size].ljust(size, b"\0"))

    def _log(self, topics: int) -> None:
        data = self._slice()
        found = [self._pop() for _ in range(topics)]
        self.machine.gas += 375 * (topics + 1) + 8 * len(data)
        self.machine.state.logs.append((self.message.to, found, data))

    def _call(self, op: int) -> None:
        self._pop()  # gas
        to = self._pop() % 2**160
        value = self._pop() if op == 0xF1 else 0
        data = self._slice()
        into, room = self._pop(), self._pop()
        self.machine.gas += 2600
        try:
            self.returned = self.machine.call(Message(self.message.to, to, data, value))
            self._push(1)
        except Reverted as error:
            self.returned = error.data
            self._push(0)
        self._write(into, self.returned[:room])

    def sload(self) -> None:
        self.machine.gas += 2100
        self._push(self.machine.state.storage.get((self.message.to, self._pop()), 0))

    def sstore(self) -> None:
        self.machine.gas += 20_000
        key, value = self._pop(), self._pop()
        self.machine.state.storage[self.message.to, key] = value

    def signextend(self) -> None:
        size, value = self._pop(), self._pop()
        bits = 8 * (size + 1)
        low = value % (1 << bits) if bits < 256 else value
        self._push(low - (1 << bits) if bits < 256 and low >> (bits - 1) else low)


def _calldataload(frame: Frame) -> None:
    start = frame._pop()
    frame._push(int.from_bytes(frame.message.data[start : start + 32].ljust(32, b"\0"), "big"))


def _mstore(frame: Frame) -> None:
    start, value = frame._pop(), frame._pop()
    frame._write(start, value.to_bytes(32, "big"))


def _code_size(frame: Frame) -> int:
    return len(frame.machine.state.codes.get(frame._pop() % 2**160, b""))


_REST = {
    0x0B: Frame.signextend,
    0x15: lambda f: f._push(not f._pop()),
    0x19: lambda f: f._push(~f._pop()),
    0x20: lambda f: f._push(int.from_bytes(keccak256(f._slice()), "big")),
    0x30: lambda f: f._push(f.message.to),
    0x31: lambda f: f._push(f.machine.state.balances.get(f._pop() % 2**160, 0)),
    0x33: lambda f: f._push(f.message.sender),
    0x34: lambda f: f._push(f.message.value),
    0x35: _calldataload,
    0x36: lambda f: f._push(len(f.message.data)),
    0x37: lambda f: f._copy(f.message.data),
    0x38: lambda f: f._push(len(f.code)),
    0x39: lambda f: f._copy(f.code),
    0x3B: lambda f: f._push(_code_size(f)),
    0x3D: lambda f: f._push(len(f.returned)),
    0x3E: lambda f: f._copy(f.returned),
    0x42: lambda f: f._push(f.machine.block.time),
    0x43: lambda f: f._push(f.machine.block.number),
    0x46: lambda f: f._push(f.machine.block.chain_id),
    0x47: lambda f: f._push(f.machine.state.balances.get(f.message.to, 0)),
    0x50: Frame._pop,
    0x51: lambda f: f._push(int.from_bytes(f._read(f._pop(), 32), "big")),
    0x52: _mstore,
    0x53: lambda f: f._write(f._pop(), bytes([f._pop() % 256])),
    0x54: Frame.sload,
    0x55: Frame.sstore,
    0x59: lambda f: f._push(len(f.memory)),
    0x5A: lambda f: f._push(10**9),
}
