"""Values that fit their schema in any case: from what is known, then from the words, else the least."""

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
    """Nothing was found that fits."""


def value_of(form: SchemaForm, filler: Filler, known: JsonObject) -> Json:
    """Return a value of `form` with members of `known` where they fit; raise `NoValue`."""
    compiled = _compiled(form.schema)
    value = _least(compiled, filler)
    return _Overlay(compiled, known).laid_on(value)


def arguments_of(form: SchemaForm, given: JsonObject, filler: Filler) -> JsonObject | None:
    """Return `given` as arguments of the tool, mended where they do not fit; None if none do."""
    schema = arguments_schema(form.schema)
    try:
        compiled = _compiled(schema)
        if compiled.fits(given):
            return given
        value = value_of(SchemaForm(form.name, schema), filler, given)
    except NoValue:
        return None
    return value if isinstance(value, dict) else None


def mended(broken: BrokenFrame) -> Json:
    """Return what a broken frame should have said: all of it that fits, and what is missing."""
    compiled = _compiled(broken.form.schema)
    written = read_text(broken.written).value
    if compiled.fits(written):
        return written
    own = written if isinstance(written, dict) else {}
    value = _Overlay(compiled, known_in(own)).laid_on(_least(compiled, Filler(PromptFacts(""))))
    return _kept(value, own, compiled)


def known_in(value: Json) -> JsonObject:
    """Return the members of `value` and of all that is in it, by name; the first of a name counts."""
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
    """Return a value from the words; one without words where that does not fit."""
    value = fill(compiled.schema, filler)
    if compiled.fits(value):
        return value
    try:
        return minimal(compiled.schema, compiled.fits)
    except NoMinimal as error:
        raise NoValue(str(error)) from None


def _kept(value: Json, own: JsonObject, compiled: Compiled) -> Json:
    """Return `value` with the members that were right as they were written."""
    properties = compiled.schema.get("properties")
    if not isinstance(value, dict) or not isinstance(properties, dict):
        return value
    for name in own.keys() & properties.keys():
        with_it = {**value, name: own[name]}
        value = with_it if compiled.fits(with_it) else value
    return value


class _Overlay:
    """Puts what is known into a value, member by member, as long as the whole still fits."""

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
