"""The schemas of the restaurant demonstration: an `Action`, and the arguments of its two tools.

Each is defined twice: here as a struct, for Python, and in `shapes/` as JSON Schema, which the model
and other languages read. A test checks that both accept the same values.
"""

from importlib.resources import files
from typing import Annotated, Literal, TypeAlias

import msgspec
from msgspec import Meta

from toolbridge.core.json import JsonObject, maybe_object

CLOCK = r"^([0-9]{4}-[0-9]{2}-[0-9]{2}[T ])?([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9])?(?![\s\S])"
"""A time of day on the 24-hour clock, with a date before it or without.

`$` stands before a last line end too in Python, and only at the end in JSON Schema; this ending
means the same to both.
"""

Clock: TypeAlias = Annotated[
    str,
    Meta(
        pattern=CLOCK,
        description="24-hour clock, HH:MM, or a date and time, YYYY-MM-DDTHH:MM",
        examples=["19:00", "2030-05-01T19:00"],
    ),
]


class PlaceShape(msgspec.Struct, frozen=True, tag_field="kind", tag="place"):
    id: str


class Time(msgspec.Struct, frozen=True, tag_field="kind", tag="time"):
    at: str


class Action(msgspec.Struct, frozen=True):
    """The step that the assistant takes next."""

    mode: Literal["search", "book"]
    target: PlaceShape | Time


class PlacesSearch(msgspec.Struct, frozen=True):
    """Find places to eat and drink nearby."""

    query: Annotated[str, Meta(min_length=1, max_length=200, description="what is looked for")]
    radius_km: Annotated[float, Meta(gt=0, le=50)] = 5.0
    open_at: Clock | None = None
    limit: Annotated[int, Meta(ge=1, le=20)] = 5


class BookingsCreate(msgspec.Struct, frozen=True):
    """Book a table at a place that a search has found."""

    place_id: Annotated[str, Meta(min_length=1, max_length=64)]
    time: Clock
    party_size: Annotated[int, Meta(ge=1, le=20)] = 2
    name: Annotated[str, Meta(min_length=1, max_length=100)] = "Guest"


STRUCTS: dict[str, type[msgspec.Struct]] = {
    "Action": Action,
    "places.search": PlacesSearch,
    "bookings.create": BookingsCreate,
}


def _read(name: str) -> JsonObject:
    text = files("toolbridge.demo.restaurant").joinpath("shapes", f"{name}.json").read_text("utf-8")
    return maybe_object(text) or {}


SCHEMAS: dict[str, JsonObject] = {name: _read(name) for name in STRUCTS}
