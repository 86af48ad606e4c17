"""What `result()` and `usage` give: over a server and in this process, blocking and awaited."""

import asyncio
import json
from contextlib import asynccontextmanager

import pytest
from tests.peers import gateway, model_server
from tests.streams import call, chunk, refused, reply, thing
from tests.tables import every_row

import toolbridge
from toolbridge.config import Config, ModelConfig, ProviderConfig, RatesConfig, StreamConfig
from toolbridge.sdk.structured.client import (
    StreamDegraded,
    StreamFailed,
    astart_stream,
    start_stream,
)
from toolbridge.sdk.structured.options import StreamOptions

WEATHER = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "degrees": {"type": "number"}},
    "required": ["city", "degrees"],
}
ASKED = {"schemas": {"Weather": WEATHER}, "result": "Weather"}
NOWHERE = "http://127.0.0.1:1"
BROKEN = '⟦BEGIN_RESULT id=R1 schema=Weather⟧{"city":"Bern","degrees":"warm"}⟦END_RESULT id=R1⟧'


@pytest.fixture(autouse=True)
def _nothing_outside(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setenv("OLLAMA_HOST", "127.0.0.1:1")


def counted(*answers: str, tail: str = ""):
    """Return a model that gives these answers in turn, each counted as 100 tokens in and 10 out."""
    left = iter(answers)

    async def answer(_, line) -> None:
        await line.head(kind="text/event-stream")
        await line.send(chunk({"content": next(left)}))
        if tail:
            await line.send(chunk({"content": tail}))
            await line.gone()
        await line.send(chunk({}, "stop"))
        usage = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
        last = {"id": "c", "model": "m", "choices": [], "usage": usage}
        await line.send(f"data: {json.dumps(last)}\n\ndata: [DONE]\n\n")
        await line.end()

    return answer


@asynccontextmanager
async def served(answer, *, over_http: bool, rates: RatesConfig | None = None):
    """Yield the options that lead to a model: at a gateway, or in this process."""
    async with model_server(answer) as server:
        config = Config(
            log="off",
            map={"default": "there/m"},
            models={"there/m": ModelConfig(tools=False, rates=rates)},
            providers={"there": ProviderConfig(api="openai_chat", url=server.url, retries=0)},
            stream=StreamConfig(artifacts=False, demo=True),
        )
        if not over_http:
            yield {"config": config, "keep": False}
            return
        async with gateway(config) as (url, _):
            yield {"url": url}


both = pytest.mark.parametrize("over_http", [True, False], ids=["http", "in process"])


# ── degraded ─────────────────────────────────────────────────────────────────


@both
async def test_a_degraded_result_raises_and_says_what_was_invented(over_http):
    async with served(counted(BROKEN, "no"), over_http=over_http) as options:
        stream = astart_stream("weather?", **options, **ASKED)
        with pytest.raises(StreamDegraded) as caught:
            await stream.result()
        await stream.aclose()
    error = caught.value
    assert isinstance(error, StreamFailed)
    assert error.code == "degraded"
    assert error.value == {"city": "Bern", "degrees": 0}
    assert error.invented == ("degrees",)
    assert "degrees" in str(error)
    assert 'on_degraded="accept"' in str(error)
    assert stream.found.invented == ("degrees",)


@both
async def test_a_caller_may_accept_a_degraded_result(over_http):
    async with served(counted(BROKEN, "no"), over_http=over_http) as options:
        stream = astart_stream("weather?", on_degraded="accept", **options, **ASKED)
        assert await stream.result() == {"city": "Bern", "degrees": 0}
        assert (stream.found.status, stream.found.invented) == ("degraded", ("degrees",))
        await stream.aclose()


async def test_a_blocking_caller_gets_the_same_error():
    async with served(counted(BROKEN, "no"), over_http=True) as options:

        def ask() -> None:
            with start_stream("weather?", **options, **ASKED) as stream:
                stream.result()

        with pytest.raises(toolbridge.StreamDegraded):
            await asyncio.to_thread(ask)


async def test_a_model_that_gives_no_result_is_no_success():
    async with served(counted("Hm.", "No."), over_http=False) as options:
        stream = astart_stream("x", **options)
        with pytest.raises(StreamDegraded) as caught:
            await stream.result()
        await stream.aclose()
    assert caught.value.value["answer"] == "Hm."
    assert caught.value.invented == ("citations",)


async def test_a_degraded_object_does_not_fail_the_stream():
    answers = [thing("O1", "Weather", {"city": "Bern"}) + reply(), "no"]
    async with served(counted(*answers), over_http=True) as options:
        stream = astart_stream("x", schemas={"Weather": WEATHER}, **options)
        assert (await stream.result())["answer"] == "done"
        (found,) = stream.objects
        await stream.aclose()
    assert (found.status, found.invented) == ("degraded", ("degrees",))


# ── usage ────────────────────────────────────────────────────────────────────


@both
async def test_usage_is_the_sum_of_all_model_calls(over_http):
    answers = [
        "Let me look. " + call("T1", "places.search", {"query": "pizza"}),
        thing("O1", "Action", {"mode": "search"}) + reply(),
        '{"mode":"search","target":{"kind":"place","id":"p"}}',
    ]
    rates = RatesConfig(input=1.0, output=10.0)
    async with served(counted(*answers), over_http=over_http, rates=rates) as options:
        stream = astart_stream("x", tools=["places.search"], objects=["Action"], **options)
        assert stream.usage is None
        await stream.result()
        await stream.aclose()
    usage = stream.usage
    assert (usage["input_tokens"], usage["output_tokens"], usage["calls"]) == (300, 30, 3)
    assert usage["cost"]["total"] == pytest.approx((300 * 1.0 + 30 * 10.0) / 1e6)
    assert "estimated" not in usage


async def test_an_answer_that_goes_on_after_the_result_is_not_waited_for():
    async with served(counted(reply(), tail="and on "), over_http=True) as options:
        stream = astart_stream("x", **options)
        async with asyncio.timeout(20):
            await stream.result()
        await stream.aclose()
    assert stream.usage is None, "nobody counted it"


async def test_what_was_not_counted_is_estimated_and_said():
    async def answer(heard, line) -> None:
        first = len(heard.json["messages"]) == 2
        text = call("T1", "places.search", {"query": "pizza"}) if first else reply()
        if first:
            await line.head(kind="text/event-stream")
            await line.send(chunk({"content": text + " I made this up." * 50}))
            await line.gone()
            return
        await counted(text)(heard, line)

    async with served(answer, over_http=False) as options:
        stream = astart_stream("x", tools=["places.search"], **options)
        await stream.result()
        await stream.aclose()
    assert stream.usage["estimated"] is True
    assert stream.usage["calls"] == 2
    assert stream.usage["input_tokens"] > 200
    assert "cost" not in stream.usage


def test_the_demo_model_is_counted_too():
    config = Config(log="off", map={"default": "demo/toolbridge-demo"})
    with start_stream("hello", config=config, keep=False) as stream:
        stream.result()
    assert stream.usage["output_tokens"] > 0
    assert stream.usage["calls"] == 1


# ── options ──────────────────────────────────────────────────────────────────


@every_row("start", [start_stream, astart_stream])
@every_row(
    ("name", "near"),
    [
        ("modle", "model"),
        ("temprature", "temperature"),
        ("on_tool", "on_tool_call"),
        ("urls", "url"),
    ],
)
def test_an_option_that_does_not_exist_is_an_error_with_the_nearest_name(start, name, near):
    with pytest.raises(TypeError, match=f"{name!r}.*{near!r}"):
        start("x", **{name: "y"})


@pytest.mark.parametrize("start", [start_stream, astart_stream])
def test_an_option_like_no_other_is_an_error_with_all_names(start):
    with pytest.raises(TypeError, match="temperature"):
        start("x", zzzzzz=1)


@pytest.mark.parametrize("given", ["ignore", True, None])
def test_on_degraded_takes_two_words(given):
    with pytest.raises(TypeError, match="'raise' or 'accept'"):
        start_stream("x", on_degraded=given)


def test_every_option_is_known_to_the_reader_of_options():
    assert {"on_degraded", "frame_tag", "model", "url"} <= StreamOptions.__annotations__.keys()


# ── models ───────────────────────────────────────────────────────────────────


async def test_a_model_that_nobody_has_is_refused_before_anything_begins():
    config = Config(log="off", providers={"there": ProviderConfig(api="openai_chat", url=NOWHERE)})
    async with gateway(config) as (url, _):
        status, error = await refused(url, {"prompt": "x", "model": "zzz/none"})
        assert (status, error["code"]) == (404, "unknown_model")
        stream = astart_stream("x", model="zzz/none", url=url)
        with pytest.raises(StreamFailed) as caught:
            await anext(stream)
        await stream.aclose()
    assert (caught.value.code, caught.value.http_status) == ("unknown_model", 404)
