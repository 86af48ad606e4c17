"""Child processes that run programs of the user: MCP servers, a search command, the PDF reader.

A child has its own process group, so that its own children end with it, and a small environment, so
that it does not get the keys of the gateway.
"""

import asyncio
import os
import signal
import sys
from asyncio.subprocess import PIPE, SubprocessStreamProtocol
from collections.abc import Mapping, Sequence
from contextlib import suppress

_PASSED = (
    "HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER",
    "APPDATA", "LOCALAPPDATA", "PATHEXT", "PROGRAMDATA", "PROGRAMFILES", "SYSTEMDRIVE", "SYSTEMROOT",
    "TEMP", "TMP", "USERNAME", "USERPROFILE", "COMSPEC",
)  # fmt: skip
"""The variables of the gateway that a child gets; the second and third line are those of Windows."""


def child_environment(given: Mapping[str, str], env: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a child: a few variables of `env`, and those in `given`."""
    return {name: env[name] for name in _PASSED if name in env} | dict(given)


class ChildProcess:
    """A process with pipes for its standard streams."""

    def __init__(
        self, transport: asyncio.SubprocessTransport, protocol: SubprocessStreamProtocol
    ) -> None:
        self._transport = transport
        if protocol.stdin is None or protocol.stdout is None or protocol.stderr is None:
            raise RuntimeError("the process has no pipes")
        self.stdin, self.stdout, self.stderr = protocol.stdin, protocol.stdout, protocol.stderr
        self._process = asyncio.subprocess.Process(transport, protocol, asyncio.get_running_loop())

    @classmethod
    async def start(
        cls,
        command: Sequence[str],
        env: Mapping[str, str],
        *,
        cwd: str | None = None,
        limit: int = 64 * 1024,
    ) -> "ChildProcess":
        """Start `command`; raise `OSError` if it cannot start. `limit` is the longest line."""
        loop = asyncio.get_running_loop()
        return cls(
            *await loop.subprocess_exec(
                lambda: SubprocessStreamProtocol(limit=limit, loop=loop),
                *command,
                stdin=PIPE,
                stdout=PIPE,
                stderr=PIPE,
                env=dict(env),
                cwd=cwd,
                start_new_session=sys.platform != "win32",
            )
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        return self._transport.get_returncode()

    @property
    def has_exited(self) -> bool:
        """Whether the process has exited, also if the event loop has not noticed it yet."""
        if self.returncode is not None or not hasattr(os, "waitid"):
            return self.returncode is not None
        try:
            # WNOWAIT leaves the exit status to asyncio.
            found = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return True
        return found is not None

    async def exited(self, seconds: float) -> bool:
        """Wait for the exit at most so long; return whether the process has exited."""
        waiting = asyncio.ensure_future(self._process.wait())
        try:
            # Not `asyncio.timeout`: before Python 3.11.3 (python/cpython#102780) it raises
            # CancelledError in a task that another timeout has cancelled, and nothing kills the process.
            await asyncio.wait({waiting}, timeout=seconds)
        finally:
            waiting.cancel()
        return self.returncode is not None

    async def end(self, *, grace: float) -> None:
        """End the process and its group: close its input, wait, terminate, wait, kill.

        MCP, stdio transport: a server ends when its input is closed.
        """
        self.stdin.close()
        if not await self.exited(grace) and grace:
            self._signal_group(signal.SIGTERM)
            await self.exited(grace)
        # Also after the process has exited: its own children may still run.
        self._signal_group(getattr(signal, "SIGKILL", signal.SIGTERM))
        # asyncio waits for the end of the pipes, which a process outside the group may hold open.
        self._transport.close()
        await self._process.wait()

    def _signal_group(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError, PermissionError):
            if sys.platform == "win32":
                self._transport.terminate()
            else:
                os.killpg(self.pid, number)
