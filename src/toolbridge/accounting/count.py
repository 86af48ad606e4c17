"""Token counts without a tokenizer: two simple rules and an estimate.

The provider setting `counting` chooses. `words4` and `chars4` are rules with exact values, for
clients that rely on them; they count the text of a request only. `estimate_request` also counts
tools, images and the tokens that an API adds around each message, and `accounting.calibrate`
corrects it by the usage that providers report.
"""

from collections.abc import Iterator
from itertools import chain
from typing import Literal, TypeAlias

import msgspec

from toolbridge.accounting.media import audio_tokens, document_tokens, image_tokens
from toolbridge.core.byte_memo import ByteMemo
from toolbridge.core.json import dumps
from toolbridge.core.lazy_pattern import lazy_pattern
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
    Turn,
)
from toolbridge.core.prefix_memo import LONG, PrefixMemo, ends_of
from toolbridge.core.server_tool_text import server_text
from toolbridge.core.server_tools import ServerCall, ServerResult
from toolbridge.core.shared_tools import once_per_list
from toolbridge.core.shared_turns import once_per_turn
from toolbridge.core.steps import EVERY, Steps, stepwise

SimpleRule: TypeAlias = Literal["words4", "chars4"]


def count_simply(request: Request, rule: SimpleRule) -> int:
    """Return the tokens of the text of a request by one of the two simple rules."""
    text = _request_text(request)
    if rule == "chars4":
        return _fours(text)
    return sum(map(_fours, text.split()))


def _fours(text: str) -> int:
    """Return how many pieces of four characters a text has, the last one possibly shorter."""
    return (len(text) + 3) // 4


def _request_text(request: Request) -> str:
    """Return the text of a request, joined by spaces: system, messages, results, call arguments."""
    parts = (part for turn in request.turns for part in turn.content)
    texts = (text for part in parts for text in _texts(part))
    return " ".join(chain((part.text for part in request.system), texts))


def _texts(part: Part) -> Iterator[str]:
    if isinstance(part, Text):
        yield part.text
    elif isinstance(part, Call):
        yield part.raw or dumps(part.arguments)
    elif isinstance(part, Result):
        for inner in part.content:
            yield from _texts(inner)


class TokenizerFamily(msgspec.Struct, frozen=True):
    """Characters per token of a vendor's tokenizer, and the tokens that its API adds."""

    characters: float = 3.6
    """Characters of Latin script, code and JSON per token."""
    ideographs: float = 1.3
    """Characters of Chinese, Japanese and Korean per token."""
    start: int = 4
    """Added once to each request."""
    message: int = 4
    """Added to each message, call and result."""
    tools: int = 0
    """Added once to a request that has tools."""
    tool: int = 8
    """Added to each tool."""


_FAMILIES = {
    "openai": TokenizerFamily(characters=4.0, start=5, tools=24, tool=6),
    "gemini": TokenizerFamily(characters=3.7, start=4, message=3),
    "anthropic": TokenizerFamily(
        characters=3.0, ideographs=1.1, start=6, message=2, tools=549, tool=53
    ),
}
"""Measured overheads. Anthropic and Google publish no tokenizer, so that their characters per token
are derived from the ratio of their counts to those of OpenAI's public vocabulary."""
_COMMON = TokenizerFamily()

_IDEOGRAPHS = lazy_pattern("[\u1100-\u11ff\u2e80-\u9fff\uac00-\ud7ff\uf900-\ufaff\uff00-\uffef\U00020000-\U0003ffff]+")  # fmt: skip
_ASCII = bytes(range(128))
# Letters beyond ASCII come in pieces of about two; emoji and symbols take two tokens each.
_LETTERS_PER_TOKEN = 2.0


