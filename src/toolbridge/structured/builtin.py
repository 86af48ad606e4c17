"""`AssistantReply`: the one schema that every structured stream knows by name.

It is the default schema of a result. It is defined twice: here as a struct, for Python, and in
`shapes/` as JSON Schema, which the model and other languages read. A test checks that both accept
the same values.
"""

from importlib.resources import files

import msgspec

from toolbridge.core.json import JsonObject, maybe_object


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


STRUCTS: dict[str, type[msgspec.Struct]] = {
    "AssistantReply": AssistantReply,
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
