"""`GET /v1/requests/{id}`: one request with what came in, what was sent, and the answer.

The row is shown to every caller who may list it. The bodies and the explanation belong to the caller
who made the request, as in `/v1/explain`, and only while the gateway keeps them in memory.
"""

import asyncio
from typing import TYPE_CHECKING

import msgspec

from toolbridge.core.caller import owner_of
from toolbridge.core.json import Json, JsonObject, dump_bytes, loads
from toolbridge.core.messages import Message
from toolbridge.core.redaction import Redactor
from toolbridge.server.explanations import explain_kept, explain_own
from toolbridge.server.http import HttpExchange
from toolbridge.server.kept_requests import KeptRequest
from toolbridge.server.request_log import Entry
from toolbridge.server.request_rows import PATH, RowView, ledger_row, own_row
from toolbridge.server.team_records import TeamAnswer, TeamQuestion

if TYPE_CHECKING:
    from toolbridge.server.app import App

_LONGEST = 4000
"""Characters of one text in a body."""
_ROOM = 400_000
"""Characters of all texts and names of a body."""
_MOST = 20_000
"""Values of a body."""
_PRIVATE = frozenset({"opaque", "cache", "source"})


async def one(app: "App", exchange: HttpExchange, entry: Entry) -> None:
    """Answer with a row, and with its contents if they are kept and belong to the caller."""
    entry.note(surface="page")
    id = exchange.path.removeprefix(f"{PATH}/")
    view = RowView(app.gateway.redactor, exchange.access)
    question = TeamQuestion("", "", id, owner_of(exchange.caller), bodies=True)
    found = await describe(app, question, "" if app.team is None else app.team.name)
    if found.row is None and app.team is not None:
        answers = await app.team.ask(id, question.owner, bodies=True)
        found = next((answer for answer in answers if answer.row is not None), found)
    row = found.row
    if row is None or not view.sees(row):
        row, found = await ledger_row(app, view, id), TeamAnswer("", why=_LOST)
    shown = view.shown(row, running=found.running, process=found.name)
    missing: JsonObject = {"explanation": None, "why": found.why}
    await exchange.reply(200, dump_bytes({"request": shown, **(found.contents or missing)}))


async def describe(app: "App", question: TeamQuestion, name: str) -> TeamAnswer:
    """Return what this process has of a request; `name` is that of the process."""
    kept = app.gateway.kept_requests.find(question.request, question.owner)
    if not question.bodies and (own := await explain_own(app, question.request, question.owner)):
        # The row of a request is asked for with its bodies only.
        return TeamAnswer(name, own[0], contents={"explanation": own[1]})
    id = question.request if kept is None else kept.id
    row, running = own_row(app, RowView(app.gateway.redactor, None), id) or (None, False)
    if kept is None:
        why = "" if row is None else _missing(app, id, running=running)
        at = 0.0 if row is None else row.at
        return TeamAnswer(name, at, row, running=running, why=why)
    if row is None:
        row = msgspec.structs.replace(
            kept.entry.row(kept.status), total_ms=round(kept.duration * 1000, 1)
        )
    contents: JsonObject = {"explanation": await explain_kept(app, kept)}
    if question.bodies:
        contents |= await asyncio.to_thread(_contents, kept, app.gateway.redactor)
    return TeamAnswer(name, kept.entry.at, row, running=running, contents=contents)


_LOST = (
    "The contents are no longer in memory. `explain_bytes` sets how much is kept, and "
    "`toolbridge serve --record DIR` writes every request to a file. Calls of a structured run "
    "are shown with the run."
)


def _missing(app: "App", id: str, *, running: bool) -> str:
    if running:
        return "The request is running; its contents are shown when it has ended."
    if any(one.id == id for one in app.gateway.kept_requests.newest()):
        return "The contents belong to the key that made the request."
    return _LOST


def _contents(kept: KeptRequest, redactor: Redactor) -> JsonObject:
    last = kept.trace.attempts[-1] if kept.trace.attempts else None
    sent: Json = None
    if last is not None:
        ready = last.ready
        sent = _parsed(last.body) if ready is None else msgspec.to_builtins(ready.request)
    message = kept.entry.message
    bodies = {
        "came": _parsed(kept.body),
        "sent": sent,
        "answer": None if message is None else _answer(message),
    }
    # Redacted before it is shortened: half a secret has no shape.
    return {name: Shortener().shorten(redactor.value(body)) for name, body in bodies.items()}


def _parsed(body: bytes) -> Json:
    try:
        return loads(body)
    except ValueError:
        return body.decode("utf-8", "replace")


def _answer(message: Message) -> JsonObject:
    parts: list[JsonObject] = [msgspec.to_builtins(part) for part in message.content]
    content: list[Json] = [
        {name: value for name, value in part.items() if name not in _PRIVATE} for part in parts
    ]
    return {"content": content, "stop": message.stop, "model": message.model}


class Shortener:
    """Shortens the texts and lists of one body, so that paths in what remains stay valid."""

    def __init__(self) -> None:
        self._room = _ROOM
        self._left = _MOST

    def shorten(self, value: Json) -> Json:
        self._left -= 1
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, dict):
            members = ((self._text(name), member) for name, member in value.items() if self._has)
            return {name: self.shorten(member) for name, member in members}
        if isinstance(value, list):
            kept: list[Json] = []
            for item in value:
                if not self._has:
                    kept.append(f"… ({len(value)} in all)")
                    break
                kept.append(self.shorten(item))
            return kept
        return value

    @property
    def _has(self) -> bool:
        return self._left > 0 and self._room > 0

    def _text(self, text: str) -> str:
        most = max(0, min(_LONGEST, self._room))
        self._room -= min(len(text), most)
        return text if len(text) <= most else f"{text[:most]}… ({len(text)} characters)"
