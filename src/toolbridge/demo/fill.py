"""Generates values for a schema, from the prompt where possible.

The result respects types, enumerations, ranges, lengths, required properties, references and
alternatives.
"""

import re

import msgspec

from toolbridge.core.json import Json, JsonObject
from toolbridge.demo.facts import PromptFacts

_DEEPEST = 12
_LARGEST = 2**53
"""Larger numbers are not exact in JSON, so larger bounds are ignored."""


class Filler(msgspec.Struct, frozen=True):
    """The sources of values."""

    facts: PromptFacts
    say: str = ""
    """The text for properties that take an answer in prose."""
    fallback: str = "demo"
    """The text for properties without a value in the prompt."""
    prefer: tuple[str, ...] = ()
    """Preferred members of enumerations."""


def fill(schema: JsonObject, filler: Filler, name: str = "") -> Json:
    """Return a value that fits `schema`."""
    return _value(name, schema, filler, _Root(schema))


def maybe_from_prompt(name: str, schema: JsonObject, facts: PromptFacts, used: int = 0) -> Json:
    """Return the value in the prompt for the property `name`, or None.

    `used` is the number of the prompt's numbers that other properties have used.
    """
    kind = _kind(schema)
    if kind in {"number", "integer"}:
        whole = kind == "integer"
        fitting = [n for n in facts.numbers[used:] if _bounded(n, schema, whole=whole) == n]
        return _number(fitting[0], whole=whole) if fitting else None
    options = _strings(schema.get("enum"))
    if options:
        return _mentioned(options, facts.words) or None
    if kind == "string":
        text = _hinted(name, schema, facts)
        return _fit(text, schema) or None if text else None  # padding alone is not a value
    return None


class _Root:
    """The schema that references point into, and the current depth."""

    def __init__(self, schema: JsonObject, depth: int = 0) -> None:
        self.schema = schema
        self.depth = depth

    def deeper(self) -> "_Root":
        return _Root(self.schema, self.depth + 1)

    def resolve(self, schema: JsonObject) -> JsonObject:
        reference = schema.get("$ref")
        if not isinstance(reference, str) or not reference.startswith("#/"):
            return schema
        found: Json = self.schema
        for step in reference[2:].split("/"):
            key = step.replace("~1", "/").replace("~0", "~")
            found = found.get(key) if isinstance(found, dict) else None
        return found if isinstance(found, dict) else {}


def _value(name: str, schema: Json, filler: Filler, root: _Root) -> Json:
    shape = _one_shape(schema, root)
    if "const" in shape:
        return shape["const"]
    options = shape.get("enum")
    if isinstance(options, list) and options:
        return _option(options, filler)
    match _kind(shape):
        case "object":
            return _object(shape, filler, root)
        case "array":
            return _array(name, shape, filler, root)
        case "boolean":
            return shape.get("default") is True
        case "integer" | "number" as kind:
            return _numeric(shape, filler.facts, whole=kind == "integer")
        case "null":
            return None
        case _:
            return _text(name, shape, filler)


def _one_shape(schema: Json, root: _Root) -> JsonObject:
    """Return `schema` with its references resolved and one of its alternatives chosen."""
    shape = schema if isinstance(schema, dict) else {}
    for _ in range(_DEEPEST):
        resolved = root.resolve(shape)
        if resolved is not shape:
            shape = resolved
            continue
        parts = _schemas(shape.get("allOf"))
        choices = _schemas(shape.get("anyOf")) or _schemas(shape.get("oneOf"))
        if not parts and not choices:
            break
        shape = {k: v for k, v in shape.items() if k not in {"allOf", "anyOf", "oneOf"}}
        for part in [*parts, *[c for c in choices if _kind(root.resolve(c)) != "null"][:1]]:
            shape = _merged(shape, root.resolve(part))
    return shape


def _merged(one: JsonObject, other: JsonObject) -> JsonObject:
    merged = {**one, **other}
    ours, theirs = one.get("properties"), other.get("properties")
    if isinstance(ours, dict) and isinstance(theirs, dict):
        merged["properties"] = {**ours, **theirs}
    ask, more = one.get("required"), other.get("required")
    if isinstance(ask, list) and isinstance(more, list):
        merged["required"] = [*ask, *more]
    return merged


def _object(shape: JsonObject, filler: Filler, root: _Root) -> JsonObject:
    properties = shape.get("properties")
    known = properties if isinstance(properties, dict) else {}
    required = shape.get("required")
    wanted = _strings(required) if isinstance(required, list) else list(known)
    if root.depth >= _DEEPEST:
        return {}
    if not isinstance(required, list) and root.depth > 1:
        wanted = []
    inner = root.deeper()
    return {key: _value(key, known.get(key), filler, inner) for key in wanted}


def _array(name: str, shape: JsonObject, filler: Filler, root: _Root) -> list[Json]:
    least = min(_int(shape.get("minItems"), 1), 32)
    most = _int(shape.get("maxItems"), 32)
    if root.depth >= _DEEPEST or most < 1:
        return []
    items = shape.get("items")
    first = _value(_singular(name), items, filler, root.deeper())
    return [first] + [_another(first, count) for count in range(2, least + 1)]


def _another(first: Json, count: int) -> Json:
    """Return a value like `first` that differs from it, for lists with `uniqueItems`."""
    if isinstance(first, bool):
        return first
    if isinstance(first, str):
        return f"{first} {count}"
    return first + count - 1 if isinstance(first, int | float) else first


