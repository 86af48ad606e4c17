"""Thinking settings of the Gemini API, in both directions: `generationConfig.thinkingConfig`.

Gemini API, thinking: Gemini 3 takes a `thinkingLevel`, Gemini 2.5 a `thinkingBudget` in tokens (0
is off, -1 leaves it to the model); both together are a 400.
"""

from typing import Literal

from toolbridge.codecs.gemini import shapes
from toolbridge.codecs.gemini.quirks import Level, Quirks
from toolbridge.codecs.gemini.shapes import CONFIG, decode_rest
from toolbridge.core.codec import Lose
from toolbridge.core.json import JsonObject
from toolbridge.core.messages import Effort, Think
from toolbridge.wire import shapes as wire

_EFFORTS: dict[str, Effort] = {
    "MINIMAL": "minimal",
    "LOW": "low",
    "MEDIUM": "medium",
    "HIGH": "high",
}
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


def decode_thinking(given: JsonObject | None) -> tuple[Think, JsonObject]:
    """Return the thinking settings, and the fields of the config that only Gemini understands."""
    if given is None:
        return Think(), {}
    config = wire.convert_request(given, shapes.ThinkingConfig, f"{CONFIG}.thinkingConfig")
    rest = decode_rest(given, shapes.ThinkingConfig)
    effort: Effort = _EFFORTS.get((config.thinking_level or "").upper(), "")
    if config.thinking_level and not effort:  # a level that is newer than this codec
        rest["thinkingLevel"] = config.thinking_level
    show: Literal["summarized", "omitted"] = "summarized" if config.include_thoughts else "omitted"
    budget = config.thinking_budget
    # Gemini API, thinking: 0 turns thinking off, -1 is dynamic.
    if budget == 0:
        return Think("off"), rest
    if budget is not None and budget > 0:
        return Think("on", budget, effort, show), rest
    if budget is None and not effort and not config.include_thoughts:
        return Think(), rest
    return Think("auto", effort=effort, show=show), rest


def encode_thinking(think: Think, quirks: Quirks, lose: Lose) -> JsonObject:
    """Return the value of `thinkingConfig`; {} leaves the decision to the model."""
    if think == Think():
        return {}
    if quirks.thinking_style == "none":
        lose("think", "this model has no thinking settings")
        return {}
    if think.mode == "between_tools":
        lose("think.mode", "Gemini's models decide when to think")
    off = think.mode == "off" or think.effort == "none"
    measure = _level if quirks.thinking_style == "level" else _budget
    config = measure(think, quirks, lose, off=off)
    return config | _show(think, lose, off=off)


def _level(think: Think, quirks: Quirks, lose: Lose, *, off: bool) -> JsonObject:
    # Gemini API, thinking: Gemini 3 cannot turn thinking off.
    if off:
        least = quirks.thinking_levels[0]
        lose("think.mode", f"this model always thinks; the level {least} was requested")
        return {"thinkingLevel": least}
    if think.budget is not None:
        lose("think.budget", "this model takes a level of thinking, not a budget")
    if think.effort:
        requested = _LEVELS[think.effort]
        level = _nearest(requested, quirks)
        if level != requested or think.effort in {"xhigh", "max"}:
            lose("think.effort", f"became {level}, the nearest level of this model")
        return {"thinkingLevel": level}
    if think.budget is not None:
        return {"thinkingLevel": _nearest(_of_budget(think.budget), quirks)}
    return {}


def _of_budget(budget: int) -> Level:
    if budget <= _BUDGETS["low"]:
        return "LOW"
    return "MEDIUM" if budget <= _BUDGETS["medium"] else "HIGH"


def _nearest(requested: Level, quirks: Quirks) -> Level:
    at = _LADDER.index(requested)
    return min(quirks.thinking_levels, key=lambda level: abs(_LADDER.index(level) - at))


def _budget(think: Think, quirks: Quirks, lose: Lose, *, off: bool) -> JsonObject:
    least, most = quirks.least_budget, quirks.most_budget
    if off:
        if quirks.thinking_off:
            return {"thinkingBudget": 0}
        if least:
            lose("think.mode", f"this model always thinks; {least} tokens were requested")
        return {"thinkingBudget": least}
    if think.effort:
        lose("think.effort", "this model takes a budget of thinking, not a level")
    if think.budget is None and think.effort:
        return {"thinkingBudget": min(max(_BUDGETS[think.effort], least), most)}
    if think.budget is None:
        return {"thinkingBudget": _DYNAMIC} if think.mode != "unset" else {}
    fitting = min(max(think.budget, least, 1), most)
    if fitting != think.budget:
        lose("think.budget", f"{think.budget} became {fitting}: this model takes {least} to {most}")
    return {"thinkingBudget": fitting}


# Gemini API, ThinkingConfig: `includeThoughts` adds summaries, never the thoughts themselves.
def _show(think: Think, lose: Lose, *, off: bool) -> JsonObject:
    if think.show in {"full", "updates"}:
        lose("think.show", "Gemini shows only a summary of its thoughts")
    shown = think.show or think.mode in {"on", "auto", "between_tools"}
    return {"includeThoughts": think.show != "omitted"} if shown and not off else {}
