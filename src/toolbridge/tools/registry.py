"""The registry of tools: finds a tool by name and runs it.

A call never raises: failures are `ToolOutcome`s too. A failed tool is retried; a tool that refused
the call or its arguments is not; a tool that timed out only if it is idempotent. With an idempotency
key the result is stored, and a repeated call returns it.

A coroutine that ignores cancellation, or that blocks the event loop, cannot be stopped. Plain
functions run in threads and may block.
"""

import asyncio
import inspect
import re
import secrets
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from weakref import WeakValueDictionary

import msgspec

from toolbridge.core.close_names import close_names
from toolbridge.core.errors import ConfigError
from toolbridge.core.json import Json, JsonObject, dump_bytes, loads
from toolbridge.tools.context import (
    DAY,
    InvalidArguments,
    InvalidResult,
    ToolContext,
    ToolRefused,
)
from toolbridge.tools.functions import Function
from toolbridge.tools.keys import derive_key
from toolbridge.tools.results import MOST, fit
from toolbridge.tools.threads import Threads

TIMEOUT = 8.0
RETRIES = 1
_PAUSE = 0.05
_NAME = re.compile(r"[A-Za-z0-9_.:/-]{1,128}")
_SHOWN = 500


@dataclass(frozen=True)
class RegisteredTool:
    """A tool; `run` is a function or a coroutine function, and may raise anything."""

    name: str
    description: str
    parameters: JsonObject
    """JSON Schema of its arguments."""
    run: Callable[[JsonObject, ToolContext], object | Awaitable[object]]
    timeout: float | None = None
    """Seconds; None for the registry's default."""
    idempotent: bool = False
    """Whether it may run twice: it only reads, or it uses the key of its context."""
    waits: bool | None = None
    """Whether `run` is a coroutine function; None to detect it."""


class ToolAttempt(msgspec.Struct, frozen=True, omit_defaults=True):
    """One run of a tool."""

    ms: float
    code: str = ""
    message: str = ""


class ToolOutcome(msgspec.Struct, frozen=True, omit_defaults=True):
    """The outcome of a call."""

    result: Json
    """The result for the stream: the tool's answer, or `{"error": {"code", "message"}}`."""
    code: str = ""
    """`tool_failed`, `tool_timeout`, `invalid_arguments`, `invalid_result` or `unknown_tool`; empty
    on success."""
    message: str = ""
    cached: bool = False
    truncated: bool = False
    tries: tuple[ToolAttempt, ...] = ()


