"""A connection to a Redis server that is open for as long as this process runs.

The operating system closes the sockets of a killed process, and the server lists its connections. So
other machines know at once that the process is gone, and not only when its lease ends.
"""

import asyncio
from contextlib import suppress

from redis.asyncio import ConnectionPool, Redis
from redis.exceptions import RedisError, ResponseError

from toolbridge.store.redis_scripts import PREFIX

_FIRST = 1.0
"""Seconds to wait for the first connection."""
_PAUSE = 0.1
"""Seconds before the next attempt to connect."""
_NEVER = f"{PREFIX}:never"
"""A list without writers: waiting for it reports the end of the connection at once."""


class HeldConnection:
    """The connection of this process."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._task: asyncio.Task[None] | None = None
        self._opened = asyncio.Event()
        self._id = ""

    async def name(self) -> str:
        """Return the server's number of the connection; an empty text while it is not open."""
        if self._task is None:
            self._task = asyncio.create_task(self._hold())
            with suppress(TimeoutError):
                await asyncio.wait_for(self._opened.wait(), _FIRST)
        return self._id

    async def _hold(self) -> None:
        while True:
            pool = ConnectionPool.from_url(self._url, socket_timeout=None, protocol=2)
            connection = pool.make_connection()  # type: ignore[no-untyped-call]  # redis-py
            try:
                await connection.connect()
                await connection.send_command("CLIENT", "ID")
                self._id = str(await connection.read_response())
                self._opened.set()
                await connection.send_command("BLPOP", _NEVER, 0)
                await connection.read_response()
            except (RedisError, OSError):
                self._id = ""
            finally:
                # The server does not answer a farewell of TLS while a command waits.
                await connection.disconnect(nowait=True)
            await asyncio.sleep(_PAUSE)

    async def close(self) -> None:
        while self._task is not None and not self._task.done():
            # redis-py may take a cancellation while it connects for the end of a time limit.
            self._task.cancel()
            await asyncio.wait({self._task}, timeout=_FIRST)


async def is_open(client: Redis, name: str) -> bool:
    """Return whether the server has this connection; true if it does not answer that."""
    try:
        found = await client.client_list(client_id=[name])
    except ResponseError:  # before Redis 6.2, or not permitted
        try:
            found = await client.client_list()
        except ResponseError:
            return True
    return any(str(one["id"]) == name for one in found)
