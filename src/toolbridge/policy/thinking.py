"""Whether a model can think, and what becomes of a request that wants it to."""

from typing import Literal

import msgspec
from msgspec.structs import replace

from toolbridge.core.errors import ThinkingUnsupported
from toolbridge.core.messages import Loss, Request, Think

THINKING_PREFIXES = ("qwen3", "deepseek-r1", "magistral", "nemotron", "glm4", "qwq")


class Verdict(msgspec.Struct, frozen=True):
    request: Request
    losses: tuple[Loss, ...] = ()


def is_thinking_capable(model: str) -> bool:
    """Whether a model thinks, by its name alone: `library/qwen3:8b` is known by `qwen3`."""
    name, _, _ = model.lower().rpartition("/")[2].partition(":")
    return name.startswith(THINKING_PREFIXES)


def needs_thinking_validation(request: Request) -> bool:
    """Whether the client says anything about thinking."""
    return request.think.mode != "unset"


def attaches(user_agent: str, app: str = "") -> bool:
    """Whether a client asks for thinking by itself, without its user.

    Claude Code does, and Qwen Code under the same user agent: both send it for every model.
    """
    return user_agent.lower().startswith("claude-cli/") or app.lower() == "cli"


def decide(
    request: Request,
    *,
    capable: bool,
    setting: Literal["auto", "drop", "reject"] = "auto",
    attaches: bool = False,
) -> Verdict:
    """Let a request for thinking pass, drop it with a loss, or raise `ThinkingUnsupported`."""
    mode = request.think.mode
    if capable or mode in {"unset", "off"}:
        return Verdict(request)
    asked_for = mode == "on" and not attaches
    if setting == "reject" or (setting == "auto" and asked_for):
        raise ThinkingUnsupported(_explain(request.model), where="thinking")
    loss = Loss("think", f"{request.model} cannot think; it is asked to answer at once")
    return Verdict(replace(request, think=Think()), (loss,))


def _explain(model: str) -> str:
    return (
        f"{model!r} does not support thinking. Models that do have names that begin with "
        f"{', '.join(THINKING_PREFIXES)}. Ask one of these, leave thinking out of the request, "
        'or set thinking = "drop" in the configuration.'
    )
