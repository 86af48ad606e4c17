"""`bookings.create`: books a table at a restaurant, exactly once.

The same caller, restaurant, time, party and name is the same booking, with the same confirmation.
The booking and the stored result of the call are written in one transaction, so a process that dies
in between leaves both or neither.
"""

import sqlite3
import time
from base64 import b32encode
from hashlib import blake2b

from toolbridge.core.json import Json, JsonObject
from toolbridge.demo.restaurant.clock import ClockTime, moment_of
from toolbridge.demo.restaurant.places import Restaurant, town
from toolbridge.demo.restaurant.schemas import BookingsCreate
from toolbridge.tools.context import ToolContext, ToolRefused
from toolbridge.tools.functions import schema_of
from toolbridge.tools.keys import canonical
from toolbridge.tools.registry import RegisteredTool
from toolbridge.tools.structs import read_arguments

MOST = 10_000
"""The most bookings that are stored; the oldest are removed first."""

_TABLE = """
create table if not exists bookings (
    caller text not null, confirmation text not null, place text not null, time text not null,
    party integer not null, name text not null, made real not null,
    primary key (caller, confirmation)
) without rowid
"""


async def _run(arguments: JsonObject, context: ToolContext) -> Json:
    asked = read_arguments(arguments, BookingsCreate)
    at = moment_of(asked.time, "time")
    place = _place(asked, at)
    return await context.once(lambda connection: _book(connection, context, asked, at, place))


def _place(asked: BookingsCreate, at: ClockTime) -> Restaurant:
    """Return the restaurant; raise if it is unknown, closed or too small for the party."""
    place = town().get(asked.place_id)
    if place is None:
        text = f"there is no restaurant {asked.place_id!r}; places.search returns the ids"
        raise ToolRefused("unknown_place", text)
    if not place.is_open(at):
        days = f", never on {', '.join(place.closed_on)}" if place.closed_on else ""
        text = f"{place.name} is closed at {at}; it opens {place.opens} to {place.closes}{days}"
        raise ToolRefused("closed", text)
    if asked.party_size > place.largest:
        text = f"{place.name} has no table for {asked.party_size}, at most for {place.largest}"
        raise ToolRefused("party_too_large", text)
    return place


def _book(
    connection: sqlite3.Connection,
    context: ToolContext,
    asked: BookingsCreate,
    at: ClockTime,
    place: Restaurant,
) -> Json:
    connection.execute(_TABLE)
    caller, code = context.caller, confirmation(context.caller, asked, at)
    if not _is_booked(connection, caller, code):
        _refuse_when_full(connection, at, place)
        name = asked.name if context.store is None else context.store.redactor.text(asked.name)
        row = (caller, code, place.id, str(at), asked.party_size, name, time.time())
        connection.execute("insert into bookings values (?, ?, ?, ?, ?, ?, ?)", row)
        connection.execute(
            "delete from bookings where (caller, confirmation) in "
            "(select caller, confirmation from bookings order by made desc limit -1 offset ?)",
            (MOST,),
        )
    return {
        "confirmation": code,
        "status": "confirmed",
        "place_id": place.id,
        "place": place.name,
        "address": place.address,
        "time": str(at),
        "party_size": asked.party_size,
        "name": asked.name,
    }


def confirmation(caller: str, asked: BookingsCreate, at: ClockTime) -> str:
    """Return the confirmation code: the same for the same booking."""
    written = canonical([caller, asked.place_id, str(at), asked.party_size, asked.name])
    return "BK-" + b32encode(blake2b(written, digest_size=5).digest()).decode()


def _is_booked(connection: sqlite3.Connection, caller: str, code: str) -> bool:
    found = connection.execute(
        "select 1 from bookings where caller = ? and confirmation = ?", (caller, code)
    )
    return found.fetchone() is not None


def _refuse_when_full(connection: sqlite3.Connection, at: ClockTime, place: Restaurant) -> None:
    rows = connection.execute(
        "select count(*) from bookings where place = ? and time = ?", (place.id, str(at))
    )
    booked = int(rows.fetchone()[0])
    if booked >= place.tables or str(at)[-5:] in place.taken:
        raise ToolRefused("conflict", f"{place.name} has no table left at {at}; try another time")


BOOKINGS_CREATE = RegisteredTool(
    "bookings.create",
    "Book a table at a place that places.search has found, at a time when it is open.",
    schema_of(BookingsCreate),
    _run,
    idempotent=True,  # it uses the key of its context
)
