"""OpenTelemetry over real sockets: what a collector receives, and a collector that is away."""

import asyncio
import sys
from contextlib import asynccontextmanager

import pytest
from aiohttp import web
from tests.key_users import ask, team

from toolbridge.config import Config
from toolbridge.core.errors import ConfigError
from toolbridge.server.app import App

TRACE = "0af7651916cd43dd8448eb211c80319c"


@asynccontextmanager
async def collector():
    """Serve OTLP over HTTP; yield its URL and the decoded exports."""
    from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2 as metrics
    from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as traces

    spans, series = [], {}

    async def take_spans(request):
        found = traces.ExportTraceServiceRequest.FromString(await request.read())
        spans.extend(s for r in found.resource_spans for g in r.scope_spans for s in g.spans)
        return web.Response()

    async def take_metrics(request):
        found = metrics.ExportMetricsServiceRequest.FromString(await request.read())
        for resource in found.resource_metrics:
            for scope in resource.scope_metrics:
                series.update({metric.name: metric for metric in scope.metrics})
        return web.Response()

    app = web.Application()
    app.add_routes([web.post("/v1/traces", take_spans), web.post("/v1/metrics", take_metrics)])
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{site._server.sockets[0].getsockname()[1]}", spans, series
    finally:
        await runner.cleanup()


async def test_a_collector_gets_spans_and_metrics_with_the_names_of_the_conventions(tmp_path):
    pytest.importorskip("opentelemetry.sdk")
    import aiohttp

    async with collector() as (there, spans, series):
        async with team(tmp_path, otel=there) as (url, model):
            body = {"model": "claude-x", "max_tokens": 9, "messages": [{"role": "user", "content": "hush"}]}  # fmt: skip
            headers = {"traceparent": f"00-{TRACE}-b7ad6b7169203331-01", "x-session-id": "s1"}
            async with aiohttp.ClientSession() as session:
                await session.post(f"{url}/v1/messages", json=body, headers=headers)
            model.status = 400
            assert (await ask(url))[0] == 400
        await asyncio.sleep(0)
    first, second = sorted(spans, key=lambda span: span.start_time_unix_nano)
    assert first.name == "chat claude-x"
    assert first.trace_id.hex() == TRACE
    assert first.end_time_unix_nano > first.start_time_unix_nano
    found = {each.key: each.value for each in first.attributes}
    assert found["gen_ai.provider.name"].string_value == "there"
    assert found["gen_ai.response.model"].string_value == "big"
    assert found["gen_ai.usage.input_tokens"].int_value == 100
    assert found["gen_ai.usage.output_tokens"].int_value == 10
    assert found["gen_ai.conversation.id"].string_value == "s1"
    assert found["gen_ai.response.finish_reasons"].array_value.values[0].string_value == "end"
    assert {each.key: each.value.string_value for each in second.attributes}["error.type"]
    assert second.status.code == 2
    assert "hush" not in str(spans)
    points = series["gen_ai.client.token.usage"].histogram.data_points
    kinds = {
        next(a.value.string_value for a in p.attributes if a.key == "gen_ai.token.type"): p.sum
        for p in points
    }
    assert kinds == {"input": 100.0, "output": 10.0}
    counts = [p.count for p in series["gen_ai.client.operation.duration"].histogram.data_points]
    assert sum(counts) == 2
    firsts = series["gen_ai.server.time_to_first_token"].histogram.data_points
    assert sum(p.count for p in firsts) == 1, "the rejected request has no first token"


async def test_a_collector_that_is_away_changes_no_answer(tmp_path, caplog):
    pytest.importorskip("opentelemetry.sdk")
    async with team(tmp_path, otel="http://127.0.0.1:9") as (url, _):
        assert (await ask(url))[0] == 200


def test_without_the_extra_the_setting_is_an_error_that_names_it(monkeypatch):
    monkeypatch.delitem(sys.modules, "toolbridge.server.telemetry", raising=False)
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.metrics", None)
    with pytest.raises(ConfigError, match=r"\.\[otel\]"):
        App(Config(log="off", otel="http://127.0.0.1:9"), {})
