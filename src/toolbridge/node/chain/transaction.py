"""Ethereum transactions: sign our own, and recover the public key that signed another one.

Our transactions are of type 2 (EIP-1559). `signer` reads legacy (with or without EIP-155), type 1
(EIP-2930) and type 2 transactions; `hosts.registry` uses it to find the key of a host.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from toolbridge.core.json import Json, JsonObject
from toolbridge.node.chain.address import keccak256
from toolbridge.node.protocol import encryption
from toolbridge.node.protocol.encryption import DecryptionFailed, Secret

Item: TypeAlias = "bytes | Sequence[Item]"


def rlp(item: Item) -> bytes:
    """Return bytes, or nested lists of bytes, in RLP encoding."""
    if isinstance(item, bytes):
        return item if len(item) == 1 and item[0] < 0x80 else _head(len(item), 0x80) + item
    inside = b"".join(rlp(one) for one in item)
    return _head(len(inside), 0xC0) + inside


def _head(size: int, offset: int) -> bytes:
    if size <= 55:
        return bytes([offset + size])
    digits = _digits(size)
    return bytes([offset + 55 + len(digits)]) + digits


def _digits(number: int) -> bytes:
    """Return a number in big-endian bytes without leading zeros; zero is empty (RLP)."""
    return number.to_bytes((number.bit_length() + 7) // 8, "big")


# ── signing ──


@dataclass(frozen=True)
class Transaction:
    """An unsigned transaction of type 2 (EIP-1559)."""

    chain_id: int
    nonce: int
    to: str
    data: bytes
    value: int
    gas: int
    fee: int
    """`maxFeePerGas`: the most to pay per unit of gas, tip included."""
    tip: int
    """`maxPriorityFeePerGas`."""

    @property
    def cost(self) -> int:
        """The most that its gas can cost, in wei."""
        return self.gas * self.fee

    def fields(self) -> list[Item]:
        """Return the fields in the order of EIP-1559, with an empty access list."""
        numbers = (self.chain_id, self.nonce, self.tip, self.fee, self.gas)
        to = bytes.fromhex(self.to.removeprefix("0x"))
        return [*map(_digits, numbers), to, _digits(self.value), self.data, []]


@dataclass(frozen=True)
class Signed:
    """A signed transaction."""

    transaction: Transaction
    raw: bytes
    hash: str
    """Known before it is sent, so that the chain can be asked for it after any failure."""


def sign(transaction: Transaction, key: Secret) -> Signed:
    """Return `transaction` signed with `key`."""
    fields = transaction.fields()
    signature = encryption.sign(key, keccak256(b"\x02" + rlp(fields)))
    signed = [*fields, _digits(signature[64]), *_halves(signature)]
    raw = b"\x02" + rlp(signed)
    return Signed(transaction, raw, "0x" + keccak256(raw).hex())


def _halves(signature: bytes) -> tuple[bytes, bytes]:
    return signature[:32].lstrip(b"\0"), signature[32:64].lstrip(b"\0")


# ── recovering a signer ──

_LEGACY = ("nonce", "gasPrice", "gas", "to", "value", "input")
_TYPE_1 = ("chainId", "nonce", "gasPrice", "gas", "to", "value", "input", "accessList")
_TYPE_2 = (
    "chainId", "nonce", "maxPriorityFeePerGas", "maxFeePerGas", "gas", "to", "value", "input",
    "accessList",
)  # fmt: skip


def signer(found: JsonObject) -> bytes | None:
    """Return the public key that signed a transaction of `eth_getTransactionByHash`, or None.

    The fields must hash to the transaction's hash, so a server cannot invent fields for a hash
    that is known from a log.
    """
    try:
        unsigned, signed, parity = _forms(found)
        half_r, half_s = (_bytes(found["r"]).rjust(32, b"\0"), _bytes(found["s"]).rjust(32, b"\0"))
        if "0x" + keccak256(signed).hex() != found["hash"]:
            return None
        return encryption.recover(keccak256(unsigned), half_r + half_s + bytes([parity]))
    except (KeyError, ValueError, TypeError, DecryptionFailed):
        return None


def _forms(found: JsonObject) -> tuple[bytes, bytes, int]:
    """Return the signed bytes, the sent bytes, and the parity of the signature."""
    kind = _number(found.get("type") or "0x0")
    signature: list[Item] = [_quantity(found["r"]), _quantity(found["s"])]
    if kind == 0:
        return _legacy_forms(found, signature)
    if kind not in {1, 2}:
        raise ValueError("a transaction type other than 0, 1 and 2")
    fields = [_field(name, found) for name in (_TYPE_1 if kind == 1 else _TYPE_2)]
    mark = bytes([kind])
    parity = _number(found.get("yParity") or found["v"])
    return mark + rlp(fields), mark + rlp([*fields, _digits(parity), *signature]), parity


def _legacy_forms(found: JsonObject, signature: list[Item]) -> tuple[bytes, bytes, int]:
    """Return the same for a legacy transaction, with a chain id (EIP-155) or without."""
    fields = [_field(name, found) for name in _LEGACY]
    mark = _number(found["v"])
    bound: list[Item] = [_digits((mark - 35) // 2), b"", b""] if mark >= 35 else []
    parity = (mark - 35) % 2 if mark >= 35 else mark - 27
    return rlp([*fields, *bound]), rlp([*fields, _digits(mark), *signature]), parity


def _field(name: str, found: JsonObject) -> Item:
    value = found.get(name)
    if name == "accessList":
        return [_access(entry) for entry in value] if isinstance(value, list) else []
    if name in {"to", "input"}:
        return _bytes(value) if value is not None else b""
    return _quantity(value)


def _access(entry: Json) -> Item:
    if not isinstance(entry, dict):
        raise TypeError("an entry of the access list is not an object")
    keys = entry.get("storageKeys")
    return [_bytes(entry["address"]), [_bytes(k) for k in keys] if isinstance(keys, list) else []]


def _number(value: Json) -> int:
    if not isinstance(value, str):
        raise TypeError("a number is not a hex string")
    return int(value, 16)


def _quantity(value: Json) -> bytes:
    return _digits(_number(value))


def _bytes(value: Json) -> bytes:
    if not isinstance(value, str):
        raise TypeError("a byte value is not a hex string")
    digits = value.removeprefix("0x")
    return bytes.fromhex(digits.rjust(len(digits) + len(digits) % 2, "0"))
