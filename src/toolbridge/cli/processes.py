"""Starting `toolbridge serve` as a child process that inherits sockets: successors and workers."""

import argparse
import asyncio
import contextlib
import os
import select
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence

import msgspec

from toolbridge.server.listeners import INHERITED, Inheritance, Listeners

_NAMES = ("config", "host", "port", "model", "thinking", "log", "record", "workers", "announce")
START_WAIT = 60.0
"""Seconds for which a child process may take until it serves."""
LOCAL_WAIT = 600.0
"""The same with a model file, which may be downloaded and is loaded first."""

_CLOSE_WAIT = 2.0
"""Seconds for which a successor waits until the process before it accepts nothing more."""
_STEP = 0.005


def flags_of(args: argparse.Namespace) -> list[str]:
    """Return the command line that gives `args` again; a key is not part of it."""
    flags = [f"--{n}={v}" for n in _NAMES if (v := getattr(args, n, None)) is not None]
    if args.local is not None:
        flags.append(f"--local={args.local}" if args.local else "--local")
    return flags


class Child:
    """A process of `toolbridge serve` that was given the sockets of this one."""

    def __init__(
        self,
        flags: Sequence[str],
        listeners: Listeners,
        *,
        worker: int = 0,
        shows_banner: bool = False,
        metrics: str = "",
        env: Mapping[str, str] = os.environ,
    ) -> None:
        tls = listeners.tls
        self._ready, theirs = os.pipe()
        os.set_blocking(self._ready, False)
        inherited = Inheritance(
            http=listeners.http.fileno(),
            tls=-1 if tls is None else tls.fileno(),
            ready=theirs,
            worker=worker,
            parent=os.getpid(),
            shows_banner=shows_banner,
            metrics=metrics,
        )
        self.worker = worker
        # `--announce FILE` as two words is how `state.alive` recognises a gateway.
        words = [word for flag in flags for word in _separated(flag)]
        try:
            self.process = subprocess.Popen(  # noqa: S603  our own interpreter and module
                [sys.executable, "-m", "toolbridge", "serve", *words],
                stdin=subprocess.DEVNULL,
                pass_fds=[*(s.fileno() for s in listeners.all), theirs],
                env={**env, INHERITED: msgspec.json.encode(inherited).decode()},
            )
        except OSError:
            os.close(self._ready)
            raise
        finally:
            os.close(theirs)

    async def wait_until_ready(
        self, seconds: float = START_WAIT, on_ready: Callable[[], None] | None = None
    ) -> str:
        """Wait until the child serves; return why it does not, empty if it does.

        The child learns from the closed pipe that `on_ready` has been called.
        """
        loop = asyncio.get_running_loop()
        written = asyncio.Event()
        loop.add_reader(self._ready, written.set)
        try:
            async with asyncio.timeout(seconds):
                await written.wait()
            if os.read(self._ready, 1):
                if on_ready is not None:
                    on_ready()
                return ""
            status = await asyncio.to_thread(self.process.wait)
            return f"the new process ended with status {status}; its message is above"
        except TimeoutError:
            self.process.terminate()
            return f"the new process did not serve within {seconds:g} s"
        finally:
            loop.remove_reader(self._ready)
            os.close(self._ready)

    def forget_ready(self) -> None:
        """Do not wait for the child."""
        os.close(self._ready)


def _separated(flag: str) -> list[str]:
    name, _, value = flag.partition("=")
    return [name, value] if name == "--announce" else [flag]


async def report_ready(inherited: Inheritance | None) -> None:
    """Report to the parent process that this process serves, and wait until it has stopped to."""
    if inherited is not None and inherited.ready >= 0:
        with contextlib.suppress(OSError):  # the parent has ended
            os.write(inherited.ready, b"1")
            if not inherited.worker:
                await _wait_until_closed(inherited.ready)
            os.close(inherited.ready)


async def _wait_until_closed(pipe: int) -> None:
    """Wait until the reader of `pipe` has closed it, for at most `_CLOSE_WAIT` seconds."""
    poll = select.poll()
    poll.register(pipe, 0)  # an error is reported in any case, and a closed reader is one
    for _ in range(round(_CLOSE_WAIT / _STEP)):
        if poll.poll(0):
            return
        await asyncio.sleep(_STEP)
