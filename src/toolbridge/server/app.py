"""The state of one running gateway, shared by all its routes.

`App` is built from the configuration and the environment. It owns what lives as long as the
process: the connections to providers, the store, the metrics, the request log and the limit on
concurrent requests. It does not know the routes; `dispatch.Dispatcher` finds the route of a
request and calls it with the `App`.

A reload makes a new `App` with `renewed`. Both share everything but the settings, and a running
request keeps the `App` that it began with.
"""

import asyncio
import os
import time
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack, suppress
from copy import copy
from functools import cached_property, partial
from typing import TYPE_CHECKING

from toolbridge.accounting.limits_of_keys import Amounts
from toolbridge.config import Config, StreamConfig, secret
from toolbridge.core.errors import RateLimited
from toolbridge.core.ids import Ids
from toolbridge.core.json import Json
from toolbridge.server.auth import Guard
from toolbridge.server.created_keys import CreatedKeys
from toolbridge.server.gateway import Gateway
from toolbridge.server.http import IncomingRequest
from toolbridge.server.lifecycle import Lifecycle
from toolbridge.server.metrics import Metrics, configured_models
from toolbridge.server.recent_requests import RecentRequests
from toolbridge.server.request_log import Entry, RequestLog
from toolbridge.server.run_requests import RunRequests
from toolbridge.server.turn_end import TurnEnd
from toolbridge.store import log_output, private_files
from toolbridge.store.budgets import Reservation
from toolbridge.store.ledger_journal import FOLDER
from toolbridge.store.ledger_writer import LedgerWriter, SettleDead
from toolbridge.upstream.http import Upstream
from toolbridge.version import __version__

if TYPE_CHECKING:
    from toolbridge.runs.service import StreamService
    from toolbridge.server.kept_answers import KeptAnswers
    from toolbridge.server.team import Team
    from toolbridge.server.telemetry import Telemetry


_LEDGER_READS = 2
"""Reads of the ledger at the same time; each takes a thread."""
_SETTLING = 10.0
"""Seconds for the settlement of what a dead process has reserved."""


