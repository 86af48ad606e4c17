"""Replaces tool names that the target rejects, and keeps the mapping back.

OpenAI chat: `^[a-zA-Z0-9_-]{1,64}$`. Anthropic and OpenAI Responses: up to 128 such characters.
Gemini: a letter or an underscore first. A new name keeps the readable part of the old one and ends
in six digits of its hash, so that two long names with the same beginning stay different.
"""

import re
from collections.abc import Sequence
from hashlib import blake2b

import msgspec
from msgspec.structs import replace

from toolbridge.core.codec import Rules
from toolbridge.core.messages import (
    Call,
    Part,
    Reference,
    Request,
    Result,
    ResultPart,
    Tool,
    Turn,
)
from toolbridge.core.prefix_memo import PrefixMemo
from toolbridge.core.shared_tools import once_per_list
from toolbridge.history.ids import compiled


def legal_names(request: Request, rules: Rules) -> tuple[Request, dict[str, str]]:
    """Return the request with valid names, and the client's name by each new name."""
    used = _found.after(request.turns, rules, _NO_NAMES, _with_used)
    chosen = request.tool_choice.names
    fit = used.fit and all(_fits(name, rules) for name in chosen)
    if fit and names_fit(request.tools, rules):
        return request, {}
    names = {*used.names, *chosen, *_declared_names(request.tools)}
    legal: dict[str, str] = {}
    for name in sorted(names):
        if not _fits(name, rules):
            legal[name] = _unused(name, rules, names)
            names.add(legal[name])
    choice = request.tool_choice
    renamed = replace(
        request,
        tools=tuple(_tool(tool, legal) for tool in request.tools),
        tool_choice=replace(choice, names=tuple(legal.get(n, n) for n in choice.names)),
        turns=tuple(_turn(turn, legal) for turn in request.turns),
    )
    return renamed, {new: name for name, new in legal.items()}


def legal_name(name: str, rules: Rules, salt: str = "") -> str:
    """Return a valid name derived from `name`."""
    digest = blake2b((salt + name).encode("utf-8", "surrogatepass"), digest_size=3).hexdigest()
    room = rules.name_length - 7 if rules.name_length else len(name) + 7
    plain = re.sub(r"[^A-Za-z0-9_-]", "_", name) or "tool"
    short = f"{plain[:room]}_{digest}"
    # Gemini: function names begin with a letter or an underscore.
    return short if _fits(short, rules) else f"{f't_{plain}'[:room]}_{digest}"


def _unused(name: str, rules: Rules, taken: set[str]) -> str:
    salt = ""
    while (candidate := legal_name(name, rules, salt)) in taken:
        salt += "."
    return candidate


def _fits(name: str, rules: Rules) -> bool:
    short_enough = not rules.name_length or len(name) <= rules.name_length
    return short_enough and compiled(rules.name_pattern).fullmatch(name) is not None


@once_per_list
def _declared_names(tools: tuple[Tool, ...]) -> frozenset[str]:
    """Return the names of the tools, without those of hosted tools, which are their API's own."""
    return frozenset(tool.name for tool in tools if tool.hosted is None)


@once_per_list
def names_fit(tools: tuple[Tool, ...], rules: Rules) -> bool:
    """Return whether the rules allow the names of all tools."""
    return all(_fits(name, rules) for name in _declared_names(tools))


class _UsedNames(msgspec.Struct, frozen=True):
    """The names in a conversation, and whether the rules allow all of them."""

    names: frozenset[str]
    fit: bool


_NO_NAMES = _UsedNames(frozenset(), fit=True)
_found: PrefixMemo[_UsedNames] = PrefixMemo()


def _with_used(before: _UsedNames, turns: Sequence[Turn], rules: Rules) -> _UsedNames:
    """Return the names of some turns and of those before."""
    used: set[str] = set()
    for turn in turns:
        for part in turn.content:
            if isinstance(part, _NAMED):
                used.add(part.name)
            elif isinstance(part, Result):
                if part.name:  # empty for a result without a call
                    used.add(part.name)
                for inner in part.content:
                    if isinstance(inner, Reference):
                        used.add(inner.name)
    new = used - before.names
    if not new:
        return before
    fit = before.fit and all(_fits(name, rules) for name in new)
    return _UsedNames(before.names | new, fit)


_NAMED = (Call, Reference)


def _tool(tool: Tool, legal: dict[str, str]) -> Tool:
    return tool if tool.hosted is not None else replace(tool, name=legal.get(tool.name, tool.name))


def _turn(turn: Turn, legal: dict[str, str]) -> Turn:
    return replace(turn, content=tuple(_part(part, legal) for part in turn.content))


def _part(part: Part, legal: dict[str, str]) -> Part:
    if isinstance(part, Call | Reference):
        return replace(part, name=legal.get(part.name, part.name))
    if isinstance(part, Result):
        content = tuple(_inner(inner, legal) for inner in part.content)
        return replace(part, name=legal.get(part.name, part.name), content=content)
    return part


def _inner(part: ResultPart, legal: dict[str, str]) -> ResultPart:
    if isinstance(part, Reference):
        return replace(part, name=legal.get(part.name, part.name))
    return part
