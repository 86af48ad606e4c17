"""MCP over the standard streams of a child process: one JSON message per line.

The child gets a small environment and its own process group. What it prints to standard error goes
to the log. Lines on standard output that are not JSON are logged and left out: some servers print a
greeting. A line that is too long ends the connection.
"""

import asyncio
import logging
from collections.abc import Mapping
from contextlib import suppress

from toolbridge.core.json import JsonObject, dump_bytes, maybe_object
from toolbridge.core.printable import printable
from toolbridge.core.redaction import Redactor
from toolbridge.environment import secret
from toolbridge.server_tool_settings import McpServerSettings
from toolbridge.tools.child_process import ChildProcess, child_environment
from toolbridge.tools.mcp.failures import McpClosed
from toolbridge.tools.mcp.transport import MAX_MESSAGE, Receiver

GRACE = 3.0
"""Seconds for a server to end after its input is closed, and again after SIGTERM."""
_LOGGED_LINE = 500
_LOGGED_LINES = 200
"""The most lines of one server that are logged; a server may print without end."""
_log = logging.getLogger("toolbridge.mcp")


class StdioTransport:
    """The connection to a child process."""

    def __init__(self, label: str, process: ChildProcess, receive: Receiver) -> None:
        self._label = label
        self._process = process
        self._receive = receive
        self._waiting: dict[str | int, asyncio.Future[JsonObject]] = {}
        self._ended = ""
        """Why the connection ended; empty while it is open."""
        self._last_words = ""
        self._logged = 0
        self._tasks = [asyncio.create_task(self._read()), asyncio.create_task(self._read_log())]

    @classmethod
    async def open(
        cls, label: str, settings: McpServerSettings, env: Mapping[str, str], receive: Receiver
    ) -> "StdioTransport":
        """Start the process; raise `McpClosed` if that is not possible."""
        given = {name: secret(value, env) for name, value in settings.env.items()}
        command = [home_path(settings.command, env), *settings.args]
        cwd = home_path(settings.cwd, env) or None
        try:
            process = await ChildProcess.start(
                command, child_environment(given, env), cwd=cwd, limit=MAX_MESSAGE
            )
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or error
            where = f"server_tools.mcp.{label}.command"
            raise McpClosed(f"{command[0]!r} cannot be started: {why}; check `{where}`") from None
        return cls(label, process, receive)

    @property
    def closed(self) -> bool:
        # The reason of an end is known a little later than the end itself.
        return bool(self._ended) or self._process.has_exited

    def negotiated(self, version: str) -> None:
        """The version is in the messages alone."""

    async def request(self, message: JsonObject) -> JsonObject:
        number = message["id"]
        if not isinstance(number, str | int):
            raise TypeError("the id of a request must be a number or a text")
        answer: asyncio.Future[JsonObject] = asyncio.get_running_loop().create_future()
        self._waiting[number] = answer
        try:
            await self.notify(message)
            return await answer
        finally:
            self._waiting.pop(number, None)

    async def notify(self, message: JsonObject) -> None:
        if self._ended:
            raise self._failure()
        try:
            self._process.stdin.write(dump_bytes(message) + b"\n")
            await self._process.stdin.drain()
        except (ConnectionError, RuntimeError):
            # The reader finds the end of the output, and with it the exit status.
            await asyncio.wait(self._tasks, timeout=GRACE)
            raise self._failure() from None

    async def close(self) -> None:
        self._end("the connection was closed")
        await self._process.end(grace=GRACE)
        for task in self._tasks:
            task.cancel()
        await asyncio.wait(self._tasks)

    # ── reading ──────────────────────────────────────────────────────────────

    async def _read(self) -> None:
        try:
            while line := await self._process.stdout.readline():
                await self._take(line)
        except ValueError:
            self._end(f"sent a message of more than {MAX_MESSAGE} bytes")
            await self._process.end(grace=0.0)
            return
        except ConnectionError as error:
            self._end(f"closed its output ({error})")
        if await self._process.exited(GRACE):  # it may close its output and run on
            # The last lines of standard error usually have the reason.
            await asyncio.wait(self._tasks[1:], timeout=1.0)
        status = self._process.returncode
        self._end("closed its output" if status is None else f"ended with status {status}")

    async def _take(self, line: bytes) -> None:
        message = maybe_object(line)
        if message is None:
            if line.strip():
                self._write_log("printed a line that is not JSON", line)
            return
        if "method" in message:
            answer = self._receive(message)
            if answer is not None:
                with suppress(McpClosed):
                    await self.notify(answer)
            return
        number = message.get("id")
        waiting = self._waiting.get(number) if isinstance(number, str | int) else None
        if waiting is not None and not waiting.done():
            waiting.set_result(message)

    async def _read_log(self) -> None:
        rest = b""
        while piece := await self._process.stderr.read(4096):
            *lines, rest = (rest + piece).split(b"\n")
            for line in lines:
                self._write_log("stderr", line)
            rest = rest[-_LOGGED_LINE:]
        self._write_log("stderr", rest)

    def _write_log(self, what: str, line: bytes) -> None:
        text = printable(Redactor().text(line[:4096].decode("utf-8", "replace")).strip())
        if not text:
            return
        self._last_words = text[:_LOGGED_LINE]
        self._logged += 1
        if self._logged <= _LOGGED_LINES:
            _log.info("toolbridge: mcp %s: %s: %s", self._label, what, text[:_LOGGED_LINE])

    def _end(self, why: str) -> None:
        self._ended = self._ended or why
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(self._failure())

    def _failure(self) -> McpClosed:
        last = f"; its last line: {self._last_words}" if self._last_words else ""
        return McpClosed(f"the MCP server {self._label!r} {self._ended or 'has ended'}{last}")


def home_path(path: str, env: Mapping[str, str]) -> str:
    """Return a path with the user's directory for `~`, which no shell replaces here."""
    return f"{env.get('HOME', '~')}{path[1:]}" if path == "~" or path.startswith("~/") else path
