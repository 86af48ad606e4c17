"""Tokens, counted without a tokenizer.

Three counters: two simple ones that go by name because others rely on their exact values, and an
estimate that knows about scripts, tools and pictures.
"""

import re
from collections.abc import Iterator
from itertools import chain

import msgspec

from toolbridge.accounting.media import audio_tokens, document_tokens, image_tokens
from toolbridge.core.json import dumps
from toolbridge.core.messages import (
    Audio,
    Call,
    Document,
    Foreign,
    Image,
    Part,
    Reference,
    Request,
    Result,
    Text,
    Thinking,
    Tool,
)


def count_words4(text: str) -> int:
    """Count words, each in pieces of four characters."""
    return sum((len(word) + 3) // 4 for word in text.split())


def estimate_chars4(text: str) -> int:
    """Count pieces of four characters."""
    return (len(text) + 3) // 4


def request_text(request: Request) -> str:
    """Return all that a request says: system, text, results and the inputs of calls."""
    said = (piece for turn in request.turns for part in turn.content for piece in _text(part))
    return " ".join(chain((part.text for part in request.system), said))


def count_request_tokens(request: Request) -> int:
    return count_words4(request_text(request))


def _text(part: Part) -> Iterator[str]:
    if isinstance(part, Text):
        yield part.text
    elif isinstance(part, Call):
        yield part.raw or dumps(part.arguments)
    elif isinstance(part, Result):
        for inner in part.content:
            yield from _text(inner)


class TokenizerFamily(msgspec.Struct, frozen=True):
    """What is known of a tokenizer and of the words that its API adds around ours."""

    characters: float = 3.6
    """Characters of Latin script, code and JSON per token."""
    ideographs: float = 1.3
    """Characters of Chinese, Japanese and Korean per token."""
    start: int = 4
    message: int = 4
    tools: int = 0
    """Once, when there are any."""
    tool: int = 8


FAMILIES = {
    "": TokenizerFamily(),
    "openai": TokenizerFamily(characters=4.0, start=5, tools=24, tool=6),
    "gemini": TokenizerFamily(characters=3.7, start=4, message=3),
    "anthropic": TokenizerFamily(
        characters=3.0, ideographs=1.1, start=6, message=2, tools=549, tool=53
    ),
}
"""Measured overheads; Anthropic's and Google's ratios lean on OpenAI's vocabulary, which is public."""

_IDEOGRAPHS = re.compile("[\u1100-\u11ff\u2e80-\u9fff\uac00-\ud7ff\uf900-\ufaff\uff00-\uffef\U00020000-\U0003ffff]+")  # fmt: skip
# Letters beyond ASCII come in pieces of about two; pictures and signs in two tokens each.
_LETTERS_PER_TOKEN = 2.0


def estimate_request(request: Request, *, family: str = "") -> int:
    """Estimate the input tokens of a request; an unknown family counts as the common one."""
    kind = FAMILIES.get(family, FAMILIES[""])
    tokens = float(kind.start) + sum(_weigh(part.text, kind) for part in request.system)
    for turn in request.turns:
        tokens += kind.message + sum(_part(part, kind) for part in turn.content)
    if request.tools:
        tokens += kind.tools + sum(_tool(tool, kind) for tool in request.tools)
    if request.output and request.output.schema:
        tokens += _weigh(dumps(request.output.schema), kind)
    return max(1, round(tokens))


def _weigh(text: str, kind: TokenizerFamily) -> float:
    """Return the tokens of a text."""
    if text.isascii():
        return len(text) / kind.characters
    plain = len(text.encode("ascii", "ignore"))
    ideographs = sum(map(len, _IDEOGRAPHS.findall(text)))
    letters = len(text) - plain - ideographs
    return plain / kind.characters + ideographs / kind.ideographs + letters / _LETTERS_PER_TOKEN


def _tool(tool: Tool, kind: TokenizerFamily) -> float:
    written = dumps(tool.schema if tool.hosted is None else tool.hosted)
    return kind.tool + _weigh(tool.name + tool.description + written, kind)


def _part(part: Part, kind: TokenizerFamily) -> float:
    match part:
        case Text(text) | Thinking(text):
            return _weigh(text, kind)
        case Call():
            return kind.message + _weigh(part.name + (part.raw or dumps(part.arguments)), kind)
        case Result():
            return kind.message + sum(_part(inner, kind) for inner in part.content)
        case Image():
            return image_tokens(part)
        case Document():
            said = part.title + part.context + part.text
            return _weigh(said, kind) + document_tokens(part, kind.characters)
        case Audio():
            return audio_tokens(part)
        case Reference(name):
            return _weigh(name, kind)
        case Foreign():
            return _weigh(dumps(part.raw), kind)
