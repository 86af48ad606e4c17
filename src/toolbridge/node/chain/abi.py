"""Contract ABI encoding (Solidity, Contract ABI Specification): call data and return values.

Only the types that `contracts` uses: `uint*`, `bool`, `address`, `bytes*`, `bytes`, `string`, and
lists of these. Return data comes from a JSON-RPC server, which may lie, so only the canonical
encoding is decoded, as compilers produce it: unused bytes are zero, tails follow one another in
order without gaps, and nothing follows the last. Each byte is read once, so time and memory are
linear in the data. Everything else raises `MalformedAnswer`.
"""

import re
from collections.abc import Sequence
from typing import TypeAlias

from toolbridge.core.errors import BrokenWire
from toolbridge.node.chain.address import checksum, keccak256

Value: TypeAlias = "int | bool | str | bytes | list[Value]"
"""Addresses are strings with a checksum; `bytes` and `bytesN` are bytes."""

WORD = 32
_SIGNATURE = re.compile(r"(\w+)\(([^()]*)\)")


class MalformedAnswer(BrokenWire):
    """Return data that does not match the types of the function."""


def types_of(signature: str) -> list[str]:
    """Return the argument types of `name(type,type)`."""
    found = _SIGNATURE.fullmatch(signature)
    if found is None:
        raise ValueError(f"{signature!r} is not a function signature")
    return found[2].split(",") if found[2] else []


def selector(signature: str) -> bytes:
    """Return the four bytes that select a function or name an error."""
    return keccak256(signature.encode())[:4]


def topic(signature: str) -> bytes:
    """Return the first topic of an event's logs."""
    return keccak256(signature.encode())


def encode_call(signature: str, arguments: Sequence[Value]) -> bytes:
    """Return the call data of a function."""
    return selector(signature) + encode(types_of(signature), arguments)


# ── encoding ──


def encode(types: Sequence[str], values: Sequence[Value]) -> bytes:
    """Return the values: static ones in the head, dynamic ones in the tail behind their offsets."""
    heads: list[bytes] = []
    tails: list[bytes] = []
    offset = WORD * len(types)
    for type, value in zip(types, values, strict=True):
        if not _is_dynamic(type):
            heads.append(_encode_word(type, value))
            continue
        heads.append(_number(offset))
        tails.append(_encode_dynamic(type, value))
        offset += len(tails[-1])
    return b"".join(heads + tails)


def _is_dynamic(type: str) -> bool:
    return type in {"string", "bytes"} or type.endswith("[]")


def _encode_word(type: str, value: Value) -> bytes:
    match value:
        case bool() if type == "bool":
            return _number(int(value))
        case bool():
            raise ValueError(f"{value!r} is not of the type {type}")
        case int() if type.startswith("uint"):
            return _number(value, int(type[4:] or 256))
        case str() if type == "address":
            return _address(value).rjust(WORD, b"\0")
        case bytes() if type == f"bytes{len(value)}":
            return value.ljust(WORD, b"\0")
        case _:
            raise ValueError(f"{value!r} is not of the type {type}")


def _address(text: str) -> bytes:
    found = bytes.fromhex(text.removeprefix("0x"))
    if len(found) != 20:
        raise ValueError(f"{text!r} is not an address of 20 bytes")
    return found


def _encode_dynamic(type: str, value: Value) -> bytes:
    match value:
        case list():
            return _number(len(value)) + encode([type[:-2]] * len(value), value)
        case str() if type == "string":
            return _padded(value.encode())
        case bytes() if type == "bytes":
            return _padded(value)
        case _:
            raise ValueError(f"{value!r} is not of the type {type}")


def _number(value: int, bits: int = 256) -> bytes:
    if not 0 <= value < 1 << bits:
        raise ValueError(f"{value} does not fit into {bits} bits")
    return value.to_bytes(WORD, "big")


def _padded(data: bytes) -> bytes:
    return _number(len(data)) + data + bytes(-len(data) % WORD)


# ── decoding ──


def decode(types: Sequence[str], data: bytes) -> list[Value]:
    """Return the values of `types`; raise `MalformedAnswer` if `data` is not exactly these."""
    reader = Reader(data)
    values = reader.values(types)
    reader.finish()
    return values


class Reader:
    """Reads canonical return data from its beginning to its end.

    Between two calls the position is behind everything that was read, so an offset that points
    backwards, into other data or beyond the end is not the position that follows, and is rejected.
    """

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    def values(self, types: Sequence[str]) -> list[Value]:
        """Return a tuple of values: all heads, then the tails of those that are dynamic."""
        start = self._position
        heads: list[Value] = [
            self.offset() if _is_dynamic(type) else self.word(type) for type in types
        ]
        for index, type in enumerate(types):
            if _is_dynamic(type):
                self.at(start, heads[index])
                heads[index] = self._tail(type)
        return heads

    def finish(self) -> None:
        """Raise `MalformedAnswer` unless everything was read."""
        if self._position != len(self._data):
            raise MalformedAnswer("a contract's return data has bytes behind its last value")

    def at(self, start: int, offset: Value) -> None:
        """Raise `MalformedAnswer` unless the next value is `offset` bytes behind `start`."""
        if offset != self._position - start:
            raise MalformedAnswer(
                "an offset in a contract's return data does not point to the value that follows"
            )

    @property
    def position(self) -> int:
        return self._position

    def offset(self) -> int:
        """Return the number in the next word."""
        return int.from_bytes(self._take(WORD), "big")

    def count(self, least: int = WORD) -> int:
        """Return the length of a list whose items have at least `least` bytes each."""
        size = self.offset()
        if size * least > len(self._data) - self._position:
            raise MalformedAnswer("a list in a contract's return data is longer than the data")
        return size

    def word(self, type: str) -> Value:
        """Return the value of a static type; its unused bytes must be zero."""
        word = self._take(WORD)
        number = int.from_bytes(word, "big")
        if type == "address":
            _check(number < 1 << 160, "an address", word)
            return checksum(word[12:].hex())
        if type == "bool":
            _check(number < 2, "a bool", word)
            return number == 1
        if type.startswith("uint"):
            _check(number < 1 << int(type[4:] or 256), type, word)
            return number
        size = int(type.removeprefix("bytes"))
        _check(not any(word[size:]), type, word)
        return word[:size]

    def byte_string(self) -> bytes:
        """Return a byte string: its length, its bytes, and zeros up to a whole word."""
        size = self.offset()
        if size > len(self._data) - self._position:
            raise MalformedAnswer("a string in a contract's return data is longer than the data")
        found = self._take(size)
        if any(self._take(-size % WORD)):
            raise MalformedAnswer("a string in a contract's return data is not padded with zeros")
        return found

    def _tail(self, type: str) -> Value:
        if type.endswith("[]"):
            return self.values([type[:-2]] * self.count())
        found = self.byte_string()
        # A host chooses its own texts, so an invalid one must not fail the list of all hosts.
        return found.decode("utf-8", "replace") if type == "string" else found

    def _take(self, size: int) -> bytes:
        found = self._data[self._position : self._position + size]
        if len(found) < size:
            raise MalformedAnswer("a contract's return data is truncated")
        self._position += size
        return found


def _check(fits: bool, what: str, word: bytes) -> None:  # noqa: FBT001  one condition per type
    if not fits:
        raise MalformedAnswer(
            f"a contract returned {what} with unused bytes that are not zero: 0x{word.hex()}"
        )
