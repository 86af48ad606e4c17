"""OpenTelemetry: a span and metrics for each request to a model, with the names of its conventions.

Used only if the setting `otel` is set, and imported then; the packages are the extra `otel`. Export
runs in the threads of OpenTelemetry's SDK: a collector that is away delays no answer. Attributes
are those of the conventions for generative AI (`gen_ai.*`), without prompts and answers.
"""

from collections.abc import Iterator, Mapping

from toolbridge.core.errors import ConfigError
from toolbridge.core.json import Json
from toolbridge.core.redaction import Redactor
from toolbridge.server.request_log import Entry

try:
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor
    from opentelemetry.trace import SpanKind, StatusCode
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
except ImportError as error:
    raise ConfigError(
        f"the package {error.name} is missing; run `pip install '.[otel]'` in the clone of toolbridge",
        where="otel",
    ) from None

ENVIRONMENT = "env"
"""The value of the setting `otel` with which OpenTelemetry's own variables name the collector."""
_LONGEST = 200
_WAIT_MS = 2000
"""Milliseconds for which a shutdown waits for the collector."""
# OpenTelemetry, semantic conventions, "Generative AI metrics": the advised boundaries.
_TOKENS = [4.0**power for power in range(14)]
_SECONDS = [0.01 * 2**power for power in range(14)]


class Telemetry:
    """Sends spans and metrics to a collector by OTLP over HTTP."""

    def __init__(self, otel: str, version: str, redactor: Redactor) -> None:
        base = "" if otel == ENVIRONMENT else otel.rstrip("/")
        traces, metrics = (f"{base}/v1/{kind}" if base else None for kind in ("traces", "metrics"))
        resource = Resource.create({"service.name": "toolbridge", "service.version": version})
        self._redactor = redactor
        self._spans = TracerProvider(resource=resource, shutdown_on_exit=False)
        self._spans.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(traces)))
        reader = PeriodicExportingMetricReader(OTLPMetricExporter(metrics))
        self._metrics = MeterProvider([reader], resource, shutdown_on_exit=False)
        self._tracer = self._spans.get_tracer("toolbridge", version)
        self._parent = TraceContextTextMapPropagator()
        meter = self._metrics.get_meter("toolbridge", version)
        self._tokens = meter.create_histogram(
            "gen_ai.client.token.usage", "{token}", "Tokens of requests to models.",
            explicit_bucket_boundaries_advisory=_TOKENS,
        )  # fmt: skip
        self._duration = meter.create_histogram(
            "gen_ai.client.operation.duration", "s", "Time from request to last byte.",
            explicit_bucket_boundaries_advisory=_SECONDS,
        )  # fmt: skip
        self._first_token = meter.create_histogram(
            "gen_ai.server.time_to_first_token", "s", "Time to the first token of the answer.",
            explicit_bucket_boundaries_advisory=_SECONDS,
        )  # fmt: skip

    def record(self, entry: Entry, status: int) -> None:
        """Add the span and the metrics of a finished request."""
        line = entry.line(status)
        shared = dict(self._attributes(line, _SHARED))
        shared.setdefault("gen_ai.operation.name", "chat")
        self._add_span(entry, line, shared)
        self._duration.record(entry.seconds, shared)
        if entry.first_token is not None:
            self._first_token.record(entry.first_token, shared)
        for kind in ("input", "output"):
            if isinstance(count := line.get(f"gen_ai.usage.{kind}_tokens"), int) and count:
                self._tokens.record(count, {**shared, "gen_ai.token.type": kind})

    def _add_span(
        self, entry: Entry, line: Mapping[str, Json], shared: dict[str, str | int | float]
    ) -> None:
        name = f"{shared['gen_ai.operation.name']} {shared.get('gen_ai.request.model', '')}".strip()
        start = int(entry.at * 1e9)
        span = self._tracer.start_span(
            name,
            self._parent.extract({"traceparent": entry.trace_parent}),
            SpanKind.CLIENT,
            {**shared, **dict(self._attributes(line, _OF_SPAN))},
            start_time=start,
        )
        if message := entry.message:
            span.set_attribute("gen_ai.response.finish_reasons", [message.stop or "unknown"])
        if "error.type" in line:
            span.set_status(StatusCode.ERROR)
        span.end(start + int(entry.seconds * 1e9))

    def _attributes(
        self, line: Mapping[str, Json], names: Mapping[str, str]
    ) -> Iterator[tuple[str, str | int | float]]:
        for name, shown in names.items():
            value = line.get(name)
            if isinstance(value, str):
                yield shown, self._redactor.text(value)[:_LONGEST]
            elif isinstance(value, int | float):
                yield shown, value

    def close(self) -> None:
        """Send what is left, for a short time."""
        self._spans.force_flush(_WAIT_MS)
        self._spans.shutdown()
        self._metrics.shutdown(_WAIT_MS)


# Field of the log → attribute of the convention.
_SHARED = {
    "gen_ai.operation.name": "gen_ai.operation.name",
    "gen_ai.provider.name": "gen_ai.provider.name",
    "gen_ai.request.model": "gen_ai.request.model",
    "gen_ai.response.model": "gen_ai.response.model",
    "error.type": "error.type",
}
_OF_SPAN = {
    "request.id": "gen_ai.response.id",
    "session.id": "gen_ai.conversation.id",
    "gen_ai.usage.input_tokens": "gen_ai.usage.input_tokens",
    "gen_ai.usage.output_tokens": "gen_ai.usage.output_tokens",
    "gen_ai.usage.cache_read.input_tokens": "gen_ai.usage.cache_read.input_tokens",
    "gen_ai.usage.cache_creation.input_tokens": "gen_ai.usage.cache_creation.input_tokens",
    "http.response.status_code": "http.response.status_code",
    "client.name": "user_agent.name",
    "toolbridge.key": "toolbridge.key",
    "surface": "toolbridge.api",
    "cost_usd": "toolbridge.cost_usd",
}
