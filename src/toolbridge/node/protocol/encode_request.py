"""Our request as what is sealed into a prompt."""

from toolbridge.core.codec import Outgoing, Rules, Target
from toolbridge.core.json import Json, JsonObject
from toolbridge.core.messages import Effort, Loss, Request, Sampling, Think
from toolbridge.core.shared_fields import carry
from toolbridge.node.protocol.prompt import FlatPrompt, Style, write_prompt

QUIRKS = {
    "framing": '"chatml" (default), or "labelled" for nodes that delete the marks of a template',
}

RULES = Rules(may_end_with_assistant=False)

DEFAULT_OUTPUT = 4000
DEFAULT_TEMPERATURE = 0.7
_HOTTEST = 2.0
_MOST = 2**32 - 1

_LEVELS: dict[Effort, str] = {
    "none": "disabled",
    "minimal": "low",
    "low": "low",
    "medium": "medium",
    "high": "high",
    "xhigh": "high",
    "max": "high",
}
_FIXED = {
    "top_p": "a node's is always 0.9",
    "top_k": "a node does not use it",
    "min_p": "a node does not use it",
    "seed": "a node's is always 0",
    "frequency_penalty": "the host decides on it",
    "presence_penalty": "the host decides on it",
    "repeat_penalty": "the host decides on it",
    "logprobs": "a node does not report them",
    "n": "a node gives one answer to a request",
}


def encode_request(request: Request, target: Target) -> Outgoing:
    """Return the prompt and its settings; stop sequences are cut by us and not sent.

    Every value stays within what a node can read: one that it cannot read gets no answer at all.
    """
    flat = write_prompt(request, _style(target))
    temperature, hot = _temperature(request.sampling)
    body: JsonObject = {
        "prompt": flat.prompt,
        "model": target.model or request.model,
        "max_tokens": min(max(1, request.max_tokens or DEFAULT_OUTPUT), _MOST),
        "temperature": temperature,
        "stream": True,
    }
    if flat.images:
        body["images"] = _images(flat)
    thinking, thoughts = _thinking(request.think)
    if thinking:
        body["thinking"] = thinking
    body |= target.options
    losses = (*flat.losses, *hot, *thoughts, *_lost(request))
    return Outgoing("", body, losses)


def _style(target: Target) -> Style:
    return "labelled" if target.quirks.get("framing") == "labelled" else "chatml"


def _images(flat: FlatPrompt) -> list[Json]:
    return [{"data": image.data, "format": image.format} for image in flat.images]


def _temperature(sampling: Sampling) -> tuple[float, list[Loss]]:
    asked = sampling.temperature
    if asked is None:
        return DEFAULT_TEMPERATURE, []
    taken = min(max(0.0, asked), _HOTTEST)
    why = f"a node takes 0 to {_HOTTEST:g}"
    return taken, [] if taken == asked else [Loss("sampling.temperature", why)]


def _thinking(think: Think) -> tuple[str, list[Loss]]:
    if think.mode == "off":
        return "disabled", []
    losses = [Loss("think.budget", "a node has no limit for thinking")] if think.budget else []
    if think.effort:
        return _LEVELS[think.effort], losses
    return ("" if think.mode in {"unset", "auto"} else "enabled"), losses


def _lost(request: Request) -> list[Loss]:
    losses = [
        Loss(f"sampling.{name}", why)
        for name, why in _FIXED.items()
        if getattr(request.sampling, name) is not None
    ]
    if request.tools:
        losses.append(Loss("tools", "a node has no tools; a prompt must describe them"))
    if request.output is not None:
        losses.append(Loss("output", "a node cannot be held to JSON"))
    return losses + carry(request, "node")[1]
