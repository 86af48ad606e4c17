"""The store on a Redis or Valkey server, for gateways on several machines.

The server has the values with their secrets masked; the process that wrote a value has it exactly.
Keys are hashes: a client chooses its `Idempotency-Key`, which may be a secret. While the server is
away the store continues in memory, and what was written meanwhile is sent when it is back.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from hashlib import blake2b
from typing import TypeVar

import msgspec

from toolbridge.core.redaction import Redactor
from toolbridge.store import StoreUnavailable
from toolbridge.store.database import Bounds
from toolbridge.store.held_connection import HeldConnection, is_open
from toolbridge.store.interface import MOST_ENTRIES, MOST_VALUES, READ_BYTES, Numbered
from toolbridge.store.local_copies import LocalCopies, LocalCopy, mark_of
from toolbridge.store.log_waiters import LogWaiters
from toolbridge.store.masked import masked
from toolbridge.store.pending_writes import PendingWrite, PendingWrites
from toolbridge.store.redis_scripts import (
    APPEND,
    CLAIM,
    DROP,
    PREFIX,
    PUT,
    READ,
    REPLACE,
    VALUES,
    LuaScript,
)
from toolbridge.store.redis_server import CALL_SECONDS, RedisServer, Value

T = TypeVar("T")
MEMORY = 64 * 1024 * 1024
_SMALL = 16 * 1024
"""Bytes that are masked in the event loop; more in a thread."""
_BLOCK = 1.0
"""Seconds for which one command waits for entries."""
_BLOCKED = 32
"""Readers that wait on the server, each on a connection; others ask every `_POLL` seconds."""
_POLL = 0.1
_DROP_SECONDS = 3600.0
"""Seconds for which a removal waits for the server."""
_batch = msgspec.msgpack.Decoder(list[Numbered])


class RedisStore:
    """A `Store` on a server."""

    def __init__(
        self, server: RedisServer, *, redactor: Redactor | None = None, size: int = 2 * MEMORY
    ) -> None:
        self.redactor = redactor or Redactor()
        self.server = server
        self._bounds = Bounds(bytes=max(1, size // 2))
        self._local = LocalCopies(Bounds(bytes=min(MEMORY, self._bounds.bytes)))
        self._pending = PendingWrites()
        self._held = HeldConnection(server.url.text)
        server.on_return.append(self._pending.replay)
        self._waiters = LogWaiters()
        self._blocked = 0
        self._thread = ThreadPoolExecutor(1, "toolbridge-store")

    @property
    def trouble(self) -> str:
        return f"{self.server.url.shown}: {self.server.trouble}" if self.server.trouble else ""

    async def get(self, scope: str, key: str) -> bytes | None:
        copy = self._local.get(scope, key)
        try:
            kept = await self.server.call(lambda client: client.get(_name("v", scope, key)))
        except StoreUnavailable:
            return None if copy is None else copy.value
        if copy is not None and self._is_current(copy, kept):
            return copy.value
        return kept if isinstance(kept, bytes) else None

    def _is_current(self, copy: LocalCopy, kept: object) -> bool:
        """Return whether the server has this value, masked, or has never had or has lost it."""
        if not isinstance(kept, bytes):
            return copy.mark[:1] != self._generation
        return not copy.mark or copy.mark[1:] == mark_of(kept)

    async def values(self, kind: str) -> list[bytes]:
        try:
            found = await self.server.run(VALUES, [_index(kind)[0]], [MOST_VALUES])
        except StoreUnavailable:
            return []
        return msgspec.convert(found, list[bytes])

    @property
    def _generation(self) -> bytes:
        return bytes([self.server.generation % 255 + 1])

    async def put(self, scope: str, key: str, value: bytes, *, seconds: float) -> None:
        safe = await self._masked(value)
        written = await self._put_outside(scope, key, safe, seconds)
        self._keep(scope, key, value, safe if written else None, seconds)

    def _keep(self, scope: str, key: str, value: bytes, safe: bytes | None, seconds: float) -> None:
        """Keep the exact value, with the mark of what the server has or will have."""
        mark = b"" if safe is None else self._generation + mark_of(safe)
        self._local.put(scope, key, LocalCopy(value, mark), seconds)

    async def _put_outside(self, scope: str, key: str, safe: bytes, seconds: float) -> bool:
        """Write a value, now or when the server is back; return false if it is too large."""
        step = self._step(PUT, scope, key, [safe], seconds)
        try:
            return len(safe) <= self._bounds.largest and bool(await self._run(step))
        except StoreUnavailable:
            return self._pending.add(step)

    def _step(
        self, script: LuaScript, scope: str, key: str, args: Sequence[Value], seconds: float
    ) -> PendingWrite:
        name = _name("l" if script is APPEND else "v", scope, key)
        given = [self._bounds.values, self._bounds.bytes, *args]
        return PendingWrite(script, [name, *_index(scope)], given, time.time() + seconds)

    async def _run(self, step: PendingWrite) -> object:
        given = [max(1, step.milliseconds), *step.args]
        return await self.server.run(step.script, step.keys, given)

    async def claim(
        self, scope: str, key: str, value: bytes, *, seconds: float
    ) -> tuple[bytes, bool]:
        held = self._local.get(scope, key)
        # A claim that the server has never had, or has lost, is claimed again for its holder.
        again = held is not None and held.mark[:1] != self._generation
        mine = held.value if held is not None and again else value
        safe = await self._masked(mine)
        step = self._step(CLAIM, scope, key, [safe], seconds)
        try:
            kept, new = await self._claimed(step)
        except StoreUnavailable:
            if held is not None:
                return held.value, False
            self._keep(scope, key, value, safe if self._pending.add(step) else None, seconds)
            return value, True
        if new:
            self._keep(scope, key, mine, safe, seconds)
            return mine, not again
        return held.value if held is not None and self._is_current(held, kept) else kept, False

    async def _claimed(self, step: PendingWrite) -> tuple[bytes, bool]:
        kept, new = msgspec.convert(await self._run(step), tuple[bytes, int])
        return kept, bool(new)

    async def replace(
        self, scope: str, key: str, old: bytes, new: bytes, *, seconds: float
    ) -> bool:
        was, safe = await self._masked(old), await self._masked(new)
        held = self._local.get(scope, key)
        if held is not None and held.mark[:1] != self._generation:
            await self.claim(scope, key, held.value, seconds=seconds)
        step = self._step(REPLACE, scope, key, [was, safe], seconds)
        try:
            done = bool(await self._run(step))
        except StoreUnavailable:
            done = held is not None and held.value == old and self._pending.add(step)
        if done:
            self._keep(scope, key, new, safe, seconds)
        return done

    async def drop(self, scope: str, key: str) -> bool:
        dropped = self._local.drop(scope, key)
        names = [_name("v", scope, key), _name("l", scope, key), *_index(scope)]
        try:
            return bool(await self.server.run(DROP, names, [])) or dropped
        except StoreUnavailable:
            self._pending.add(PendingWrite(DROP, names, [], time.time() + _DROP_SECONDS))
            return dropped

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
        numbered = list(enumerate(entries, first))
        self._local.append(scope, key, numbered, seconds)
        self._waiters.wake((scope, key))
        safe = await self._safe_entries(numbered, redacted)
        for at in range(0, len(safe), MOST_ENTRIES):
            await self._append(scope, key, safe[at : at + MOST_ENTRIES], seconds)

    async def _append(self, scope: str, key: str, safe: list[Numbered], seconds: float) -> None:
        """Write one batch, now or when the server is back."""
        while safe:
            batch: list[Value] = [safe[0][0], safe[-1][0], msgspec.msgpack.encode(safe)]
            step = self._step(APPEND, scope, key, batch, seconds)
            try:
                last = await self._run(step)
            except StoreUnavailable:
                self._pending.add(step)
                return
            # The log may have a part of the batch.
            safe = [entry for entry in safe if isinstance(last, int) and entry[0] > last]

    async def _safe_entries(
        self, entries: list[Numbered], redacted: Callable[[], Sequence[Numbered]] | None
    ) -> list[Numbered]:
        def work() -> list[Numbered]:
            outside = entries if redacted is None else redacted()
            return [(n, masked(self.redactor, entry)) for n, entry in outside]

        small = redacted is None and sum(len(entry) for _, entry in entries) <= _SMALL
        return work() if small else await self._in_thread(work)

    async def read(self, scope: str, key: str, after: int, *, wait: float = 0.0) -> list[Numbered]:
        now = asyncio.get_running_loop().time
        until = now() + wait
        while True:
            with self._waiters.waiting((scope, key)) as signal:
                mine = self._local.read(scope, key, after)
                if mine and mine[0][0] == after + 1:
                    return mine
                found = await self._read_outside(scope, key, after) or mine
                left = until - now()
                if found or left <= 0:
                    return found
                # This process writes the log, or may not wait on the server.
                if (
                    self.server.trouble
                    or self._blocked >= _BLOCKED
                    or self._local.read(scope, key, 0)
                ):
                    await signal.wait(min(left, _POLL))
                else:
                    await self._wait_outside(scope, key, after, min(left, _BLOCK))

    async def _read_outside(self, scope: str, key: str, after: int) -> list[Numbered]:
        try:
            found = await self.server.run(READ, [_name("l", scope, key)], [after, READ_BYTES])
        except StoreUnavailable:
            return []
        batches = msgspec.convert(found, list[bytes])
        return [entry for batch in batches for entry in _batch.decode(batch) if entry[0] > after]

    async def _wait_outside(self, scope: str, key: str, after: int, seconds: float) -> None:
        """Wait until the server has entries after a number, or the time is over."""
        name, block = _name("l", scope, key), max(1, round(seconds * 1000))
        self._blocked += 1
        try:
            with suppress(StoreUnavailable):
                await self.server.call(
                    lambda client: client.xread({name: f"{after}-0"}, count=1, block=block),
                    seconds + CALL_SECONDS,
                )
        finally:
            self._blocked -= 1

    async def connection(self) -> str:
        return await self._held.name()

    async def is_connected(self, name: str) -> bool:
        try:
            return await self.server.call(lambda client: is_open(client, name)) is True
        except StoreUnavailable:
            return True

    async def check(self) -> str:
        await self.server.check()
        return self.trouble

    async def close(self) -> None:
        await self._held.close()
        await self.server.close()
        self._local.close()
        self._thread.shutdown()

    async def _masked(self, value: bytes) -> bytes:
        if len(value) <= _SMALL:
            return self.redactor.encoded(value)
        return await self._in_thread(lambda: self.redactor.encoded(value))

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)


def _name(what: str, scope: str, key: str) -> str:
    """Return the name of a value (`v`) or a log (`l`) on the server."""
    kind = scope.partition("/")[0]
    name = blake2b(f"{scope}\0{key}".encode("utf-8", "replace"), digest_size=16).hexdigest()
    return f"{PREFIX}:{what}:{kind}:{name}"


def _index(scope: str) -> tuple[str, str]:
    kind = scope.partition("/")[0]
    return f"{PREFIX}:ends:{kind}", f"{PREFIX}:sizes:{kind}"
