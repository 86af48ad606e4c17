"""The sample tools of the demonstration: find a restaurant in a fixed town, and book a table.

`places.search` and `bookings.create` give the same answers on every machine, so the demonstration,
the documentation and the tests can rely on them. `runs.catalog` adds them, with their schemas, to
streams that the demo model answers, to streams of the profile `demo`, and to every stream where the
setting `stream.demo` is true. No other stream loads this package.
"""

from toolbridge.demo.restaurant.bookings import BOOKINGS_CREATE
from toolbridge.demo.restaurant.places import PLACES_SEARCH
from toolbridge.demo.restaurant.schemas import SCHEMAS

__all__ = ["SCHEMAS", "TOOLS"]

TOOLS = (PLACES_SEARCH, BOOKINGS_CREATE)
