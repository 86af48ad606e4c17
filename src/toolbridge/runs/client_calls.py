"""The calls of tools that the caller runs, and the schemas of results.

A caller may give a schema of a tool's result (`returns`). A result of a client-side tool that does not
fit is rejected, and its call goes on waiting, so that the caller can correct it. The result of a tool
at a URL cannot be corrected: it is the error `invalid_result` of the call.
"""

import asyncio
import inspect
from dataclasses import replace

import msgspec

from toolbridge.core.errors import ClientError
from toolbridge.core.json import Json, JsonObject
from toolbridge.structured.decisions import explain
from toolbridge.structured.effects import RunTool
from toolbridge.structured.schemas import compile_schema
from toolbridge.tools.context import InvalidResult, ToolContext
from toolbridge.tools.registry import RegisteredTool, ToolAttempt, ToolOutcome


class RejectedResult(ClientError):
    """The result of a client-side tool does not fit its schema."""

    kind = "invalid_result"


def result_fault(name: str, returns: JsonObject, result: Json) -> str:
    """Return why the result of the tool `name` does not fit; empty if it does, or without a schema.

    Raise `InvalidSchema` for a schema that cannot be used.
    """
    if not returns:
        return ""
    flaws = compile_schema(returns).flaws(result)
    return f"the result of {name} does not fit `returns`: {explain(flaws)}" if flaws else ""


def checked_tool(tool: RegisteredTool, returns: JsonObject) -> RegisteredTool:
    """Return a tool that fails if its result does not fit `returns`."""
    if not returns:
        return tool

    async def run(arguments: JsonObject, context: ToolContext) -> Json:
        found = tool.run(arguments, context)
        result: Json = msgspec.to_builtins(await found if inspect.isawaitable(found) else found)
        if fault := result_fault(tool.name, returns, result):
            raise InvalidResult(fault)
        return result

    return replace(tool, run=run)


class ClientCalls:
    """The calls of one run that wait for the caller."""

    def __init__(self, schemas: dict[str, JsonObject]) -> None:
        """`schemas` has the schema of each tool's result by the tool's name."""
        self._schemas = schemas
        self._waiting: dict[str, tuple[str, asyncio.Future[ToolOutcome]]] = {}

    def expect(self, id: str, name: str) -> None:
        """Accept a result for this call from now on."""
        self._waiting[id] = name, asyncio.get_running_loop().create_future()

    def answer(self, id: str, outcome: ToolOutcome) -> bool:
        """Deliver a result; return False if no call waits for it, raise `RejectedResult` if it does not fit."""
        name, waiting = self._waiting.get(id, ("", None))
        if waiting is None or waiting.done():
            return False
        if not outcome.code and (
            fault := result_fault(name, self._schemas.get(name, {}), outcome.result)
        ):
            raise RejectedResult(f"{fault}. Send another result, or an `error`", where="result")
        waiting.set_result(outcome)
        return True

    async def outcome(self, call: RunTool, milliseconds: int) -> ToolOutcome:
        """Wait until the caller answers a call."""
        now = asyncio.get_running_loop().time
        started = now()
        _, answer = self._waiting[call.id]
        await asyncio.wait({answer}, timeout=milliseconds / 1000)
        took = (ToolAttempt(round((now() - started) * 1000, 3)),)
        if not answer.done():
            text = f"{call.name} was not answered within {milliseconds} ms"
            return ToolOutcome(None, "tool_timeout", text, tries=took)
        return msgspec.structs.replace(answer.result(), tries=took)
