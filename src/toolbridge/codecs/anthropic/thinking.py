"""Thinking settings of the Messages API, in both directions: `thinking` and `output_config.effort`.

Anthropic, extended thinking: `thinking.type` is "enabled" with a budget, "adaptive", "disabled" or
"between_tools". The quirks `thinking_types` and `efforts` list what the model accepts; a setting that
it does not accept is sent in the nearest form, with a loss.
"""

from typing import Literal

import msgspec

from toolbridge.codecs.anthropic import shapes
from toolbridge.codecs.anthropic.quirks import Quirks
from toolbridge.codecs.anthropic.shapes import decode_rest
from toolbridge.core.codec import Lose
from toolbridge.core.json import JsonObject
from toolbridge.core.messages import Effort, Think
from toolbridge.wire import shapes as wire

LEAST_BUDGET = 1024
"""Anthropic, extended thinking: 1024 <= `budget_tokens` < `max_tokens`."""

_TYPES: dict[str, Literal["on", "auto", "off", "between_tools"]] = {
    "enabled": "on",
    "adaptive": "auto",
    "disabled": "off",
    "between_tools": "between_tools",
}
_EFFORTS: dict[str, Effort] = {
    "low": "low",
    "medium": "medium",
    "high": "high",
    "xhigh": "xhigh",
    "max": "max",
}
_DISPLAYS: dict[str, Literal["", "omitted", "summarized", "updates"]] = {
    "omitted": "omitted",
    "summarized": "summarized",
    "updates": "updates",
}
_configs = msgspec.json.Decoder(shapes.ThinkingConfig | None)
_objects = msgspec.json.Decoder(wire.AnyObject)


def decode_thinking(raw: msgspec.Raw, effort: Effort) -> tuple[Think, JsonObject]:
    """Return the thinking settings, and the fields of `thinking` that only Anthropic understands."""
    config = wire.decode_request(raw, _configs, "thinking")
    if config is None:
        return Think(effort=effort), {}
    if config.type not in _TYPES:  # a type that is newer than this codec
        return Think(effort=effort), wire.decode_request(raw, _objects)
    rest = decode_rest(raw, shapes.ThinkingConfig)
    show = _DISPLAYS.get(config.display or "", "")
    if config.display and not show:
        rest["display"] = config.display
    return Think(_TYPES[config.type], config.budget_tokens, effort, show), rest


def decode_effort(effort: str | None) -> Effort:
    """Return our name of an effort; "" for one that is missing or newer than this codec."""
    return _EFFORTS.get(effort or "", "")


