"""Transactions: ours, signed; and other people's, for the key that signed them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from toolbridge.core.json import Json, JsonObject
from toolbridge.node.chain.address import keccak256
from toolbridge.node.protocol import encryption
from toolbridge.node.protocol.encryption import DecryptionFailed, Secret

Item: TypeAlias = "bytes | Sequence[Item]"


def rlp(item: Item) -> bytes:
    """Return bytes, or lists of them, in the form that is hashed and sent."""
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
    """Return a number without leading zeros; zero is nothing at all."""
    return number.to_bytes((number.bit_length() + 7) // 8, "big")


# ── ours ──


@dataclass(frozen=True)
class Transaction:
    """A call that is paid for, of the kind that names its highest fee (EIP-1559)."""

    chain_id: int
    nonce: int
    to: str
    data: bytes
    value: int
    gas: int
    fee: int
    """The most per unit of gas, all in all."""
    tip: int

    @property
    def cost(self) -> int:
        """The most that its gas can cost."""
        return self.gas * self.fee

    def fields(self) -> list[Item]:
        numbers = (self.chain_id, self.nonce, self.tip, self.fee, self.gas)
        to = bytes.fromhex(self.to.removeprefix("0x"))
        return [*map(_digits, numbers), to, _digits(self.value), self.data, []]


@dataclass(frozen=True)
class Signed:
    transaction: Transaction
    raw: bytes
    hash: str
    """Known before it is sent, so whatever happens it can be looked for."""


def sign(transaction: Transaction, key: Secret) -> Signed:
    fields = transaction.fields()
    signature = encryption.sign(key, keccak256(b"\x02" + rlp(fields)))
    signed = [*fields, _digits(signature[64]), *_halves(signature)]
    raw = b"\x02" + rlp(signed)
    return Signed(transaction, raw, "0x" + keccak256(raw).hex())


def _halves(signature: bytes) -> tuple[bytes, bytes]:
    return signature[:32].lstrip(b"\0"), signature[32:64].lstrip(b"\0")


# ── theirs ──

_COMMON = ("nonce", "gasPrice", "gas", "to", "value", "input")
_LISTED = ("chainId", "nonce", "gasPrice", "gas", "to", "value", "input", "accessList")
_MODERN = (
    "chainId", "nonce", "maxPriorityFeePerGas", "maxFeePerGas", "gas", "to", "value", "input",
    "accessList",
)  # fmt: skip


def signer(found: JsonObject) -> bytes | None:
    """Return the public key that signed a transaction as a chain tells it; None when it cannot be.

    The hash must come out as the chain says: so a server cannot make up a transaction of which the
    hash is already known.
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
    """Return what was signed, what was sent, and which of two keys it was."""
    kind = _number(found.get("type") or "0x0")
    signature: list[Item] = [_quantity(found["r"]), _quantity(found["s"])]
    if kind == 0:
        return _old_forms(found, signature)
    if kind not in {1, 2}:
        raise ValueError("a kind of transaction that hosts do not send")
    fields = [_field(name, found) for name in (_LISTED if kind == 1 else _MODERN)]
    mark = bytes([kind])
    parity = _number(found.get("yParity") or found["v"])
    return mark + rlp(fields), mark + rlp([*fields, _digits(parity), *signature]), parity


def _old_forms(found: JsonObject, signature: list[Item]) -> tuple[bytes, bytes, int]:
    """Return the forms of a transaction from before there were kinds, bound to a chain or not."""
    fields = [_field(name, found) for name in _COMMON]
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
        raise TypeError("an access list of something else")
    keys = entry.get("storageKeys")
    return [_bytes(entry["address"]), [_bytes(k) for k in keys] if isinstance(keys, list) else []]


def _number(value: Json) -> int:
    if not isinstance(value, str):
        raise TypeError("a chain's numbers are hex texts")
    return int(value, 16)


def _quantity(value: Json) -> bytes:
    return _digits(_number(value))


def _bytes(value: Json) -> bytes:
    if not isinstance(value, str):
        raise TypeError("a chain's bytes are hex texts")
    digits = value.removeprefix("0x")
    return bytes.fromhex(digits.rjust(len(digits) + len(digits) % 2, "0"))
