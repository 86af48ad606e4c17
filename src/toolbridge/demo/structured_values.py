"""Generates values that fit a schema: from known members, from the prompt, or minimal ones."""

from collections.abc import Iterator
from itertools import islice

from toolbridge.core.errors import ToolbridgeError
from toolbridge.core.json import Json, JsonObject
from toolbridge.demo.facts import PromptFacts
from toolbridge.demo.fill import Filler, fill
from toolbridge.demo.structured_reading import BrokenFrame, SchemaForm
from toolbridge.healing.reading import read_text
from toolbridge.structured.minimal import NoMinimal, minimal
from toolbridge.structured.read_value import arguments_schema
from toolbridge.structured.schemas import Compiled, compile_schema

_MOST_KNOWN = 64
_MOST_TRIES = 64


class NoValue(ValueError):
    """No fitting value was found."""


def value_of(form: SchemaForm, filler: Filler, known: JsonObject) -> Json:
    """Return a value of `form` with the members of `known` that fit; raise `NoValue`."""
    compiled = _compiled(form.schema)
    value = _least(compiled, filler)
    return _Overlay(compiled, known).laid_on(value)


def arguments_of(form: SchemaForm, given: JsonObject, filler: Filler) -> JsonObject | None:
    """Return `given` as arguments of the tool, corrected where they do not fit, or None."""
    schema = arguments_schema(form.schema)
    try:
        compiled = _compiled(schema)
        if compiled.fits(given):
            return given
        value = value_of(SchemaForm(form.name, schema), filler, given)
    except NoValue:
        return None
    return value if isinstance(value, dict) else None


def corrected(broken: BrokenFrame) -> Json:
    """Return the corrected value of a broken frame: its fitting members, and the missing ones."""
    compiled = _compiled(broken.form.schema)
    written = read_text(broken.written).value
    if compiled.fits(written):
        return written
    own = written if isinstance(written, dict) else {}
    value = _Overlay(compiled, known_in(own)).laid_on(_least(compiled, Filler(PromptFacts(""))))
    return _kept(value, own, compiled)


def known_in(value: Json) -> JsonObject:
    """Return all members inside `value` by name; the first of each name is used."""
    known: JsonObject = {}
    for name, member in islice(_members(value), _MOST_KNOWN):
        known.setdefault(name, member)
    return known


def _members(value: Json) -> Iterator[tuple[str, Json]]:
    if isinstance(value, dict):
        yield from value.items()
        for member in value.values():
            yield from _members(member)
    elif isinstance(value, list):
        for item in value:
            yield from _members(item)


def _compiled(schema: JsonObject) -> Compiled:
    try:
        return compile_schema(schema)
    except ToolbridgeError as error:
        raise NoValue(str(error)) from None


def _least(compiled: Compiled, filler: Filler) -> Json:
    """Return a value from the prompt; a minimal one if that does not fit."""
    value = fill(compiled.schema, filler)
    if compiled.fits(value):
        return value
    try:
        return minimal(compiled.schema, compiled.fits)
    except NoMinimal as error:
        raise NoValue(str(error)) from None


def _kept(value: Json, own: JsonObject, compiled: Compiled) -> Json:
    """Return `value` with the members that were valid as written."""
    properties = compiled.schema.get("properties")
    if not isinstance(value, dict) or not isinstance(properties, dict):
        return value
    for name in own.keys() & properties.keys():
        with_it = {**value, name: own[name]}
        value = with_it if compiled.fits(with_it) else value
    return value


class _Overlay:
    """Sets known members in a value, one by one, if the whole still fits."""

    def __init__(self, compiled: Compiled, known: JsonObject) -> None:
        self._compiled = compiled
        self._known = known
        self._left = _MOST_TRIES

    def laid_on(self, value: Json) -> Json:
        if not isinstance(value, dict):
            return value
        whole = dict(value)
        self._lay(whole, whole)
        return whole

    def _lay(self, members: JsonObject, whole: JsonObject) -> None:
        for name, old in list(members.items()):
            self._left -= 1
            if self._left < 0:
                return
            if name in self._known:
                members[name] = self._known[name]
                if self._compiled.fits(whole):
                    continue
                members[name] = old
            if isinstance(old, dict):
                inner = members[name] = dict(old)
                self._lay(inner, whole)
