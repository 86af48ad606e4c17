"""The identity of a caller, without the caller's key.

Stored responses, opaque tokens, runs and idempotency keys belong to the caller who created them.
They are kept under this hash, so that no key is written to memory or disk for longer than a request.
"""

from hashlib import blake2b


def owner_of(key: str) -> str:
    """Return the hash that identifies the caller with `key`; empty where no key is required."""
    return blake2b(key.encode(), digest_size=16).hexdigest() if key else ""
