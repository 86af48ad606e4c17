"""
The ladder: strict, then syntax, then schema, then guesses; each rung says what it changed.

Text that is cut off is read as far as it goes, and marked: its value may be looked at, but whoever
runs calls refuses it.
"""

import json
from collections.abc import Callable

import msgspec

from toolbridge.core.json import Json, JsonObject, dumps
from toolbridge.core.messages import Step
from toolbridge.healing.coercion import ENVELOPE, Coercion, Path
from toolbridge.healing.names import plain
from toolbridge.healing.reading import Reading, clip, grows, read_text
from toolbridge.healing.schema import Schema, required_of, type_names

WRAPPERS = (
    "arguments", "parameters", "args", "input", "properties", "params", "kwargs", "tool_input",
    "tool_args", "toolinput", "function_args", "function_arguments", "arguments_json",
)  # fmt: skip
_WHOLE_CALLS = {"function", "function_call", "tool_call", "tool_use", "call", "tool_calls"}


class Healing(msgspec.Struct, frozen=True):
    """What came of the arguments: the value, the boldest level that was needed, and each step."""

    value: JsonObject
    level: int = 0
    steps: tuple[Step, ...] = ()
    cut: bool = False
    """The text ends inside a value. The value is all there is of it; nobody may run it."""
    open: bool = False
    """Brackets are missing at the end. Whole only if the model ended by itself."""

    @property
    def hopeless(self) -> bool:
        return any(step.what == HOPELESS for step in self.steps)


HOPELESS = "hopeless"


def heal(arguments: object, schema: JsonObject | None = None, *, level: int = 2) -> Healing:
    """
    Return the arguments that a model meant, as an object.

    `level` is the boldest step allowed: 0 strict JSON only, 1 syntax, 2 by `schema`, 3 guesses.
    What cannot be read becomes `{"raw": …}`.
    """
    if isinstance(arguments, dict):
        return _align(arguments, schema, level, None)
    if not isinstance(arguments, str):
        text = dumps(arguments)
        return heal(text, schema, level=level)
    rules = Schema(schema or {})
    keys: frozenset[str] = frozenset()
    reading = read_text(arguments, keys, tolerant=False)
    if level >= 1 and not _sound(reading):
        keys = frozenset(rules.names(schema or {})) | _WRAPPER_KEYS if schema else keys
        reading = read_text(arguments, keys)
    ...
    return Healing({})
