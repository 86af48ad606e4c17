"""Matches a prompt to tools that it does not name: "weather in Paris?" and `get_weather`.

A tool is called only if its name or its purpose is in the prompt, and the prompt has a value for
every required argument. A guess could run something that the user did not ask for.
"""

import re

from toolbridge.core.json import Json, JsonObject
from toolbridge.core.messages import Call, Tool
from toolbridge.demo.facts import PromptFacts
from toolbridge.demo.fill import Filler, fill, maybe_from_prompt
from toolbridge.demo.offer import OfferedTools, name_tokens, properties_of, required_of
from toolbridge.demo.tools import forced

_MOST_CALLS = 4
_LIMITED = {"boolean", "integer", "number"}
_PLAIN_WORDS = (
    "get fetch find search query lookup look list show current the a an of for by to do run call use"
    " create make set add update send check tool api data info details what with from in on and or is"
    " are this that given returns return about"
)
_STEERING_WORDS = (
    "agent agents task skill workflow todo todos todowrite plan goal topic wakeup memory mode output"
    " stdin placeholder findings edit replace patch write bash input"
)
_PLAIN = frozenset(_PLAIN_WORDS.split())
_STEERING = frozenset(_STEERING_WORDS.split())
_NAMED = re.compile(
    r"\b(?:use|call|invoke|using|run|try) (?:the |your )?(?:tool |function )?[`'\"]?([\w.-]{2,128})",
    re.IGNORECASE,
)


def named_tool(words: str, kit: OfferedTools) -> Tool | None:
    """Return the tool that the words name: "call get_time", "use the Read tool"."""
    said = {name.rstrip(".").lower() for name in _NAMED.findall(words)}
    return next((tool for tool in kit.tools if tool.name.lower() in said), None)


def matching_calls(words: str, kit: OfferedTools) -> list[Call]:
    """Return the calls that the words ask for, one for each name in them."""
    facts = PromptFacts(words)
    named = named_tool(words, kit)
    if named is not None:
        return calls_of(named, words)
    scored = [(_score(tool, facts), tool) for tool in kit.tools]
    best = max((points for points, _ in scored), default=0)
    for points, tool in scored:
        if points == best and best > 0:
            return _filled(tool, facts)
    return []


def calls_of(tool: Tool, words: str) -> list[Call]:
    """Return calls of `tool` with the values in the words; always at least one."""
    return _filled(tool, PromptFacts(words)) or [forced(tool, words)]


def _score(tool: Tool, facts: PromptFacts) -> int:
    tokens = name_tokens(tool.name)
    if not tokens or _STEERING & set(tokens):
        return 0
    said = _stems(facts.words)
    telling = {_stem(token) for token in tokens} - _PLAIN
    if telling and telling <= said:
        return 10 + len(telling)
    if not telling and facts.words.lower().startswith(tokens[0]):
        return 8
    if facts.url and any("url" in name.lower() for name in required_of(tool)):
        return 7
    return _purpose_score(tool, facts, said, telling)


def _purpose_score(tool: Tool, facts: PromptFacts, said: set[str], telling: set[str]) -> int:
    """Count the words that the tool's first sentence and the prompt share, if that is significant."""
    purpose = _stems(re.split(r"[.\n]", tool.description[:200])[0])
    shared = {word for word in purpose & said if len(word) > 3} - _PLAIN
    if len(shared) >= 2 or shared & telling:
        return len(shared)
    places = [maybe_from_prompt(n, s, facts) for n, s in _required_shapes(tool).items()]
    is_about_name = bool(places) and all(place in facts.names for place in places)
    return 1 if is_about_name and any(len(word) > 5 for word in shared) else 0


def _required_shapes(tool: Tool) -> dict[str, JsonObject]:
    shapes = properties_of(tool)
    return {name: shapes.get(name, {}) for name in required_of(tool)}


def _stems(text: str) -> set[str]:
    return {_stem(word) for word in re.findall(r"[a-z]+", text.lower())}


def _stem(word: str) -> str:
    return word[:-1] if word.endswith("s") and len(word) > 3 else word


def _filled(tool: Tool, facts: PromptFacts) -> list[Call]:
    """Return calls of `tool` with the values in the words; empty if required values are missing."""
    if tool.freeform:
        return []
    values: JsonObject = {}
    numbers = 0
    for name, shape in _required_shapes(tool).items():
        value = maybe_from_prompt(name, shape, facts, numbers)
        numbers += isinstance(value, int | float)
        if _says_nothing(value, tool) and not _is_harmless(shape):
            return []
        values[name] = fill(shape, Filler(facts), name) if value is None else value
    values |= _mentioned_options(tool, facts)
    if not required_of(tool):
        values |= _optional(tool, facts)
    return [Call("", tool.name, each) for each in _spread(values, facts)]


def _says_nothing(value: Json, tool: Tool) -> bool:
    """Whether `value` is missing or only repeats the tool's name: "about weather"."""
    return value is None or (isinstance(value, str) and _stem(value) in name_tokens(tool.name))


def _is_harmless(shape: JsonObject) -> bool:
    """Whether any value is acceptable, because the schema limits it."""
    return bool(shape.get("enum")) or str(shape.get("type")).lower() in _LIMITED


def _mentioned_options(tool: Tool, facts: PromptFacts) -> JsonObject:
    """Return the optional choices that the words make: "in celsius"."""
    found: JsonObject = {}
    for name, shape in properties_of(tool).items():
        if shape.get("enum") and name not in required_of(tool):
            value = maybe_from_prompt(name, shape, facts)
            found |= {name: value} if value is not None else {}
    return found


def _optional(tool: Tool, facts: PromptFacts) -> JsonObject:
    """Return the first optional string with a value in the words, for tools without required ones."""
    for name, shape in properties_of(tool).items():
        value: Json = maybe_from_prompt(name, shape, facts) if facts.names or facts.quoted else None
        if isinstance(value, str) and not shape.get("enum"):
            return {name: value}
    return {}


def _spread(values: JsonObject, facts: PromptFacts) -> list[JsonObject]:
    """Return one set of arguments for each name in a list of names."""
    for group in facts.groups:
        for key, value in values.items():
            if len(group) > 1 and value == group[0]:
                return [{**values, key: name} for name in group[:_MOST_CALLS]]
    return [values]
