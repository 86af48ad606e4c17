"""Converts values to the types that a JSON Schema asks for.

Models write `"3"` for 3, `"yes"` for true, one string for a list of strings, and nested objects as
strings (freellmapi#193, kimi-cli#2513). Only values that do not fit are changed, and only in form:
nothing is invented, so a null that is not allowed is removed and not replaced by 0.
"""

import json
from collections import Counter
from collections.abc import Callable

from toolbridge.core.json import Json, JsonObject, dumps
from toolbridge.core.messages import Step
from toolbridge.healing import steps, tokens
from toolbridge.healing.names import contradicts, heal_choice, heal_key
from toolbridge.healing.reading import TolerantReading, brief
from toolbridge.healing.schema import (
    MAX_VISITS,
    Schema,
    choices_of,
    is_plain,
    required_of,
    type_names,
)

_TRUE = {"true", "yes", "on", "1"}
_FALSE = {"false", "no", "off", "0"}
_NULL_WORDS = {"null", "none", "nil", "undefined"}
_NUMBERS = (int, float)
_HOLDERS = (dict, list)
_SIMPLE = frozenset({"anyOf", "oneOf", "allOf"})
Path = tuple[str | int, ...]
_CONVERTED = {
    "string": steps.TO_STRING,
    "integer": steps.TO_INTEGER,
    "number": steps.TO_NUMBER,
    "boolean": steps.TO_BOOLEAN,
    "null": steps.TO_NULL,
}