class ThinkingEncoder:
    """Writes the thinking settings in the form that the model accepts."""

    def __init__(self, think: Think, quirks: Quirks, max_tokens: int, lose: Lose) -> None:
        self._think = think
        self._types = quirks.thinking_types
        self._efforts = quirks.efforts
        self._max_tokens = max_tokens
        self._lose = lose
        self._effort: Effort = "" if think.effort == "none" else think.effort
        self._off = (think.mode, think.effort) == ("unset", "none") or think.mode == "off"

    def encode(self) -> tuple[JsonObject, JsonObject]:
        """Return the field `thinking`, and the field `effort` of `output_config`."""
        thinking = self._thinking()
        return thinking, self._encode_effort(thinking)

    def _thinking(self) -> JsonObject:
        think, mode = self._think, self._think.mode
        if self._off:
            return self._turned_off()
        if mode == "unset":
            self._lose_unused()
            return {}
        if mode == "between_tools" and mode in self._types:
            self._lose_unused()
            return {"thinking": {"type": mode}}
        if mode == "between_tools":
            self._lose("think.mode", "this model decides when to think")
        if mode == "on" and think.budget is not None and "enabled" in self._types:
            return self._budget(think.budget)
        if "adaptive" in self._types:
            return self._adaptive()
        if "enabled" in self._types:
            return self._of_effort()
        self._lose("think", "this model has no thinking mode")
        return {}

    def _lose_unused(self) -> None:
        if self._think.budget is not None:
            self._lose("think.budget", _NO_BUDGET)
        if self._think.show:
            self._lose("think.show", "thinking was not requested, so there is none to show")

    def _turned_off(self) -> JsonObject:
        self._lose_unused()
        if "disabled" in self._types:
            return {"thinking": {"type": "disabled"}}
        if self._efforts:
            self._effort = self._efforts[0]
        self._lose("think.mode", "this model always thinks; its lowest effort was requested")
        return {}

    def _adaptive(self) -> JsonObject:
        budget = self._think.budget
        if budget is not None:
            if self._think.mode == "on" and not self._effort:
                self._effort = next((word for most, word in _EFFORT_OF if budget <= most), "high")
                why = f"sent as the effort {self._effort!r}: this model decides when to think"
                self._lose("think.budget", why)
            else:
                self._lose("think.budget", _NO_BUDGET)
        elif self._think.mode == "on":
            self._lose("think.mode", "without a budget, Anthropic's models decide when to think")
        display = _encode_display(self._think, self._lose)
        return {"thinking": {"type": "adaptive", **display}}

    def _of_effort(self) -> JsonObject:
        """Return a budget for a model that has only these: Claude 4.5 and earlier."""
        budget = _BUDGET_OF.get(self._effort, _BUDGET_OF["medium"])
        self._lose("think.mode", f"sent as a budget of {budget} tokens: this model needs one")
        if not self._efforts:
            self._effort = ""  # it became the budget
        return self._budget(min(budget, max(self._max_tokens // 2, LEAST_BUDGET)))

    def _budget(self, budget: int) -> JsonObject:
        most = self._max_tokens - 1
        if most < LEAST_BUDGET:
            self._lose("think", f"thinking needs max_tokens of more than {LEAST_BUDGET}")
            return {}
        fitting = min(max(budget, LEAST_BUDGET), most)
        if fitting != budget:
            text = f"{budget} became {fitting}: from {LEAST_BUDGET} to below max_tokens"
            self._lose("think.budget", text)
        config: JsonObject = {"type": "enabled", "budget_tokens": fitting}
        return {"thinking": config | _encode_display(self._think, self._lose)}

    def _encode_effort(self, thinking: JsonObject) -> JsonObject:
        # Anthropic, effort: low, medium, high, xhigh, max; which of them depends on the model.
        effort = self._effort
        if not effort:
            return {}
        if not self._efforts:
            self._lose("think.effort", "this model has no setting for the effort")
            return {}
        known = [word for word in LADDER if word in self._efforts]
        # Anthropic, effort: Opus 5 and Haiku 5.5 accept at most "high" while thinking is disabled.
        if thinking == {"thinking": {"type": "disabled"}}:
            known = [word for word in known if word not in {"xhigh", "max"}] or known
        at = LADDER.index(effort)
        near = min(known, key=lambda word: abs(LADDER.index(word) - at))
        if near != effort:
            self._lose("think.effort", f"{effort!r} became {near!r}, the nearest of this model")
        return {"effort": near}


LADDER: tuple[Effort, ...] = ("minimal", "low", "medium", "high", "xhigh", "max")
_NO_BUDGET = "Anthropic takes a budget only for thinking of the type enabled"
_EFFORT_OF: tuple[tuple[int, Effort], ...] = ((2_048, "low"), (8_192, "medium"))
"""The effort for a budget of at most so many tokens; "high" for larger ones."""
_BUDGET_OF: dict[Effort, int] = {
    "minimal": 1_024,
    "low": 2_048,
    "medium": 8_192,
    "high": 16_384,
    "xhigh": 32_000,
    "max": 32_000,
}


def encode_thinking(
    think: Think, quirks: Quirks, max_tokens: int, lose: Lose
) -> tuple[JsonObject, JsonObject]:
    """Return the field `thinking`, and the field `effort` of `output_config`."""
    return ThinkingEncoder(think, quirks, max_tokens, lose).encode()


def _encode_display(think: Think, lose: Lose) -> JsonObject:
    # Anthropic, extended thinking: `display` is "summarized", "omitted" or "updates".
    if think.show == "full":
        lose("think.show", "Anthropic shows a summary at most")
        return {"display": "summarized"}
    return {"display": think.show} if think.show else {}


def type_of(encoded: JsonObject) -> str:
    """Return the encoded `thinking.type`; empty without one."""
    config = encoded.get("thinking")
    found = config.get("type") if isinstance(config, dict) else None
    return found if isinstance(found, str) else ""
