"""Decide about a request for thinking (reasoning) to a model that may not support it.

The setting `thinking` chooses whether such a request is rejected or answered without thinking.
Budgets and efforts are translated by the codecs.
"""

from functools import lru_cache
from typing import Literal

import msgspec
from msgspec.structs import replace

from toolbridge.core.codec import Target
from toolbridge.core.errors import ThinkingUnsupported
from toolbridge.core.json import JsonObject
from toolbridge.core.messages import Loss, Request, Think

THINKING_PREFIXES = ("qwen3", "deepseek-r1", "magistral", "nemotron", "glm4", "qwq")


class Verdict(msgspec.Struct, frozen=True):
    """The request to send, and its losses."""

    request: Request
    losses: tuple[Loss, ...] = ()


def is_thinking_capable(model: str) -> bool:
    """Return whether a model supports thinking, by its name: `library/qwen3:8b` is a `qwen3`."""
    name, _, _ = model.lower().rpartition("/")[2].partition(":")
    return name.startswith(THINKING_PREFIXES)


_AGENTS = ("claude-cli/", "geminicli", "qwencode/", "opencode/", "codex")
"""Prefixes of the User-Agent of clients that request thinking by default, for every model.

Claude Code (and Qwen Code, which uses its name) sends `thinking.budget_tokens` (Anthropic), Gemini
CLI `thinkingConfig.thinkingBudget` (Gemini).
"""


def attaches(user_agent: str, app: str = "") -> bool:
    """Return whether a client requests thinking by default, not because of its user."""
    return user_agent.lower().startswith(_AGENTS) or app.lower() == "cli"


def with_levels(target: Target, api: str) -> Target:
    """Return `target` with the quirks of models that always think and accept levels only.

    gpt-oss reads `low`, `medium` or `high` from its prompt (OpenAI harmony format, "Reasoning:")
    and cannot turn thinking off. Quirks from the configuration override these.
    """
    known = _LEVEL_QUIRKS.get(api)
    if known is None:
        return target
    if not _takes_levels(target.model):
        return target
    return replace(target, quirks=known | target.quirks)


@lru_cache(maxsize=256)
def _takes_levels(model: str) -> bool:
    name, _, _ = model.lower().rpartition("/")[2].partition(":")
    return name.startswith(_LEVEL_PREFIXES)


_LEVEL_PREFIXES = ("gpt-oss",)
_LEVEL_QUIRKS: dict[str, JsonObject] = {
    "ollama": {"think_levels": True},
    "openai_chat": {"efforts": ["low", "medium", "high"], "effort_off": "low"},
}


def decide(
    request: Request,
    *,
    capable: bool,
    setting: Literal["auto", "drop", "reject"] = "auto",
    attaches: bool = False,
) -> Verdict:
    """Keep a request for thinking, remove it with a loss, or raise `ThinkingUnsupported`.

    One rule for all APIs: with the setting `auto`, an effort level is removed, and a token budget
    is an error unless the client `attaches` it by default. `off` is removed without a loss.
    """
    mode = request.think.mode
    if capable or mode == "unset":
        return Verdict(request)
    if mode == "off":
        return Verdict(replace(request, think=Think()))
    by_user = _is_budget(request) and not attaches
    if setting == "reject" or (setting == "auto" and by_user):
        raise ThinkingUnsupported(_explain(request.model), where="thinking")
    loss = Loss("think", f"{request.model} does not support thinking; it answers without")
    return Verdict(replace(request, think=Think()), (loss,))


def _is_budget(request: Request) -> bool:
    """Return whether the request has a token budget.

    Anthropic, Messages API: `thinking.type` "enabled" requires `budget_tokens` (>= 1024 and less
    than `max_tokens`), so that it counts as a budget even if the number is missing.
    """
    think = request.think
    return think.mode == "on" and (think.budget is not None or request.origin == "anthropic")


def _explain(model: str) -> str:
    return (
        f"{model!r} does not support thinking. On Ollama, models with names that begin with "
        f"{', '.join(THINKING_PREFIXES)} do. Choose another model, remove `thinking` from the "
        'request, or set thinking = "drop" in toolbridge.toml.'
    )
