"""Facts that follow from the name of a model in a cloud: generation, inference profile, quirks."""

from toolbridge.core.json import JsonObject
from toolbridge.core.lazy_pattern import lazy_pattern

# `claude-3-5-sonnet-20241022`, `claude-opus-4-7`, `claude-sonnet-4@20250514`, `claude-fable-5.1`.
_CLAUDE = lazy_pattern(r"claude-(?:[a-z]+-)*(\d{1,2})(?:[-.](\d{1,2}))?(?!\d)")
_DATED = lazy_pattern(r"-(20\d{6})$")
PROFILES = ("us-gov", "us", "eu", "apac", "jp", "au", "global")
"""Prefixes of inference profiles on Amazon Bedrock."""
_PROFILE = lazy_pattern(rf"(?:{'|'.join(PROFILES)})\.")
NEW_VERSION = "2026-10-21"
_NEW_CLAUDE = (4, 7)
"""Anthropic, API versions: Bedrock has 2026-10-21 only from Claude 4.7 on."""


def is_new_claude(model: str) -> bool:
    """Return whether a model is Claude 4.7 or later."""
    found = _CLAUDE.search(model)
    return found is not None and (int(found[1]), int(found[2] or 0)) >= _NEW_CLAUDE


def anthropic_version(model: str, old: str) -> str:
    """Return the `anthropic_version` of a model: `old` up to Claude 4.6."""
    return NEW_VERSION if is_new_claude(model) else old


def vertex_name(model: str) -> str:
    """Return a Claude model's name on Vertex AI, where a date follows an `@`."""
    return _DATED.sub(r"@\1", model) if model.startswith("claude-") else model


def without_profile(model: str) -> str:
    """Return a Bedrock model's id without the prefix of its inference profile."""
    return _PROFILE.sub("", model, count=1) if _PROFILE.match(model) else model


def regional_profile(model: str, region: str) -> str:
    """Return the inference profile of a model for a region; empty if `model` is one or an ARN.

    Amazon Bedrock, "Supported regions and models for inference profiles".
    """
    if _PROFILE.match(model) or model.startswith("arn:"):
        return ""
    areas = {
        "ap-northeast": "jp",
        "ap-southeast-2": "au",
        "ap-southeast-4": "au",
        "us-gov": "us-gov",
    }
    area = next((area for start, area in areas.items() if region.startswith(start)), "")
    area = area or {"us": "us", "eu": "eu", "ap": "apac"}.get(region.partition("-")[0], "global")
    return f"{area}.{model}"


def cloud_quirks(model: str, api: str) -> JsonObject:
    """Return the quirks of a model in a cloud that follow from its name.

    Anthropic, API versions: 2026-10-21 rejects sampling. Amazon Bedrock, prompt caching and extended
    thinking: Claude has both, Nova has prompt caching.
    """
    if api == "anthropic":
        return {"sampling": False} if is_new_claude(model) else {}
    if api != "bedrock":
        return {}
    if "anthropic." in model:
        sampling: JsonObject = {} if is_new_claude(model) else {"extra_sampling": ["top_k"]}
        return {"thinking_style": "anthropic", "cache_breakpoints": True, **sampling}
    return {"cache_breakpoints": True} if "amazon.nova" in model else {}
