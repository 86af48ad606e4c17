"""Thinking settings of Chat Completions, and the tokens that seal thoughts, in both directions.

OpenAI's own field is `reasoning_effort`. Other providers have fields of their own; the quirk
`thinking_format` selects one. OpenAI returns no thoughts on this API. OpenRouter returns them in
`reasoning_details`, some with a signature or encrypted; these must be sent back unchanged.
"""

from collections.abc import Callable

import msgspec

from toolbridge.codecs.openai_chat.quirks import Quirks
from toolbridge.codecs.openai_chat.shapes import ORIGIN, Delta, Detail
from toolbridge.core.codec import Target
from toolbridge.core.json import Json, JsonObject
from toolbridge.core.messages import Effort, Loss, Opaque, Think, Thinking

_EFFORTS: dict[str, Effort] = {
    "minimal": "minimal",
    "low": "low",
    "medium": "medium",
    "high": "high",
    "xhigh": "xhigh",
    "max": "max",
}
_LADDER: tuple[Effort, ...] = ("minimal", "low", "medium", "high", "xhigh", "max")
_BUDGETS: tuple[tuple[int, Effort], ...] = ((1_024, "low"), (8_192, "medium"))
"""The effort for a budget of at most so many tokens; "high" for larger ones."""


def decode_thinking(effort: str | None, extra: JsonObject) -> Think:
    """Return the thinking settings; an unknown effort is kept in `extra` as it is."""
    if not effort:
        return Think()
    if effort == "none":
        return Think("off", effort="none")
    if effort not in _EFFORTS:
        extra["reasoning_effort"] = effort
        return Think("on")
    return Think("on", effort=_EFFORTS[effort])


def encode_thinking(
    think: Think, quirks: Quirks, target: Target, *, tools: bool
) -> tuple[JsonObject, list[Loss]]:
    """Return the fields that turn thinking on or off, and the losses."""
    encoder = _ThinkingEncoder(think, quirks)
    if encoder.on and not target.can("thinking"):
        return {}, [Loss("think", f"{target.model} has no thinking mode")]
    if tools and not quirks.effort_with_tools:
        # OpenAI chat, gpt-5.6 and later: "Function tools with reasoning_effort are not supported …
        # set reasoning_effort to 'none'" (400).
        if encoder.on:
            encoder.lose("think", "this model accepts tools only without reasoning")
        return {"reasoning_effort": "none"}, encoder.losses
    return encoder.encode(), encoder.losses


def accepts_sampling(thinking: JsonObject, quirks: Quirks) -> bool:
    """Return whether the model accepts temperature and top_p beside these settings."""
    if not quirks.sampling:
        return False
    effort = thinking.get("reasoning_effort") or quirks.default_effort
    return quirks.sampling_with_effort or effort == "none"


