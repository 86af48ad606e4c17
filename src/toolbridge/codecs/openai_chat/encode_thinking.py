"""How each place is asked to think."""

from collections.abc import Callable

from toolbridge.codecs.openai_chat.quirks import Quirks
from toolbridge.core.codec import Target
from toolbridge.core.json import JsonObject
from toolbridge.core.messages import Effort, Loss, Think

_BUDGETS: tuple[tuple[int, Effort], ...] = ((1_024, "low"), (8_192, "medium"))
"""The effort that a budget of thinking tokens stands for; above the last, "high"."""
_LADDER: tuple[Effort, ...] = ("minimal", "low", "medium", "high", "xhigh", "max")


def encode_thinking(
    think: Think, quirks: Quirks, target: Target, *, tools: bool
) -> tuple[JsonObject, list[Loss]]:
    """Return the fields that ask for thinking, or for none, and what could not be asked."""
    asker = _Asker(think, quirks)
    if asker.wanted and not target.can("thinking"):
        return {}, [Loss("think", f"{target.model} cannot think")]
    if tools and not quirks.effort_with_tools:
        if asker.wanted:
            asker.lose("think", "this model takes tools only without reasoning")
        return {"reasoning_effort": "none"}, asker.losses
    return asker.ask(), asker.losses


class _Asker:
    def __init__(self, think: Think, quirks: Quirks) -> None:
        self._think = think
        self._quirks = quirks
        self.losses: list[Loss] = []
        self.off = think.mode == "off" or think.effort == "none"
        self.wanted = not self.off and (think.mode != "unset" or bool(think.effort))

    def lose(self, what: str, why: str) -> None:
        self.losses.append(Loss(what, why))

    def ask(self) -> JsonObject:
        ways: dict[str, Callable[[], JsonObject]] = {
            "openai": self._openai,
            "zai": self._zai,
            "qwen": self._qwen,
            "openrouter": self._openrouter,
            "llamacpp": self._llamacpp,
        }
        way = ways.get(self._quirks.thinking_format)
        if self._think.show and (self._quirks.thinking_format != "openrouter" or self.off):
            self.lose("think.show", "this place decides by itself what it shows of its thoughts")
        if way is None:
            if self.wanted or self.off:
                self.lose("think", "this place cannot be told how to think")
            return {}
        return way() if self.wanted or self.off else {}

    def _openai(self) -> JsonObject:
        if self.off:
            never = bool(self._quirks.effort_off)
            if self._quirks.effort_none or (self._think.effort == "none" and not never):
                return {"reasoning_effort": "none"}
            least = self._quirks.effort_off
            asked = f"; it is asked for the effort {least!r}" if least else ""
            self.lose("think.mode", f"this model cannot be told not to think{asked}")
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
            self.lose("think.budget", f"became the effort {effort!r}: there are no budgets here")
            return effort
        return self._nearest("medium") if think.mode == "on" else ""

    def _nearest(self, effort: Effort) -> Effort:
        """Return the level of this place that is nearest, the lower one of two."""
        known = [level for level in _LADDER if level in self._quirks.efforts]
        if effort in known or not known:
            return effort if known else ""
        at = _LADDER.index(effort)
        near = min(known, key=lambda level: abs(_LADDER.index(level) - at))
        self.lose("think.effort", f"{effort!r} became {near!r}, the nearest that this place knows")
        return near

    def _switch(self) -> bool | None:
        """Return whether to think, for places that know only that; None leaves it to them."""
        for name in ("effort", "budget"):
            if getattr(self._think, name) not in {None, "", "none"}:
                self.lose(f"think.{name}", "this place thinks or does not; it knows no measure")
        if self.off:
            return False
        return True if self._think.mode == "on" or self._think.effort else None

    def _zai(self) -> JsonObject:
        switch = self._switch()
        if switch is None:
            return {}
        return {"thinking": {"type": "enabled" if switch else "disabled"}}

    def _qwen(self) -> JsonObject:
        switch = self._switch()
        return {} if switch is None else {"enable_thinking": switch}

    def _llamacpp(self) -> JsonObject:
        if self._think.budget is not None:
            self.lose("think.budget", "a template takes no budget")
        known: JsonObject = {"enable_thinking": not self.off}
        if self.off and self._quirks.effort_off:
            self.lose("think.mode", f"this model always thinks, now {self._quirks.effort_off!r}")
            known["reasoning_effort"] = self._quirks.effort_off
        if self._think.effort not in {"", "none"}:
            known["reasoning_effort"] = self._nearest(self._think.effort)
        if self._think.mode == "auto" and not self._think.effort:
            return {}
        return {"chat_template_kwargs": known}

    def _openrouter(self) -> JsonObject:
        """Say one thing only: an effort beside a switch or a budget may contradict it."""
        think = self._think
        if self.off:
            return {"reasoning": {"enabled": False}}
        wanted: JsonObject = {}
        if think.budget is not None:
            wanted["max_tokens"] = think.budget
        elif think.effort:
            wanted["effort"] = self._nearest(think.effort)
        elif think.mode == "on":
            wanted["enabled"] = True
        if think.show == "omitted":
            wanted["exclude"] = True
        elif think.show:
            self.lose("think.show", "reasoning is shown as it comes or not at all")
        return {"reasoning": wanted} if wanted else {}