def _option(options: list[Json], filler: Filler) -> Json:
    preferred = [option for option in options if option in filler.prefer]
    if preferred:
        return preferred[0]
    return _mentioned(_strings(options), filler.facts.words) or options[0]


def _mentioned(options: list[str], words: str) -> str:
    def is_said(option: str) -> bool:
        return bool(re.search(rf"(?<!\w){re.escape(option)}(?!\w)", words, re.IGNORECASE))

    return next((option for option in options if option and is_said(option)), "")


def _numeric(shape: JsonObject, facts: PromptFacts, *, whole: bool) -> int | float:
    default = shape.get("default")
    wanted = facts.numbers[0] if facts.numbers else default
    known = _float(wanted)
    return _number(_bounded(1.0 if known is None else known, shape, whole=whole), whole=whole)


def _bounded(value: float, shape: JsonObject, *, whole: bool) -> float:
    step = 1.0 if whole else 0.5
    value = float(round(value)) if whole else value
    low, high = _float(shape.get("minimum")), _float(shape.get("maximum"))
    above, below = _float(shape.get("exclusiveMinimum")), _float(shape.get("exclusiveMaximum"))
    if high is not None:
        value = min(value, high)
    if below is not None and value >= below:
        value = below - step
    if low is not None:
        value = max(value, low)
    if above is not None and value <= above:
        value = above + step
    multiple = _float(shape.get("multipleOf"))
    if not multiple or abs(value / multiple) > _LARGEST:
        return value
    return round(value / multiple) * multiple or multiple


def _number(value: float, *, whole: bool) -> int | float:
    return int(value) if whole or value.is_integer() else value


def _text(name: str, shape: JsonObject, filler: Filler) -> str:
    default = shape.get("default")
    known = _hinted(name, shape, filler.facts)
    if not known and isinstance(default, str):
        known = default
    if not known:
        known = _FORMATS.get(str(shape.get("format")), "") or _spoken(name, filler)
    return _fit(known, shape)


def _fit(text: str, shape: JsonObject) -> str:
    least, most = (
        max(0, min(_int(shape.get("minLength"), 0), 10_000)),
        _int(shape.get("maxLength"), 10_000),
    )
    return text.ljust(least, ".")[: max(most, 0)] if text or least else text


_FORMATS = {
    "date": "2026-01-01",
    "date-time": "2026-01-01T00:00:00Z",
    "time": "00:00:00Z",
    "email": "demo@example.com",
    "uri": "https://example.com",
    "url": "https://example.com",
    "uuid": "00000000-0000-4000-8000-000000000000",
    "ipv4": "127.0.0.1",
    "ipv6": "::1",
    "hostname": "example.com",
    "duration": "PT1M",
}
_PLACES = (
    "city",
    "location",
    "place",
    "town",
    "country",
    "region",
    "destination",
    "origin",
    "where",
)
_WAYS = {
    "from": ("origin", "from", "source", "departure", "fromcity", "start"),
    "to": ("destination", "to", "arrival", "tocity", "end"),
}
_SUBJECTS = ("query", "question", "search", "keyword", "topic", "term", "q", "subject", "pattern")
_PERSONS = ("name", "person", "user", "author", "title", "company", "symbol", "ticker", "recipient")
_SPOKEN = ("description", "explanation", "reason", "justification", "summary", "answer", "response",
           "message", "text", "content", "result", "output", "reply", "title", "comment")  # fmt: skip


def _hinted(name: str, shape: JsonObject, facts: PromptFacts) -> str:
    """Return the value in the prompt for a property of this name."""
    key = name.lower().replace("_", "").replace("-", "")
    kind = str(shape.get("format"))
    if "url" in key or "uri" in key or kind in {"uri", "url"}:
        return facts.url
    if "email" in key or kind == "email":
        return facts.email
    if "date" in key or kind == "date":
        return facts.date
    if "path" in key or "file" in key:
        return facts.path
    for word, keys in _WAYS.items():
        if key in keys and facts.name_after(word):
            return facts.name_after(word)
    if key.endswith(_PLACES):
        return next(iter(facts.names), "") or facts.about
    if key.endswith(_SUBJECTS):
        return next(iter(facts.quoted), "") or facts.about or facts.words
    if key.endswith(_PERSONS):
        return next(iter([*facts.quoted, *facts.names]), "")
    return "" if key.endswith(_SPOKEN) or key == "command" else next(iter(facts.quoted), "")


def _spoken(name: str, filler: Filler) -> str:
    key = name.lower().replace("_", "")
    if key.endswith(_PLACES):
        return "Paris"
    if key.endswith(_SPOKEN) and filler.say:
        return filler.say
    return filler.fallback


def _kind(schema: JsonObject) -> str:
    """Return the type of `schema`; Gemini writes it in capitals, others give several."""
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = next((k for k in kind if k != "null"), "null")
    if isinstance(kind, str):
        return kind.lower()
    if "properties" in schema:
        return "object"
    return "array" if "items" in schema else "string"


def _singular(name: str) -> str:
    return name.removesuffix("s")


def _schemas(value: Json) -> list[JsonObject]:
    return [v for v in value if isinstance(v, dict)] if isinstance(value, list) else []


def _strings(value: Json) -> list[str]:
    return [v for v in value if isinstance(v, str)] if isinstance(value, list) else []


def _int(value: Json, otherwise: int) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else otherwise


def _float(value: Json) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or abs(value) > _LARGEST:
        return None
    return float(value)
