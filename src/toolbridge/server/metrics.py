"""Counters for `/metrics`, in the text format that Prometheus reads."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from toolbridge.config import Config
from toolbridge.core.messages import Message, Request
from toolbridge.core.redaction import Redactor
from toolbridge.map_settings import addresses_of
from toolbridge.routing.provider_health import HealthReport
from toolbridge.server.request_log import Entry
from toolbridge.server.worker_metrics import Counts, WorkerMetrics

_HELP = {
    "toolbridge_requests_total": "Requests of clients, and calls of models by structured streams and for images, by API (surface), model, provider and status.",
    "toolbridge_tokens_total": "Tokens, by direction, model and provider.",
    "toolbridge_cost_usd_total": "Cost of the answers in US dollars, where the price is known.",
    "toolbridge_healed_total": "Changes that healing made to tool calls, by kind and level.",
    "toolbridge_dropped_total": "Losses: request parts that the provider's API cannot express.",
    "toolbridge_repeats_total": "Requests that were answered with a kept answer, by API (surface).",
    "toolbridge_failovers_total": "Addresses of a chain that did not answer, by provider and reason.",
    "toolbridge_failures_total": "Answers that failed, by kind of error.",
    "toolbridge_seconds_total": "Time from request to last byte.",
    "toolbridge_first_token_seconds_total": "Time from request to the first token of the answer.",
    "toolbridge_cached_tokens_total": "Input tokens of caches, read and written, by model and provider.",
    "toolbridge_thinking_tokens_total": "Output tokens of thinking, by model and provider.",
    "toolbridge_key_requests_total": "Requests to models, by created key and status.",
    "toolbridge_key_tokens_total": "Tokens, by direction and created key.",
    "toolbridge_key_cost_usd_total": "Cost in US dollars, by created key.",
    "toolbridge_ledger_dropped_total": "Requests that are missing in the ledger: it was not writable, or cannot hold the row.",
}
_GAUGES: dict[str, tuple[str, Callable[[HealthReport], int]]] = {
    "toolbridge_provider_open": (
        "Whether chains pass over the provider: its breaker is open, or its quota is used up.",
        lambda report: int(bool(report.resting)),
    ),
    "toolbridge_provider_failures": (
        "Failures in a row of the provider.",
        lambda report: report.failures,
    ),
    "toolbridge_provider_in_flight": (
        "Requests to the provider, where max_in_flight limits them.",
        lambda report: report.in_flight,
    ),
    "toolbridge_provider_waiting": (
        "Requests that wait for the provider because of max_in_flight.",
        lambda report: report.waiting,
    ),
}

OTHER = "other"
"""The label value for everything above the limits."""
_MOST_MODELS = 100
_MOST_VALUES = 64
"""Different values of any other label; toolbridge itself has fewer."""
_LONGEST = 128
_MOST_SUMS = 1000
"""Sums in memory before they are added to the counters."""
_PARTS = frozenset({*Request.__struct_fields__, "prompt"})


class _Sum:
    """The requests of one API, model, provider and status, and what their answers have used."""

    __slots__ = (
        "answers", "cache_read", "cache_write", "cost", "first_seconds", "first_tokens", "input",
        "output", "priced", "requests", "seconds", "thinking",
    )  # fmt: skip

    def __init__(self) -> None:
        self.requests = self.first_tokens = self.answers = self.priced = 0
        self.input = self.output = self.cache_read = self.cache_write = self.thinking = 0
        self.seconds = self.first_seconds = self.cost = 0.0


class Metrics:
    """Counters with a limited number of label values.

    A client can send any model name and field. A model gets its own label value if it has answered
    or is in the configuration; all others, and every value above a limit, are `other`.
    """

    def __init__(self, models: Iterable[str] = (), redactor: Redactor | None = None) -> None:
        """Create the counters; `models` are those in the configuration."""
        self._counts: Counts = Counter()
        self._sums: dict[tuple[str, str, str, int], _Sum] = {}
        """What is not in the counters yet: a request adds to one sum, not to five counters."""
        self._workers: WorkerMetrics | None = None
        self._configured = frozenset(models)
        self._answered: set[str] = set()
        self._values: dict[tuple[str, str], set[str]] = {}
        self._redactor = redactor or Redactor()

    def configure(self, models: Iterable[str], redactor: Redactor) -> None:
        """Use other models of a configuration, and mask other secrets."""
        self._configured = frozenset(models)
        self._redactor = redactor

    def share(self, folder: Path) -> None:
        """Add the counters of the other workers, which are in `folder`, from now on."""
        self._workers = WorkerMetrics(folder)

    def flush(self) -> None:
        """Write the counters for the other workers, if there are any."""
        if self._workers is not None:
            self._add_sums()
            self._workers.write(self._counts)

    def add(self, name: str, value: float, *labels: tuple[str, str]) -> None:
        """Add `value` to a series; pass `labels` sorted by name."""
        if (name, labels) in self._counts:  # counted before, so every value is within its limit
            self._counts[name, labels] += value  # type: ignore[assignment]  # as below
            return
        bounded = tuple((label, self._bounded(name, label, text)) for label, text in labels)
        self._counts[name, bounded] += value  # type: ignore[assignment]  # a Counter counts floats too

    def _bounded(self, name: str, label: str, text: str) -> str:
        if label in {"model", "key"}:
            return text  # bounded by `_model`; keys are created by the operator
        seen = self._values.setdefault((name, label), set())
        if text not in seen and len(seen) >= _MOST_VALUES:
            return OTHER
        seen.add(text)
        return text

    def _model(self, name: str, entry: Entry, status: int) -> str:
        """Return the label value of a model."""
        if not name or name in self._configured or name in self._answered:
            return name
        answered = status < 400 and entry.message is not None and entry.message.problem is None
        if not answered or len(self._answered) >= _MOST_MODELS:
            return OTHER
        self._answered.add(name)
        return name

    def _sum(self, entry: Entry, status: int) -> _Sum:
        """Return the sum that the request belongs to; only the configuration adds providers."""
        get = entry.fields.get
        api, provider = str(get("surface", "")), str(get("gen_ai.provider.name", ""))[:_LONGEST]
        model = str(get("gen_ai.response.model", ""))[:_LONGEST]
        found = self._sums.get((api, model, provider, status))
        if found is None:  # it may be counted with those of other models
            key = (api, self._model(model, entry, status), provider, status)
            found = self._sums.get(key)
        if found is None:
            if len(self._sums) >= _MOST_SUMS:
                self._add_sums()
            found = self._sums[key] = _Sum()
        return found

    def record(self, entry: Entry, status: int, seconds: float | None = None) -> None:
        """Count a finished request; it took `seconds`, or as long as its entry has."""
        found = self._sum(entry, status)
        found.requests += 1
        if seconds is None:
            seconds = entry.seconds if entry.took is None else entry.took
        found.seconds += seconds
        if entry.first_token is not None:
            found.first_tokens += 1
            found.first_seconds += entry.first_token
        if (message := entry.message) is not None:
            self._add_answer(found, message)
        for loss in entry.losses:
            what = loss.what.partition(".")[0]
            self.add("toolbridge_dropped_total", 1, ("what", what if what in _PARTS else OTHER))
        for provider, reason in entry.tried_providers:
            self.add("toolbridge_failovers_total", 1, ("provider", provider), ("reason", reason))
        for report in entry.healed:
            for step in report.steps:
                what = step.what.partition(":")[0]  # the path after it is the model's own text
                self.add("toolbridge_healed_total", 1, ("level", str(step.level)), ("what", what))

    def _add_answer(self, found: _Sum, message: Message) -> None:
        usage = message.usage
        found.answers += 1
        found.input += usage.input + usage.cache_read + usage.cache_write
        found.output += usage.output
        found.cache_read += usage.cache_read
        found.cache_write += usage.cache_write
        found.thinking += usage.reasoning
        if usage.cost is not None:
            found.priced += 1
            found.cost += usage.cost.total
        if message.problem is not None:
            self.add("toolbridge_failures_total", 1, ("kind", message.problem.kind))

    def _add_sums(self) -> None:
        """Add to the counters what was counted since the last call."""
        sums, self._sums = self._sums, {}
        for (api, name, provider, status), one in sums.items():
            surface, model = ("surface", api), (("model", name), ("provider", provider))
            if one.requests:
                code = ("status", str(status))
                self.add("toolbridge_requests_total", one.requests, *model, code, surface)
            if one.seconds:
                self.add("toolbridge_seconds_total", one.seconds, surface)
            if one.first_tokens:
                self.add("toolbridge_first_token_seconds_total", one.first_seconds, surface)
            if one.answers:
                self._add_usage(one, model)

    def _add_usage(self, used: _Sum, model: tuple[tuple[str, str], ...]) -> None:
        self.add("toolbridge_tokens_total", used.input, ("direction", "input"), *model)
        self.add("toolbridge_tokens_total", used.output, ("direction", "output"), *model)
        if used.cache_read or used.cache_write:
            cached = "toolbridge_cached_tokens_total"
            self.add(cached, used.cache_read, ("kind", "read"), *model)
            self.add(cached, used.cache_write, ("kind", "write"), *model)
        if used.thinking:
            self.add("toolbridge_thinking_tokens_total", used.thinking, *model)
        if used.priced:
            self.add("toolbridge_cost_usd_total", used.cost, *model)

    def record_inner_answer(self, entry: Entry, status: int) -> None:
        """Count a request to a model that is not one of a client, and its answer.

        Its time is a part of that of the client's request, and is not counted again.
        """
        found = self._sum(entry, status)
        found.requests += 1
        if (message := entry.message) is not None:
            self._add_answer(found, message)

    def record_call(self, entry: Entry, status: int) -> None:
        """Count a request to a model for its key."""
        if not (name := str(entry.fields.get("toolbridge.key", ""))):
            return
        key = ("key", name)
        self.add("toolbridge_key_requests_total", 1, key, ("status", str(status)))
        if entry.message is None:
            return
        usage = entry.message.usage
        counted = "toolbridge_key_tokens_total"
        self.add(counted, usage.input_total, ("direction", "input"), key)
        self.add(counted, usage.output, ("direction", "output"), key)
        if usage.cost is not None:
            self.add("toolbridge_key_cost_usd_total", usage.cost.total, key)

    def put(self, name: str, value: float) -> None:
        """Set a series without labels."""
        self._counts[name, ()] = value  # type: ignore[assignment]  # as above

    def text(self) -> str:
        lines: list[str] = []
        self._add_sums()
        counts = self._counts
        if self._workers is not None:
            counts = self._workers.others()
            counts.update(self._counts)  # unlike `+`, keeps a counter of zero
        for name in sorted({name for name, _ in counts}):
            lines += [f"# HELP {name} {_HELP.get(name, name)}", f"# TYPE {name} counter"]
            for (series, labels), value in sorted(counts.items()):
                if series == name:
                    shown = ",".join(f'{key}="{self._shown(text)}"' for key, text in labels)
                    lines.append(f"{name}{{{shown}}} {_number(value)}")
        return "\n".join(lines) + "\n"

    def health_text(self, reports: Mapping[str, HealthReport]) -> str:
        """Return the gauges of the providers that have failed or have a limit of requests."""
        known = {
            name: report
            for name, report in reports.items()
            if report.failures or report.resting or report.in_flight or report.waiting
        }
        lines: list[str] = []
        for gauge, (help, value) in _GAUGES.items() if known else ():
            lines += [f"# HELP {gauge} {help}", f"# TYPE {gauge} gauge"]
            lines += [
                f'{gauge}{{provider="{self._shown(name)}"}} {value(report)}'
                for name, report in sorted(known.items())
            ]
        return "\n".join(lines) + "\n" if lines else ""

    def _shown(self, text: str) -> str:
        text = self._redactor.text(text)
        return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def configured_models(config: Config) -> set[str]:
    """Return the models in the configuration, with and without their provider."""
    mapped = {address for value in config.map.values() for address in addresses_of(value)}
    named = {target.model for rule in config.routes for target in rule.targets}
    addresses = {*mapped, *named, *config.models}
    return addresses | {address.partition("/")[2] for address in addresses}


def _number(value: float) -> str:
    """Return a count exactly: `%g` would round one of more than six digits."""
    return str(int(value)) if value == int(value) else f"{value:.12g}"