class App:
    """The services and limits of one gateway; every route function receives it."""

    def __init__(
        self,
        config: Config,
        env: Mapping[str, str] = os.environ,
        upstream: Upstream | None = None,
    ) -> None:
        self.config = config
        self._env = env
        self.upstream = upstream or Upstream()
        self.gateway = Gateway(config, self.upstream, env)
        self._created_keys = CreatedKeys(self.gateway.engines.keys())
        self.guard = Guard(config, secret(config.key, env), self._created_keys)
        self.metrics = Metrics(configured_models(config), self.gateway.redactor)
        self._request_log = RequestLog(config.log, redactor=self.gateway.redactor)
        self.ledger = self.gateway.charges.journal = _ledger(config, self.gateway)
        self.ledger_reads = asyncio.Semaphore(_LEDGER_READS)
        self._turn_end = TurnEnd(self.flush)
        self._finished: dict[App, list[tuple[Entry, int]]] = {}
        """The requests that have finished in this turn of the event loop; a reload shares them."""
        self._telemetry = _telemetry(config, self.gateway)
        self.request_id = Ids(os.urandom(16)).request
        """Returns a new request id."""
        self._stack = AsyncExitStack()
        self.in_flight: dict[IncomingRequest, Entry] = {}
        """The tasks and entries of authenticated requests; `http.max_requests` limits their number."""
        self.recent_requests = RecentRequests()
        self.run_requests = RunRequests()
        self.watchers: set[str] = set()
        """The ids of the requests that follow the recent ones, for the page."""
        self.lifecycle = Lifecycle()
        self._services: list[StreamService] = []
        """The first stream service that was made, for all `App`s that follow one another."""
        self._answers: list[KeptAnswers] = []
        """Likewise the kept answers."""
        self.team = _team(self.gateway)
        """The processes that share the store; None for a single one."""
        self.started = time.time()

    async def start(self) -> None:
        """Open the connection pool, check the stream configuration and find the default model."""
        await self._stack.enter_async_context(self.upstream)
        self._stack.push_async_callback(self.gateway.close)
        self._stack.push_async_callback(self._created_keys.close)
        if self.gateway.state is not None:
            # The folder may not exist yet or belong to another user; the store reports that when
            # it needs the folder.
            with suppress(OSError):
                private_files.tighten(self.gateway.state, private_files.FOLDER)
        self._check_streams()
        await self._created_keys.open()
        # Keys on a server are known only now.
        self.guard = Guard(self.config, secret(self.config.key, self._env), self._created_keys)
        await self.gateway.open()
        if self.team is not None:
            self._stack.push_async_callback(self.team.close)
        if self.ledger is not None:
            self.ledger.start(self._settle_dead(asyncio.get_running_loop()))
            self.gateway.charges.waits_for_turns = self.upstream.waits_for_turns

    def _settle_dead(self, loop: asyncio.AbstractEventLoop) -> SettleDead:
        """Return a function that another thread calls with the reservations of a dead process."""
        charges = self.gateway.charges

        def settle(held: list[tuple[Reservation, Amounts]]) -> None:
            # If this process ends meanwhile, the journal is still there for the next one.
            with suppress(TimeoutError):
                asyncio.run_coroutine_threadsafe(charges.settle_dead(held), loop).result(_SETTLING)

        return settle

    def _check_streams(self) -> None:
        if self.config.stream != StreamConfig():
            _ = self.service.catalog  # reports a configuration error now, not at the first run

    async def renewed(self, config: Config) -> "App":
        """Return an `App` with other settings and the state of this one; raise `ConfigError`."""
        app = copy(self)
        vars(app).pop("service", None)
        app.config = config
        app.guard = Guard(config, secret(config.key, self._env), self._created_keys)
        app.gateway = gateway = self.gateway.renewed(config)
        app._request_log = RequestLog(config.log, redactor=gateway.redactor)  # noqa: SLF001  its own class
        app._check_streams()  # noqa: SLF001
        await gateway.model_routes.discover()
        gateway.store.redactor = gateway.redactor
        self.metrics.configure(configured_models(config), gateway.redactor)
        return app

    async def stop(self) -> None:
        await self._stack.aclose()
        self.flush()
        if self.ledger is not None:
            await asyncio.to_thread(self.ledger.close)
        if self._telemetry is not None:
            await asyncio.to_thread(self._telemetry.close)

    @cached_property
    def service(self) -> "StreamService":
        """The service for structured streams; its modules are imported on first use."""
        from toolbridge.runs.service import StreamService

        gateway = self.gateway
        if self._services:
            return self._services[0].renewed(gateway.router, self.config.stream)
        made = StreamService(
            gateway.router, gateway.store, self.config.stream, gateway.state, self._env
        )
        self._services.append(made)
        self._stack.push_async_callback(made.close)
        return made

    def active_runs(self, caller: str) -> dict[str, float]:
        """Return the active structured streams of a caller, with their seconds so far."""
        return self._services[0].streams.active(caller) if self._services else {}

    @property
    def answers(self) -> "KeptAnswers":
        """The kept answers; their modules are imported on first use."""
        from toolbridge.server.kept_answers import KeptAnswers

        if not self._answers:
            self._answers.append(KeptAnswers(self.gateway.store))
            self._stack.push_async_callback(self._answers[0].close)
        return self._answers[0]

    def open_entry(self, exchange: IncomingRequest) -> Entry:
        """Return a new log entry for a request."""
        fields: dict[str, Json] = {
            "http.request.method": exchange.method,
            "url.path": exchange.path,
        }
        return Entry(exchange.id, fields)

    def admit(self, request: IncomingRequest, entry: Entry) -> None:
        """Count a concurrent request until `release`; raise `RateLimited` above the limit.

        Call it after the key check, so that unauthenticated requests cannot use up the limit.
        """
        limit = self.config.http.max_requests
        if len(self.in_flight) >= limit:
            raise RateLimited(
                f"{limit} requests are running, which is the limit (`http.max_requests`); "
                "try again in a moment",
                retry_after=1.0,
            )
        self.in_flight[request] = entry

    def release(self, request: IncomingRequest) -> None:
        """Stop counting a request, if it is counted."""
        self.in_flight.pop(request, None)

    def record(self, entry: Entry, status: int) -> None:
        """Add a finished request to the metrics and to the request log.

        While other requests run, that is done at the end of the turn for all that have finished:
        the same code for one after the other takes half the time.
        """
        entry.took = time.monotonic() - entry.started
        entry.status = status
        if self.in_flight or self._finished:
            self._finished.setdefault(self, []).append((entry, status))
            self._turn_end.soon()
        else:
            self._record([(entry, status)], later=False)

    def _record(self, ended: list[tuple[Entry, int]], *, later: bool) -> None:
        """Record requests: each step for all of them, so that its code stays in the caches."""
        _each(ended, self.metrics.record)
        _each(ended, partial(self._note, later=later))
        if self._request_log.writes:
            _each(ended, self._request_log.add)
            self._request_log.write_added(later=later)
        _each(ended, _end)

    def _note(self, entry: Entry, status: int, *, later: bool) -> None:
        if entry.asks_model:
            self._record_call(entry, status, later=later)
        elif entry.on_end is not None:  # for a model, and rejected before that was clear
            self.recent_requests.add(entry.row(status))
        for one, its_status in entry.inner:
            self.record_inner_call(one, its_status)

    def record_inner_call(self, entry: Entry, status: int) -> None:
        """Add a request that the gateway itself has made for another one.

        Those of a structured stream are such requests. The request log does not have them.
        """
        self.metrics.record_inner_answer(entry, status)
        self._record_call(entry, status, later=self._writes_later())

    def _record_call(self, entry: Entry, status: int, *, later: bool) -> None:
        """Add a request to a model to the metrics of its key, to the recent ones and to the ledger."""
        if "toolbridge.key" in entry.fields:
            self.metrics.record_call(entry, status)
        row = entry.ended
        if row is None:  # it is not in the ledger yet
            row = entry.ended = entry.row(status)
            if self.ledger is not None:
                self.ledger.add(row, later=later)
        self.recent_requests.add(row)
        if self._telemetry is not None:
            self._telemetry.record(entry, status)

    def _writes_later(self) -> bool:
        """Return whether other requests run, with whose lines a line is written at the end of the turn."""
        if not self.in_flight:
            return False
        self._turn_end.soon()
        return True

    def flush(self) -> None:
        """Record the requests of this turn: one write to each file for all of them."""
        while self._finished:
            app, ended = self._finished.popitem()
            app._record(ended, later=True)  # noqa: SLF001  its own class
        if self.ledger is not None:
            self.ledger.flush()
        log_output.flush()


