"""Writes recordings: one file per model request, in the directory of the setting `record`.

A recording is redacted and written in a thread after its request has ended. A disk that is full or
cannot be written is reported once on standard error and changes no answer. The oldest files are
removed when there are too many or they are too large.
"""

import asyncio
import re
import time
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path

import msgspec

from toolbridge.config import Config
from toolbridge.core.json import JsonObject
from toolbridge.core.redaction import Redactor
from toolbridge.explain import recording as rec
from toolbridge.routing.exchange_trace import TracedAttempt
from toolbridge.routing.recorded_route import route_to_json
from toolbridge.routing.route import Route
from toolbridge.server.auth import bearer
from toolbridge.server.http import HttpExchange
from toolbridge.server.kept_requests import KeptRequest
from toolbridge.server.response_tap import RecordingTap
from toolbridge.store import private_files
from toolbridge.store.notices import notice, report_fault

_NAME = re.compile(r"\d{8}T\d{6}-req_[0-9a-f]+\.json")
_MOST_WAITING = 64
"""Recordings that wait to be written; further ones are dropped."""


class ExchangeRecorder:
    """Records the requests of one gateway."""

    def __init__(self, config: Config, secrets: list[str]) -> None:
        self._folder = Path(config.record)
        self._files = config.record_files
        self._bytes = config.record_bytes
        self._settings: JsonObject = {"thinking": config.thinking, "heal": config.heal}
        self._secrets = secrets
        self._waiting: set[asyncio.Task[None]] = set()
        self._lock = asyncio.Lock()
        self._trouble = False

    def attach(self, exchange: HttpExchange, kept: KeptRequest) -> None:
        """Record the bytes of this exchange from now on, and write them at its end."""
        kept.trace.records = True
        tap = exchange.tap = RecordingTap(kept.trace)
        kept.on_finish = partial(self._finish, exchange, tap)

    def _finish(self, exchange: HttpExchange, tap: RecordingTap, kept: KeptRequest) -> None:
        if len(self._waiting) >= _MOST_WAITING:
            self._report(
                f"more than {_MOST_WAITING} recordings wait to be written; some are dropped"
            )
            return
        attempts = kept.trace.attempts
        kept.trace.attempts = [_lightened(one) for one in attempts]
        task = asyncio.get_running_loop().create_task(self._write(exchange, tap, kept, attempts))
        self._waiting.add(task)
        task.add_done_callback(self._waiting.discard)

    async def close(self) -> None:
        """Wait until everything is written."""
        if self._waiting:
            await asyncio.gather(*self._waiting, return_exceptions=True)

    async def _write(
        self,
        exchange: HttpExchange,
        tap: RecordingTap,
        kept: KeptRequest,
        attempts: list[TracedAttempt],
    ) -> None:
        async with self._lock:
            try:
                await asyncio.to_thread(self._save, exchange, tap, kept, attempts)
            except OSError as error:
                self._report(
                    f"{self._folder}: {error.strerror or error}; requests are not recorded"
                )
            except Exception as error:  # noqa: BLE001  a recording must not stop the server
                report_fault(error, Redactor(self._secrets))
            else:
                self._trouble = False

    def _report(self, text: str) -> None:
        if not self._trouble:
            notice(text)
        self._trouble = True

    def _save(
        self,
        exchange: HttpExchange,
        tap: RecordingTap,
        kept: KeptRequest,
        attempts: list[TracedAttempt],
    ) -> None:
        redactor = Redactor([*self._secrets, *_logins(exchange)])
        made = _recording(exchange, tap, kept, attempts, self._settings, redactor)
        data = msgspec.json.format(msgspec.json.encode(made), indent=1)
        if not self._folder.exists():
            private_files.make_folder(self._folder)
        stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime(kept.entry.at))
        private_files.write(self._folder / f"{stamp}-{kept.id}.json", data)
        self._prune()

    def _prune(self) -> None:
        """Remove the oldest recordings that exceed the limits."""
        found = sorted(
            (file for file in self._folder.iterdir() if _NAME.fullmatch(file.name)), reverse=True
        )
        total = 0
        for number, file in enumerate(found):
            with suppress(FileNotFoundError):
                total += file.stat().st_size
                if number >= self._files or total > self._bytes:
                    file.unlink()


