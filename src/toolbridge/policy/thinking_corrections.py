"""Other forms of the fields that control thinking, for models that reject the first form.

Anthropic and Gemini have two forms each, a budget of tokens and a level; a model accepts one of them.
`policy/corrections.py` uses these functions.
"""

from collections.abc import Sequence

from toolbridge.core.json import Json, JsonObject
from toolbridge.wire.json_paths import remove, value_at

EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
_BUDGETS = {
    "minimal": 1024,
    "low": 2048,
    "medium": 8192,
    "high": 16384,
    "xhigh": 24576,
    "max": 24576,
}
_MEDIUM = 8192
_LEAST = 1024
"""Anthropic, Messages API: `thinking.budget_tokens` >= 1024."""


def nearest(value: Json, allowed: Sequence[str | int | float]) -> str:
    """Return the allowed effort that is nearest to `value`; empty if these are not efforts.

    "none" is used only for "none", so that thinking is not turned off by a correction.
    """
    known = [effort for effort in EFFORTS if effort in allowed]
    if not isinstance(value, str) or value.lower() not in EFFORTS or not known:
        return ""
    asked = EFFORTS.index(value.lower())
    thinking = known if asked == 0 else [effort for effort in known if effort != "none"] or known
    return min(thinking, key=lambda effort: abs(EFFORTS.index(effort) - asked))


def as_adaptive(body: JsonObject) -> JsonObject:
    """Return an Anthropic body with adaptive thinking and an effort instead of a budget."""
    thinking = body.get("thinking")
    if not isinstance(thinking, dict) or thinking.get("type") != "enabled":
        return body
    budget = thinking.get("budget_tokens")
    kept = {key: value for key, value in thinking.items() if key != "budget_tokens"}
    config = body.get("output_config")
    given = dict(config) if isinstance(config, dict) else {}
    given.setdefault("effort", _effort_of(budget if isinstance(budget, int) else _MEDIUM))
    return body | {"thinking": kept | {"type": "adaptive"}, "output_config": given}


def _effort_of(budget: int) -> str:
    if budget <= 2048:
        return "low"
    return "medium" if budget <= _MEDIUM else "high"


def as_budget(body: JsonObject) -> JsonObject:
    """Return an Anthropic body with a budget instead of adaptive thinking.

    Anthropic, Messages API: the budget is less than `max_tokens`; without room for one, thinking is
    left out.
    """
    thinking = body.get("thinking")
    if not isinstance(thinking, dict) or thinking.get("type") != "adaptive":
        return body
    most = body.get("max_tokens")
    room = most - 1 if isinstance(most, int) else _MEDIUM
    if room < _LEAST:
        return remove(body, "thinking")
    effort = value_at(body, "output_config.effort")
    budget = min(_BUDGETS.get(str(effort), _MEDIUM), room)
    return body | {"thinking": thinking | {"type": "enabled", "budget_tokens": budget}}


def as_token_budget(body: JsonObject) -> JsonObject:
    """Return a Gemini body with `thinkingBudget` instead of `thinkingLevel`."""
    config = body.get("generationConfig")
    thinking = config.get("thinkingConfig") if isinstance(config, dict) else None
    if not isinstance(config, dict) or not isinstance(thinking, dict):
        return body
    if "thinkingLevel" not in thinking:
        return body
    level = str(thinking["thinkingLevel"]).lower()
    kept = {key: value for key, value in thinking.items() if key != "thinkingLevel"}
    kept.setdefault("thinkingBudget", _BUDGETS.get(level, _MEDIUM))
    return body | {"generationConfig": config | {"thinkingConfig": kept}}
