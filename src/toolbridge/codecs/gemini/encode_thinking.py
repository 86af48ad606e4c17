"""How Gemini is asked to think: by a level, or with a budget of tokens."""

from collections.abc import Callable
from typing import TypeAlias

from toolbridge.codecs.gemini.quirks import Level, Quirks
from toolbridge.core.json import JsonObject
from toolbridge.core.messages import Effort, Think

Lose: TypeAlias = Callable[[str, str], None]
"""Takes what could not be said, as a path in our request, and why."""

_LADDER: tuple[Level, ...] = ("MINIMAL", "LOW", "MEDIUM", "HIGH")
_LEVELS: dict[Effort, Level] = {
    "minimal": "MINIMAL",
    "low": "LOW",
    "medium": "MEDIUM",
    "high": "HIGH",
    "xhigh": "HIGH",
    "max": "HIGH",
}
_BUDGETS: dict[Effort, int] = {
    "minimal": 512,
    "low": 1_024,
    "medium": 8_192,
    "high": 24_576,
    "xhigh": 32_768,
    "max": 32_768,
}
_DYNAMIC = -1


def encode_thinking(think: Think, quirks: Quirks, lose: Lose) -> JsonObject:
    """Return the config of thinking; an empty one leaves it to the model."""
    if think == Think():
        return {}
    if quirks.thinking_style == "none":
        lose("think", "this model cannot be told how to think")
        return {}
    if think.mode == "between_tools":
        lose("think.mode", "Gemini decides by itself when to think")
    off = think.mode == "off" or think.effort == "none"
    measure = _level if quirks.thinking_style == "level" else _budget
    config = measure(think, quirks, lose, off=off)
    return config | _show(think, lose, off=off)


def _level(think: Think, quirks: Quirks, lose: Lose, *, off: bool) -> JsonObject:
    if off:
        least = quirks.thinking_levels[0]
        lose("think.mode", f"this model always thinks; it is asked for the level {least}")
        return {"thinkingLevel": least}
    if think.budget is not None:
        lose("think.budget", "this model takes a level of thinking instead of a budget")
    if think.effort:
        wanted = _LEVELS[think.effort]
        level = _nearest(wanted, quirks)
        if level != wanted or think.effort in {"xhigh", "max"}:
            lose("think.effort", f"became {level}, the nearest level of this model")
        return {"thinkingLevel": level}
    if think.budget is not None:
        return {"thinkingLevel": _nearest(_of_budget(think.budget), quirks)}
    return {}


def _of_budget(budget: int) -> Level:
    if budget <= _BUDGETS["low"]:
        return "LOW"
    return "MEDIUM" if budget <= _BUDGETS["medium"] else "HIGH"


def _nearest(wanted: Level, quirks: Quirks) -> Level:
    at = _LADDER.index(wanted)
    return min(quirks.thinking_levels, key=lambda level: abs(_LADDER.index(level) - at))


def _budget(think: Think, quirks: Quirks, lose: Lose, *, off: bool) -> JsonObject:
    least, most = quirks.least_budget, quirks.most_budget
    if off:
        if least:
            lose("think.mode", f"this model always thinks; it is asked for {least} tokens")
        return {"thinkingBudget": least}
    if think.effort:
        lose("think.effort", "this model takes a budget of thinking instead of a level")
    if think.budget is None and think.effort:
        return {"thinkingBudget": min(max(_BUDGETS[think.effort], least), most)}
    if think.budget is None:
        return {"thinkingBudget": _DYNAMIC} if think.mode != "unset" else {}
    fitting = min(max(think.budget, least, 1), most)
    if fitting != think.budget:
        lose("think.budget", f"{think.budget} became {fitting}: this model takes {least} to {most}")
    return {"thinkingBudget": fitting}


def _show(think: Think, lose: Lose, *, off: bool) -> JsonObject:
    if think.show in {"full", "updates"}:
        lose("think.show", "Gemini shows a summary of its thoughts")
    shown = think.show or think.mode in {"on", "auto", "between_tools"}
    return {"includeThoughts": think.show != "omitted"} if shown and not off else {}
