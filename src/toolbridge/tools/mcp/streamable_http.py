"""MCP over streamable HTTP: every message is a POST, the answer is JSON or a stream of events.

In a stream other messages may precede the answer: progress, log lines, and requests of the server,
which are answered by a further POST. The session id of the server is sent with every request, and
the session is deleted at the end. A redirect is followed only on the same host, with its method.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import TypeAlias
from urllib.parse import urljoin, urlsplit

import aiohttp

from toolbridge.core.errors import BrokenWire
from toolbridge.core.json import JsonObject, dump_bytes, loads, maybe_object
from toolbridge.tools.mcp.failures import LoginNeeded, McpClosed, McpFailure, SessionLost
from toolbridge.tools.mcp.transport import MAX_MESSAGE, Receiver
from toolbridge.tools.web.bodies import BrokenCompression, UnknownCompression, read_body
from toolbridge.wire.sse import SseReader

HeadersNow: TypeAlias = Callable[[bool], Awaitable[dict[str, str]]]
"""Returns the header fields of a request; with True after a 401, so that a token is renewed."""
STATELESS = "2026-07-28"
"""The first version without handshake and session."""
_REDIRECTS = frozenset({307, 308})
_SHOWN = 200
_END = 2.0
"""Seconds for the deletion of the session."""


class StreamableHttp:
    """The connection to a server at a URL."""

    def __init__(
        self,
        label: str,
        url: str,
        session: aiohttp.ClientSession,
        headers: HeadersNow,
        receive: Receiver,
    ) -> None:
        self._label = label
        self._url = url
        self._session = session
        self._headers = headers
        self._receive = receive
        self._session_id = ""
        self._version = ""
        self._closed = False
        self._answers: set[asyncio.Task[None]] = set()

    @property
    def closed(self) -> bool:
        return self._closed

    def negotiated(self, version: str) -> None:
        self._version = version

    async def request(self, message: JsonObject) -> JsonObject:
        async with await self._post(message) as response:
            number = message["id"]
            async for answer in self._messages(response):
                if "method" in answer:
                    self._answer(answer)
                elif answer.get("id") == number:
                    return answer
        raise McpClosed(f"{self._name} ended its answer without a result")

    async def notify(self, message: JsonObject) -> None:
        async with await self._post(message) as response:
            await _some(response, _SHOWN)

    async def close(self) -> None:
        self._closed = True
        for task in self._answers:
            task.cancel()
        if not self._session_id:
            return
        ending = asyncio.ensure_future(self._end_session())
        try:
            # Not `asyncio.timeout`: before Python 3.11.3 (python/cpython#102780) it raises
            # CancelledError in a task that another timeout has cancelled.
            await asyncio.wait({ending}, timeout=_END)
        finally:
            ending.cancel()

    async def _end_session(self) -> None:
        with suppress(TimeoutError, aiohttp.ClientError, OSError, McpFailure):
            headers = await self._all_headers(renew=False)
            async with self._session.delete(self._url, headers=headers, allow_redirects=False):
                return

    # ── requests ─────────────────────────────────────────────────────────────

    @property
    def _name(self) -> str:
        return f"the MCP server {self._label!r}"

    async def _post(self, message: JsonObject) -> aiohttp.ClientResponse:
        """Return the response to a message whose status is a success."""
        body = dump_bytes(message)
        renew = False
        for _ in range(3):
            headers = await self._all_headers(renew=renew) | self._stateless_headers(message)
            response = await self._send(body, headers)
            if response.status in _REDIRECTS and self._moved(response):
                response.close()
                continue
            if response.status == 401 and not renew:
                response.close()
                renew = True
                continue
            break
        if response.status in {200, 202, 204}:
            self._session_id = response.headers.get("mcp-session-id", self._session_id)
            return response
        async with response:
            raise await self._failure(response)

    async def _send(self, body: bytes, headers: dict[str, str]) -> aiohttp.ClientResponse:
        try:
            return await self._session.post(
                self._url, data=body, headers=headers, allow_redirects=False, auto_decompress=False
            )
        except (aiohttp.ClientError, OSError, ValueError) as error:
            reason = str(error)[:_SHOWN] or type(error).__name__
            raise McpClosed(f"{self._name} cannot be reached ({reason}); check its `url`") from None

    async def _all_headers(self, *, renew: bool) -> dict[str, str]:
        found = {
            "accept": "application/json, text/event-stream",
            "content-type": "application/json",
            **await self._headers(renew),
        }
        if self._session_id:
            found["mcp-session-id"] = self._session_id
        if self._version:
            found["mcp-protocol-version"] = self._version
        return found

    def _stateless_headers(self, message: JsonObject) -> dict[str, str]:
        # MCP 2026-07-28, streamable HTTP: method and name are repeated in the header.
        if self._version < STATELESS:
            return {}
        params = message.get("params")
        name = params.get("name") if isinstance(params, dict) else None
        found = {"mcp-method": str(message.get("method", ""))}
        if isinstance(name, str) and re.fullmatch(r"[!-~]{1,200}", name):
            found["mcp-name"] = name
        return found

    def _moved(self, response: aiohttp.ClientResponse) -> bool:
        """Take the address of a redirect on the same host; return whether it is one."""
        to = urljoin(self._url, response.headers.get("location", ""))
        if urlsplit(to)[:2] != urlsplit(self._url)[:2] or to == self._url:
            return False
        self._url = to
        return True

    async def _failure(self, response: aiohttp.ClientResponse) -> McpFailure:
        status = response.status
        if status == 401:
            challenge = response.headers.get("www-authenticate", "")
            text = f"{self._name} requires a login; run `toolbridge mcp login {self._label}`"
            return LoginNeeded(text, challenge)
        # MCP, session management: 404 means that the session has ended.
        if status == 404 and self._session_id:
            return SessionLost(f"{self._name} has ended the session")
        shown = _error_text(await _some(response, 4096))
        text = f"{self._name} answered with status {status}{shown}; check its `url` and `headers`"
        return McpClosed(text)

    # ── answers ──────────────────────────────────────────────────────────────

    async def _messages(self, response: aiohttp.ClientResponse) -> AsyncIterator[JsonObject]:
        kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        try:
            if kind == "text/event-stream":
                async for message in _events(response):
                    yield message
                return
            body, more = await read_body(response, MAX_MESSAGE)
        except (BrokenWire, UnknownCompression, BrokenCompression) as error:
            raise McpClosed(f"{self._name} sent a broken answer ({error})") from None
        except (aiohttp.ClientError, OSError) as error:
            raise McpClosed(f"{self._name} broke off its answer ({error})") from None
        if more:
            raise McpClosed(f"{self._name} sent a message of more than {MAX_MESSAGE} bytes")
        for message in _parsed(body):
            yield message

    def _answer(self, message: JsonObject) -> None:
        """Give a message of the server to its receiver, and post the answer beside the stream."""
        answer = self._receive(message)
        if answer is None:
            return

        async def post() -> None:
            with suppress(McpFailure):
                await self.notify(answer)

        task = asyncio.create_task(post())
        self._answers.add(task)
        task.add_done_callback(self._answers.discard)


async def _events(response: aiohttp.ClientResponse) -> AsyncIterator[JsonObject]:
    reader = SseReader(max_event=MAX_MESSAGE)
    async for piece in response.content.iter_any():
        for event in reader.feed(piece):
            for message in _parsed(event.data) if event.data else []:
                yield message


def _parsed(body: bytes) -> list[JsonObject]:
    """Return the messages in a body; version 2025-03-26 had batches of them."""
    try:
        found = loads(body)
    except ValueError:
        return []
    return [one for one in (found if isinstance(found, list) else [found]) if isinstance(one, dict)]


async def _some(response: aiohttp.ClientResponse, most: int) -> bytes:
    with suppress(aiohttp.ClientError, OSError, UnknownCompression, BrokenCompression):
        return (await read_body(response, most))[0]
    return b""


def _error_text(body: bytes) -> str:
    """Return the message of a JSON-RPC error in a response; empty without one."""
    found = maybe_object(body) or {}
    error = found.get("error")
    text = error.get("message") if isinstance(error, dict) else None
    return f" ({text[:_SHOWN]})" if isinstance(text, str) else ""
