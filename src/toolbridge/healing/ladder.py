"""The healing ladder: strict JSON, then syntax, then schema, then guesses.

Each level changes more than the one before, and every change is reported. Text that is cut off is
read as far as it goes and marked `cut`; such arguments may be shown, but must not be run.
"""

import json
from collections.abc import Mapping, Sequence

import msgspec

from toolbridge.core.json import Json, JsonObject, dumps, replace_lone_surrogates
from toolbridge.core.messages import Step
from toolbridge.healing import steps
from toolbridge.healing.coercion import ENVELOPE, Coercion, Path
from toolbridge.healing.names import plain
from toolbridge.healing.reading import (
    TolerantReading,
    brief,
    clip,
    decode,
    finite,
    grows,
    read_decoded,
    read_text,
    take_reader,
)
from toolbridge.healing.schema import Schema, required_of
from toolbridge.healing.syntax import TolerantReader
from toolbridge.healing.tokens import QUOTED_KEY

WRAPPERS = (
    "arguments", "parameters", "args", "input", "properties", "params", "kwargs", "tool_input",
    "tool_args", "toolinput", "function_args", "function_arguments", "arguments_json",
)  # fmt: skip
_WHOLE_CALLS = {"function", "function_call", "tool_call", "tool_use", "call", "tool_calls"}


class Healing(msgspec.Struct, frozen=True):
    """The healed arguments: the value, the highest level that was needed, and the steps."""

    value: JsonObject
    level: int = 0
    steps: tuple[Step, ...] = ()
    cut: bool = False
    """The text ends inside a value. The arguments are incomplete and must not be run."""
    open: bool = False
    """Brackets are missing at the end. Complete only if the model ended by itself."""

    @property
    def hopeless(self) -> bool:
        return any(step.what == steps.UNREADABLE for step in self.steps)


def heal(
    arguments: object, schema: JsonObject | None = None, *, level: int = 2, words: bool = True
) -> Healing:
    """Return the arguments as an object that fits `schema`, with the steps.

    `level` is the highest level allowed: 0 strict JSON only, 1 syntax, 2 by `schema`, 3 guesses.
    With `words`, plain text becomes the value of the only string parameter; pass False before
    anything is run, as the gateway does, so that prose is never run as a command.
    Unreadable arguments become `{"raw": …}`.
    """
    rules = Schema(schema or {})
    if isinstance(arguments, dict):
        return Ladder("", rules, level, words=words).heal_object(arguments)
    text = arguments if isinstance(arguments, str) else dumps(arguments)
    if not text.isascii():
        text = replace_lone_surrogates(text)
    return Ladder(text, rules, level, words=words).heal_text()