class _ThinkingEncoder:
    """Writes the thinking settings in the fields of one provider."""

    def __init__(self, think: Think, quirks: Quirks) -> None:
        self._think = think
        self._quirks = quirks
        self.losses: list[Loss] = []
        self.off = think.mode == "off" or think.effort == "none"
        self.on = not self.off and (think.mode != "unset" or bool(think.effort))

    def lose(self, what: str, why: str) -> None:
        self.losses.append(Loss(what, why))

    def encode(self) -> JsonObject:
        formats: dict[str, Callable[[], JsonObject]] = {
            "openai": self._openai,
            "zai": self._zai,
            "qwen": self._qwen,
            "openrouter": self._openrouter,
            "llamacpp": self._llamacpp,
        }
        format = formats.get(self._quirks.thinking_format)
        if self._think.show and (self._quirks.thinking_format != "openrouter" or self.off):
            self.lose("think.show", "this provider has no setting for what it shows of thoughts")
        if format is None:
            if self.on or self.off:
                self.lose("think", "this provider has no setting for thinking")
            return {}
        return format() if self.on or self.off else {}

    def _openai(self) -> JsonObject:
        if self.off:
            if not self._quirks.efforts and not self._quirks.effort_none:
                return {}  # a model that rejects the parameter
            always = bool(self._quirks.effort_off)
            if self._quirks.effort_none or (self._think.effort == "none" and not always):
                return {"reasoning_effort": "none"}
            least = self._quirks.effort_off
            instead = f"; the effort {least!r} is sent" if least else ""
            self.lose("think.mode", f"thinking cannot be turned off for this model{instead}")
            return {"reasoning_effort": least} if least else {}
        effort = self._effort()
        return {"reasoning_effort": effort} if effort else {}

    def _effort(self) -> Effort:
        think = self._think
        if think.effort:
            return self._nearest(think.effort)
        if think.budget is not None:
            high: Effort = "high"
            within = (effort for limit, effort in _BUDGETS if think.budget <= limit)
            effort = self._nearest(next(within, high))
            self.lose("think.budget", f"sent as the effort {effort!r}: this API has no budgets")
            return effort
        return self._nearest("medium") if think.mode == "on" else ""

    def _nearest(self, effort: Effort) -> Effort:
        """Return the nearest effort that the provider has, the lower one of two."""
        known = [level for level in _LADDER if level in self._quirks.efforts]
        if not known:
            self.lose("think.effort", "this model has no levels of thinking")
            return ""
        if effort in known:
            return effort
        at = _LADDER.index(effort)
        near = min(known, key=lambda level: abs(_LADDER.index(level) - at))
        self.lose("think.effort", f"{effort!r} became {near!r}, the nearest that is supported")
        return near

    def _switch(self) -> bool | None:
        """Return the value of an on/off switch; None leaves the field out."""
        for name in ("effort", "budget"):
            if getattr(self._think, name) not in {None, "", "none"}:
                self.lose(f"think.{name}", "this provider can only turn thinking on or off")
        if self.off:
            return False
        return True if self._think.mode == "on" or self._think.effort else None

    def _zai(self) -> JsonObject:
        # Z.ai and Moonshot, chat completions: `thinking: {"type": "enabled" | "disabled"}`.
        switch = self._switch()
        if switch is None:
            return {}
        return {"thinking": {"type": "enabled" if switch else "disabled"}}

    def _qwen(self) -> JsonObject:
        # Alibaba Model Studio, chat completions: `enable_thinking`.
        switch = self._switch()
        return {} if switch is None else {"enable_thinking": switch}

    def _llamacpp(self) -> JsonObject:
        # llama.cpp and vLLM: `chat_template_kwargs` are the variables of the model's chat template.
        if self._think.budget is not None:
            self.lose("think.budget", "a chat template has no budget for thinking")
        known: JsonObject = {"enable_thinking": not self.off}
        if self.off and self._quirks.effort_off:
            least = self._quirks.effort_off
            self.lose("think.mode", f"this model always thinks; the effort {least!r} is sent")
            known["reasoning_effort"] = least
        if self._think.effort not in {"", "none"}:
            known["reasoning_effort"] = self._nearest(self._think.effort)
        if self._think.mode == "auto" and not self._think.effort:
            return {}
        return {"chat_template_kwargs": known}

    def _openrouter(self) -> JsonObject:
        """Return exactly one setting.

        OpenRouter, reasoning tokens: `effort` and `max_tokens` exclude each other, and an effort
        beside `enabled: false` is contradictory (musistudio/claude-code-router#1378).
        """
        think = self._think
        if self.off:
            return {"reasoning": {"enabled": False}}
        fields: JsonObject = {}
        if think.budget is not None:
            fields["max_tokens"] = think.budget
        elif think.effort:
            fields["effort"] = self._nearest(think.effort)
        elif think.mode == "on":
            fields["enabled"] = True
        if think.show == "omitted":
            fields["exclude"] = True
        elif think.show:
            self.lose("think.show", "OpenRouter shows thoughts in full or not at all")
        return {"reasoning": fields} if fields else {}


# ── sealed thoughts ──────────────────────────────────────────────────────────


def decode_thought(delta: Delta) -> tuple[str, str]:
    """Return the field and the text of a thought: the first of its fields that is present.

    DeepSeek, Qwen, Kimi, GLM: `reasoning_content`. OpenRouter, Groq, vLLM, Ollama: `reasoning`.
    Some servers send the same text in two fields.
    """
    named = (
        ("", delta.reasoning_content),
        ("reasoning", delta.reasoning),
        ("thinking", delta.thinking),
    )
    found = ((field, text) for field, text in named if isinstance(text, str) and text)
    return next(found, ("", ""))


def decode_seal(detail: Detail) -> Opaque | None:
    """Return the token of a reasoning detail; None for one without a token.

    OpenRouter, reasoning tokens: details must be sent back unmodified, so one with an id, a format
    or an index is kept whole.
    """
    token = detail.signature or detail.data
    if not token:
        return None
    if (detail.id, detail.format, detail.index) == (None, None, None):
        return Opaque(ORIGIN, "signature" if detail.signature else "redacted", token)
    bare = msgspec.structs.replace(detail, text=None, summary=None)
    return Opaque(ORIGIN, "item", msgspec.json.encode(bare).decode())


def encode_seal(opaque: Opaque) -> Detail | None:
    """Return the detail that a token came in; None for a token of another API."""
    if opaque.origin.partition("/")[0] != ORIGIN:
        return None
    if opaque.kind == "signature":
        return Detail("reasoning.text", signature=opaque.value)
    if opaque.kind == "item":
        return msgspec.json.decode(opaque.value, type=Detail)
    return Detail("reasoning.encrypted", data=opaque.value)


def encode_seals(thought: Thinking) -> list[Detail]:
    """Return the details of all tokens of a thought, without its text."""
    return [seal for opaque in thought.opaque if (seal := encode_seal(opaque))]


def encode_details(thought: Thinking) -> list[Json]:
    """Return a sealed thought as `reasoning_details` of a request.

    The text belongs to the detail with the signature, which is computed over it.
    """
    seals = encode_seals(thought)
    signed = next((seal for seal in seals if seal.signature), None)
    if signed is not None:
        signed.text = thought.text
    elif seals and thought.text:
        seals.insert(0, Detail("reasoning.summary", summary=thought.text))
    return [msgspec.to_builtins(seal) for seal in seals]
