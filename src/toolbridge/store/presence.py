"""Whether a process that shares the store is alive.

A process that writes logs holds a lease in the store and renews it. The lease is long, because a busy
machine may delay a renewal, and a process that is taken for dead is answered for a second time. A
killed process is found sooner: on the same machine by its process id, on another one by its
connection to the store's server, which ends with it. So the lease decides only where a whole machine
or its network is gone.
"""

import asyncio
import os
import secrets
import socket
from contextlib import suppress
from pathlib import Path

import msgspec

from toolbridge.store.interface import Store

LEASE = 10.0
"""Seconds for which a lease lives without renewal: longer than a busy machine delays one."""
_RENEWALS = 5
"""Renewals of a lease before it would end."""
_CHANGES = 0.1
"""Seconds after which a new connection is in the lease."""
_GRACE = 0.3
"""Seconds for which a process may be without its connection, while it connects again."""
_SCOPE = "processes"


class _Lease(msgspec.Struct, frozen=True):
    machine: str
    pid: int
    connection: str = ""
    """Its connection to the server of the store; an empty text for a file."""


_lease = msgspec.msgpack.Decoder(_Lease)


class Presence:
    """The lease of this process, while it has work, and the leases of others."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.id = secrets.token_hex(8)
        """The name of this process in the store."""
        self._connection = ""
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
        lease = await self._lease_of(process)
        if lease is None or lease.machine == _machine():
            return lease is not None and _runs(lease.pid)
        if not lease.connection or await self._store.is_connected(lease.connection):
            return True
        await asyncio.sleep(_GRACE)
        return await self._lease_of(process) not in {None, lease}

    async def _lease_of(self, process: str) -> _Lease | None:
        found = await self._store.get(_SCOPE, process)
        try:
            return None if found is None else _lease.decode(found)
        except msgspec.MsgspecError:  # of another version: the lease alone decides
            return _Lease("", 0)

    async def _keep(self) -> None:
        loop = asyncio.get_running_loop()
        renewed = loop.time()
        while self._working > 0:
            await asyncio.sleep(min(_CHANGES, LEASE / _RENEWALS))
            changed = await self._store.connection() != self._connection
            if changed or loop.time() - renewed >= LEASE / _RENEWALS:
                await self._renew()
                renewed = loop.time()
        self._renewing = None

    async def _renew(self) -> None:
        self._connection = await self._store.connection()
        held = msgspec.msgpack.encode(_Lease(_machine(), os.getpid(), self._connection))
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
    # A process that was killed keeps its id until its parent has asked how it ended.
    with suppress(OSError):
        state = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b") ")[2][:1]
        return state not in {b"Z", b"X"}
    # It has ended, or the system does not show its processes like this.
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True
