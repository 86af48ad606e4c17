"""The restaurant demonstration: find a restaurant and book a table in a structured stream."""

import re

import msgspec

from toolbridge.core.json import Json, JsonObject
from toolbridge.demo.structured_reading import CalledTool, StructuredPrompt

SEARCH = "places.search"
BOOK = "bookings.create"
_LOOK = re.compile(
    r"\b(?:find|search(?: for)?|look(?:ing)? for|show me|get me|where is|i want|book|reserve)\b"
    r"(?: me| us)?(?: an?| the| some| any| good| table (?:at|in|for))* ([^.;,!?\n]{1,120})",
    re.IGNORECASE,
)
_WHERE = re.compile(
    r"\s(?:near|nearby|around|close to|within|for|at|tonight|tomorrow|today|and|that|which|open)\b.*",
    re.IGNORECASE | re.DOTALL,
)
_WISH = re.compile(
    r"\b(?:near|nearby|restaurant|place|eat|dinner|lunch|table|food|drink|cafe|bar)", re.IGNORECASE
)
_BOOKING = re.compile(r"\b(?:book|reserve|reservation|booking)\b", re.IGNORECASE)
_CLOCK = re.compile(
    r"\b(\d{1,2})(?::(\d{2}))? ?(am|pm)\b|\b([01]?\d|2[0-3]):([0-5]\d)\b", re.IGNORECASE
)
_PARTY = re.compile(
    r"\b(?:for|of) (\d{1,2}|two|three|four|five|six|seven|eight)\b(?! ?(?:am|pm|:|o'clock))",
    re.IGNORECASE,
)
_NUMBERS = {"two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8}
_MOST_TRIES = 3
_LARGEST_PARTY = 20


class Wish(msgspec.Struct, frozen=True):
    """The user's request: the query, the time, the party, and whether to book a table."""

    query: str
    at: str = ""
    party: int = 2
    books: bool = False


def maybe_wish(asked: StructuredPrompt) -> Wish | None:
    """Return the user's request if the restaurant tools are offered, or None."""
    words = asked.words
    if asked.tool(SEARCH) is None or not (_WISH.search(words) or _BOOKING.search(words)):
        return None
    looked = _LOOK.search(words)
    query = _WHERE.sub("", looked[1]).strip() if looked else ""
    books = asked.tool(BOOK) is not None and _BOOKING.search(words) is not None
    return Wish((query or "restaurant")[:200], clock_in(words), _party(words), books)


def clock_in(words: str) -> str:
    """Return the time of day in `words` as HH:MM; empty without one."""
    for found in _CLOCK.finditer(words):
        if found[4]:
            return f"{int(found[4]):02d}:{found[5]}"
        hour, minute = int(found[1]), int(found[2] or 0)
        if 1 <= hour <= 12 and minute < 60:
            return f"{hour % 12 + 12 * (found[3].lower() == 'pm'):02d}:{minute:02d}"
    return ""


def _party(words: str) -> int:
    found = _PARTY.search(words)
    if found is None:
        return 2
    said = found[1].lower()
    return max(1, min(_NUMBERS.get(said) or int(said), _LARGEST_PARTY))


class Evening(msgspec.Struct, frozen=True):
    """The state of the request after the calls so far."""

    wish: Wish
    found: tuple[JsonObject, ...] | None = None
    """The restaurants found; None before the search."""
    tried: tuple[str, ...] = ()
    """The ids of the restaurants where booking was tried."""
    booking: JsonObject = {}
    trouble: str = ""

    @property
    def choice(self) -> JsonObject | None:
        """The restaurant to try next: open at the time, and not tried before."""
        if len(self.tried) >= _MOST_TRIES:
            return None
        fitting = (place for place in self.found or () if is_open(place, self.wish.at))
        return next((place for place in fitting if str(place.get("id")) not in self.tried), None)


def read_evening(wish: Wish, called: tuple[CalledTool, ...]) -> Evening:
    """Return the state after the calls so far."""
    evening = Evening(wish)
    for call in called:
        if call.name == SEARCH:
            places = () if call.failed else tuple(_objects(call.result))
            evening = msgspec.structs.replace(evening, found=places, trouble=_message(call))
        elif call.name == BOOK:
            tried = (*evening.tried, str(call.arguments.get("place_id")))
            booking = call.result if isinstance(call.result, dict) and not call.failed else {}
            evening = msgspec.structs.replace(
                evening, tried=tried, booking=booking, trouble=_message(call)
            )
    return evening


def _objects(value: Json) -> list[JsonObject]:
    return [v for v in value if isinstance(v, dict)] if isinstance(value, list) else []


def _message(call: CalledTool) -> str:
    error = call.result.get("error") if isinstance(call.result, dict) else None
    return str(error.get("message", "")) if isinstance(error, dict) else ""


def is_open(place: JsonObject, at: str) -> bool:
    """Whether a restaurant is open at `at`; times of the form HH:MM compare as strings."""
    opens, closes = str(place.get("opens", "00:00")), str(place.get("closes", "24:00"))
    if not at:
        return True
    return opens <= at < closes if opens < closes else at >= opens or at < closes


def search_arguments(wish: Wish) -> JsonObject:
    given: JsonObject = {"query": wish.query}
    return {**given, "open_at": wish.at} if wish.at else given


def book_arguments(wish: Wish, place: JsonObject) -> JsonObject:
    return {"place_id": str(place.get("id")), "time": wish.at, "party_size": wish.party}


def conclusion(evening: Evening) -> tuple[str, list[str]]:
    """Return the final text, and the ids of the restaurants that it cites."""
    wish, booking = evening.wish, evening.booking
    if booking:
        text = (
            f"Booked: {booking.get('place')}, {booking.get('address')}, at {booking.get('time')}"
            f" for {booking.get('party_size')}. Your confirmation is {booking.get('confirmation')}."
        )
        return text, [str(booking.get("place_id"))]
    places = evening.found or ()
    if not places:
        why = f": {evening.trouble}" if evening.trouble else "."
        return f"I found no {wish.query} nearby{why}", []
    names = ", ".join(str(place.get("name")) for place in places[:3])
    ids = [str(place.get("id")) for place in places[:3]]
    if not wish.books:
        return f"These are near you: {names}.", ids
    if not wish.at:
        return f"These are near you: {names}. Tell me a time, and I book a table.", ids
    why = evening.trouble or f"none of them is open at {wish.at}"
    return f"I found {names}, but no table is booked: {why}.", ids
