"""Structured streams over a WebSocket: the same events, and the client's messages on one socket."""

import asyncio
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING

from toolbridge.core.caller import owner_of
from toolbridge.core.errors import Aborted, MalformedRequest, ToolbridgeError
from toolbridge.core.json import JsonObject, maybe_object
from toolbridge.runs.kept_events import Record
from toolbridge.runs.streams import RunSubscription, parse_event_id
from toolbridge.server.http import IncomingRequest
from toolbridge.server.keep_alive import KeepAlive
from toolbridge.server.request_log import Entry
from toolbridge.server.scopes import Receive, Send
from toolbridge.server.stream import encode_rejection, read_outcome, reject
from toolbridge.server.stream_meter import StreamMeter

if TYPE_CHECKING:
    from toolbridge.server.app import App

_PING = b'{"event":"ping","data":{}}'
_REFUSED = 4400
"""The close code for an invalid request; the last message before it has the error."""
_SLOW = 4408
"""The close code for a client that sent no request in time."""


class StreamSocket:
    """One WebSocket, from its first message to its end."""

    def __init__(
        self, app: "App", request: IncomingRequest, entry: Entry, receive: Receive, send: Send
    ) -> None:
        self._app = app
        self._entry = entry
        self._caller = request.caller
        self._meter = StreamMeter(app, request)
        self._receive = receive
        self._send = send
        self._flowing = asyncio.Event()
        self._flowing.set()

    async def serve(self) -> None:
        await self._receive()  # websocket.connect
        await self._send({"type": "websocket.accept"})
        try:
            async with asyncio.timeout(self._app.config.http.body_timeout):
                first = await self._next_message()
            followed = await self._open(first)
        except Aborted:
            return
        except TimeoutError:
            await self._send({"type": "websocket.close", "code": _SLOW})
            return
        except ToolbridgeError as error:
            _note_error(self._entry, error)
            await self._write(b'{"event":"error","data":%b}' % encode_rejection(error.problem))
            await self._send({"type": "websocket.close", "code": _REFUSED})
            return
        self._entry.note(run=followed.run)
        self._app.run_requests.add(self._entry, owner_of(self._caller), followed.run, 101)
        telling = asyncio.create_task(self._send_events(followed))
        listening = asyncio.create_task(self._read_messages(followed.run))
        done, rest = await asyncio.wait({telling, listening}, return_when=asyncio.FIRST_COMPLETED)
        for task in rest:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        for task in done:
            task.result()

    async def _open(self, first: JsonObject) -> RunSubscription:
        kind = first.get("type")
        service = self._app.service
        if kind == "start":
            key = first.get("idempotency_key")
            body = {k: v for k, v in first.items() if k not in {"type", "idempotency_key"}}
            if key is not None and not (isinstance(key, str) and key.strip()):
                raise MalformedRequest("must be a text that is not empty", where="idempotency_key")
            return await service.open(body, self._caller, (key or "").strip(), self._meter)
        if kind == "resume":
            run, after = parse_event_id(str(first.get("last_event_id", "")))
            return await service.streams.follow(run, self._caller, after)
        raise MalformedRequest("the first message must be `start` or `resume`", where="type")

    async def _send_events(self, followed: RunSubscription) -> None:
        ping = self._app.config.stream.ping
        pulse = KeepAlive(lambda: self._write(_PING), first=ping, interval=ping)
        try:
            async with aclosing(followed.batches) as batches:
                async for batch in batches:
                    for record in batch:
                        await self._flowing.wait()
                        pulse.touch()
                        self._entry.note_first_token()
                        await self._write(_encode(followed.run, record))
        finally:
            pulse.stop()
        await self._send({"type": "websocket.close", "code": 1000})

    async def _read_messages(self, run: str) -> None:
        """Execute the client's messages until it disconnects; reply to an invalid one with an error."""
        while True:
            try:
                message = await self._next_message()
                await self._execute(message, run)
            except Aborted:
                return
            except ToolbridgeError as error:
                text = b'{"event":"rejected","data":%b}' % encode_rejection(error.problem)
                await self._write(text)

    async def _execute(self, message: JsonObject, run: str) -> None:
        streams = self._app.service.streams
        match message.get("type"):
            case "pause":
                self._flowing.clear()
            case "resume":
                self._flowing.set()
            case "abort":
                await streams.abort(run, self._caller)
                self._flowing.set()
            case "tool.result":
                id, outcome = read_outcome(message)
                if not await streams.answer_tool(run, self._caller, id, outcome):
                    raise MalformedRequest(f"no tool call {id!r} waits for a result", where="id")
            case _:
                text = "must be tool.result, pause, resume or abort"
                raise MalformedRequest(text, where="type")

    async def _next_message(self) -> JsonObject:
        """Return the client's next message; raise `Aborted` when it has disconnected."""
        message = await self._receive()
        if message["type"] == "websocket.disconnect":
            raise Aborted("the client left")
        found = maybe_object(message.get("text") or message.get("bytes") or b"")
        if found is None:
            raise MalformedRequest("a message must be a JSON object")
        return found

    async def _write(self, text: bytes) -> None:
        await self._send({"type": "websocket.send", "text": text.decode()})


async def serve(app: "App", request: IncomingRequest, receive: Receive, send: Send) -> None:
    """Serve one WebSocket and record it; reject an unauthorised caller with a JSON error before it opens."""
    entry = app.open_entry(request)
    entry.note(surface="stream")
    status = 101
    try:
        await app.guard.check(request)
        app.admit(request, entry)
    except ToolbridgeError as error:
        _note_error(entry, error)
        await receive()
        status = await _deny(request, send, error)
    else:
        await StreamSocket(app, request, entry, receive, send).serve()
    finally:
        app.release(request)
        app.record(entry, status)


def _note_error(entry: Entry, error: ToolbridgeError) -> None:
    entry.note(error__type=error.kind, error__message=str(error))


async def _deny(request: IncomingRequest, send: Send, error: ToolbridgeError) -> int:
    """Reject a request with an HTTP response; return its status."""
    rejection = reject(error.problem)
    ids = {"request-id": request.id, "x-request-id": request.id}
    headers = {"content-type": "application/json"} | ids | rejection.headers
    lines = [(name.encode(), value.encode()) for name, value in headers.items()]
    start = {"type": "websocket.http.response.start", "status": rejection.status, "headers": lines}
    await send(start)
    await send({"type": "websocket.http.response.body", "body": rejection.body})
    return rejection.status


def _encode(run: str, record: Record) -> bytes:
    head = f'{{"event":"{record.name}","id":"{run}:{record.n}","data":'
    return b"%b%b}" % (head.encode(), record.data)