def _lightened(attempt: TracedAttempt) -> TracedAttempt:
    """Return an attempt without the bytes of its response, for `toolbridge explain`."""
    return msgspec.structs.replace(attempt, pieces=[])


def _logins(exchange: HttpExchange) -> list[str]:
    """Return the keys in the client's headers and query, which a body may repeat."""
    found = [
        value.decode("utf-8", "replace")
        for name, value in exchange.head.headers.items()
        if rec.is_secret_header(name.decode("latin-1"))
    ]
    return [*found, *filter(None, map(bearer, found)), exchange.query("key")]


def _recording(
    exchange: HttpExchange,
    tap: RecordingTap,
    kept: KeptRequest,
    attempts: list[TracedAttempt],
    settings: JsonObject,
    redactor: Redactor,
) -> rec.Recording:
    route = kept.route
    estimate: JsonObject = {} if kept.estimate is None else msgspec.to_builtins(kept.estimate)
    firsts = {one.route.address: one for one in reversed(attempts)}
    last = None if route is None else firsts.pop(route.address, None)
    return rec.Recording(
        toolbridge_recording=rec.FORMAT,
        id=kept.id,
        time=kept.entry.at,
        seed=kept.trace.seed.hex(),
        client=_client(exchange, kept, redactor),
        response=rec.RecordedResponse(
            status=tap.status,
            headers=rec.redact_headers(list(tap.headers.items()), redactor),
            body=rec.redact_pieces(tap.pieces, redactor),
            client_left=exchange.client_left,
        ),
        attempts=tuple(_attempt(one, redactor) for one in attempts),
        api=kept.ask.codec.name,
        model=kept.request_model,
        route={} if route is None else _route(route, last, redactor),
        failed_routes=tuple(
            _failed(one, kept, redactor) for one in attempts if one in firsts.values()
        ),
        settings=settings,
        estimate=estimate,
        truncated=kept.trace.truncated,
    )


def _route(route: Route, first: TracedAttempt | None, redactor: Redactor) -> JsonObject:
    mode = first.tool_mode if first is not None else ""
    return _object(redactor.value(route_to_json(route, mode)))


def _failed(first: TracedAttempt, kept: KeptRequest, redactor: Redactor) -> rec.RecordedRoute:
    counted = kept.estimates.get(first.route.address)
    estimate: JsonObject = {} if counted is None else msgspec.to_builtins(counted)
    return rec.RecordedRoute(_route(first.route, first, redactor), estimate)


def _client(exchange: HttpExchange, kept: KeptRequest, redactor: Redactor) -> rec.RecordedClient:
    head = exchange.head
    headers = [(k.decode("latin-1"), v.decode("latin-1")) for k, v in head.headers.items()]
    query = redactor.text(f"?{head.query.decode('latin-1')}").removeprefix("?")
    return rec.RecordedClient(
        head.method,
        exchange.path,
        rec.redact_body(kept.body, redactor),
        query,
        rec.redact_headers(headers, redactor),
    )


def _attempt(attempt: TracedAttempt, redactor: Redactor) -> rec.RecordedAttempt:
    broken = attempt.broken
    if broken is not None:
        text, generated = redactor.text(broken.text), redactor.text(broken.generated)
        broken = msgspec.structs.replace(broken, text=text, generated=generated)
    return rec.RecordedAttempt(
        at=round(attempt.at, 4),
        path=redactor.text(attempt.path),
        body=rec.redact_body(attempt.body, redactor),
        headers=rec.redact_headers(list(attempt.headers.items()), redactor),
        status=attempt.status,
        answered_at=round(attempt.answered_at, 4),
        response_headers=_response_headers(attempt.response_headers, redactor),
        response=rec.redact_pieces([(at, data, False) for at, data in attempt.pieces], redactor),
        broken=broken,
    )


def _response_headers(headers: Mapping[str, str], redactor: Redactor) -> dict[str, str]:
    return rec.redact_headers([(name.lower(), value) for name, value in headers.items()], redactor)


def _object(value: object) -> JsonObject:
    return value if isinstance(value, dict) else {}
