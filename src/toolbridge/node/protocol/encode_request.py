"""Encode a request as the JSON that is encrypted into a node's prompt message.

A node reads `prompt`, `model`, `max_tokens`, `temperature`, `images` and `thinking`. It ignores all
other sampling parameters, so those become losses. A number out of range gets no reply at all.
"""

from toolbridge.core.codec import Outgoing, Rules, Target
from toolbridge.core.json import Json, JsonObject
from toolbridge.core.messages import Effort, Loss, Request, Sampling, Think
from toolbridge.core.shared_fields import carry
from toolbridge.node.protocol.prompt import FlatPrompt, Style, write_prompt

QUIRKS = {
    "framing": '"chatml" (default), or "labelled" for nodes that delete chat template markers',
}

RULES = Rules(may_end_with_assistant=False)

DEFAULT_OUTPUT = 4000
DEFAULT_TEMPERATURE = 0.7
_MAX_TEMPERATURE = 2.0
_MAX_U32 = 2**32 - 1

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
    "top_p": "a node always uses 0.9",
    "top_k": "a node ignores it",
    "min_p": "a node ignores it",
    "seed": "a node always uses 0",
    "frequency_penalty": "the host sets it",
    "presence_penalty": "the host sets it",
    "repeat_penalty": "the host sets it",
    "logprobs": "a node does not report them",
    "n": "a node returns one answer per request",
}


def encode_request(request: Request, target: Target) -> Outgoing:
    """Return the prompt with its parameters.

    Stop sequences are not sent: nodes ignore them, so toolbridge cuts the answer. Numbers are kept
    in range, because a node does not reply to a prompt whose JSON it cannot deserialise.
    """
    flat = write_prompt(request, _style(target))
    temperature, clamped = _temperature(request.sampling)
    body: JsonObject = {
        "prompt": flat.prompt,
        "model": target.model or request.model,
        "max_tokens": min(max(1, request.max_tokens or DEFAULT_OUTPUT), _MAX_U32),
        "temperature": temperature,
        "stream": True,
    }
    if flat.images:
        body["images"] = _images(flat)
    thinking, budget = _thinking(request.think)
    if thinking:
        body["thinking"] = thinking
    body |= target.options
    losses = (*flat.losses, *clamped, *budget, *_lost(request))
    return Outgoing("", body, losses)


def _style(target: Target) -> Style:
    return "labelled" if target.quirks.get("framing") == "labelled" else "chatml"


def _images(flat: FlatPrompt) -> list[Json]:
    return [{"data": image.data, "format": image.format} for image in flat.images]


def _temperature(sampling: Sampling) -> tuple[float, list[Loss]]:
    asked = sampling.temperature
    if asked is None:
        return DEFAULT_TEMPERATURE, []
    taken = min(max(0.0, asked), _MAX_TEMPERATURE)
    why = f"a node accepts 0 to {_MAX_TEMPERATURE:g}"
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
        losses.append(
            Loss("tools", "a node has no tool parameter; the prompt must describe the tools")
        )
    if request.output is not None:
        losses.append(Loss("output", "a node cannot enforce JSON output"))
    return losses + carry(request, "node")[1]
