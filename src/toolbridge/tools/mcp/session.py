"""A session with an MCP server: the handshake, the list of tools, and calls.

The handshake of versions 2024-11-05 to 2025-11-25 is tried first. A server that refuses it with
"unsupported version" is used without a handshake, as version 2026-07-28 defines.
"""

import asyncio
import itertools
from collections.abc import Callable
from contextlib import suppress

from toolbridge.core.json import JsonObject
from toolbridge.tools.mcp.failures import McpClosed, McpFailure, McpRejection
from toolbridge.tools.mcp.streamable_http import STATELESS
from toolbridge.tools.mcp.transport import Connect, McpTransport

NEWEST = "2025-11-25"
VERSIONS = frozenset({"2024-11-05", "2025-03-26", "2025-06-18", NEWEST})
_UNSUPPORTED_VERSION = -32022
_METHOD_NOT_FOUND = -32601
_MOST_PAGES = 50
_MOST_TOOLS = 1000
_CANCEL = 2.0
"""Seconds for the notification that a call is not needed any more."""


class McpSession:
    """One session; `on_tools_changed` is called when the server reports a new list of tools."""

    def __init__(self, label: str, version: str, on_tools_changed: Callable[[], None]) -> None:
        self._label = label
        self._client: JsonObject = {"name": "toolbridge", "version": version}
        self._changed = on_tools_changed
        self._ids = itertools.count(1)
        self._transport: McpTransport | None = None
        self._stateless = False
        self._cancels: set[asyncio.Task[None]] = set()

    @property
    def closed(self) -> bool:
        return self._transport is None or self._transport.closed

    async def open(self, connect: Connect) -> None:
        """Connect and do the handshake; raise `McpFailure` if the server refuses it."""
        self._transport = await connect(self._receive)
        params: JsonObject = {
            "protocolVersion": NEWEST,
            "capabilities": {},
            "clientInfo": self._client,
        }
        try:
            found = await self._request("initialize", params)
        except McpRejection as error:
            if error.code != _UNSUPPORTED_VERSION:
                raise
            self._stateless = True
            self._transport.negotiated(STATELESS)
            return
        version = str(found.get("protocolVersion", ""))
        if version not in VERSIONS:
            known = ", ".join(sorted(VERSIONS))
            text = f"uses version {version!r} of MCP, and toolbridge has {known}"
            raise McpFailure(f"the MCP server {self._label!r} {text}")
        self._transport.negotiated(version)
        await self._transport.notify({"jsonrpc": "2.0", "method": "notifications/initialized"})

    async def list_tools(self) -> list[JsonObject]:
        """Return the tools of all pages, as the server describes them."""
        found: list[JsonObject] = []
        params: JsonObject = {}
        for _ in range(_MOST_PAGES):
            page = await self._request("tools/list", params)
            tools = page.get("tools")
            found += [tool for tool in tools if isinstance(tool, dict)] if isinstance(tools, list) else []  # fmt: skip
            cursor = page.get("nextCursor")
            if not isinstance(cursor, str) or not cursor or len(found) >= _MOST_TOOLS:
                break
            params = {"cursor": cursor}
        return found[:_MOST_TOOLS]

    async def call(self, name: str, arguments: JsonObject) -> JsonObject:
        """Return the result of a tool; raise `McpFailure` without a result."""
        return await self._request("tools/call", {"name": name, "arguments": arguments})

    async def close(self) -> None:
        for task in self._cancels:
            task.cancel()
        if self._transport is not None:
            await self._transport.close()

    # ── messages ─────────────────────────────────────────────────────────────

    async def _request(self, method: str, params: JsonObject) -> JsonObject:
        transport = self._transport
        if transport is None:
            raise McpClosed(f"the MCP server {self._label!r} is not connected")
        number = next(self._ids)
        message: JsonObject = {
            "jsonrpc": "2.0",
            "id": number,
            "method": method,
            "params": self._with_meta(params),
        }
        try:
            answer = await transport.request(message)
        except asyncio.CancelledError:
            # MCP, cancellation: `initialize` must not be cancelled.
            if method != "initialize" and not transport.closed:
                self._cancel(transport, number)
            raise
        return self._result(answer)

    def _with_meta(self, params: JsonObject) -> JsonObject:
        if not self._stateless:
            return params
        prefix = "io.modelcontextprotocol"
        meta: JsonObject = {
            f"{prefix}/protocolVersion": STATELESS,
            f"{prefix}/clientInfo": self._client,
            f"{prefix}/clientCapabilities": {},
        }
        return {**params, "_meta": meta}

    def _result(self, answer: JsonObject) -> JsonObject:
        error = answer.get("error")
        if isinstance(error, dict):
            code = error.get("code")
            text = str(error.get("message", "an error without a message"))[:1000]
            raise McpRejection(code if isinstance(code, int) else 0, text)
        result = answer.get("result")
        if not isinstance(result, dict):
            raise McpFailure(f"the MCP server {self._label!r} answered without a result")
        return result

    def _cancel(self, transport: McpTransport, number: int) -> None:
        """Send a cancellation beside the task that is being cancelled."""
        params: JsonObject = {"requestId": number, "reason": "the caller does not wait any more"}
        message: JsonObject = {
            "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params,
        }  # fmt: skip

        async def send() -> None:
            with suppress(McpFailure, TimeoutError):
                async with asyncio.timeout(_CANCEL):
                    await transport.notify(message)

        task = asyncio.create_task(send())
        self._cancels.add(task)
        task.add_done_callback(self._cancels.discard)

    def _receive(self, message: JsonObject) -> JsonObject | None:
        """Take a message of the server; return the answer to a request."""
        method, number = message.get("method"), message.get("id")
        if number is None:
            if method == "notifications/tools/list_changed":
                self._changed()
            return None
        if method == "ping":
            return {"jsonrpc": "2.0", "id": number, "result": {}}
        # Sampling, elicitation and roots were not offered in the handshake.
        error: JsonObject = {"code": _METHOD_NOT_FOUND, "message": f"{method} is not supported"}
        return {"jsonrpc": "2.0", "id": number, "error": error}
