"""Finds deferred tools: by words (BM25), or by a regular expression.

Anthropic, tool search tool: both search names, descriptions, argument names and argument
descriptions. The order is deterministic: equal scores keep the order of the tools.

BM25 (Robertson and Zaragoza, 2009) weighs rare words more than frequent ones. The words in the name
of a tool count several times, because people name a tool when they search for it.
"""

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence

from toolbridge.core.json import Json
from toolbridge.core.messages import Tool
from toolbridge.core.server_tools import ServerToolError
from toolbridge.policy.linear_search import LinearPattern
from toolbridge.policy.pattern_syntax import PatternRefused

_NAME, _TEXT = 3, 1
"""How often a word counts in the name, and everywhere else."""
_SATURATION = 1.2
_LENGTH = 0.75
_LONGEST = 20_000
"""Characters of one tool that are searched."""
_QUERY = 500
_DEEPEST = 8
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+|[^\W\d_A-Za-z]+")


def rank_tools(tools: Sequence[Tool], query: str, *, most: int = 5) -> tuple[str, ...]:
    """Return the names of the tools that fit `query` best, the best first."""
    documents = [_weighed(tool) for tool in tools]
    frequency = Counter(word for document in documents for word in document)
    lengths = [sum(document.values()) for document in documents]
    mean = sum(lengths) / len(lengths) if lengths else 1.0
    wanted = dict.fromkeys(_words(query[:_QUERY]))
    scores = [
        sum(
            _score(document[word], frequency[word], len(tools), length / (mean or 1.0))
            for word in wanted
            if word in document
        )
        for document, length in zip(documents, lengths, strict=True)
    ]
    order = sorted(range(len(tools)), key=lambda at: -scores[at])
    return tuple(tools[at].name for at in order[:most] if scores[at] > 0)


def match_tools(
    tools: Sequence[Tool], pattern: str, *, most: int = 5
) -> tuple[str, ...] | ServerToolError:
    """Return the names of the tools that a regular expression matches, as with `re.search`.

    Tools whose name matches come first. The time is linear for every pattern (`linear_search`).
    """
    try:
        wanted = LinearPattern(pattern)
    except PatternRefused as error:
        return ServerToolError("invalid_tool_input", str(error))
    by_name = [tool for tool in tools if wanted.found_in(tool.name)]
    found = dict.fromkeys(tool.name for tool in by_name)
    for tool in tools:
        if len(found) >= most:
            break
        if tool.name not in found and any(map(wanted.found_in, _texts(tool))):
            found[tool.name] = None
    return tuple(found)[:most]


def _score(count: int, documents: int, total: int, length: float) -> float:
    rarity = math.log(1 + (total - documents + 0.5) / (documents + 0.5))
    damped = _SATURATION * (1 - _LENGTH + _LENGTH * length)
    return rarity * count * (_SATURATION + 1) / (count + damped)


def _weighed(tool: Tool) -> Counter[str]:
    found = Counter[str]()
    for word in _words(tool.name[:_LONGEST]):
        found[word] += _NAME
    for text in _texts(tool):
        for word in _words(text):
            found[word] += _TEXT
    return found


def _texts(tool: Tool) -> list[str]:
    """Return the description, the argument names and their descriptions, within a bound."""
    found: list[str] = []
    left = _LONGEST
    for text in (tool.description, *_arguments(tool.input_schema, 0)):
        if left <= 0:
            break
        found.append(text[:left])
        left -= len(text)
    return found


def _arguments(schema: Json, depth: int) -> Iterator[str]:
    if not isinstance(schema, dict) or depth > _DEEPEST:
        return
    properties = schema.get("properties")
    for name, inner in properties.items() if isinstance(properties, dict) else ():
        yield name
        if isinstance(inner, dict):
            description = inner.get("description")
            yield description if isinstance(description, str) else ""
            yield from _arguments(inner, depth + 1)
    yield from _arguments(schema.get("items"), depth + 1)


def _words(text: str) -> Iterator[str]:
    """Yield the words in a text in lower case; `readFile`, `read_file` and `read-file` have two.

    A plural is read as its singular, so that "files" finds `file`.
    """
    for match in _WORD.finditer(text):
        word = match[0].lower()
        plural = len(word) > 3 and word.endswith("s") and not word.endswith("ss")
        yield word[:-1] if plural else word
