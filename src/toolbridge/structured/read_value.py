"""A frame's text as a value: as it was written, or healed as far as that is no guess.

A value that had to be closed because the text broke off is marked. An object may be closed where
the model itself wrote the frame's end; arguments of a tool may never be.
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
"""The boldest healing: by the schema, never by guesses."""
_MAX_CHANGES = 16
_EXACT = 2.0**53
_MAX_WORDS = 200


class ReadValue(msgspec.Struct, frozen=True):
    """What came of a text. `value` counts only where there are no flaws."""

    value: Json = None
    flaws: tuple[Flaw, ...] = ()
    changes: tuple[Change, ...] = ()
    cut: bool = False
    """The text ends inside a value."""
    open: bool = False
    """Brackets are missing at the end."""

    @property
    def as_written(self) -> bool:
        return not self.flaws and not self.changes

    @property
    def closed(self) -> bool:
        """Whether it fits and nothing was added at its end."""
        return not (self.flaws or self.cut or self.open)


def read_value(text: str, compiled: Compiled, *, arguments: bool = False) -> ReadValue:
    """Read a frame's text; only `arguments` may be left out, or be one bare value but words."""
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
    """Return the value that was meant; None when nothing better than the text was found."""
    healing = heal(text, compiled.schema, level=LEVEL, words=words)
    if not healing.hopeless and compiled.fits(healing.value):
        return ReadValue(
            healing.value, (), _changes(healing.steps), cut=healing.cut, open=healing.open
        )
    # Any value but an object is read without its schema, which `heal` takes for an object's.
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
    """Read what a model answered when it was asked for one value alone."""
    body = _inside_frame(text, limits)
    if len(body.encode("utf-8", "surrogatepass")) > most:
        return ReadValue(flaws=(Flaw(".", f"is longer than {most} bytes"),))
    mended = read_value(body, compiled)
    if not mended.flaws and depth_of(mended.value) > limits.depth:
        return ReadValue(flaws=(Flaw(".", f"is nested more than {limits.depth} deep"),))
    return mended


def _inside_frame(text: str, limits: Limits) -> str:
    """Return the body of the first frame in `text`, or all of it when there is none."""
    if OPENING not in text:
        return text
    grammar = Grammar(limits)
    pieces = grammar.feed(text) + grammar.close()
    bodies = [piece for piece in pieces if isinstance(piece, FrameText)]
    if not bodies:
        return text
    return "".join(body.chunk for body in bodies if body.id == bodies[0].id)


def whole_numbers(value: Json) -> Json:
    """Return `value` with 3 for 3.0: to JSON they are one number, to a tool in Python they are not."""
    if isinstance(value, dict):
        return {key: whole_numbers(member) for key, member in value.items()}
    if isinstance(value, list):
        return [whole_numbers(item) for item in value]
    if isinstance(value, float) and value.is_integer() and abs(value) <= _EXACT:
        return int(value)
    return value


def arguments_schema(parameters: JsonObject) -> JsonObject:
    """Return the schema of a tool's arguments, which are an object whatever else they are."""
    return (
        parameters
        if "type" in parameters or "$ref" in parameters
        else {"type": "object", **parameters}
    )


def _words(text: str) -> str:
    return text if len(text) <= _MAX_WORDS else f"{text[:_MAX_WORDS]}…"
