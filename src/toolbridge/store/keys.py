"""Keys that the operator of a gateway creates for its users.

A key is `tbk_ID_SECRET`. The id finds the record and is shown in lists; the secret is shown once
and stored as a keyed hash, whose key (the salt) is random for each record. The secret has 256
random bits, so that a fast hash is enough: it cannot be guessed.
"""

import hmac
import re
import secrets
from hashlib import blake2b
from typing import Protocol

import msgspec

from toolbridge.accounting.limits_of_keys import KeyLimit
from toolbridge.policy.key_scopes import KeyScopes

PREFIX = "tbk_"
_FORM = re.compile(r"tbk_([a-z2-7]{8})_([a-z2-7]{52})")
_LETTERS = "abcdefghijklmnopqrstuvwxyz234567"
_NOBODY = b"\0" * 16


class KeyRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """A created key: who it is for, what it may use, and the hash of its secret."""

    id: str
    name: str
    salt: bytes
    hash: bytes
    created: float
    expires: float | None = None
    revoked: float | None = None
    scopes: KeyScopes = KeyScopes()
    limits: tuple[KeyLimit, ...] = ()
    concurrency: int = 0
    """The most requests at the same time; 0 for no limit."""

    @property
    def prefix(self) -> str:
        """The part of the key that may be shown."""
        return f"{PREFIX}{self.id}_"

    def state(self, now: float) -> str:
        """Return `active`, `expired` or `revoked`."""
        if self.revoked is not None:
            return "revoked"
        return "expired" if self.expires is not None and now >= self.expires else "active"


class KeyStore(Protocol):
    """Keeps records of keys; every method raises `StoreUnavailable` if it cannot."""

    local: bool
    """Whether it is a file of this machine, which exists once a key was created."""

    def may_exist(self) -> bool:
        """Return, without waiting, whether any key may have been created."""

    async def version(self) -> int:
        """Return a number that changes when a record does; cheaper than `all`."""

    async def all(self) -> list[KeyRecord]:
        """Return every record, the oldest first."""

    async def put(self, record: KeyRecord) -> None:
        """Add a record, or replace the one with its id."""

    async def close(self) -> None: ...


def new_key(name: str, now: float) -> tuple[KeyRecord, str]:
    """Return a record without limits, and the key to show once."""
    id, secret = (_random(count) for count in (8, 52))
    salt = secrets.token_bytes(16)
    return KeyRecord(id, name, salt, _hash(secret, salt), now), f"{PREFIX}{id}_{secret}"


def id_of(key: str) -> str:
    """Return the id in a key; empty for text that is not a created key."""
    form = _FORM.fullmatch(key)
    return form[1] if form else ""


def fits(record: KeyRecord | None, key: str) -> bool:
    """Return whether `key` is the key of `record`, in the same time for every key."""
    form = _FORM.fullmatch(key)
    found = _hash(form[2] if form else "", _NOBODY if record is None else record.salt)
    expected = bytes(len(found)) if record is None else record.hash
    return hmac.compare_digest(found, expected) and record is not None


def _hash(secret: str, salt: bytes) -> bytes:
    return blake2b(secret.encode(), key=salt, digest_size=32).digest()


def _random(count: int) -> str:
    return "".join(secrets.choice(_LETTERS) for _ in range(count))