def _each(ended: list[tuple[Entry, int]], step: Callable[[Entry, int], None]) -> None:
    """Call `step` for each request; one that fails does not take the others with it."""
    for entry, status in ended:
        try:
            step(entry, status)
        except Exception as error:  # noqa: BLE001  reported, as the error of a callback is
            what = {"message": f"the request {entry.id} was not recorded", "exception": error}
            asyncio.get_running_loop().call_exception_handler(what)


def _end(entry: Entry, status: int) -> None:
    if entry.on_end is not None:
        entry.on_end(status)


def _ledger(config: Config, gateway: Gateway) -> LedgerWriter | None:
    """Return the writer of the ledger; None if it is off, or if there is no state directory."""
    if (open_ledger := gateway.engines.ledger) is None:
        return None
    folder = None if gateway.state is None else gateway.state / FOLDER
    return LedgerWriter(open_ledger, config.ledger_days, gateway.redactor, folder=folder)


def _team(gateway: Gateway) -> "Team | None":
    if not gateway.is_shared:
        return None
    from toolbridge.server.team import Team

    return Team(gateway.store)


def _telemetry(config: Config, gateway: Gateway) -> "Telemetry | None":
    """Return the export to a collector; None if none is set."""
    if not config.otel:
        return None
    from toolbridge.server.telemetry import Telemetry

    return Telemetry(config.otel, __version__, gateway.redactor)
