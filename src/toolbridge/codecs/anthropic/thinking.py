"""Thinking settings of the Messages API, in both directions: `thinking` and `output_config.effort`.

Anthropic, extended thinking: `thinking.type` is "enabled" with a budget, "adaptive", "disabled" or
"between_tools". Which of them a model takes is decided by `policy`, before the codec.
"""

from typing import Literal

import msgspec

from toolbridge.codecs.anthropic import shapes
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
_MODES = {ours: theirs for theirs, ours in _TYPES.items()}
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


def encode_thinking(think: Think, max_tokens: int, lose: Lose) -> JsonObject:
    """Return the field `thinking`, to be merged into the body."""
    mode = "off" if (think.mode, think.effort) == ("unset", "none") else think.mode
    if mode == "on" and think.budget is not None:
        return _encode_budget(think, think.budget, max_tokens, lose)
    if think.budget is not None:
        lose("think.budget", "Anthropic takes a budget only for thinking of the type enabled")
    if mode == "on":
        lose("think.mode", "without a budget, Anthropic's models decide when to think")
        mode = "auto"
    if mode == "auto":
        return {"thinking": {"type": "adaptive", **_encode_display(think, lose)}}
    if think.show:
        lose("think.show", "thinking was not requested, so there is none to show")
    return {} if mode == "unset" else {"thinking": {"type": _MODES[mode]}}


def _encode_budget(think: Think, budget: int, max_tokens: int, lose: Lose) -> JsonObject:
    most = max_tokens - 1
    if most < LEAST_BUDGET:
        lose("think", f"thinking needs max_tokens of more than {LEAST_BUDGET}")
        return {}
    fitting = min(max(budget, LEAST_BUDGET), most)
    if fitting != budget:
        lose("think.budget", f"{budget} became {fitting}: from {LEAST_BUDGET} to below max_tokens")
    config: JsonObject = {"type": "enabled", "budget_tokens": fitting}
    return {"thinking": config | _encode_display(think, lose)}


def _encode_display(think: Think, lose: Lose) -> JsonObject:
    # Anthropic, extended thinking: `display` is "summarized", "omitted" or "updates".
    if think.show == "full":
        lose("think.show", "Anthropic shows a summary at most")
        return {"display": "summarized"}
    return {"display": think.show} if think.show else {}


def encode_effort(think: Think, lose: Lose) -> JsonObject:
    """Return the field `effort`, to be merged into `output_config`."""
    # Anthropic, effort: low, medium, high, xhigh, max.
    if think.effort == "minimal":
        lose("think.effort", "became low, Anthropic's lowest effort")
        return {"effort": "low"}
    return {"effort": think.effort} if think.effort not in {"", "none"} else {}


def is_thinking(think: Think, encoded: JsonObject) -> bool:
    """Return whether the encoded request asks for thinking."""
    return think.mode in {"on", "auto", "between_tools"} and "thinking" in encoded