class _Failure(Exception):
    """A failed run; `again` if it may be retried."""

    def __init__(self, code: str, message: str, *, again: bool, reason: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.again = again
        self.reason = reason

    def outcome(self) -> ToolOutcome:
        error: JsonObject = {"code": self.code, "message": str(self)}
        if self.reason:
            error["reason"] = self.reason
        return ToolOutcome({"error": error}, self.code, str(self))


class Registry:
    """Tools by name."""

    def __init__(
        self,
        tools: Iterable[RegisteredTool | Function | Callable[..., object]] = (),
        *,
        most: int = MOST,
        threads: Threads | None = None,
    ) -> None:
        self._tools: dict[str, RegisteredTool] = {}
        self._most = most
        self._threads = threads or Threads()
        # Of two concurrent calls with the same key, the second waits and gets the first one's result.
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        for tool in tools:
            self.add(tool)

    def __iter__(self) -> Iterator[RegisteredTool]:
        return iter(self._tools.values())

    def __contains__(self, name: object) -> bool:
        return name in self._tools

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(sorted(self._tools))

    def add(self, tool: RegisteredTool | Function | Callable[..., object]) -> RegisteredTool:
        """Add a tool or a Python function."""
        tool = tool if isinstance(tool, RegisteredTool) else as_tool(tool)
        if not _NAME.fullmatch(tool.name):
            text = f"{tool.name!r} is not a tool name: use 1 to 128 of A-Z a-z 0-9 _ . : / -"
            raise ConfigError(text, where="tools")
        if tool.name in self._tools:
            raise ConfigError(f"the tool {tool.name!r} is registered twice", where="tools")
        self._tools[tool.name] = tool
        return tool

    def extended(
        self, tools: Iterable[RegisteredTool | Function | Callable[..., object]]
    ) -> "Registry":
        """Return a registry with `tools` added, for one stream; names must be new."""
        extended = Registry(most=self._most, threads=self._threads)
        extended._tools |= self._tools
        extended._turns = self._turns
        for tool in tools:
            extended.add(tool)
        return extended

    def get(self, name: str) -> RegisteredTool | None:
        return self._tools.get(name)

    def nearest(self, name: str) -> str:
        """Return the most similar tool name, or an empty string."""
        return next(iter(close_names(name, self._tools, 1)), "")

    async def call(
        self,
        name: str,
        arguments: JsonObject,
        context: ToolContext,
        *,
        timeout: float | None = None,  # noqa: ASYNC109  a limit for each run, not for this call
        retries: int = RETRIES,
        most: int | None = None,
    ) -> ToolOutcome:
        """Run a tool, or return the stored result of the same key; never raise.

        `timeout` limits one run in seconds, `most` the result in bytes.
        """
        tool = self._tools.get(name)
        if tool is None:
            return self._unknown(name)
        limits = _Limits(_timeout(tool, timeout), retries, min(most or self._most, self._most))
        if not context.idempotency_key:
            return await self._try(tool, arguments, replace(context, key=_unique()), limits)
        key = derive_key(context.idempotency_key, name, arguments)
        mine = replace(context, key=key)
        async with self._turns.setdefault(f"{mine.scope}\0{key}", asyncio.Lock()):
            return await self._call_once(tool, arguments, mine, limits)

    def _unknown(self, name: str) -> ToolOutcome:
        near = self.nearest(name)
        there = f"did you mean {near!r}?" if near else f"known: {', '.join(self.names)}"
        return _Failure(
            "unknown_tool", f"there is no tool {name[:128]!r}; {there}", again=False
        ).outcome()

    async def _call_once(
        self, tool: RegisteredTool, arguments: JsonObject, context: ToolContext, limits: "_Limits"
    ) -> ToolOutcome:
        if (kept := await _kept(context)) is not None:
            result, cut = fit(loads(kept), limits.most)
            return ToolOutcome(result, cached=True, truncated=cut)
        outcome = await self._try(tool, arguments, context, limits)
        if outcome.code == "" and not outcome.cached and context.store is not None:
            value = dump_bytes(outcome.result)
            await context.store.put(context.scope, context.key, value, seconds=DAY)
        return outcome

    async def _try(
        self, tool: RegisteredTool, arguments: JsonObject, context: ToolContext, limits: "_Limits"
    ) -> ToolOutcome:
        tries: list[ToolAttempt] = []
        while True:
            started = time.monotonic()
            try:
                value = await self._run(tool, arguments, context, limits.timeout)
                result, cut = _fitted(value, limits.most)
            except _Failure as failure:
                tries.append(ToolAttempt(_since(started), failure.code, str(failure)))
                if not failure.again or len(tries) > limits.retries:
                    return msgspec.structs.replace(failure.outcome(), tries=tuple(tries))
                await asyncio.sleep(_PAUSE * len(tries))
            else:
                tries.append(ToolAttempt(_since(started)))
                # A result that this call's own first run stored is not an earlier request's.
                cached = context.key in context.repeats and len(tries) == 1
                return ToolOutcome(result, cached=cached, truncated=cut, tries=tuple(tries))

    async def _run(
        self, tool: RegisteredTool, arguments: JsonObject, context: ToolContext, limit: float
    ) -> object:
        # `asyncio.wait_for` would wait for a task that ignores its cancellation.
        task = asyncio.ensure_future(self._work(tool, arguments, context))
        late = True
        try:
            done, _ = await asyncio.wait({task}, timeout=limit)
            late = not done
        finally:
            if late:
                task.add_done_callback(_forget)
                task.cancel()
        if late:
            text = f"{tool.name} did not end within {limit * 1000:.0f} ms"
            raise _Failure("tool_timeout", text, again=tool.idempotent)
        return _value_of(task, tool.name)

    async def _work(
        self, tool: RegisteredTool, arguments: JsonObject, context: ToolContext
    ) -> object:
        waits = inspect.iscoroutinefunction(tool.run) if tool.waits is None else tool.waits
        if waits:
            value = tool.run(arguments, context)
        else:
            value = await self._threads.run(lambda: tool.run(arguments, context))
        return await value if inspect.isawaitable(value) else value


@dataclass(frozen=True)
class _Limits:
    timeout: float
    retries: int
    most: int


def as_tool(function: Function | Callable[..., object]) -> RegisteredTool:
    """Return a Python function as a tool; its signature is its schema."""
    made = function if isinstance(function, Function) else Function(function)

    def run(arguments: JsonObject, context: ToolContext) -> object | Awaitable[object]:
        try:
            read = made.read(arguments)
        except msgspec.ValidationError as error:
            raise InvalidArguments(str(error)) from None
        return made.call_read(read, context)

    return RegisteredTool(
        made.tool.name,
        made.tool.description,
        made.tool.schema,
        run,
        timeout=made.timeout,
        idempotent=made.idempotent,
        waits=made.waits,
    )


def _timeout(tool: RegisteredTool, granted: float | None) -> float:
    """Return the seconds for one run: the tool's own timeout, at most the caller's."""
    if granted is None:
        return TIMEOUT if tool.timeout is None else tool.timeout
    return granted if tool.timeout is None else min(granted, tool.timeout)


def _unique() -> str:
    """Return a random key, which only the retries of the same call share."""
    return secrets.token_hex(16)


def _value_of(task: "asyncio.Future[object]", name: str) -> object:
    try:
        return task.result()
    except InvalidArguments as error:
        raise _Failure("invalid_arguments", _shown(error), again=False) from None
    except InvalidResult as error:
        raise _Failure("invalid_result", _shown(error), again=False) from None
    except ToolRefused as error:
        raise _Failure("tool_failed", _shown(error), again=False, reason=error.reason) from None
    except asyncio.CancelledError:
        raise _Failure("tool_failed", f"{name} was cancelled", again=True) from None
    except Exception as error:  # noqa: BLE001  a tool is foreign code: it may raise anything
        why = f"{name} failed: {type(error).__name__}: {error}"
        raise _Failure("tool_failed", why[:_SHOWN], again=True) from None


def _fitted(value: object, most: int) -> tuple[Json, bool]:
    try:
        return fit(value, most)
    except (TypeError, ValueError, msgspec.MsgspecError) as error:
        # Not retried: the tool has done its work, and a second run would return the same.
        text = f"the result cannot be written as JSON: {_shown(error)}"
        raise _Failure("tool_failed", text, again=False) from None


async def _kept(context: ToolContext) -> bytes | None:
    if context.store is None:
        return None
    return await context.store.get(context.scope, context.key)


def _forget(task: "asyncio.Future[object]") -> None:
    """Retrieve the exception of an abandoned run, so that asyncio does not log it."""
    if not task.cancelled():
        task.exception()


def _since(started: float) -> float:
    return round((time.monotonic() - started) * 1000, 3)


def _shown(error: Exception) -> str:
    return str(error)[:_SHOWN] or type(error).__name__
