"""`bookings.create`: books a table at a restaurant, exactly once.

The same caller, restaurant, time, party and name is the same booking, with the same confirmation.
Each table of a restaurant at a time is a claim in the store, which has one holder: so a process that
is killed after it has booked, and processes that race, find their booking and make no second one.
"""

from base64 import b32encode
from hashlib import blake2b

import msgspec

from toolbridge.core.json import Json, JsonObject, dump_bytes
from toolbridge.demo.restaurant.clock import ClockTime, moment_of
from toolbridge.demo.restaurant.places import Restaurant, town
from toolbridge.demo.restaurant.schemas import BookingsCreate
from toolbridge.store.interface import Store
from toolbridge.tools.context import ToolContext, ToolRefused
from toolbridge.tools.functions import schema_of
from toolbridge.tools.keys import canonical
from toolbridge.tools.registry import RegisteredTool
from toolbridge.tools.structs import read_arguments

KEPT = 7 * 24 * 3600.0
"""Seconds for which a table is booked."""


class _Booking(msgspec.Struct, frozen=True):
    """What a booked table is claimed with."""

    confirmation: str
    party: int
    name: str


_booking = msgspec.json.Decoder(_Booking)


async def _run(arguments: JsonObject, context: ToolContext) -> Json:
    asked = read_arguments(arguments, BookingsCreate)
    at = moment_of(asked.time, "time")
    place = _place(asked, at)
    return await context.once(lambda store: _book(store, context.caller, asked, at, place))


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
    if str(at)[-5:] in place.taken:
        raise _full(place, at)
    return place


async def _book(
    store: Store, caller: str, asked: BookingsCreate, at: ClockTime, place: Restaurant
) -> Json:
    code = confirmation(caller, asked, at)
    scope, tables = f"booking/{place.id}/{at}", [str(n) for n in range(place.tables)]
    mine = dump_bytes(_Booking(code, asked.party_size, asked.name))
    held = [await store.get(scope, table) for table in tables]
    if code not in map(_code, held) and not await _claim_table(store, scope, tables, mine):
        raise _full(place, at)
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


def _full(place: Restaurant, at: ClockTime) -> ToolRefused:
    return ToolRefused("conflict", f"{place.name} has no table left at {at}; try another time")


async def _claim_table(store: Store, scope: str, tables: list[str], mine: bytes) -> bool:
    """Claim the first free table; return false if all are taken."""
    for table in tables:
        held, new = await store.claim(scope, table, mine, seconds=KEPT)
        # Another process may have made the same booking just now.
        if new or _code(held) == _code(mine):
            return True
    return False


def _code(held: bytes | None) -> str:
    """Return the confirmation of the booking that holds a table; empty for a free one."""
    return "" if held is None else _booking.decode(held).confirmation


def confirmation(caller: str, asked: BookingsCreate, at: ClockTime) -> str:
    """Return the confirmation code: the same for the same booking."""
    written = canonical([caller, asked.place_id, str(at), asked.party_size, asked.name])
    return "BK-" + b32encode(blake2b(written, digest_size=5).digest()).decode()


BOOKINGS_CREATE = RegisteredTool(
    "bookings.create",
    "Book a table at a place that places.search has found, at a time when it is open.",
    schema_of(BookingsCreate),
    _run,
    idempotent=True,  # it uses the key of its context
)
