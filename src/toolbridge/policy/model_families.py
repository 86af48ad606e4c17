"""Rules for families of models, for names that the table does not contain.

A model that is newer than the table usually follows the rules of its predecessor. The rules are tried
in their order; the first whose pattern matches the beginning of the bare name counts. They state
only what a wrong request would be rejected for, not limits.
"""

import re
from functools import lru_cache

from msgspec.structs import replace

from toolbridge.policy.model_facts import KnownModel
from toolbridge.policy.model_table import spellings

_THINKS = frozenset({"thinking"})
_OLD_CLAUDE = KnownModel(
    can=frozenset({"tools", "vision"}),
    cannot=_THINKS,
    sampling="yes",
    prefill=True,
    forced_tools=True,
    system_in_place=False,
)
# Anthropic, extended thinking and effort: the rules of each generation.
_BUDGET_CLAUDE = KnownModel(
    can=_THINKS | {"tools", "vision"},
    style="budget",
    thinking_types=("enabled", "disabled"),
    efforts=(),
    sampling="yes",
    prefill=True,
    forced_tools=True,
    system_in_place=False,
)
_ADAPTIVE_CLAUDE = KnownModel(
    can=_THINKS | {"tools", "vision"},
    style="adaptive",
    thinking_types=("adaptive", "disabled"),
    efforts=("low", "medium", "high", "xhigh", "max"),
    sampling="no",
    prefill=False,
)
# Anthropic, Messages API: Opus 4.8 is the first model that accepts the role `system` in `messages`.
_BEFORE_OPUS_4_8 = replace(_ADAPTIVE_CLAUDE, system_in_place=False)
_LATEST_CLAUDE = KnownModel(
    can=_THINKS | {"tools", "vision"},
    style="adaptive",
    thinking_types=("adaptive",),
    efforts=("low", "medium", "high", "xhigh", "max"),
    always_thinks=True,
    sampling="no",
    prefill=False,
    forced_tools=False,
)
_PLAIN_GPT = KnownModel(cannot=_THINKS, style="none", efforts=(), sampling="yes")
_O_SERIES = KnownModel(
    can=_THINKS,
    style="levels",
    efforts=("low", "medium", "high"),
    always_thinks=True,
    sampling="no",
)
# OpenAI, from gpt-5.1 on: sampling only with the effort "none"; from 5.4 on, tools need Responses.
_REASONING_GPT = KnownModel(
    can=_THINKS, style="levels", sampling="effort_none", api="responses_for_tools"
)
_ONLY_RESPONSES = KnownModel(can=_THINKS, style="levels", sampling="no", api="responses")
_LEVEL_GEMINI = KnownModel(can=_THINKS, style="levels", always_thinks=True)

_RULES: tuple[tuple[str, KnownModel], ...] = (
    (r"claude-(?:3-7|(?:haiku|sonnet|opus)-4(?:-[0-5])?$)", _BUDGET_CLAUDE),
    (r"claude-(?:3|2|instant)", _OLD_CLAUDE),
    (r"claude-(?:fable|mythos)-(?:5-[1-9]|[6-9])", _LATEST_CLAUDE),
    (r"claude-(?:opus|sonnet)-(?:5-[5-9]|[6-9])", _LATEST_CLAUDE),
    (r"claude-(?:(?:haiku|sonnet)-4|opus-4-[67]$)", _BEFORE_OPUS_4_8),
    (r"claude-(?:haiku|sonnet|opus|fable|mythos)-[4-9]", _ADAPTIVE_CLAUDE),
    (r"o[134]-(?:pro|deep-research)", _ONLY_RESPONSES),
    (r"o[1-9](?:-|$)", _O_SERIES),
    (r"(?:chatgpt|gpt-(?:3\.5|4))", _PLAIN_GPT),
    (r"gpt-[5-9][\d.]*-(?:[a-z]+-)*(?:pro|codex|deep-research)", _ONLY_RESPONSES),
    (r"gpt-(?:5\.[1-9]|[6-9])", _REASONING_GPT),
    (r"gemini-(?:[3-9])", _LEVEL_GEMINI),
)
_COMPILED = tuple((re.compile(pattern), known) for pattern, known in _RULES)


@lru_cache(512)
def find_family(model: str) -> KnownModel | None:
    """Return the facts of the model's family; None if no rule knows it."""
    name = list(spellings(model))[-1]
    return next((known for pattern, known in _COMPILED if pattern.match(name)), None)