class Ladder:
    """Heals one text, or one object, by one schema."""

    __slots__ = (
        "_base", "_cut", "_known", "_level", "_open", "_rules", "_schema", "_steps", "_text",
        "_words",
    )  # fmt: skip

    def __init__(self, text: str, rules: Schema, level: int, *, words: bool) -> None:
        self._text = text
        self._words = words
        """Whether a text may become the value of the only string parameter."""
        self._schema = rules.root
        self._level = level
        self._rules = rules
        self._base: Path = ()
        self._known: frozenset[str] | None = None
        self._steps: list[Step] = []
        self._cut = False
        self._open = False

    def heal_text(self) -> Healing:
        text = self._text
        decoded = decode(text)
        if isinstance(decoded, dict):
            return self.heal_object(decoded)
        if self._level == 0:
            return self._hopeless() if text.strip() else Healing({})
        reading = read_decoded(decoded, text, self._names)
        self._steps, self._cut, self._open = reading.steps, reading.cut, reading.open
        if self._level < 2 and any(level > 1 for _, level, _ in reading.notes):
            return self._hopeless()
        if reading.guessed and self._misread(reading):
            return self._hopeless()
        if reading.doubtful:
            if self._level < 3:
                return self._hopeless()
            self._steps.append(Step(steps.GUESS, 3, clip(self._text), ""))
        value = self._as_object(reading.value) if reading.found else self._as_text()
        if value is None:
            return self._hopeless()
        healing = self.heal_object(value)
        return self._hopeless() if _is_words_in_braces(healing.steps) else healing

    def heal_object(self, value: JsonObject) -> Healing:
        """Convert an object to the schema."""
        if self._schema and self._level >= 2:
            value = self._align(value)
        if not self._steps:
            return Healing(value, 0, (), self._cut, self._open)
        level = 0
        for step in self._steps:
            level = max(level, step.level)
            if step.what == steps.NOT_FINITE:
                clean = finite(value)
                value = clean if isinstance(clean, dict) else value
        return Healing(value, level, tuple(self._steps), self._cut, self._open)

    def heal_resumed(self, reader: TolerantReader) -> Healing:
        """Heal the rest of an object; its first members were sent already and stay unchanged."""
        reading = TolerantReading()
        first = reader.docs[0] if reader.docs else None
        if reader.hopeless or not isinstance(first, dict):
            return self._hopeless()
        take_reader(reader, reading)
        self._steps, self._cut, self._open = reading.steps, reading.cut, reading.open
        if (reading.guessed and self._misread(reading)) or (reading.doubtful and self._level < 3):
            return self._hopeless()
        more = reading.value if isinstance(reading.value, dict) else {}
        return self.heal_object({**more, **first})

    def _misread(self, reading: TolerantReading) -> bool:
        """Whether an undeclared key shows that a quote was interpreted wrongly."""
        if not self._schema or not isinstance(reading.value, dict):
            return False
        names = {plain(name) for name in self._names()}
        return bool(names) and any(plain(key) not in names for key in reading.value)

    def _read(self, text: str) -> TolerantReading:
        return read_text(text, self._names)

    def _names(self) -> frozenset[str]:
        """Return the names that may be keys; those of wrappers only if the first key is undeclared."""
        if self._known is None:
            found = self._rules.all_names()
            first = QUOTED_KEY.search(self._text[:128])
            wrapped = bool(found) and first is not None and first.group(1) not in found
            self._known = found | _WRAPPER_KEYS if wrapped else found
        return self._known

    def _hopeless(self) -> Healing:
        step = Step(steps.UNREADABLE, 0, clip(self._text), "")
        return Healing({"raw": self._text}, 0, (step,), self._cut, self._open)

    # Values other than objects.

    def _as_object(self, value: Json) -> JsonObject | None:
        if isinstance(value, dict):
            return value
        if value is None or value in ("", []):
            self._add_step(steps.EMPTY, value, {}, level=1)
            return {}
        if isinstance(value, list):
            objects = [item for item in value if isinstance(item, dict)]
            if len(objects) == len(value):
                return self._one_of(objects)
        if self._level < 2:
            return None
        if isinstance(value, list) and len(value) > 1:
            return self._by_position(value)
        if isinstance(value, list):
            value = value[0]
        return self._as_parameter(value)

    def _one_of(self, objects: list[JsonObject]) -> JsonObject:
        chosen = objects[0]
        for other in objects[1:]:
            chosen = other if grows(chosen, other) else chosen
        self._add_step(
            steps.OUT_OF_LIST, list(objects), chosen, level=1 if len(objects) == 1 else 2
        )
        return chosen

    def _by_position(self, values: list[Json]) -> JsonObject | None:
        """Assign the values of a list to the required parameters, if there are as many."""
        members = self._rules.members(self._schema)
        names = required_of(self._schema) or list(members)
        if len(names) != len(values):
            return None
        pairs = dict(zip(names, values, strict=True))
        if not all(self._rules.fits(pairs[name], members.get(name, True)) for name in names):
            return None
        self._add_step(steps.BY_POSITION, values, pairs)
        return pairs

    def _as_parameter(self, value: Json) -> JsonObject | None:
        """Assign a single value to the only parameter, or to the only required one."""
        members = self._rules.members(self._schema)
        required = required_of(self._schema)
        name = (
            next(iter(members)) if len(members) == 1 else required[0] if len(required) == 1 else ""
        )
        if name not in members:
            return None
        coercion = self._coercion()
        healed = coercion.coerce(value, members[name])
        if isinstance(healed, str) and not self._words:
            return None  # PX-27: text that names no parameter is not assigned to one
        if not self._rules.fits(healed, members[name]):
            return None
        self._add_step(steps.ONLY_PARAMETER, value, {name: healed})
        return {name: healed}

    def _as_text(self) -> JsonObject | None:
        """Assign text that is not JSON to the tool's only string parameter."""
        text = self._text.strip()
        if not text:
            return {}
        if self._level < 2 or not self._schema or text[0] in "{[<" or '{"' in text:
            return None
        word = text.strip("()").lower()
        if word in {"none", "null", "undefined", "nil", ""}:
            self._add_step(steps.EMPTY, text, {}, level=1)
            return {}
        self._open = True
        return self._as_parameter(text)

    # Objects that do not fit the schema.

    def _align(self, value: JsonObject) -> JsonObject:
        try:
            bare = _AROUND.isdisjoint(value)
            if bare and self._rules.fits(value, self._schema):
                return value
            found = self._maybe_unwrapped(value)
            if not (bare and found is value) and self._rules.fits(found, self._schema):
                return found
            value = found
            coercion = self._coercion()
            healed = coercion.convert(value, self._schema)
        except RecursionError:
            return value
        self._steps = self._steps + coercion.steps
        self._cut |= coercion.cut
        return healed if isinstance(healed, dict) else value

    def _maybe_unwrapped(self, value: JsonObject) -> JsonObject:
        """Return the arguments inside a wrapper, if no key of `value` is a parameter."""
        members = self._rules.members(self._schema)
        if not members or not value or not (members.keys() & value.keys()) <= ENVELOPE:
            return value
        return self._unwrap(value, members)

    def _coercion(self) -> Coercion:
        return Coercion(self._rules, self._read, self._written, level=self._level)

    def _unwrap(self, value: JsonObject, members: Mapping[str, Json]) -> JsonObject:
        """Remove objects around the arguments: the whole call, or a key such as `parameters`.

        vLLM removes the same wrappers for DeepSeek (`_unwrap_wrapper_args`).
        """
        for _ in range(4):
            found = self._wrapped(value, frozenset(plain(name) for name in members))
            if found is None:
                break
            key, inner = found
            self._add_step(f"{steps.WRAPPER}: {key}", value, inner)
            self._base = (*self._base, key)
            value = inner
        return value

    def _wrapped(self, value: JsonObject, names: frozenset[str]) -> tuple[str, JsonObject] | None:
        members = self._rules.members(self._schema)
        others = {key for key in value if key.lower() not in ENVELOPE}
        if len(others) > 1:
            return None
        for key, member in value.items():
            known = key.lower() in WRAPPERS or key.lower() in _WHOLE_CALLS
            if key in members or others - {key} or not (known or len(value) == 1):
                continue
            inner = self._maybe_object(member)
            if inner is not None and self._holds(inner, names, known=known):
                return key, inner
        return None

    def _holds(self, inner: JsonObject, names: frozenset[str], *, known: bool) -> bool:
        """Whether `inner` contains parameters of the schema, or another wrapper."""
        declared = [plain(key) in names for key in inner]
        if not known:
            required = {plain(name) for name in required_of(self._schema)}
            return bool(declared) and all(declared) and required <= {plain(key) for key in inner}
        if not inner:
            return not required_of(self._schema)
        return any(declared) or any(key.lower() in WRAPPERS for key in inner)

    def _maybe_object(self, member: Json) -> JsonObject | None:
        if isinstance(member, list) and len(member) == 1:
            member = member[0]
        if isinstance(member, str) and member.lstrip()[:1] in ("{", "\\", '"'):
            reading = self._read(member)
            self._cut |= reading.cut or reading.open
            member = reading.value if reading.found else None
        return member if isinstance(member, dict) else None

    def _written(self, path: Path) -> str | None:
        """Return the original text of the number at `path`, or None."""
        try:
            found: Json = json.loads(self._text, parse_float=str, parse_int=str)
        except (ValueError, RecursionError):
            reader = TolerantReader(self._text, self._names, verbatim=True)
            found = reader.docs[0] if reader.read() and reader.docs else None
        for step in (*self._base, *path):
            if isinstance(found, dict) and isinstance(step, str):
                found = found.get(step)
            elif isinstance(found, list) and isinstance(step, int) and step < len(found):
                found = found[step]
            else:
                return None
        return found if isinstance(found, str) else None

    def _add_step(self, what: str, before: Json, after: Json, *, level: int = 2) -> None:
        self._steps = [*self._steps, Step(what, level, brief(before), brief(after))]


_AROUND = frozenset(WRAPPERS) | _WHOLE_CALLS
_WRAPPER_KEYS = frozenset(WRAPPERS) | ENVELOPE


def _is_words_in_braces(done: Sequence[Step]) -> bool:
    """Whether words in braces became a key and a value, as in `{sudo rm -rf /}`; that is refused."""
    names = {step.what.partition(":")[0] for step in done}
    return {steps.MISSING_COLON, steps.KEY} <= names
