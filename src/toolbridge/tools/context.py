"""What a tool is told beside its arguments, and how it says no."""

import sqlite3
from collections.abc import Callable
from dataclasses import dataclass, field

from toolbridge.core.json import Json, dump_bytes, loads
from toolbridge.store.sqlite import SqliteStore

DAY = 24 * 3600.0


class ToolRefused(Exception):
    """The tool understood and says no: asking again would give the same answer."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class InvalidArguments(ToolRefused):
    """The arguments are not what the tool takes."""

    def __init__(self, message: str) -> None:
        super().__init__("invalid_arguments", message)


@dataclass(frozen=True)
class ToolContext:
    """Who calls, in which run, and the key under which a repeat is the same call."""

    run: str = ""
    caller: str = ""
    idempotency_key: str = ""
    """The request's own; without one nothing is kept."""
    store: SqliteStore | None = None
    call: str = ""
    """The id of the call in its stream."""
    key: str = ""
    """The tool's own key, the same for the same request, tool and arguments; set by the registry."""

    repeats: set[str] = field(default_factory=set)
    """Keys that `once` has found used."""

    @property
    def scope(self) -> str:
        """Where results of this caller are kept: nobody else's key finds them."""
        return f"tool/{self.caller}"

    async def once(self, work: Callable[[sqlite3.Connection], Json]) -> Json:
        """Do `work` and keep what it returns in one transaction; return what was kept before.

        Whether the process is killed in the middle or two processes race, `work` counts once for a
        key. It runs in the store's thread, so it must be short, and write through its connection.
        """
        if self.store is None:
            raise ToolRefused("no_store", "this tool needs a store, and there is none")

        def make(connection: sqlite3.Connection) -> bytes:
            return dump_bytes(work(connection))

        value, new = await self.store.once(self.scope, self.key, make, seconds=DAY)
        if not new:
            self.repeats.add(self.key)
        return loads(value)
