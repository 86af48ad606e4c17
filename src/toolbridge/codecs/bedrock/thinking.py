"""Thinking settings and reasoning blocks of the Converse API.

Amazon Bedrock, Converse: `outputConfig.effort` is the effort of models that have one; the settings of
Anthropic's models go unchanged into `additionalModelRequestFields.thinking`.
"""

from toolbridge.codecs.bedrock.quirks import Quirks
from toolbridge.codecs.bedrock.shapes import ORIGIN
from toolbridge.core.codec import Lose
from toolbridge.core.json import JsonObject
from toolbridge.core.messages import Opaque, Think, Thinking

_LEAST_BUDGET = 1024
"""Anthropic, extended thinking: 1024 <= `budget_tokens` < `max_tokens`."""
_EFFORTS = frozenset({"low", "medium", "high", "xhigh", "max"})


def encode_thinking(
    think: Think, max_tokens: int | None, quirks: Quirks, lose: Lose
) -> tuple[JsonObject, str]:
    """Return the object `thinking` of Anthropic's models, or an empty one, and the effort."""
    asked = think.mode in {"on", "auto", "between_tools"} or think.effort not in {"", "none"}
    if not asked:
        return {}, ""
    if quirks.thinking_style == "none":
        lose("think", "this model's thinking cannot be set; see the quirk `thinking_style`")
        return {}, ""
    effort = _effort(think, lose)
    if quirks.thinking_style == "effort":
        if think.budget is not None:
            lose("think.budget", "Converse has no budget for thinking")
        return {}, effort
    if think.mode == "on" and think.budget is not None:
        return _budget(think.budget, max_tokens, lose), effort
    return ({} if think.mode == "unset" else {"type": "adaptive"}), effort


def _effort(think: Think, lose: Lose) -> str:
    if think.effort in {"", "none"}:
        return ""
    if think.effort not in _EFFORTS:
        lose("think.effort", "became low, the lowest effort of Converse")
        return "low"
    return think.effort


def _budget(budget: int, max_tokens: int | None, lose: Lose) -> JsonObject:
    most = (max_tokens or budget + 1) - 1
    if most < _LEAST_BUDGET:
        lose("think", f"thinking needs max_tokens of more than {_LEAST_BUDGET}")
        return {}
    fitting = min(max(budget, _LEAST_BUDGET), most)
    if fitting != budget:
        lose("think.budget", f"{budget} became {fitting}: from {_LEAST_BUDGET} to below max_tokens")
    return {"type": "enabled", "budget_tokens": fitting}


def encode_thought(thought: Thinking) -> JsonObject | None:
    """Return the block of a thought that Bedrock signed or encrypted; None for any other."""
    own = [t for t in thought.opaque if t.origin.partition("/")[0] == ORIGIN]
    for token in own:
        if token.kind == "signature":
            text: JsonObject = {"text": thought.text, "signature": token.value}
            return {"reasoningContent": {"reasoningText": text}}
        if token.kind == "redacted":
            return {"reasoningContent": {"redactedContent": token.value}}
    return None


def signature(value: str) -> Opaque:
    return Opaque(ORIGIN, "signature", value)


def redacted(value: str) -> Opaque:
    return Opaque(ORIGIN, "redacted", value)
