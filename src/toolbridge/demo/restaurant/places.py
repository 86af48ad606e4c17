"""`places.search`: a search in a fixed list of restaurants (`places.json`)."""

import re
from functools import cache
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec

from toolbridge.core.json import Json, JsonObject
from toolbridge.demo.restaurant.clock import ClockTime, minutes, moment_of
from toolbridge.demo.restaurant.schemas import PlacesSearch
from toolbridge.tools.context import ToolContext
from toolbridge.tools.functions import schema_of
from toolbridge.tools.registry import RegisteredTool
from toolbridge.tools.structs import read_arguments

Day: TypeAlias = Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
DAYS: tuple[Day, ...] = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")

_WORD = re.compile(r"\w+")
_EMPTY = frozenset(
    {
        "a", "an", "and", "any", "around", "at", "best", "book", "find", "for", "good", "i", "in",
        "is", "it", "me", "my", "near", "nearby", "now", "of", "on", "open", "or", "place", "please",
        "restaurant", "some", "somewhere", "spot", "table", "that", "the", "to", "tonight", "want",
        "where", "with",
    }
)  # fmt: skip
"""Query terms that are ignored."""


class Restaurant(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    id: str
    name: str
    kind: str
    tags: tuple[str, ...]
    address: str
    distance_km: float
    rating: float
    opens: str
    closes: str
    """Earlier than `opens` if it is after midnight."""
    closed_on: tuple[Day, ...]
    tables: int
    """How many parties fit at the same time."""
    largest: int
    """The most people at one table."""
    taken: tuple[str, ...]
    """Times at which it is always full."""

    def is_open(self, at: ClockTime) -> bool:
        opens, closes = minutes(self.opens), minutes(self.closes)
        late = closes <= opens
        after_midnight = late and at.minute < closes
        within = after_midnight or opens <= at.minute < (24 * 60 if late else closes)
        if at.weekday is None:
            return within
        # Hours after midnight belong to the day before.
        day = DAYS[(at.weekday - after_midnight) % 7]
        return within and day not in self.closed_on

    def as_result(self) -> JsonObject:
        """Return the restaurant as a search result."""
        return {
            "id": self.id,
            "name": self.name,
            "kind": self.kind,
            "tags": list(self.tags),
            "address": self.address,
            "distance_km": self.distance_km,
            "rating": self.rating,
            "opens": self.opens,
            "closes": self.closes,
            "closed_on": list(self.closed_on),
        }


@cache
def town() -> dict[str, Restaurant]:
    """Return all restaurants by id."""
    written = Path(__file__).with_name("places.json").read_bytes()
    return {place.id: place for place in msgspec.json.decode(written, type=list[Restaurant])}


def search(asked: PlacesSearch) -> list[Json]:
    """Return the matching restaurants: best match first, then nearest."""
    at = None if asked.open_at is None else moment_of(asked.open_at, "open_at")
    words = _words(asked.query) - _EMPTY
    found = [
        (-score, place.distance_km, place.id, place)
        for place in town().values()
        if place.distance_km <= asked.radius_km
        and (score := _score(place, words)) > 0
        and (at is None or place.is_open(at))
    ]
    return [
        place.as_result() for *_, place in sorted(found, key=lambda row: row[:3])[: asked.limit]
    ]


def _score(place: Restaurant, words: set[str]) -> int:
    """Return how many of `words` match the restaurant; 1 for every restaurant without words."""
    known = _words(" ".join((place.name, place.kind, *place.tags)))
    return len(words & known) if words else 1


def _words(text: str) -> set[str]:
    """Split `text` into lower-case, singular words: "pizzas" gives "pizza"."""
    found = _WORD.findall(text.casefold())
    return {word.removesuffix("s") if len(word) > 3 else word for word in found}


async def _run(arguments: JsonObject, _context: ToolContext) -> list[Json]:
    return search(read_arguments(arguments, PlacesSearch))


PLACES_SEARCH = RegisteredTool(
    "places.search",
    "Find places to eat and drink nearby, the best fit first. Gives ids for bookings.create.",
    schema_of(PlacesSearch),
    _run,
    idempotent=True,
)
