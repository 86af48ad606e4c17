"""Child processes that run programs of the user: MCP servers, and a search command.

A child has its own process group, so that its own children end with it, and a small environment, so
that it does not get the keys of the gateway.
"""

import asyncio
import os
import signal
import sys
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


async def start_child(
    command: Sequence[str],
    env: Mapping[str, str],
    *,
    cwd: str | None = None,
    limit: int = 64 * 1024,
) -> asyncio.subprocess.Process:
    """Start `command` in its own process group, with pipes; raise `OSError` if it cannot start."""
    return await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=dict(env),
        cwd=cwd,
        limit=limit,
        start_new_session=sys.platform != "win32",
    )


async def end_group(process: asyncio.subprocess.Process, *, grace: float) -> None:
    """End a child and its process group: close its input, wait, terminate, wait, kill.

    MCP, stdio transport: a server ends when its input is closed.
    """
    if process.stdin is not None:
        process.stdin.close()
    for number in (None, signal.SIGTERM):
        if number is not None:
            _signal_group(process, number)
        if process.returncode is None and grace:
            with suppress(TimeoutError):
                async with asyncio.timeout(grace):
                    await process.wait()
    # Also after the child has ended: its own children may still run.
    _signal_group(process, getattr(signal, "SIGKILL", signal.SIGTERM))
    await process.wait()


def _signal_group(process: asyncio.subprocess.Process, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        if sys.platform == "win32":
            process.terminate()
        else:
            os.killpg(process.pid, number)
