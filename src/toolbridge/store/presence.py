"""Whether a process that shares the store is alive.

A process that writes logs holds a lease in the store and renews it; the lease ends soon after the
process was killed, on whatever machine. On the same machine the process id shows that at once. A
process is alive only while both say so.
"""

import asyncio
import os
import secrets
import socket
from contextlib import suppress
from pathlib import Path

import msgspec

from toolbridge.store.interface import Store

LEASE = 2.0
"""Seconds for which a lease lives without renewal: longer than a busy machine delays one."""
_RENEWALS = 5
"""Renewals of a lease before it would end."""
_SCOPE = "processes"


class _Lease(msgspec.Struct, frozen=True):
    machine: str
    pid: int


_lease = msgspec.msgpack.Decoder(_Lease)


class Presence:
    """The lease of this process, while it has work, and the leases of others."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.id = secrets.token_hex(8)
        """The name of this process in the store."""
        self._working = 0
        self._written: asyncio.Task[None] | None = None
        """The first write of the lease, before which nothing may refer to this process."""
        self._renewing: asyncio.Task[None] | None = None

    async def begin(self) -> None:
        """Hold the lease until `end` was called as often."""
        self._working += 1
        if self._renewing is None or self._written is None:
            self._written = asyncio.create_task(self._renew())
            self._renewing = asyncio.create_task(self._keep())
        await asyncio.shield(self._written)

    def end(self) -> None:
        self._working -= 1

    async def is_alive(self, process: str) -> bool:
        """Return whether the process of this name runs."""
        if process == self.id:
            return True
        found = await self._store.get(_SCOPE, process)
        if found is None:
            return False
        try:
            lease = _lease.decode(found)
        except msgspec.MsgspecError:  # of another version
            return True
        return lease.machine != _machine() or _runs(lease.pid)

    async def _keep(self) -> None:
        while self._working > 0:
            await asyncio.sleep(LEASE / _RENEWALS)
            await self._renew()
        self._renewing = None

    async def _renew(self) -> None:
        held = msgspec.msgpack.encode(_Lease(_machine(), os.getpid()))
        if not await self._store.replace(_SCOPE, self.id, held, held, seconds=LEASE):
            await self._store.put(_SCOPE, self.id, held, seconds=LEASE)

    async def close(self) -> None:
        if self._renewing is not None:
            self._renewing.cancel()
            with suppress(asyncio.CancelledError):
                await self._renewing
        await self._store.drop(_SCOPE, self.id)


def _machine() -> str:
    """Return a name of the machine and of the set of process ids that this process sees."""
    processes = ""
    with suppress(OSError):  # only Linux has it; containers have process ids of their own
        processes = str(Path("/proc/self/ns/pid").readlink())
    return f"{socket.gethostname()} {processes}"


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    # A process that was killed keeps its id until its parent has asked how it ended.
    with suppress(OSError):
        state = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b") ")[2][:1]
        return state not in {b"Z", b"X"}
    return True
