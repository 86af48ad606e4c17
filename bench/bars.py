"""The bars: what each figure must reach, and what would be better still.

A bar finds its figures in the result of a run. Most are ratios to nginx; those of peers are how many
times more they cost than toolbridge, so there a higher figure is better.
"""

from dataclasses import dataclass

LITELLM, ENGINE = "LiteLLM", "claude-code-router engine"


@dataclass(frozen=True)
class Bar:
    """A row of the table: a name, two limits, and the path of the figure in the result."""

    name: str
    path: tuple[str, ...]
    unit: str = "×"
    must: float | None = None
    beyond: float | None = None
    higher_is_better: bool = False
    factor: float = 1.0
    """What the figures of the result are multiplied by."""

    def values(self, result: dict) -> list[float | None]:
        """Return the figure for each upstream API, or the only one."""
        if "API" not in self.path:
            found = [_at(result, self.path)]
        else:
            found = [
                _at(result, tuple(api if part == "API" else part for part in self.path))
                for api in ("ollama", "openai_chat")
            ]
        return [None if value is None else value * self.factor for value in found]

    def reached(self, value: float) -> str:
        """Return "beyond", "must", "missed", or nothing for a figure without a limit."""
        for limit, name in ((self.beyond, "beyond"), (self.must, "must")):
            if limit is not None and (value >= limit if self.higher_is_better else value <= limit):
                return name
        return "" if self.must is None else "missed"


def _at(result: dict, path: tuple[str, ...]) -> float | None:
    for part in path:
        if not isinstance(result, dict) or part not in result:
            return None
        result = result[part]
    return result


def _ratio(name: str, scenario: str, must: float | None = None, beyond: float | None = None) -> Bar:
    path = ("gateway", "API", scenario, "toolbridge", "ratio")
    return Bar(name, path, must=must, beyond=beyond)


def _stall(kilobytes: int, which: str, name: str, must: float | None, beyond: float | None) -> Bar:
    path = ("gateway", "API", f"stall, {kilobytes} KB", "toolbridge", which)
    return Bar(f"longest stall, {kilobytes} KB, {name}", path, " ms", must, beyond)


def _start(name: str, figure: str, unit: str, must: float | None, beyond: float | None) -> Bar:
    return Bar(name, ("gateway", "start", "toolbridge", figure), unit, must, beyond)


def _peer(name: str, scenario: str, peer: str, must: float | None, beyond: float | None) -> Bar:
    path = ("peers", scenario, peer, "times_toolbridge")
    return Bar(name, path, "×", must, beyond, higher_is_better=True)


NGINX_BARS = (
    _ratio("JSON, 64 at a time, plain", "JSON, plain", 14, 8),
    _ratio("JSON, 15 tools", "JSON, 15 tools", 18, 10),
    _ratio("JSON, 60 tools", "JSON, 60 tools"),
    _ratio("stream of 20 chunks, 50 at a time, plain", "stream, plain", 12, 7),
    _ratio("stream, 15 tools", "stream, 15 tools", 20, 10),
    _ratio("stream, 60 tools", "stream, 60 tools"),
    _ratio("write, chunks apart, plain", "write, plain", 3.3, 2.5),
    _ratio("write, 15 tools", "write, 15 tools", 5, 3.5),
    _ratio("write, the chunks of all streams one by one", "write, one by one"),
    _ratio("chunk of a burst", "burst chunk", 8, 5),
    _ratio("1,000 paced streams, per chunk", "paced streams, per chunk", 2.8, 2),
    _ratio("structured stream, per delta", "structured stream, per delta"),
    _ratio("agent's turn, 2 KB", "agent, 2 KB"),
    _ratio("agent's turn, 48 KB", "agent, 48 KB"),
    _ratio("agent's turn, 311 KB", "agent, 311 KB"),
    _ratio("agent's turn, 600 KB", "agent, 600 KB"),
)
OTHER_BARS = (
    _stall(48, "cold_ms", "cold", None, None),
    _stall(311, "cold_ms", "cold", 6, 3),
    _stall(311, "same_ms", "same session", 4, 2),
    _stall(600, "cold_ms", "cold", 10, 5),
    _stall(600, "same_ms", "same session", 6, 5),
    Bar("the same through nginx, 600 KB: the delay of the machine", ("gateway", "API", "stall, 600 KB", "nginx", "cold_ms"), " ms"),
    Bar("memory for four slow readers", ("gateway", "API", "slow readers", "toolbridge", "growth_mb"), " MB", 4, 2),
    Bar("disconnections that reach the model server", ("gateway", "API", "cancel", "toolbridge", "reached"), " %", 100, higher_is_better=True, factor=100),
    Bar("time until they do", ("gateway", "API", "cancel", "toolbridge", "delay_us"), " µs"),
)  # fmt: skip
START_BARS = (
    _start("idle memory", "idle_mb", " MB", 38, 30),
    _start("cold start to the first answer", "cold_start_s", " s", 0.45, 0.3),
    _start("`import toolbridge`", "import_s", " s", 0.15, 0.1),
    _start("modules after `import toolbridge`", "import_modules", "", None, None),
    _start("modules of `toolbridge serve`", "serve_modules", "", None, None),
    Bar("JSON per second, 2 workers to 1", ("gateway", "workers", "JSON, plain", "gain")),
    Bar("streams per second, 2 workers to 1", ("gateway", "workers", "stream, plain", "gain")),
)
PEER_BARS = (
    _peer("LiteLLM, stream", "stream", LITELLM, 65, 100),
    _peer("LiteLLM, JSON", "JSON", LITELLM, 35, 60),
    _peer("LiteLLM, write, chunks apart", "write", LITELLM, None, None),
    _peer("LiteLLM, chunk of a burst", "burst chunk", LITELLM, None, None),
    _peer("claude-code-router's engine, stream", "stream", ENGINE, 4, 6),
    _peer("claude-code-router's engine, JSON", "JSON", ENGINE, 2.7, 4),
    _peer("claude-code-router's engine, write, chunks apart", "write", ENGINE, None, None),
    _peer("claude-code-router's engine, chunk of a burst", "burst chunk", ENGINE, None, None),
)
