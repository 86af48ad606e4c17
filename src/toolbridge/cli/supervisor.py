"""The supervisor of `serve --workers N`: starts the workers, and replaces those that end.

The supervisor owns the listening sockets, which every worker inherits, and serves nothing itself. It
passes signals on: SIGTERM ends the workers, SIGHUP makes them read the configuration again, SIGUSR2
replaces each of them by a new process. Connections wait in the socket while a worker is replaced.
"""

import argparse
import asyncio
import contextlib
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from toolbridge.cli import options, processes, state, systemd
from toolbridge.cli.processes import Child
from toolbridge.config import Config
from toolbridge.config_file import ConfigSource
from toolbridge.core.errors import ConfigError, ToolbridgeError
from toolbridge.routing import nodes
from toolbridge.server import signals
from toolbridge.server.listeners import Listeners
from toolbridge.server.reload import ConfigFile, keep_settled, restart_fault
from toolbridge.server.worker_loads import create_loads
from toolbridge.server.worker_metrics import settle_ended
from toolbridge.store.notices import notice

_STEP = 0.1
_WATCH = 1.0
_LONGEST_PAUSE = 30.0
_STABLE = 60.0
"""Seconds after which a worker that ends is replaced at once again."""
_END_WAIT = 15.0
"""Seconds after the grace of running requests, until a worker is killed."""

StartWorker = Callable[[int, bool, str], Child]
"""Starts the worker with this number; the first one prints the banner."""


def supervise(
    args: argparse.Namespace,
    config: Config,
    source: ConfigSource,
    listening: Listeners,
    url: str,
) -> int:
    """Serve the port with several processes; return the exit status."""
    _check_workers(args, config)
    announced = state.Announcement(url, args.announce, config)
    given = {"TOOLBRIDGE_KEY": args.key} if args.key else {}
    env = {name: value for name, value in os.environ.items() if name != "NOTIFY_SOCKET"}
    flags = [flag for flag in processes.flags_of(args) if not flag.startswith("--announce=")]

    def start(number: int, shows_banner: bool, metrics: str) -> processes.Child:  # noqa: FBT001
        return processes.Child(
            flags, listening, worker=number, shows_banner=shows_banner, metrics=metrics,
            env=env | given,
        )  # fmt: skip

    file = ConfigFile(source, named=args.config, flags=options.flags(args))
    supervisor = Supervisor(config, listening, file, start, announced.write)
    try:
        return asyncio.run(supervisor.run())
    finally:
        announced.remove()


def _check_workers(args: argparse.Namespace, config: Config) -> None:
    """Raise `ConfigError` for what works with one process only."""
    if not hasattr(os, "fork"):
        raise ConfigError("this system cannot share a socket among processes", where="workers")
    if args.local is not None:
        raise ConfigError(
            "--local works with one process; serve the model file with its own server, and configure "
            "that as a provider",
            where="workers",
        )
    for name, provider in config.providers.items():
        if provider.api == nodes.NODE:
            raise ConfigError(
                f"providers.{name} is a node: each process would pay for a session of its own; set "
                "`workers = 1`",
                where="workers",
            )


