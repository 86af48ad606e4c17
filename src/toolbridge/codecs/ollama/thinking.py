"""Thinking settings of Ollama's API, in both directions: the field `think`.

Ollama, docs/api: `think` is true, false, or a level ("low", "medium", "high", "max"). There is no
budget in tokens. gpt-oss ignores a boolean and always thinks, so it is sent a level.
"""

from toolbridge.codecs.ollama.quirks import Quirks
from toolbridge.codecs.ollama.shapes import ORIGIN
from toolbridge.core.codec import Lose, Target
from toolbridge.core.errors import MalformedRequest
from toolbridge.core.json import dumps
from toolbridge.core.messages import Effort, Request, Think

_EFFORTS: dict[str, Effort] = {"low": "low", "medium": "medium", "high": "high", "max": "max"}
_LEVELS: dict[Effort, str] = {
    "minimal": "low",
    "low": "low",
    "medium": "medium",
    "high": "high",
    "xhigh": "high",
    "max": "max",
}
_BUDGETS = ((1_024, "low"), (8_192, "medium"))
"""The level for a budget of at most so many tokens; "high" for larger ones."""


def decode_thinking(given: bool | str | None) -> Think:  # noqa: FBT001 (the field is a bool or a level)
    """Return the thinking settings of a request; raise `MalformedRequest` for an unknown level."""
    if given is None:
        return Think()
    if isinstance(given, bool):
        return Think("on" if given else "off")
    if given not in _EFFORTS:
        raise MalformedRequest(
            f"invalid think value: {dumps(given)} "
            '(must be "high", "medium", "low", "max", true, or false)',
            where="think",
        )
    return Think("on", effort=_EFFORTS[given])


def encode_thinking(
    request: Request, target: Target, quirks: Quirks, lose: Lose
) -> bool | str | None:
    """Return the value of `think`; None leaves the field out."""
    think, model = request.think, target.model or request.model
    if think.mode == "off" or think.effort == "none":
        if not quirks.think_levels:
            return False
        lose("think.mode", f"{model} always thinks; the level low was requested")
        return "low"
    if think.mode == "unset" and not think.effort:
        return _default(request, target, quirks)
    if not target.can("thinking"):
        # Ollama, server/routes.go: `think: true` is a 400 for a model without the capability.
        lose("think", f"{model} has no thinking mode")
        return None
    if quirks.think_levels:
        return _level(think)
    if think.effort:
        lose("think.effort", f"{model} has no levels of thinking")
    if think.budget is not None:
        lose("think.budget", "Ollama's API has no limit for thinking")
    # Claude Code sends an effort with every request, also with those for a title.
    return _default(request, target, quirks) if think.mode == "unset" else True


def _default(request: Request, target: Target, quirks: Quirks) -> bool | None:
    """Return the value for a client that has not asked for thinking.

    Ollama, docs/api: without `think`, a model that can think does. Clients of other APIs ask for
    thinking when they need it, and a title must not take a minute. Clients of Ollama rely on the
    default.
    """
    if request.origin == ORIGIN or quirks.think_levels:
        return None
    return False if target.can("thinking", unknown=False) else None


def _level(think: Think) -> str:
    if think.effort:
        return _LEVELS[think.effort]
    if think.budget is None:
        return "medium"
    return next((level for limit, level in _BUDGETS if think.budget <= limit), "high")
