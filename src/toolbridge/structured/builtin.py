"""The schemas that every stream knows by name: an action, the reply, and two tools' arguments.

Each stands here as a struct, for Python, and in `shapes/` as JSON Schema, for everybody else; a test
holds that both give the same verdict.
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
    """What the assistant is about to do."""

    mode: Literal["search", "book"]
    target: PlaceShape | Time


class ValidatorError(msgspec.Struct, frozen=True):
    path: str
    message: str


class Diagnostics(msgspec.Struct, frozen=True, omit_defaults=True):
    error: str
    last_validator_errors: tuple[ValidatorError, ...] = ()


class AssistantReply(msgspec.Struct, frozen=True, omit_defaults=True):
    """The final answer."""

    answer: str
    citations: tuple[str, ...]
    diagnostics: Diagnostics | None = None


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
    "AssistantReply": AssistantReply,
    "places.search": PlacesSearch,
    "bookings.create": BookingsCreate,
}


def _read(name: str) -> JsonObject:
    text = files("toolbridge.structured").joinpath("shapes", f"{name}.json").read_text("utf-8")
    return maybe_object(text) or {}


SCHEMAS: dict[str, JsonObject] = {name: _read(name) for name in STRUCTS}

DIAGNOSTICS = "diagnostics"
"""The member of `AssistantReply` that toolbridge writes; the model neither sees nor writes it."""


def _without_diagnostics(schema: JsonObject) -> JsonObject:
    members = schema["properties"]
    known = members.items() if isinstance(members, dict) else ()
    return {**schema, "properties": {name: of for name, of in known if name != DIAGNOSTICS}}


_REPLY = SCHEMAS["AssistantReply"]
_SHOWN_REPLY = _without_diagnostics(_REPLY)


def shown_schema(schema: JsonObject) -> JsonObject:
    """Return a schema as the model sees it: `AssistantReply` without its `diagnostics`."""
    return _SHOWN_REPLY if schema == _REPLY else schema