@stepwise
def estimate_request(request: Request, *, family: str = "") -> Steps[int]:
    """Return the estimated input tokens of a request; an unknown family has the common values."""
    kind = _FAMILIES.get(family, _COMMON)
    tokens = float(kind.start)
    for text in request.system:
        tokens += _system_tokens(text.text, kind)
    turns = request.turns
    done, counted = 0, 0.0
    ends: tuple[int, ...] = (len(turns),)
    if len(turns) >= LONG:
        done, counted = _counted.find(turns, family) or (0, 0.0)
        ends = ends_of(turns, done)
    for end in ends:
        for number, turn in enumerate(turns[done:end], 1):
            only = turn.content[0] if len(turn.content) == 1 else None
            if type(only) is Text and only.text.isascii():  # counted faster than found in the turn
                counted += kind.message + len(only.text) / kind.characters
            else:
                counted += _turn_tokens(turn, family)
            if number % EVERY == 0:
                yield
        if end < len(turns):
            _counted.keep(turns, end, family, counted)
            done = end
    tokens += counted
    if request.tools:
        tokens += kind.tools + _tools_tokens(request.tools, kind)
    if request.output and request.output.schema:
        tokens += _text_tokens(dumps(request.output.schema), kind)
    return max(1, round(tokens))


_counted: PrefixMemo[float] = PrefixMemo()


@once_per_turn
def _turn_tokens(turn: Turn, family: str) -> float:
    kind = _FAMILIES.get(family, _COMMON)
    return kind.message + sum(_part_tokens(part, kind) for part in turn.content)


def estimate_text(text: str, *, family: str = "") -> float:
    """Return the estimated tokens of a text alone; an unknown family has the common values."""
    return _text_tokens(text, _FAMILIES.get(family, _COMMON))


def _text_tokens(text: str, kind: TokenizerFamily) -> float:
    if text.isascii():
        return len(text) / kind.characters
    return _script_tokens(_scripts(text), kind)


_Scripts: TypeAlias = tuple[int, int, int]
"""How many characters of a text are ASCII, ideographs and others."""
_system_scripts: ByteMemo[str, _Scripts] = ByteMemo(1024 * 1024)
"""Those of system prompts, which an agent sends with every request."""


def _system_tokens(text: str, kind: TokenizerFamily) -> float:
    if text.isascii():
        return len(text) / kind.characters
    found = _system_scripts.get(text)
    if found is None:
        found = _scripts(text)
        _system_scripts.put(text, found)
    return _script_tokens(found, kind)


def _scripts(text: str) -> _Scripts:
    # ASCII is removed from the bytes first: a pattern takes ten times as long for each character.
    encoded = text.encode("utf-8", "surrogatepass").translate(None, _ASCII)
    beyond = encoded.decode("utf-8", "surrogatepass")
    letters = len(_IDEOGRAPHS.sub("", beyond))
    return len(text) - len(beyond), len(beyond) - letters, letters


def _script_tokens(scripts: _Scripts, kind: TokenizerFamily) -> float:
    plain, ideographs, letters = scripts
    return plain / kind.characters + ideographs / kind.ideographs + letters / _LETTERS_PER_TOKEN


@once_per_list
def _tools_tokens(tools: tuple[Tool, ...], kind: TokenizerFamily) -> float:
    return sum(_tool_tokens(tool, kind) for tool in tools)


def _tool_tokens(tool: Tool, kind: TokenizerFamily) -> float:
    written = dumps(tool.schema if tool.hosted is None else tool.hosted)
    return kind.tool + _text_tokens(tool.name + tool.description + written, kind)


def _part_tokens(part: Part, kind: TokenizerFamily) -> float:
    match part:
        case Text(text) | Thinking(text):
            return _text_tokens(text, kind)
        case Call():
            return kind.message + _text_tokens(
                part.name + (part.raw or dumps(part.arguments)), kind
            )
        case Result():
            return kind.message + sum(_part_tokens(inner, kind) for inner in part.content)
        case Image():
            return image_tokens(part)
        case Document():
            text = part.title + part.context + part.text
            return _text_tokens(text, kind) + document_tokens(part, kind.characters)
        case Audio():
            return audio_tokens(part)
        case Reference(name):
            return _text_tokens(name, kind)
        case ServerCall() | ServerResult():
            return _text_tokens(server_text(part), kind)
        case Foreign():
            return _text_tokens(dumps(part.raw), kind)