class Supervisor:
    """Keeps `config.workers` processes running."""

    def __init__(
        self,
        config: Config,
        listening: Listeners,
        file: ConfigFile,
        start: StartWorker,
        announce: Callable[..., None],
    ) -> None:
        self._config = config
        self._listening = listening
        self._file = file
        self._start = start
        self._announce = announce
        self._workers: dict[int, Child] = {}
        self._retired: list[Child] = []
        self._begun: dict[int, float] = {}
        self._pauses: dict[int, float] = {}
        self._due: dict[int, float] = {}
        self._asked: set[str] = set()
        self._metrics = Path(tempfile.mkdtemp(prefix="toolbridge-metrics-"))
        self._loads = create_loads(self._metrics, config.workers)
        self._seen = self._last = file.stamp(self._certificates())
        self._watched = 0.0
        self._unchanged: list[str] = []
        """The changed settings that the last reload could not apply."""

    async def run(self) -> int:
        """Run until a signal; return the exit status."""
        with signals.handled(
            lambda *_: self._asked.add("stop"),
            lambda *_: self._asked.add("reload"),
            lambda *_: self._asked.add("replace"),
        ):
            try:
                await self._begin()
                self._announce()
                systemd.notify("READY=1", f"MAINPID={os.getpid()}")
                while "stop" not in self._asked:
                    await self._turn()
                return 0
            finally:
                await self._end()
                shutil.rmtree(self._metrics, ignore_errors=True)

    async def _begin(self) -> None:
        """Start all workers: one alone, as its fault would be that of all; the banner comes last."""
        last = self._config.workers
        for numbers in ([last], list(range(2, last)), [1]):
            for number in numbers:
                self._launch(number, shows_banner=number == 1)
            begun = [self._workers[number].wait_until_ready() for number in numbers]
            if fault := next(filter(None, await asyncio.gather(*begun)), ""):
                raise ToolbridgeError(f"a worker did not start: {fault}")

    def _launch(self, number: int, *, shows_banner: bool = False) -> None:
        self._begun[number] = time.monotonic()
        self._workers[number] = self._start(number, shows_banner, str(self._metrics))

    async def _turn(self) -> None:
        self._reap()
        if "replace" in self._asked:
            self._asked.discard("replace")
            await self._replace_all()
        if "reload" in self._asked or self._has_changed():
            self._asked.discard("reload")
            self._reload()
        await asyncio.sleep(_STEP)

    # ── workers that end ─────────────────────────────────────────────────────

    def _reap(self) -> None:
        now = time.monotonic()
        for child in [child for child in self._retired if child.process.poll() is not None]:
            self._retired.remove(child)
            settle_ended(self._metrics, child.process.pid)
        for number, child in list(self._workers.items()):
            if child.process.poll() is None:
                continue
            if number not in self._due:
                settle_ended(self._metrics, child.process.pid)
                if self._loads is not None:
                    self._loads.forget(number)
                self._due[number] = now + self._pause(number, child)
            if now >= self._due[number]:
                del self._due[number]
                self._launch(number)
                self._workers[number].forget_ready()

    def _pause(self, number: int, child: Child) -> float:
        """Return the seconds to wait before a worker is started again: longer each time."""
        if time.monotonic() - self._begun[number] > _STABLE:
            self._pauses.pop(number, None)
        pause = self._pauses.get(number, 0.0)
        self._pauses[number] = min(_LONGEST_PAUSE, pause * 2 or 1.0)
        when = f"in {pause:g} s" if pause else "now"
        notice(
            f"worker {number} (pid {child.process.pid}) ended with status "
            f"{child.process.returncode}; a new one starts {when}"
        )
        return pause

    # ── signals ──────────────────────────────────────────────────────────────

    def _certificates(self) -> tuple[str, str]:
        return self._config.tls.cert, self._config.tls.key

    def _has_changed(self) -> bool:
        now = time.monotonic()
        if self._config.reload != "auto" or now < self._watched + _WATCH:
            return False
        self._watched = now
        stamp = self._file.stamp(self._certificates())
        settled, self._last = stamp == self._last, stamp
        return settled and stamp != self._seen

    def _reload(self) -> None:
        """Check the configuration here, once; then the workers read it."""
        self._seen = self._last = self._file.stamp(self._certificates())
        fault = self._fault()
        if fault:
            notice(f"the configuration was not reloaded, the old one stays: {fault}")
        else:
            self._signal(signals.HANGUP)
        self._announce(reloaded=True, fault=fault, unchanged=self._unchanged)

    def _fault(self) -> str:
        if self._config.reload == "off":
            return 'reload = "off"; restart the gateway'
        from toolbridge.routing.providers import find_providers

        try:
            config = self._file.read()
            find_providers(config, os.environ)
        except ConfigError as error:
            return self._file.located(error)
        self._config, self._unchanged = keep_settled(self._config, config)
        return ""

    async def _replace_all(self) -> None:
        """Start a new process for each worker; the old ones end when all new ones serve."""
        if fault := restart_fault(self._config, self._file):
            notice(f"the workers were not replaced, the old ones go on: {fault}")
            self._announce(fault=fault)
            return
        fresh = {number: self._start(number, False, str(self._metrics)) for number in self._workers}
        faults = await asyncio.gather(*(child.wait_until_ready() for child in fresh.values()))
        if fault := next(filter(None, faults), ""):
            for child in fresh.values():
                _send(child, signal.SIGTERM)
            self._retired += fresh.values()
            notice(f"the workers were not replaced, the old ones go on: {fault}")
            self._announce(fault=fault)
            return
        with contextlib.suppress(ConfigError):  # the file was changed again
            self._config = self._file.read()
        for child in self._workers.values():
            _send(child, signals.REPLACE)
        self._retired += self._workers.values()
        self._workers = fresh
        self._due.clear()
        self._begun = dict.fromkeys(fresh, time.monotonic())
        notice(f"{len(fresh)} workers were replaced")
        self._announce(started=time.time())

    def _signal(self, number: int | None) -> None:
        for child in self._workers.values():
            _send(child, number)

    # ── the end ──────────────────────────────────────────────────────────────

    async def _end(self) -> None:
        """End all workers, and wait for them; kill those that do not end."""
        systemd.notify("STOPPING=1")
        for listener in self._listening.all:
            listener.close()
        children = [*self._workers.values(), *self._retired]
        for child in children:
            _send(child, signal.SIGTERM)
        config = self._config
        until = time.monotonic() + config.drain_delay + max(1, config.stop_grace) + _END_WAIT
        self._asked.clear()
        while any(child.process.poll() is None for child in children):
            if "stop" in self._asked:  # the second signal ends the delay of each worker
                self._asked.clear()
                for child in children:
                    _send(child, signal.SIGTERM)
            if time.monotonic() > until:
                for child in children:
                    _send(child, signal.SIGKILL)
            await asyncio.sleep(_STEP)


def _send(child: Child, number: int | None) -> None:
    if number is not None and child.process.poll() is None:
        child.process.send_signal(number)
