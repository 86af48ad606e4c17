"""Whether a model can think, and what becomes of a request that wants it to."""

from typing import Literal

import msgspec
from msgspec.structs import replace

from toolbridge.core.codec import Target
from toolbridge.core.errors import ThinkingUnsupported
from toolbridge.core.json import JsonObject
from toolbridge.core.messages import Loss, Request, Think

THINKING_PREFIXES = ("qwen3", "deepseek-r1", "magistral", "nemotron", "glm4", "qwq")


class Verdict(msgspec.Struct, frozen=True):
    request: Request
    losses: tuple[Loss, ...] = ()


def is_thinking_capable(model: str) -> bool:
    """Whether a model thinks, by its name alone: `library/qwen3:8b` is known by `qwen3`."""
    name, _, _ = model.lower().rpartition("/")[2].partition(":")
    return name.startswith(THINKING_PREFIXES)


_AGENTS = ("claude-cli/", "geminicli", "qwencode/", "opencode/", "codex")
"""How the user agents of clients begin that ask for thinking by themselves, for every model.

Claude Code (and Qwen Code under its name) sends a budget of Anthropic's, Gemini CLI one of Gemini's.
"""


def attaches(user_agent: str, app: str = "") -> bool:
    """Whether a client asks for thinking by itself, without its user."""
    return user_agent.lower().startswith(_AGENTS) or app.lower() == "cli"


def with_levels(target: Target, api: str) -> Target:
    """Return `target` with what is known of models that only take levels and always think.

    gpt-oss reads `low`, `medium` or `high` from its prompt (OpenAI harmony) and ignores a switch.
    What the configuration says about the model stays.
    """
    name, _, _ = target.model.lower().rpartition("/")[2].partition(":")
    known = _LEVEL_QUIRKS.get(api)
    if known is None or not name.startswith(_LEVEL_PREFIXES):
        return target
    return replace(target, quirks=known | target.quirks)


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
    """Let a request for thinking pass, drop it with a loss, or raise `ThinkingUnsupported`.

    One rule for all APIs: a level may always be dropped, only a budget of an API's caller is an
    error, and a model that cannot think need not be told not to.
    """
    mode = request.think.mode
    if capable or mode == "unset":
        return Verdict(request)
    if mode == "off":
        return Verdict(replace(request, think=Think()))
    asked_for = _is_budget(request) and not attaches
    if setting == "reject" or (setting == "auto" and asked_for):
        raise ThinkingUnsupported(_explain(request.model), where="thinking")
    loss = Loss("think", f"{request.model} cannot think; it is asked to answer at once")
    return Verdict(replace(request, think=Think()), (loss,))


def _is_budget(request: Request) -> bool:
    """Whether thinking is asked for by a budget; Anthropic's `enabled` means one, named or not."""
    think = request.think
    return think.mode == "on" and (think.budget is not None or request.origin == "anthropic")


def _explain(model: str) -> str:
    return (
        f"{model!r} does not support thinking. Models that do have names that begin with "
        f"{', '.join(THINKING_PREFIXES)}. Ask one of these, leave thinking out of the request, "
        'or set thinking = "drop" in the configuration.'
    )
