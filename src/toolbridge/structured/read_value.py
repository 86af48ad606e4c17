"""Reads a frame's text as a JSON value, healed where that involves no guessing.

A value whose closing brackets had to be added is marked. For an object they may be added if the model
wrote the frame's end; for tool arguments never.
"""

import msgspec

from toolbridge.core.json import Json, JsonObject, loads
from toolbridge.core.messages import Step
from toolbridge.healing import heal
from toolbridge.healing.reading import read_text
from toolbridge.healing.steps import READ_AS_JSON
from toolbridge.structured.bounds import depth_of
from toolbridge.structured.events import Change
from toolbridge.structured.flaws import Flaw
from toolbridge.structured.grammar import Grammar
from toolbridge.structured.limits import Limits
from toolbridge.structured.pieces import FrameText
from toolbridge.structured.schemas import Compiled
from toolbridge.structured.sentinels import OPENING

LEVEL = 2
"""The highest healing level used here: by the schema, without guesses."""
_MAX_CHANGES = 16
_EXACT = 2.0**53
_MAX_WORDS = 200


class ReadValue(msgspec.Struct, frozen=True):
    """The value read from a text; usable only if there are no flaws."""

    value: Json = None
    flaws: tuple[Flaw, ...] = ()
    changes: tuple[Change, ...] = ()
    cut: bool = False
    """The text ends inside a value."""
    open: bool = False
    """Brackets are missing at the end."""

    @property
    def closed(self) -> bool:
        """Whether it fits and no closing bracket was added."""
        return not (self.flaws or self.cut or self.open)


def read_value(text: str, compiled: Compiled, *, arguments: bool = False) -> ReadValue:
    """Read a frame's text; `arguments` may also be empty or a single bare value, but not prose."""
    try:
        value = loads(text)
    except ValueError as error:
        first = ReadValue(flaws=(Flaw(".", f"is not JSON: {_words(str(error))}"),))
    else:
        flaws = compiled.flaws(value)
        if not flaws:
            return ReadValue(value)
        first = ReadValue(value, flaws)
    if not arguments and not any(bracket in text for bracket in "{["):
        return first
    healed = _healed(text, compiled, words=not arguments)
    return first if healed is None else healed


def _healed(text: str, compiled: Compiled, *, words: bool) -> ReadValue | None:
    """Return the healed value; None if healing found no better one."""
    healing = heal(text, compiled.schema, level=LEVEL, words=words)
    if not healing.hopeless and compiled.fits(healing.value):
        return ReadValue(
            healing.value, (), _changes(healing.steps), cut=healing.cut, open=healing.open
        )
    # `heal` expects the schema of an object, so other values are read without a schema.
    reading = read_text(text)
    if reading.found and not reading.doubtful and compiled.fits(reading.value):
        steps = tuple(reading.steps)
        return ReadValue(reading.value, (), _changes(steps), cut=reading.cut, open=reading.open)
    if healing.hopeless or not healing.steps:
        return None
    return ReadValue(
        healing.value, compiled.flaws(healing.value), cut=healing.cut, open=healing.open
    )


def _changes(steps: tuple[Step, ...]) -> tuple[Change, ...]:
    found: list[Change] = []
    for step in steps[:_MAX_CHANGES]:
        what, _, path = step.what.partition(": ")
        found.append(Change(what, step.level, path))
    return tuple(found) or (Change(READ_AS_JSON, 1),)


def read_repair(text: str, compiled: Compiled, limits: Limits, most: int) -> ReadValue:
    """Read a model's answer to a repair request."""
    body = _inside_frame(text, limits)
    if len(body.encode("utf-8", "surrogatepass")) > most:
        return ReadValue(flaws=(Flaw(".", f"is longer than {most} bytes"),))
    read = read_value(body, compiled)
    if not read.flaws and depth_of(read.value) > limits.depth:
        return ReadValue(flaws=(Flaw(".", f"is nested more than {limits.depth} deep"),))
    return read


def _inside_frame(text: str, limits: Limits) -> str:
    """Return the body of the first frame in `text`; the whole text if it has no frame."""
    if OPENING not in text:
        return text
    grammar = Grammar(limits)
    pieces = grammar.feed(text) + grammar.close()
    bodies = [piece for piece in pieces if isinstance(piece, FrameText)]
    if not bodies:
        return text
    return "".join(body.chunk for body in bodies if body.id == bodies[0].id)


def whole_numbers(value: Json) -> Json:
    """Return `value` with 3 for 3.0: equal in JSON, but not to a Python tool."""
    if isinstance(value, dict):
        return {key: whole_numbers(member) for key, member in value.items()}
    if isinstance(value, list):
        return [whole_numbers(item) for item in value]
    if isinstance(value, float) and value.is_integer() and abs(value) <= _EXACT:
        return int(value)
    return value


def arguments_schema(parameters: JsonObject) -> JsonObject:
    """Return the schema of a tool's arguments, which are always an object."""
    return (
        parameters
        if "type" in parameters or "$ref" in parameters
        else {"type": "object", **parameters}
    )


def _words(text: str) -> str:
    return text if len(text) <= _MAX_WORDS else f"{text[:_MAX_WORDS]}…"
