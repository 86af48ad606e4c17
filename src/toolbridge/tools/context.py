"""The context that a tool gets beside its arguments, and the exceptions for a refusal."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from toolbridge.core.json import Json, dump_bytes, loads
from toolbridge.store.interface import Store

DAY = 24 * 3600.0


class ToolRefused(Exception):
    """Raised by a tool that refuses a call; a retry would give the same answer."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class InvalidArguments(ToolRefused):
    """Raised for arguments that the tool does not accept."""

    def __init__(self, message: str) -> None:
        super().__init__("invalid_arguments", message)


class InvalidResult(ToolRefused):
    """Raised for a result that does not fit the schema which the caller gave for it."""

    def __init__(self, message: str) -> None:
        super().__init__("invalid_result", message)


@dataclass(frozen=True)
class ToolContext:
    """The caller, the run, and the key that identifies a repeated call."""

    run: str = ""
    caller: str = ""
    idempotency_key: str = ""
    """The request's idempotency key; without one no result is stored."""
    store: Store | None = None
    call: str = ""
    """The id of the call in its stream."""
    key: str = ""
    """The key of this call: the same for the same request, tool and arguments; set by the registry."""

    repeats: set[str] = field(default_factory=set)
    """Keys for which `once` returned a stored result."""

    @property
    def scope(self) -> str:
        """The scope of this caller's stored results; other callers cannot read it."""
        return f"tool/{self.caller}"

    async def once(self, work: Callable[[Store], Awaitable[Json]]) -> Json:
        """Return the stored result of this call, or do `work` and store its result.

        If the process is killed in the middle, or two processes race, `work` is done again: what it
        changes it must change by claims of the store, which have one holder.
        """
        if self.store is None:
            raise ToolRefused("no_store", "this tool needs a store, and none is configured")
        value, new = await self.store.get(self.scope, self.key), False
        if value is None:
            result = dump_bytes(await work(self.store))
            value, new = await self.store.claim(self.scope, self.key, result, seconds=DAY)
        if not new:
            self.repeats.add(self.key)
        return loads(value)