class Coercion:
    """One pass over a value.

    `read` parses nested JSON text; `written` returns the original text of a number.
    """

    __slots__ = ("_level", "_read", "_schema", "_written", "cut", "steps")

    def __init__(
        self,
        schema: Schema,
        read: Callable[[str], TolerantReading],
        written: Callable[[Path], str | None],
        *,
        level: int = 2,
    ) -> None:
        self._schema = schema
        self._read = read
        self._written = written
        self._level = level
        self.steps: list[Step] = []
        self.cut = False

    def coerce(self, value: Json, schema: Json, path: Path = ()) -> Json:
        """Return `value` converted to `schema`, as far as that is possible."""
        return value if self._schema.fits(value, schema) else self.convert(value, schema, path)

    def convert(self, value: Json, schema: Json, path: Path = ()) -> Json:
        """Convert a value that does not fit `schema`."""
        if self._schema.visits > MAX_VISITS:
            return value
        rule = self._schema.resolve(schema)
        if _SIMPLE.isdisjoint(rule) and isinstance(name := rule.get("type"), str):
            return self._to_type(value, rule, name.lower(), path)
        parts = rule.get("allOf")
        if isinstance(parts, list):
            for part in parts:
                value = self.coerce(value, part, path)
        options = self._schema.options(rule)
        if options:
            value = self._choose(value, [*options], path)
        names = type_names(rule) or _guess_types(rule)
        if not names:
            return self._to_choice(value, rule, path)
        return self._choose_type(value, rule, names, path)

    def _choose(self, value: Json, options: list[Json], path: Path) -> Json:
        """Return `value` converted to the option of a union that needs the fewest steps."""
        best: tuple[int, Json, list[Step]] | None = None
        before, cut = self.steps, self.cut
        for option in options:
            self.steps = []
            tried = self.coerce(value, option, path)
            if self._schema.fits(tried, option) and (best is None or len(self.steps) < best[0]):
                best = (len(self.steps), tried, self.steps)
        self.steps = before
        if best is None:
            self.cut = cut
            return value
        self.steps = before + best[2]
        return best[1]

    def _choose_type(
        self, value: Json, rule: JsonObject, names: tuple[str, ...], path: Path
    ) -> Json:
        if len(names) == 1:
            return self._to_type(value, rule, names[0], path)
        options: list[Json] = [{**rule, "type": name} for name in names]
        return self._choose(value, options, path)

    def _to_type(self, value: Json, rule: JsonObject, name: str, path: Path) -> Json:
        match name:
            case "object":
                return self._to_object(value, rule, path)
            case "array":
                return self._to_array(value, rule, path)
            case _:
                return self._to_scalar(value, rule, name, path)

    # Objects.

    def _to_object(self, value: Json, rule: JsonObject, path: Path) -> Json:
        if isinstance(value, str):
            inner = self._read_nested(value, dict, path)
            return value if inner is None else self.coerce(inner, rule, path)
        if isinstance(value, list) and len(value) == 1 and isinstance(value[0], dict):
            self._add_step(steps.OUT_OF_LIST, path, value, value[0])
            return self.coerce(value[0], rule, path)
        if not isinstance(value, dict):
            return value
        members = self._schema.members(rule)
        if not value.keys() <= members.keys():
            value = self._rename(value, rule, path)
        more = rule.get("additionalProperties")
        healed: JsonObject = {}
        for key, member in value.items():
            wanted = members.get(key, more if isinstance(more, dict) else None)
            if is_plain(member, wanted):
                healed[key] = member
                continue
            if self._leave_out(key, member, wanted, rule, path):
                continue
            healed[key] = member if wanted is None else self.coerce(member, wanted, (*path, key))
        return healed

    def _leave_out(
        self, key: str, member: Json, wanted: Json, rule: JsonObject, path: Path
    ) -> bool:
        if wanted is None:
            if self._level < 3 or rule.get("additionalProperties") is not False:
                return False
            if key in self._schema.members(rule):
                return False
            self._add_step(steps.UNKNOWN_KEY, (*path, key), member, None, level=3)
            return True
        if not (member is None or (isinstance(member, str) and _is_null_word(member))):
            return False
        if key in required_of(rule) or self._schema.fits(member, wanted):
            return False
        if self._schema.fits(None, wanted) or self._may_be_text(member, wanted):
            return False
        self._add_step(steps.NULL_REMOVED, (*path, key), member, None)
        return True

    def _may_be_text(self, member: Json, wanted: Json) -> bool:
        """Whether a word such as "none" is an enum value or a string here, not null (vllm#39567)."""
        if not isinstance(member, str):
            return False
        rule = self._schema.resolve(wanted)
        choices = choices_of(rule)
        if choices is not None:
            return heal_choice(member, choices) is not None
        return "string" in type_names(rule)

    def _rename(self, value: JsonObject, rule: JsonObject, path: Path) -> JsonObject:
        """Rename undeclared keys to the parameter that they mean, where exactly one fits."""
        members = self._schema.members(rule)
        undeclared = [key for key in value if key not in members]
        if not undeclared or not members or self._schema.fits(value, rule):
            return value
        free = [name for name in members if name not in value]
        meant = {key: name for key in undeclared if (name := heal_key(key, free)) is not None}
        only = self._only_match(value, rule, [key for key in undeclared if key not in meant], meant)
        meant.update(only)
        twice = {name for name, times in Counter(meant.values()).items() if times > 1}
        renamed: JsonObject = {}
        for key, member in value.items():
            name = meant.get(key, key)
            name = key if name in twice else name
            if name != key:
                self.steps.append(Step(_at(steps.KEY, path), 2, key, name))
            renamed[name] = member
        return renamed

    def _only_match(
        self, value: JsonObject, rule: JsonObject, undeclared: list[str], meant: dict[str, str]
    ) -> dict[str, str]:
        """Match the only undeclared key with the only missing parameter, if name and value fit.

        Not `raw`: toolbridge and other gateways return unreadable arguments under it (PX-27).
        """
        taken = set(meant.values())
        missing = [n for n in required_of(rule) if n not in value and n not in taken]
        if len(undeclared) != 1 or len(missing) != 1 or undeclared[0] in {*ENVELOPE, "raw"}:
            return {}
        if contradicts(undeclared[0], missing[0]):
            return {}
        wanted = self._schema.members(rule).get(missing[0])
        if wanted is None or not self._schema.fits(value[undeclared[0]], wanted):
            return {}
        return {undeclared[0]: missing[0]}

    # Arrays.

    def _to_array(self, value: Json, rule: JsonObject, path: Path) -> Json:
        items = rule.get("items", True)
        if isinstance(value, list):
            return [self.coerce(item, items, (*path, at)) for at, item in enumerate(value)]
        if isinstance(value, str):
            inner = self._read_nested(value, list, path)
            if inner is not None:
                return self.coerce(inner, rule, path)
        if value is None:
            return value
        if isinstance(value, dict) and len(value) == 1:
            only = next(iter(value.values()))
            if isinstance(only, list) and not self._schema.fits(value, items):
                self._add_step(steps.OUT_OF_OBJECT, path, value, only)
                return self.coerce(only, rule, path)
        item = self.coerce(value, items, path)
        if not self._schema.fits(item, items):
            return value
        self._add_step(steps.WRAPPED, path, value, [item])
        return [item]

    # Scalars.

    def _to_scalar(self, value: Json, rule: JsonObject, name: str, path: Path) -> Json:
        if isinstance(value, list) and len(value) == 1 and not isinstance(value[0], _HOLDERS):
            healed = self._scalar(value[0], name, (*path, 0))
        elif isinstance(value, dict) and (inner := _only_inner(value, path)) is not None:
            healed = self._scalar(inner, name, path)
        else:
            healed = self._scalar(value, name, path)
        chosen = self._choice(healed, rule)
        if not self._schema.fits(
            chosen, rule if rule.get("type") == name else {**rule, "type": name}
        ):
            return value
        what = steps.CHOICE if healed is value else _CONVERTED.get(name, steps.CHOICE)
        self._add_step(what, path, value, chosen)
        return chosen

    def _scalar(self, value: Json, name: str, path: Path) -> Json:
        match name:
            case "string":
                return self._to_string(value, path)
            case "integer" | "number":
                return _to_number(value, name)
            case "boolean":
                return _to_boolean(value)
            case "null" if isinstance(value, str) and _is_null_word(value):
                return None
            case _:
                return value

    def _to_string(self, value: Json, path: Path) -> Json:
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, _NUMBERS):
            # 1.10 is another version than 1.1, so the number keeps the model's spelling.
            return self._written(path) or dumps(value)
        if isinstance(value, dict) or (isinstance(value, list) and not _all_text(value)):
            return json.dumps(value, ensure_ascii=False)
        return value

    def _to_choice(self, value: Json, rule: JsonObject, path: Path) -> Json:
        healed = self._choice(value, rule)
        if healed is not value:
            self._add_step(steps.CHOICE, path, value, healed)
        return healed

    def _choice(self, value: Json, rule: JsonObject) -> Json:
        choices = choices_of(rule)
        if choices is None or value in choices:
            return value
        if isinstance(value, str):
            found = heal_choice(value, choices)
            if found is not None:
                return found
            return next((c for c in choices if not isinstance(c, str) and dumps(c) == value), value)
        return next((c for c in choices if isinstance(c, str) and c == dumps(value)), value)

    def _read_nested(self, text: str, kind: type, path: Path) -> Json:
        """Return the object or list in `text`, or None."""
        if text.lstrip()[:1] not in {"{", "[", "(", '"', "`", "\\", "'"}:
            return None
        reading = self._read(text)
        if not reading.found or reading.doubtful or not isinstance(reading.value, _HOLDERS):
            return None
        if kind is dict and not isinstance(reading.value, dict):
            return None
        self.cut |= reading.cut or reading.open
        self._add_step(steps.NESTED_JSON, path, text, reading.value)
        self.steps += reading.steps
        return reading.value

    def _add_step(
        self, what: str, path: Path, before: Json, after: Json, *, level: int = 2
    ) -> None:
        shown = "" if after is None else brief(after)
        self.steps.append(Step(_at(what, path), level, brief(before), shown))


