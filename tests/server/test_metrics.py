"""No client can fill the metrics, whatever names it invents."""

import aiohttp
import pytest
from tests.peers import bridged, replay, whole

from toolbridge.core.messages import HealingReport, Loss, Message, Problem, Step
from toolbridge.core.usage import Cost, Usage
from toolbridge.server.metrics import Metrics
from toolbridge.server.request_log import Entry

DONE = {"model": "m", "message": {"role": "assistant", "content": "hi"}, "done": True}


def entry(model: str, *, problem: Problem | None = None) -> Entry:
    made = Entry("req_00000000")
    made.note(surface="openai_chat", gen_ai__response__model=model)
    made.finish(Message(problem=problem))
    return made


def series(metrics: Metrics, name: str) -> list[str]:
    return [line for line in metrics.text().split("\n") if line.startswith(f"{name}{{")]


def test_a_model_is_named_when_it_has_answered_or_is_configured():
    metrics = Metrics(["configured"])
    failed = Problem("unknown_model", "no")
    for n in range(1000):
        metrics.record(entry(f"invented-{n}"), 404, 0.1)
        metrics.record(entry(f"invented-{n}", problem=failed), 200, 0.1)
    metrics.record(entry("configured"), 500, 0.1)
    metrics.record(entry("real"), 200, 0.1)
    shown = series(metrics, "toolbridge_requests_total")
    assert len(shown) == 4
    assert "invented" not in metrics.text()
    assert 'model="other",provider="",status="404",surface="openai_chat"} 1000' in "\n".join(shown)
    assert any('model="real"' in line for line in shown)
    assert any('model="configured",provider="",status="500"' in line for line in shown)


def test_counters_go_on_after_they_were_read():
    metrics = Metrics()
    made = entry("m")
    cost = Cost(total=0.25)
    made.message = Message(usage=Usage(input=3, output=5, cache_read=2, reasoning=1, cost=cost))
    made.first_token = 0.5
    for _ in range(3):
        metrics.record(made, 200, 0.25)
        metrics.record_inner_answer(made, 200)
        metrics.record_call(made, 200)
        read = metrics.text().split("\n")
    labels = 'model="m",provider=""'
    assert f'toolbridge_requests_total{{{labels},status="200",surface="openai_chat"}} 6' in read
    assert 'toolbridge_seconds_total{surface="openai_chat"} 0.75' in read
    assert 'toolbridge_first_token_seconds_total{surface="openai_chat"} 1.5' in read
    assert f'toolbridge_tokens_total{{direction="input",{labels}}} 30' in read
    assert f'toolbridge_tokens_total{{direction="output",{labels}}} 30' in read
    assert f'toolbridge_cached_tokens_total{{kind="read",{labels}}} 12' in read
    assert f"toolbridge_thinking_tokens_total{{{labels}}} 6" in read
    assert f"toolbridge_cost_usd_total{{{labels}}} 1.5" in read


def test_models_that_answer_to_any_name_are_bounded():
    metrics = Metrics(["configured"])
    for n in range(5000):
        metrics.record(entry(f"invented-{n}"), 200, 0.1)
    metrics.record(entry("configured"), 200, 0.1)
    assert len(series(metrics, "toolbridge_requests_total")) <= 102
    assert 'model="configured"' in metrics.text()
    assert len(metrics.text()) < 100_000


def test_no_label_holds_what_a_client_has_written():
    metrics = Metrics()
    made = entry("sk_live_123456")
    made.losses = [Loss(f"field{n}.x", "no") for n in range(1000)] + [Loss("tool_choice", "no")]
    metrics.record(made, 200, 0.1)
    for status in range(1000):
        metrics.record(entry("m"), status, 0.1)
    text = metrics.text()
    assert "field" not in text.replace("fields", "")
    assert "sk_live" not in text
    assert 'toolbridge_dropped_total{what="tool_choice"} 1' in text
    assert 'toolbridge_dropped_total{what="other"} 1000' in text
    assert len(series(metrics, "toolbridge_requests_total")) < 100


def test_no_label_holds_what_a_model_has_written():
    metrics = Metrics()
    made = entry("m")
    steps = tuple(Step(f"converted to string: member{n}", 2, "1", '"1"') for n in range(1000))
    made.healed = [HealingReport("c", "t", 2, steps)]
    metrics.record(made, 200, 0.1)
    assert series(metrics, "toolbridge_healed_total") == [
        'toolbridge_healed_total{level="2",what="converted to string"} 1000'
    ]


@pytest.mark.req("PX-X6")
async def test_invented_names_do_not_fill_the_metrics_of_a_gateway():
    async def chat(heard, line):
        if heard.json["model"] == "tiny:latest":
            await replay(DONE)(heard, line)
        else:
            await whole(line, {"error": "model not found"}, 404)

    async with (
        bridged(chat, place={"retries": 0}) as (url, _, _),
        aiohttp.ClientSession() as client,
    ):
        for name in ["ollama/tiny:latest", *(f"ollama/invented-{n}" for n in range(30))]:
            body = {"model": name, "messages": [{"role": "user", "content": "hi"}]}
            async with client.post(f"{url}/v1/chat/completions", json=body) as response:
                await response.read()
        async with client.get(f"{url}/metrics") as response:
            text = await response.text()
    assert "invented" not in text
    assert 'model="tiny:latest",provider="ollama",status="200"' in text


def test_two_providers_of_a_model_are_two_series():
    metrics = Metrics(["ok"])
    for provider in ("a", "b", "b"):
        made = entry("ok")
        made.note(gen_ai__provider__name=provider)
        made.finish(Message(usage=Usage(input=5, output=1, reasoning=1)))
        metrics.record(made, 200, 0.1)
    assert series(metrics, "toolbridge_requests_total") == [
        'toolbridge_requests_total{model="ok",provider="a",status="200",surface="openai_chat"} 1',
        'toolbridge_requests_total{model="ok",provider="b",status="200",surface="openai_chat"} 2',
    ]
    tokens = series(metrics, "toolbridge_tokens_total")
    assert 'toolbridge_tokens_total{direction="input",model="ok",provider="b"} 10' in tokens
    thinking = series(metrics, "toolbridge_thinking_tokens_total")
    assert 'toolbridge_thinking_tokens_total{model="ok",provider="a"} 1' in thinking
