"""The connection to a Redis or Valkey server, for the store and the budgets of a process.

Every call has a time limit. After an error no call waits for the server: each fails at once, and a
task tries to connect again, with growing pauses. One notice reports that the server is away and one
that it is back. What the store and the budgets have kept meanwhile is written before any other call.
"""

import asyncio
import random
import secrets
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import NoScriptError, RedisError

from toolbridge.store import StoreUnavailable
from toolbridge.store.notices import worker_notices
from toolbridge.store.redis_scripts import CHECK, EPOCH, LuaScript
from toolbridge.store_settings import ServerUrl

Value: TypeAlias = str | bytes | int
Command: TypeAlias = Callable[[Redis], Awaitable[object]]
RunScript: TypeAlias = Callable[[LuaScript, Sequence[str], Sequence[Value]], Awaitable[object]]
CALL_SECONDS = 5.0
"""The most that one call waits: as long as for the lock of a SQLite file. Only the calls that run when
the server goes away wait so long; later ones fail at once."""
_PAUSES = 0.1, 5.0
"""Seconds before the first and the later attempts to connect again."""
_EPOCH_DAYS = 3650
_CONNECTIONS = 64


class RedisServer:
    """One server, by its URL."""

    def __init__(self, url: str) -> None:
        self.url = ServerUrl(url)
        self.trouble = ""
        """Why the server is not used; empty while it is."""
        self.generation = 1
        """Changes when the server has lost its data."""
        self.on_return: list[Callable[[RunScript], Awaitable[None]]] = []
        """Called when the server is back, before any other call."""
        self._epoch = b""
        self._client: Redis | None = None
        self._returning: asyncio.Task[None] | None = None

    async def run(self, script: LuaScript, keys: Sequence[str], args: Sequence[Value]) -> object:
        """Run a script; raise `StoreUnavailable`."""
        return await self.call(lambda client: _evaluate(client, script, keys, args))

    async def call(self, command: Command, seconds: float = CALL_SECONDS) -> object:
        """Do `command` within `seconds`; raise `StoreUnavailable`."""
        if self.trouble:
            raise StoreUnavailable(f"{self.url.shown}: {self.trouble}")
        if not self._epoch:
            await self._attempt(self._greet)
        return await self._attempt(command, seconds)

    async def check(self) -> str:
        """Write as a test, also while the server is away; return the error."""
        try:
            await self._attempt(self._greet)
        except StoreUnavailable:
            return self.trouble
        return ""

    async def _attempt(self, command: Command, seconds: float = CALL_SECONDS) -> object:
        if self._client is None:
            self._client = _connect(self.url.text)
        try:
            async with asyncio.timeout(seconds):
                return await command(self._client)
        except TimeoutError:
            await self._fail(f"no answer within {seconds:g} s")
        except (RedisError, OSError) as error:
            await self._fail(self.url.without_password(str(error)) or type(error).__name__)
        raise StoreUnavailable(f"{self.url.shown}: {self.trouble}")

    async def _greet(self, client: Redis) -> None:
        """Write as a test, and note whether the server has lost its data."""
        mine = secrets.token_hex(8)
        days = _EPOCH_DAYS * 86_400_000
        epoch = await _evaluate(client, CHECK, [EPOCH], [mine, days])
        if self._epoch and epoch != self._epoch:
            self.generation += 1
        self._epoch = epoch if isinstance(epoch, bytes) else b""

    async def _fail(self, why: str) -> None:
        if not self.trouble and self._epoch:  # otherwise the start fails, and reports it
            text = f"the store at {self.url.shown} is away: {why}; values are kept in memory only"
            worker_notices.report(self.url.shown, text, fault=True)
        self.trouble = why
        await self._disconnect()
        if self._returning is None:
            self._returning = asyncio.create_task(self._return())

    async def _return(self) -> None:
        """Try to connect until that succeeds."""
        pause = _PAUSES[0]
        while self.trouble:
            await asyncio.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311  no secret
            pause = min(pause * 2, _PAUSES[1])
            try:
                await self._attempt(self._greet)
                for work in self.on_return:
                    await work(self._run_at_once)
            except StoreUnavailable:
                continue
            self.trouble = ""
        self._returning = None
        text = f"the store at {self.url.shown} is used again"
        worker_notices.report(self.url.shown, text, fault=False)

    async def _run_at_once(
        self, script: LuaScript, keys: Sequence[str], args: Sequence[Value]
    ) -> object:
        return await self._attempt(lambda client: _evaluate(client, script, keys, args))

    async def _disconnect(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            # The connections of a server that hangs do not answer: close them without a farewell.
            await client.connection_pool.disconnect(inuse_connections=True)

    async def close(self) -> None:
        if self._returning is not None:
            self._returning.cancel()
            await asyncio.gather(self._returning, return_exceptions=True)
        await self._disconnect()


async def _evaluate(
    client: Redis, script: LuaScript, keys: Sequence[str], args: Sequence[Value]
) -> object:
    try:
        return await client.evalsha(script.sha, len(keys), *keys, *args)
    except NoScriptError:  # the server was restarted, or its scripts were removed
        return await client.eval(script.text, len(keys), *keys, *args)


def _connect(url: str) -> Redis:
    pool = BlockingConnectionPool.from_url(
        url,
        max_connections=_CONNECTIONS,
        timeout=CALL_SECONDS,
        socket_connect_timeout=CALL_SECONDS,
        socket_timeout=None,  # every call has a time limit here
        retry=Retry(NoBackoff(), 0),
        protocol=2,
    )
    return Redis(connection_pool=pool)
