"""Addresses of accounts and ids of models: hashes that the contracts use."""

import re

from Crypto.Hash import keccak

from toolbridge.core.errors import ConfigError
from toolbridge.node.protocol.encryption import uncompressed

_HASH = re.compile(r"0x[0-9a-fA-F]{64}")
_ADDRESS = re.compile(r"0x[0-9a-fA-F]{40}")


def is_address(text: str) -> bool:
    """Whether `text` has the form of an address: 0x and 40 hex digits."""
    return bool(_ADDRESS.fullmatch(text))


def is_hash(text: str) -> bool:
    """Whether `text` has the form of a transaction's hash or a model id: 0x and 64 hex digits."""
    return bool(_HASH.fullmatch(text))


def keccak256(data: bytes) -> bytes:
    """Return Ethereum's hash, which is Keccak-256 and not the standardised SHA3-256."""
    return keccak.new(digest_bits=256, data=data).digest()


def address_of(public: bytes) -> str:
    """Return the address of a public key, with its checksum."""
    return checksum(keccak256(uncompressed(public)[1:])[12:].hex())


def checksum(address: str) -> str:
    """Return an address in mixed case, where the case is a checksum (EIP-55)."""
    digits = address.removeprefix("0x").lower()
    marks = keccak256(digits.encode()).hex()
    cased = (d.upper() if int(m, 16) >= 8 else d for d, m in zip(digits, marks, strict=False))
    return "0x" + "".join(cased)


def same_account(one: str, other: str) -> bool:
    """Whether two addresses are equal, regardless of their case."""
    return one.lower() == other.lower()


def model_id(model: str) -> str:
    """Return the ModelRegistry's id of `repo:file`; a 32-byte hash is returned as it is."""
    if is_hash(model):
        return model
    repo, colon, file = model.partition(":")
    if not (repo and colon and file):
        raise ConfigError(f"`model` must be written as repo:file, not {model!r}")
    return "0x" + keccak256(f"{repo}/{file}".encode()).hex()
