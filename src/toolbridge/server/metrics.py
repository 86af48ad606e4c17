"""Counters for `/metrics`, in the text format that Prometheus reads."""

from collections import Counter
from typing import TypeAlias

from toolbridge.server.journal import Entry

Labels: TypeAlias = tuple[tuple[str, str], ...]
_HELP = {
    "toolbridge_requests_total": "Requests, by surface, model that served and status.",
    "toolbridge_tokens_total": "Tokens, by direction and model.",
    "toolbridge_cost_usd_total": "What the answers cost, where the price is known.",
    "toolbridge_healed_total": "Changes that healing made to tool calls, by kind and level.",
    "toolbridge_dropped_total": "What a target could not express, by what it was.",
    "toolbridge_failures_total": "Answers that failed, by kind of error.",
    "toolbridge_seconds_total": "Time from request to last byte.",
    "toolbridge_first_token_seconds_total": "Time from request to the first word of the answer.",
}


class Metrics:
    """Bounded: labels come from our own words and from the models that the roster knows."""

    MAX_SERIES = 2000

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, Labels]] = Counter()

    def add(self, name: str, value: float, *labels: tuple[str, str]) -> None:
        """Add to a series; its labels come in the order of their names."""
        key = (name, labels)
        if key in self._counts or len(self._counts) < self.MAX_SERIES:
            self._counts[key] += value  # type: ignore[assignment]  # a Counter counts floats too

    def record(self, entry: Entry, status: int, seconds: float) -> None:
        surface = ("surface", str(entry.fields.get("surface", "")))
        model = ("model", str(entry.fields.get("gen_ai.response.model", "")))
        self.add("toolbridge_requests_total", 1, model, ("status", str(status)), surface)
        self.add("toolbridge_seconds_total", seconds, surface)
        if entry.first_token is not None:
            self.add("toolbridge_first_token_seconds_total", entry.first_token, surface)
        for loss in entry.losses:
            self.add("toolbridge_dropped_total", 1, ("what", loss.what.partition(".")[0]))
        for report in entry.healed:
            for step in report.steps:
                level = ("level", str(step.level))
                self.add("toolbridge_healed_total", 1, level, ("what", step.what))
        if entry.message is None:
            return
        usage = entry.message.usage
        self.add("toolbridge_tokens_total", usage.input_total, ("direction", "input"), model)
        self.add("toolbridge_tokens_total", usage.output, ("direction", "output"), model)
        if usage.cost is not None:
            self.add("toolbridge_cost_usd_total", usage.cost.total, model)
        if entry.message.problem is not None:
            self.add("toolbridge_failures_total", 1, ("kind", entry.message.problem.kind))

    def text(self) -> str:
        lines: list[str] = []
        for name in sorted({name for name, _ in self._counts}):
            lines += [f"# HELP {name} {_HELP.get(name, name)}", f"# TYPE {name} counter"]
            for (series, labels), value in sorted(self._counts.items()):
                if series == name:
                    shown = ",".join(f'{key}="{_escape(text)}"' for key, text in labels)
                    lines.append(f"{name}{{{shown}}} {value:g}")
        return "\n".join(lines) + "\n"


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
