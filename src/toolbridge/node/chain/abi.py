"""Contract ABI encoding (Solidity, Contract ABI Specification): call data and return values.

Only the types that `contracts` uses: `uint*`, `bool`, `address`, `bytes*`, `bytes`, `string`, and
lists of these. Return data with an offset or length beyond its end raises `MalformedAnswer`.
"""

import re
from collections.abc import Sequence
from typing import TypeAlias

from toolbridge.core.errors import BrokenWire
from toolbridge.node.chain.address import checksum, keccak256

Value: TypeAlias = "int | bool | str | bytes | list[Value]"
"""Addresses are strings with a checksum; `bytes` and `bytesN` are bytes."""

_WORD = 32
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
    offset = _WORD * len(types)
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
        case int() if type.startswith("uint"):
            return _number(value, int(type[4:] or 256))
        case str() if type == "address":
            return bytes.fromhex(value.removeprefix("0x")).rjust(_WORD, b"\0")
        case bytes() if type == f"bytes{len(value)}":
            return value.ljust(_WORD, b"\0")
        case _:
            raise ValueError(f"{value!r} is not of the type {type}")


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
    return value.to_bytes(_WORD, "big")


def _padded(data: bytes) -> bytes:
    return _number(len(data)) + data + bytes(-len(data) % _WORD)


# ── decoding ──


def decode(types: Sequence[str], data: bytes) -> list[Value]:
    """Return the values of `types`; raise `MalformedAnswer` if `data` does not contain them."""
    return [_decode(type, data, n * _WORD) for n, type in enumerate(types)]


def _decode(type: str, data: bytes, offset: int) -> Value:
    if not _is_dynamic(type):
        return _decode_word(type, _word(data, offset))
    start = _read_number(data, offset)
    size = _read_number(data, start)
    inside = data[start + _WORD :]
    if type.endswith("[]"):
        if size * _WORD > len(inside):
            raise MalformedAnswer("a list in a contract's return data is longer than the data")
        return decode([type[:-2]] * size, inside)
    if size > len(inside):
        raise MalformedAnswer("a string in a contract's return data is longer than the data")
    return inside[:size].decode("utf-8", "replace") if type == "string" else inside[:size]


def _decode_word(type: str, word: bytes) -> Value:
    if type == "address":
        return checksum(word[12:].hex())
    if type == "bool":
        return any(word)
    if type.startswith("uint"):
        return int.from_bytes(word, "big")
    return word[: int(type.removeprefix("bytes"))]


def _read_number(data: bytes, offset: int) -> int:
    return int.from_bytes(_word(data, offset), "big")


def _word(data: bytes, offset: int) -> bytes:
    word = data[offset : offset + _WORD]
    if len(word) < _WORD:
        raise MalformedAnswer("a contract's return data is truncated")
    return word
