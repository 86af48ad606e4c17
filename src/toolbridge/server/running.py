"""The process of `toolbridge serve`: signals, reloading, hand-over and an orderly end.

At SIGTERM the port stays open for `drain_delay` seconds while readiness is 503, then running requests
have `stop_grace` seconds. At SIGUSR2 a successor process gets the listening sockets; when it serves,
this process accepts nothing more and has `restart_grace` seconds for its running requests.
"""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import TYPE_CHECKING

from toolbridge.config import Config
from toolbridge.server import garbage, signals
from toolbridge.server.app import App
from toolbridge.server.dispatch import Dispatcher
from toolbridge.server.http_server import HttpServer
from toolbridge.server.listeners import Listeners
from toolbridge.server.reload import ConfigFile, Reloader
from toolbridge.server.tls import TlsContext
from toolbridge.store.notices import notice

if TYPE_CHECKING:
    from toolbridge.server.worker_loads import WorkerLoad

_TICK = 0.1
"""Seconds between two checks of the flags that signals set."""
_TICKS = 10
"""Ticks between two checks of the configuration file: one second."""
_STEP = 0.05


@dataclass(frozen=True)
class ServerHooks:
    """What a server calls when it has started, was reloaded, and should be replaced."""

    on_start: Callable[[App], Awaitable[None]]
    on_reload: Callable[[str, Sequence[str]], None]
    """Called with the fault of the reload, empty without one, and what it could not apply."""
    replace: Callable[[Callable[[], None]], Awaitable[str]]
    """Starts a successor, and returns why it failed; empty when it serves.

    It calls its argument as soon as the successor serves, so that only one of the two accepts.
    """


@dataclass(frozen=True)
class WorkerPart:
    """What one process of `serve --workers N` knows of the others."""

    number: int
    """From 1."""
    supervisor: int
    """The process that has started it, and watches the configuration file for all."""
    load: "WorkerLoad | None"


class GatewayServer:
    """Serves one `App` until a signal ends it."""

    def __init__(
        self,
        app: App,
        listeners: Listeners,
        hooks: ServerHooks,
        *,
        file: ConfigFile | None = None,
        worker: WorkerPart | None = None,
    ) -> None:
        self._dispatcher = Dispatcher(app)
        self._server = HttpServer(self._dispatcher, worker.load if worker else None)
        self._listeners = listeners
        self._tls = TlsContext(app.config.tls) if listeners.tls else None
        self._reloader = (
            Reloader(self._dispatcher, file, self._apply, reports=not worker or worker.number == 1)
            if file
            else None
        )
        self._worker = worker
        self._hooks = hooks
        self._wants_reload = self._wants_replacement = False
        self._busy: asyncio.Task[None] | None = None
        """A reload or a replacement; one at a time."""
        self._ends = self._forced = self._replaced = self._polite = False
        self._signals = 0

    @property
    def settings(self) -> Config:
        """The configuration in use; a reload replaces it."""
        return self._dispatcher.app.config

    # ── signals ──────────────────────────────────────────────────────────────

    def _ask_end(self, number: int, _: FrameType | None) -> None:
        self._signals += 1
        self._polite = number == signal.SIGTERM
        self._forced = self._forced or (self._ends and number == signal.SIGINT)
        self._ends = True

    def _ask_reload(self, _: int, __: FrameType | None) -> None:
        self._wants_reload = True

    def _ask_replacement(self, _: int, __: FrameType | None) -> None:
        self._wants_replacement = True

    # ── running ──────────────────────────────────────────────────────────────

    async def serve(self) -> None:
        """Serve until a signal or a successor ends this process."""
        with signals.handled(self._ask_end, self._ask_reload, self._ask_replacement):
            await self._start()
            counter = 0
            while not self._ends:
                self._tick(counter)
                await asyncio.sleep(_TICK)
                counter += 1
            await self._stop()

    async def _start(self) -> None:
        await self._server.start(self._listeners.http)
        if self._tls is not None and self._listeners.tls is not None:
            await self._server.listen(self._listeners.tls, self._tls.context)
        await self._hooks.on_start(self._dispatcher.app)

    def _tick(self, counter: int) -> None:
        garbage.collect_when_idle(self._server.running)
        if self._worker and counter % _TICKS == 0:
            self._dispatcher.app.metrics.flush()
            if os.getppid() != self._worker.supervisor:
                notice(f"worker {self._worker.number} stops: its supervisor has ended")
                self._ends = True
        if self._busy is None or self._busy.done():
            if self._wants_replacement:
                self._wants_replacement = False
                self._busy = asyncio.create_task(self._hand_over())
            elif self._is_reload_due(counter):
                self._wants_reload = False
                self._busy = asyncio.create_task(self._reload())

    def _is_reload_due(self, counter: int) -> bool:
        if self._reloader is None or self._dispatcher.app.config.reload == "off":
            if self._wants_reload:
                self._wants_reload = False
                why = 'reload = "off"' if self._reloader else "the command line has its settings"
                notice(f"the configuration is not read again: {why}; restart the gateway")
            return False
        watched = self._dispatcher.app.config.reload == "auto" and not self._worker
        changed = watched and counter % _TICKS == 0 and self._reloader.has_changed()
        return self._wants_reload or changed

    async def _reload(self) -> None:
        if self._reloader is not None:
            fault = await self._reloader.reload()
            self._hooks.on_reload(fault, self._reloader.unchanged)

    def _apply(self, config: Config) -> None:
        if self._tls is not None:
            self._tls.load(config.tls)

    async def _hand_over(self) -> None:
        if fault := await self._hooks.replace(self._stop_accepting):
            notice(f"the gateway was not replaced, this process goes on: {fault}")
            return
        self._replaced = self._ends = True

    # ── the end ──────────────────────────────────────────────────────────────

    async def _stop(self) -> None:
        app = self._dispatcher.app
        app.lifecycle.drain()
        if self._replaced:
            self._stop_accepting()
            self._server.retire()
            await self._wait(app.config.restart_grace, idle_ends=True)
        elif self._polite and app.config.drain_delay:
            self._server.retire()
            await self._wait(app.config.drain_delay, idle_ends=False)
        self._stop_accepting()
        await self._server.stop(max(1, app.config.stop_grace), lambda: self._forced)
        app.metrics.flush()

    def _stop_accepting(self) -> None:
        self._server.stop_accepting()
        for listener in self._listeners.all:
            listener.close()

    async def _wait(self, seconds: float, *, idle_ends: bool) -> None:
        """Wait for the connections to end, for at most `seconds`; another signal ends the wait."""
        loop, before = asyncio.get_running_loop(), self._signals
        until = loop.time() + seconds
        while loop.time() < until and self._signals == before:
            if idle_ends and self._server.is_idle:
                return
            await asyncio.sleep(_STEP)
            if not idle_ends:
                self._server.retire()
