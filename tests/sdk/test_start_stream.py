"""Structured streams from Python: the transcripts that the TypeScript SDK is driven by, and more."""

import asyncio
import dataclasses
import gc
import json
import threading
import time

import msgspec
import pytest
from tests.peers import gateway, model_server
from tests.sdk.replays import RUN, TRANSCRIPTS, Replay, check, event_bytes, options_of
from tests.streams import chunk, reply, scripted, streaming
from tests.waiting import until

import toolbridge
from toolbridge.config import Config, StreamConfig
from toolbridge.sdk.structured.client import StreamFailed, astart_stream, start_stream
from toolbridge.structured import events as fe

PIZZA = "Find pizza near me; book a table at 7pm if open."
DEMO = {"tools": ["places.search", "bookings.create"], "objects": ["Action"]}
HERE = Config(
    log="off", map={"default": "demo/toolbridge-demo"}, stream=StreamConfig(artifacts=False)
)


@pytest.fixture(autouse=True)
def _nothing_outside(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setenv("OLLAMA_HOST", "127.0.0.1:1")


async def play(stream, abort_after: int = 0):
    events: list[fe.Event] = []
    try:
        async for event in stream:
            events.append(event)
            if len(events) == abort_after:
                await stream.abort()
        await stream.result()
    except StreamFailed as error:
        return events, error
    finally:
        await stream.aclose()
    return events, None


def play_blocking(stream, abort_after: int = 0):
    events: list[fe.Event] = []
    with stream:
        try:
            for event in stream:
                events.append(event)
                if len(events) == abort_after:
                    stream.abort()
            stream.result()
        except StreamFailed as error:
            return events, error
    return events, None


@pytest.mark.req("TF-56", "TF-57", "TF-58")
@pytest.mark.parametrize("blocking", [False, True], ids=["async", "blocking"])
@pytest.mark.parametrize("name", sorted(TRANSCRIPTS))
async def test_a_transcript_gives_what_it_says(name, blocking):
    transcript = TRANSCRIPTS[name]
    replay = Replay(transcript)
    prompt, options = options_of(transcript)
    abort_after = transcript.get("abort_after", 0)
    async with model_server(replay.answer) as server:
        if blocking:
            stream = start_stream(prompt, url=server.url, **options)
            events, error = await asyncio.to_thread(play_blocking, stream, abort_after)
        else:
            stream = astart_stream(prompt, url=server.url, **options)
            events, error = await play(stream, abort_after)
    check(stream, events, error, replay, transcript["expected"])
    assert replay.asked[0].json == transcript["request"]


def test_there_are_transcripts():
    assert len(TRANSCRIPTS) >= 20


# In this process.


async def test_the_demo_runs_in_this_process():
    pieces, words = [], []
    stream = astart_stream(PIZZA, config=HERE, on_json=pieces.append, on_text=words.append, **DEMO)
    value = await stream.result()
    assert value["citations"] == ["pl_001"]
    assert [used.name for used in stream.tools] == ["places.search", "bookings.create"]
    assert [found.status for found in stream.objects] == ["valid", "repaired"]
    assert "".join(words) == stream.text
    ends = [piece for piece in pieces if piece.end]
    assert [piece.value["mode"] for piece in ends] == ["search", "book"]
    assert stream.run.startswith("run_")


def test_blocking_callers_get_the_same():
    stream = start_stream(PIZZA, config=HERE, **DEMO)
    events = list(stream)
    assert isinstance(events[-1], fe.RunDone)
    assert stream.result()["citations"] == ["pl_001"]
    assert stream.result() is stream.result(), "asking again costs nothing"


class Forecast(msgspec.Struct):
    city: str
    degrees: float


@dataclasses.dataclass
class Plain:
    city: str


def weather(city: str) -> Forecast:
    """The weather in a city."""
    return Forecast(city, 21.5)


async def slow_weather(city: str) -> dict:
    """The weather in a city."""
    await asyncio.sleep(0)
    return {"city": city, "degrees": -3}


@pytest.mark.parametrize(("function", "degrees"), [(weather, 21.5), (slow_weather, -3.0)])
async def test_functions_are_tools_and_a_type_is_the_result(function, degrees):
    stream = astart_stream(
        "What is the weather in Oslo?", result=Forecast, tools=[function], config=HERE
    )
    assert await stream.result() == Forecast("Oslo", degrees)
    (used,) = stream.tools
    assert (used.name, used.args, used.client) == (function.__name__, {"city": "Oslo"}, True)


async def test_schemas_as_types_give_objects_of_these_types():
    stream = astart_stream("Say something of Rome.", schemas={"P": Plain}, config=HERE)
    await stream.result()
    assert [found.value for found in stream.objects] == [Plain("Rome")]


class Validated:
    """What pydantic's models look like from outside."""

    def __init__(self, city: str) -> None:
        self.city = city

    @classmethod
    def model_json_schema(cls) -> dict:
        properties = {"city": {"type": "string"}}
        return {"type": "object", "properties": properties, "required": ["city"]}

    @classmethod
    def model_validate(cls, value: dict) -> "Validated":
        return cls(**value)


def test_a_model_of_pydantics_kind_is_validated_by_itself():
    value = start_stream("Say Rome.", result=Validated, config=HERE).result()
    assert isinstance(value, Validated)


@pytest.mark.parametrize("keep", [True, False])
async def test_a_stream_in_this_process_is_kept_unless_it_should_not_be(keep, tmp_path):
    await astart_stream("hello", config=Config(log="off"), keep=keep).result()
    assert any(tmp_path.rglob("metrics.json")) is keep
    assert any(tmp_path.rglob("*.sqlite")) is keep


async def test_a_tool_that_fails_is_the_models_to_read():
    def weather(city: str) -> str:
        """The weather in a city."""
        raise RuntimeError(f"no sky over {city}")

    stream = astart_stream("What is the weather in Oslo?", tools=[weather], config=HERE)
    value = await stream.result()
    assert "no sky over Oslo" in value["answer"]
    assert [error.code for error in stream.errors] == ["tool_failed"]


async def test_a_tool_that_takes_too_long_is_given_up():
    async def weather(city: str) -> str:
        """The weather in a city."""
        await asyncio.sleep(30)
        return city

    stream = astart_stream(
        "What is the weather in Oslo?", tools=[weather], tool_timeout=0.05, config=HERE
    )
    async with asyncio.timeout(20):
        await stream.result()
    (used,) = stream.tools
    assert used.result["error"]["code"] in {"tool_failed", "tool_timeout"}


@pytest.mark.parametrize(
    ("options", "code", "where"),
    [
        ({"tools": ["places.serach"]}, "unknown_tool", "tools.0"),
        ({"result": "Nothing"}, "unknown_schema", "result"),
        ({"profile": "night"}, "malformed_request", "profile"),
    ],
)
async def test_what_cannot_be_met_is_refused_alike_here_and_there(options, code, where):
    async with gateway(HERE) as (url, _):
        for place in ({"config": HERE}, {"url": url}):
            with pytest.raises(StreamFailed) as caught:
                await astart_stream("x", **options, **place).result()
            assert caught.value.code == code
            assert caught.value.problem.where == where


# At a server of our own.


async def test_a_key_is_sent_and_a_wrong_one_refused():
    async with streaming(scripted(reply(answer="yes")), key="secret") as (url, _, _):
        with pytest.raises(StreamFailed) as caught:
            await astart_stream("x", url=url, api_key="wrong").result()
        assert (caught.value.code, caught.value.http_status) == ("not_allowed", 403)
        assert (await astart_stream("x", url=url, api_key="secret").result())["answer"] == "yes"


@pytest.mark.parametrize("path", ["", "/", "/v1", "/v1/stream"])
async def test_the_address_may_be_given_in_any_of_its_forms(path):
    async with streaming(scripted(reply(answer="yes"))) as (url, _, _):
        assert (await astart_stream("x", url=url + path).result())["answer"] == "yes"


async def test_the_same_key_asks_the_model_once():
    async with streaming(scripted(reply(answer="yes"))) as (url, server, _):
        first = await astart_stream("x", url=url, idempotency_key="k").result()
        again = await astart_stream("x", url=url, idempotency_key="k").result()
        assert first == again
        assert len(server.heard) == 1


async def test_client_tools_work_at_a_server():
    async with gateway(HERE) as (url, _):
        stream = astart_stream(
            "What is the weather in Oslo?", result=Forecast, tools=[weather], url=url
        )
        assert await stream.result() == Forecast("Oslo", 21.5)


LONG = "x" * 2000


async def endless(_, line) -> None:
    """Say words so long that the buffers between here and there are soon full."""
    await line.head(kind="text/event-stream")
    for at in range(100_000):
        await line.send(chunk({"content": f"word{at}{LONG} "}))
    await line.end()


async def standing(log) -> int:
    """Return where a log stands when it has stopped to grow."""
    before = -1
    while before != log.last:
        before = log.last
        await asyncio.sleep(0.3)
    return before


@pytest.mark.req("TF-34", "TF-53")
async def test_while_paused_nothing_is_read_and_after_it_nothing_is_missing():
    async with streaming(endless) as (url, _, app):
        stream = astart_stream("x", url=url)
        first = [await anext(stream) for _ in range(10)]
        stream.pause()
        waiting = asyncio.create_task(anext(stream))
        (live,) = app.service.streams._live.values()
        assert await standing(live.run.log) < 50_000, "the model waits as well"
        assert not waiting.done()
        stream.resume()
        rest = [await waiting] + [await anext(stream) for _ in range(2000)]
        words = "".join(event.text for event in first + rest).split()
        assert words[:2000] == [f"word{at}{LONG}" for at in range(2000)]
        await stream.aclose()


async def test_abort_stops_the_run_and_close_does_not():
    async with streaming(endless) as (url, _, app):
        left = astart_stream("x", url=url)
        await anext(left)
        await left.aclose()
        aborted = astart_stream("x", url=url)
        await anext(aborted)
        await aborted.abort()
        with pytest.raises(StreamFailed) as caught:
            await aborted.result()
        assert caught.value.code == "aborted"
        await until(lambda: list(app.service.streams._live) == [left.run])


async def test_an_abort_before_the_first_read_asks_nobody():
    async with streaming(endless) as (url, server, _):
        stream = astart_stream("x", url=url)
        await stream.abort()
        with pytest.raises(StreamFailed) as caught:
            await stream.result()
        assert (caught.value.code, server.heard) == ("aborted", [])


async def test_a_stream_that_is_left_in_a_loop_can_be_gone_on_with():
    async with gateway(HERE) as (url, _):
        stream = astart_stream(PIZZA, url=url, **DEMO)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await anext(stream)
        assert (await stream.result())["citations"] == ["pl_001"]


async def test_closing_ends_a_reader_that_waits():
    async def silent(_, line) -> None:
        await line.head(kind="text/event-stream", x_toolbridge_run=RUN)
        await line.gone()

    async with model_server(silent) as server:
        stream = astart_stream("x", url=server.url)
        waiting = asyncio.create_task(stream.result())
        await asyncio.sleep(0.05)
        await stream.aclose()
        with pytest.raises(StreamFailed) as caught:
            await waiting
        assert caught.value.code == "closed"


@pytest.mark.req("TF-27", "TF-58")
async def test_a_server_that_never_ends_is_given_up_after_the_callers_own_time():
    heard: list[str] = []

    async def silent(request, line) -> None:
        heard.append(request.method)
        if request.method == "DELETE":
            await line.head(200, "application/json")
            await line.end()
            return
        await line.head(kind="text/event-stream", x_toolbridge_run=RUN)
        await line.send(event_bytes("text.delta", {"text": "hm"}, 1))
        await line.gone()

    async with model_server(silent) as server:
        stream = astart_stream("x", url=server.url, request_timeout=1)
        with pytest.raises(StreamFailed) as caught:
            await stream.result()
        assert (caught.value.code, stream.text) == ("request_timeout", "hm")
        assert heard == ["POST", "DELETE"]


async def test_a_server_that_is_not_there_is_given_up_after_a_few_attempts():
    stream = astart_stream("x", url="http://127.0.0.1:1", attempts=1)
    with pytest.raises(StreamFailed) as caught:
        await stream.result()
    assert caught.value.code == "connection_lost"


async def test_a_gap_in_the_numbers_is_read_again():
    tries = 0

    async def skipping(request, line) -> None:
        nonlocal tries
        tries += 1
        await line.head(kind="text/event-stream", x_toolbridge_run=RUN)
        last = int(request.headers.get("last-event-id", ":0").rpartition(":")[2])
        events = [("text.delta", {"text": str(n)}) for n in range(1, 6)]
        events += [("error", {"code": "no_result", "message": "none"}), ("done", {})]
        for n, event in enumerate(events, 1):
            if n > last and not (tries == 1 and n == 3):
                await line.send(event_bytes(*event, n))
        await line.end()

    async with model_server(skipping) as server:
        stream = astart_stream("x", url=server.url)
        assert [event async for event in stream][-1] == fe.RunDone()
        assert (stream.text, tries) == ("12345", 2)


async def test_what_is_called_valid_and_is_not_json_ends_the_stream():
    async def lying(_, line) -> None:
        await line.head(kind="text/event-stream", x_toolbridge_run=RUN)
        await line.send(event_bytes("result.begin", {"id": "R1", "schema": "X"}, 1))
        await line.send(event_bytes("result.end", {"id": "R1", "length": 0}, 2))
        await line.send(event_bytes("done", {}, 3))
        await line.end()

    async with model_server(lying) as server:
        stream = astart_stream("x", url=server.url)
        for _ in range(2):
            with pytest.raises(StreamFailed) as caught:
                await stream.result()
            assert caught.value.code == "broken_stream"
        await stream.aclose()


def test_a_callback_that_raises_reaches_the_reader():
    def burst(_: str) -> None:
        raise ZeroDivisionError

    with (
        start_stream("hello", config=HERE, on_text=burst) as stream,
        pytest.raises(ZeroDivisionError),
    ):
        stream.result()


def test_a_blocking_stream_can_be_held_from_another_thread():
    stream = start_stream(PIZZA, config=HERE, **DEMO)
    next(stream)
    stream.pause()
    began = time.monotonic()
    threading.Timer(0.2, stream.resume).start()
    next(stream)
    assert time.monotonic() - began > 0.15
    stream.close()
    assert list(stream) == []


def test_no_thread_is_left():
    before = threading.active_count()
    start_stream("hello", config=HERE).result()
    stream = start_stream(PIZZA, config=HERE, **DEMO)
    next(stream)
    del stream
    gc.collect()
    deadline = time.monotonic() + 60
    while threading.active_count() > before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert threading.active_count() <= before


def test_the_names_are_public():
    assert toolbridge.start_stream is start_stream
    assert toolbridge.astart_stream is astart_stream
    assert toolbridge.StreamFailed is StreamFailed
    assert toolbridge.stream_events is fe
    assert json.loads(json.dumps(fe.data_of(fe.RunDone()))) == {}
