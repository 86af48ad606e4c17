"""The interface of a store: values, claims and logs that outlive a request.

Engines keep every value twice: exact in the memory of the process, so that a repeat in the same
process returns the same bytes, and with its secrets masked outside of it (a file, a server), where
other processes and the next start find it. No method raises when the outside cannot be used: the
store continues in memory, and `trouble` has the reason, because no answer may depend on a disk or on
another server. Every call has a time limit.

A scope is `kind` or `kind/owner`. Each kind has a maximum number and size of its values; those that
expire first are removed first, so that one kind cannot displace another.
"""

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

from toolbridge.core.redaction import Redactor

MOST_ENTRIES = 96
"""The most entries of a log that one call of `append` adds."""
READ_BYTES = 1024 * 1024
"""The bytes after which `read` returns; a single larger entry is returned whole."""

MOST_VALUES = 256
"""The most values that one call of `values` returns."""

Numbered: TypeAlias = tuple[int, bytes]
"""An entry of a log with its number."""


class Store(Protocol):
    """Keeps bytes for a time; all methods are atomic over all processes that share the store."""

    redactor: Redactor
    """Masks the secrets of what leaves the process."""

    @property
    def trouble(self) -> str:
        """Why values are kept in memory only; empty while the outside is used."""

    async def get(self, scope: str, key: str) -> bytes | None:
        """Return the value: exact if this process wrote it, or with masked secrets."""

    async def put(self, scope: str, key: str, value: bytes, *, seconds: float) -> None:
        """Store a value: JSON, MessagePack or text."""

    async def values(self, kind: str) -> list[bytes]:
        """Return the values of a kind without owners, of all processes, with masked secrets.

        At most `MOST_VALUES`, in any order; none while the outside cannot be used.
        """

    async def claim(
        self, scope: str, key: str, value: bytes, *, seconds: float
    ) -> tuple[bytes, bool]:
        """Store `value` unless there is one; return the stored value, and whether it is new.

        Of all processes that claim a key, exactly one gets true. A value that is new survives a
        crash of the process, and where the engine can, of the machine.
        """

    async def replace(
        self, scope: str, key: str, old: bytes, new: bytes, *, seconds: float
    ) -> bool:
        """Store `new` if the value is still `old`; return whether it was.

        With it a process renews its claim, or takes over the claim of one that was killed: of several that
        try, exactly one succeeds.
        """

    async def drop(self, scope: str, key: str) -> bool:
        """Delete a value, or a log; return whether there was one."""

    async def append(
        self,
        scope: str,
        key: str,
        first: int,
        entries: Sequence[bytes],
        *,
        seconds: float,
        redacted: Callable[[], Sequence[Numbered]] | None = None,
    ) -> None:
        """Add the entries number `first`, `first` + 1 and so on to a log; numbers start at 1.

        At most `MOST_ENTRIES` in one call. Numbers that the log has already are left out, so that
        a call can be repeated. Outside of the process the secrets of each entry are masked, and an
        entry without secrets has the same bytes. For secrets that span entries, `redacted` returns
        what leaves the process instead, with its numbers: it may hold entries back, and return them
        with a later call. `redacted` may run in another thread.
        """

    async def read(self, scope: str, key: str, after: int, *, wait: float = 0.0) -> list[Numbered]:
        """Return entries of a log with numbers above `after`, in order, about `READ_BYTES` at most.

        Without any, wait at most `wait` seconds for one, also from another process.
        """

    async def connection(self) -> str:
        """Return the name of a connection that ends with this process; an empty text for a file."""

    async def is_connected(self, name: str) -> bool:
        """Return whether a connection is open, of any process; true if that cannot be known."""

    async def check(self) -> str:
        """Write to the outside as a test; return the error, empty on success."""

    async def close(self) -> None: ...