ENVELOPE = {
    "name", "tool", "tool_name", "toolname", "function", "function_name", "type", "id", "call_id",
    "tool_call_id", "recipient_name", "index", "action",
}  # fmt: skip
"""Keys beside the arguments when a model writes the whole call into them."""


def _is_null_word(text: str) -> bool:
    return len(text) < 16 and text.strip().lower() in _NULL_WORDS


def _at(what: str, path: Path) -> str:
    return f"{what}: {'.'.join(map(str, path))}" if path else what


def _guess_types(rule: JsonObject) -> tuple[str, ...]:
    if "properties" in rule:
        return ("object",)
    return ("array",) if "items" in rule else ()


def _only_inner(value: JsonObject, path: Path) -> Json:
    """Return the scalar in an object that repeats the key: 1 for `{"a": {"a": 1}}`."""
    name, inner = next(iter(value.items()), ("", None))
    repeats = len(value) == 1 and path and name in {path[-1], "value"}
    return inner if repeats and not isinstance(inner, _HOLDERS) else None


def _all_text(value: list[Json]) -> bool:
    return all(isinstance(item, str) for item in value)


def _to_number(value: Json, name: str) -> Json:
    number: Json = value
    if isinstance(value, str):
        bare = value.strip()
        if len(bare) > 64 or not tokens.NUMBER.fullmatch(bare):
            return value
        number = tokens.number(bare)
    if isinstance(number, float) and name == "integer" and number.is_integer():
        return int(number)
    return number


def _to_boolean(value: Json) -> Json:
    if isinstance(value, _NUMBERS) and not isinstance(value, bool) and value in (0, 1):
        return bool(value)
    if isinstance(value, str):
        word = value.strip().lower()
        if word in _TRUE or word in _FALSE:
            return word in _TRUE
    return value
