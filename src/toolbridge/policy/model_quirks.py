"""Turns facts about a model into the quirks of the API that it is asked with.

A codec never tests a model's name: it obeys the quirks in its `quirks.py`. This module knows which of
them follow from which fact; unknown facts set none.
"""

from collections.abc import Callable

from toolbridge.core.json import Json, JsonObject
from toolbridge.core.messages import Effort
from toolbridge.policy.model_facts import KnownModel


def quirks_for(known: KnownModel, api: str) -> JsonObject:
    """Return the quirks of `api` for a model."""
    encode = _BY_API.get(api)
    return encode(known) if encode else {}


def _anthropic(known: KnownModel) -> JsonObject:
    found: JsonObject = {}
    if known.sampling == "no":
        found["sampling"] = False
    if known.forced_tools is False:
        found["forced_tools"] = False
    if known.prefill:
        found["prefill"] = True
    if known.system_in_place is False:
        found["system_in_place"] = False
    if known.thinking_types is not None:
        found["thinking_types"] = [*known.thinking_types]
        if known.efforts is not None:
            found["efforts"] = [*known.efforts]
    return found


def _responses(known: KnownModel) -> JsonObject:
    found = _sampling(known)
    if known.efforts is not None:
        found["efforts"] = [*known.efforts]
    if known.always_thinks is not None or known.style == "none":
        found["effort_none"] = known.always_thinks is False
    return found


def _chat(known: KnownModel) -> JsonObject:
    found = _sampling(known)
    if known.efforts is not None:
        found["efforts"] = [*known.efforts]
    if known.style == "levels" and known.always_thinks is False:
        found["effort_none"] = True
    if known.style == "levels" and known.always_thinks and known.efforts:
        found["effort_off"] = known.efforts[0]
    if known.api == "responses_for_tools":
        found["effort_with_tools"] = False
    # OpenAI chat: o3 and later reasoning models reject `stop`.
    if known.sampling in {"no", "effort_none"} and known.style == "levels":
        found["max_stop"] = 0
    return found


def _sampling(known: KnownModel) -> JsonObject:
    if known.sampling == "no":
        return {"sampling": False}
    if known.sampling == "effort_none":
        default: Effort = known.default_effort
        found: JsonObject = {"sampling_with_effort": False}
        return found | {"default_effort": default} if default else found
    return {}


def _gemini(known: KnownModel) -> JsonObject:
    found: JsonObject = {"sampling": False} if known.sampling == "no" else {}
    if known.style == "none":
        found["thinking_style"] = "none"
    elif known.style == "levels" and known.efforts:
        # Gemini API, thinking: the levels are MINIMAL, LOW, MEDIUM and HIGH.
        words = ("minimal", "low", "medium", "high")
        levels: list[Json] = [word.upper() for word in words if word in known.efforts]
        found |= {"thinking_style": "level", "thinking_levels": levels} if levels else {}
    elif known.style == "budget" and known.budget:
        least, most = known.budget
        found |= {"thinking_style": "budget", "least_budget": least, "most_budget": most}
        found["thinking_off"] = known.always_thinks is False
    return found


_BY_API: dict[str, Callable[[KnownModel], JsonObject]] = {
    "anthropic": _anthropic,
    "openai_responses": _responses,
    "openai_chat": _chat,
    "gemini": _gemini,
}
