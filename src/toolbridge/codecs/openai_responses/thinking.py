"""Thinking settings of the Responses API, and the fields of reasoning items, in both directions.

OpenAI Responses, reasoning: `reasoning.effort` sets the amount, `reasoning.summary` requests a
summary; without it no text of a thought is returned. There is no budget in tokens.
"""

import msgspec

from toolbridge.codecs.openai_responses.item_fields import seal_item
from toolbridge.codecs.openai_responses.quirks import Quirks
from toolbridge.codecs.openai_responses.shapes import ORIGIN, ReasoningConfig
from toolbridge.core.codec import Lose, Target
from toolbridge.core.json import JsonObject
from toolbridge.core.messages import Effort, Opaque, Request, Think
from toolbridge.wire import shapes as wire

_configs = msgspec.json.Decoder(ReasoningConfig | None)
_EFFORTS: dict[str, Effort] = {
    "minimal": "minimal",
    "low": "low",
    "medium": "medium",
    "high": "high",
    "xhigh": "xhigh",
    "max": "max",
}
_LADDER: tuple[Effort, ...] = ("minimal", "low", "medium", "high", "xhigh", "max")
_BUDGETS: tuple[tuple[int, Effort], ...] = ((1_024, "low"), (8_192, "medium"), (24_576, "high"))
"""The effort for a budget of at most so many tokens; "xhigh" for larger ones."""


def decode_thinking(raw: msgspec.Raw, extra: JsonObject) -> Think:
    """Return the thinking settings; unknown fields and efforts are kept in `extra`.

    Codex attaches `reasoning` to every request, so the mode is `auto`: a model without thinking
    answers as well.
    """
    config = wire.decode_request(raw, _configs, "reasoning")
    if config is None:
        return Think()
    rest = wire.leftovers(raw, ReasoningConfig, "reasoning")
    if config.summary not in {None, "auto"}:
        rest["summary"] = config.summary
    # OpenAI adds efforts with new models (xhigh, max): an unknown one is sent on as it is.
    if config.effort not in {None, "none", *_EFFORTS}:
        rest["effort"] = config.effort
    if rest:
        extra["reasoning"] = rest
    if config.effort == "none":
        return Think("off", show="summarized" if config.summary else "")
    if config.effort is None and config.summary is None:
        return Think()
    effort = _EFFORTS.get(config.effort or "", "")
    return Think("auto", effort=effort, show="summarized" if config.summary else "")


def encode_thinking(request: Request, target: Target, quirks: Quirks, lose: Lose) -> JsonObject:
    """Return the `reasoning` object; empty leaves the field out."""
    think = request.think
    if think.mode == "off" or think.effort == "none":
        return _turned_off(request, quirks, lose)
    if think.mode == "unset" and not think.effort:
        return _encode_summary(request, lose) if think.show else {}
    if not target.can("thinking") or not quirks.efforts:
        lose("think", f"{target.model} has no thinking mode")
        return {}
    effort = _encode_effort(think, quirks, lose)
    return ({"effort": effort} if effort else {}) | _encode_summary(request, lose)


def _turned_off(request: Request, quirks: Quirks, lose: Lose) -> JsonObject:
    if quirks.effort_none:
        return {"effort": "none"} | _encode_summary(request, lose)
    if not quirks.efforts:  # a model that does not think
        return {}
    least = next(word for word in _LADDER if word in quirks.efforts)
    lose("think", f"thinking cannot be turned off for this model; the effort {least!r} is sent")
    return {"effort": least}


def _encode_effort(think: Think, quirks: Quirks, lose: Lose) -> Effort:
    if think.mode == "between_tools":
        lose("think.mode", "the model decides when it thinks")
    if think.effort or think.budget is None:
        wanted: Effort = think.effort or ("medium" if think.mode == "on" else "")
        return _nearest(wanted, quirks, lose) if wanted else ""
    most: Effort = "xhigh"
    effort = next((level for limit, level in _BUDGETS if think.budget <= limit), most)
    effort = _nearest(effort, quirks, lambda *_: None)
    lose("think", f"a budget of {think.budget} tokens is sent as the effort {effort!r}")
    return effort


def _nearest(effort: Effort, quirks: Quirks, lose: Lose) -> Effort:
    """Return the nearest effort that the model accepts, the lower one of two."""
    known = [word for word in _LADDER if word in quirks.efforts]
    if effort in known:
        return effort
    at = _LADDER.index(effort)
    near = min(known, key=lambda word: abs(_LADDER.index(word) - at))
    lose("think.effort", f"{effort!r} became {near!r}, the nearest of this model")
    return near


def accepts_sampling(reasoning: JsonObject, quirks: Quirks) -> bool:
    """Return whether the model accepts temperature and top_p beside these settings."""
    if not quirks.sampling:
        return False
    effort = reasoning.get("effort") or quirks.default_effort
    return quirks.sampling_with_effort or effort == "none"


def _encode_summary(request: Request, lose: Lose) -> JsonObject:
    """Return the setting for summaries.

    A client of this API requests a summary explicitly. Clients of other APIs get thoughts by
    default, so a summary is requested for them.
    """
    think = request.think
    if think.show in {"full", "updates"}:
        lose("think.show", "OpenAI returns at most a summary of a thought")
    if think.show == "omitted" or (not think.show and request.origin == ORIGIN):
        return {}
    return {} if think.mode == "off" and not think.show else {"summary": "auto"}


def seal_thought(fields: JsonObject, summary: list[str], content: list[str]) -> tuple[Opaque, ...]:
    """Return the fields of a reasoning item as a token.

    The parts are kept too, unless they are one summary: the text of a `Thinking` is that one.
    llama.cpp accepts a reasoning item only with its `content`.
    """
    # OpenAI Responses: an item that is sent back must equal the one that was received.
    if len(summary) > 1 or (summary and content):
        fields = fields | {"summary": [{"type": "summary_text", "text": text} for text in summary]}
    if content and fields.get("id") is not None:
        fields = fields | {
            "content": [{"type": "reasoning_text", "text": text} for text in content]
        }
    return seal_item(fields)
