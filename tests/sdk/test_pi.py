"""pi's contract: one object for those who block and those who await."""

import asyncio
import gc

import pytest
from tests.sdk.household import nothing_left
from tests.sdk.places import ANSWERS, QUIET, RATES, place, script

import toolbridge
from toolbridge import AsyncClient, Client
from toolbridge.config import Config
from toolbridge.core.errors import MalformedRequest


@pytest.fixture(autouse=True)
def quiet(monkeypatch, tmp_path):
    """An environment in which the demo model answers."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("OLLAMA_HOST", QUIET["OLLAMA_HOST"])
    for name in ("TOOLBRIDGE_CONFIG", "XDG_CONFIG_HOME", "TOOLBRIDGE_MODEL"):
        monkeypatch.delenv(name, raising=False)


def look(city: str) -> str:
    """Look at a city."""
    return city


def test_those_who_block_iterate():
    answer = toolbridge.stream("demo", {"messages": [{"role": "user", "content": "5 + 5"}]})
    events = list(answer)
    assert "".join(event.delta for event in events if event.type == "text_delta") == "5 + 5 = 10"
    assert events[-1].type == "done"
    assert answer.result() == events[-1].message
    assert toolbridge.complete("demo", "5 + 5").text == "5 + 5 = 10"


async def test_those_who_await_iterate():
    answer = toolbridge.stream("demo", "5 + 5")
    events = [event async for event in answer]
    assert events[-1].type == "done"
    assert (await toolbridge.stream("demo", "5 + 5")).text == "5 + 5 = 10"


async def test_an_answer_is_read_in_one_way_only():
    blocked = toolbridge.stream("demo", "hi")
    next(blocked)
    with pytest.raises(TypeError, match="`for`"):
        await anext(blocked)
    awaited = toolbridge.stream("demo", "hi")
    await anext(awaited)
    with pytest.raises(TypeError, match="async for"):
        next(awaited)
    await awaited
    with Client(Config(), env=QUIET) as client, pytest.raises(TypeError, match="`for`"):
        await toolbridge.stream("demo", "hi", client=client)
    async with AsyncClient(Config(), env=QUIET) as other:
        with pytest.raises(TypeError, match="async for"):
            toolbridge.complete("demo", "hi", client=other)


@pytest.mark.req("ZG-34")
async def test_nothing_stays_behind_an_answer_that_is_left():
    async with nothing_left():
        for event in toolbridge.stream("demo", "[[long]]"):
            if event.type == "text_delta":
                break
        async for event in toolbridge.stream("demo", "[[long]]"):
            if event.type == "text_delta":
                break
        gc.collect()


def test_the_tools_of_a_context_are_offered():
    context = {"messages": [{"role": "user", "content": "Look at Paris"}], "tools": [look]}
    message = toolbridge.complete("demo", context)
    assert [(call.name, call.arguments) for call in message.calls] == [("look", {"city": "Paris"})]


def test_an_abort_is_an_event():
    answer = toolbridge.stream("demo", "[[long]]")
    for event in answer:
        if event.type == "text_delta":
            answer.abort()
    assert (event.type, event.reason) == ("error", "aborted")
    assert event.error.text
    assert answer.message == event.error


def test_an_abort_ends_its_own_answer_only():
    signal = toolbridge.Signal()
    with Client(Config(), env=QUIET) as client:
        one, other = (
            toolbridge.stream("demo", "[[long]]", signal=signal, client=client) for _ in range(2)
        )
        one.abort()
        assert one.result().stop == "aborted"
        next(other)
        signal.abort("all of you")
        assert other.result().problem.text == "all of you"


async def test_a_failure_is_an_event():
    async with (
        place("anthropic", script("anthropic", ANSWERS["anthropic"][:4])) as (_, config),
        AsyncClient(config) as client,
    ):
        events = [event async for event in toolbridge.stream("there/m", "hi", client=client)]
    assert (events[-1].type, events[-1].reason) == ("error", "error")
    assert events[-1].error.text == "Looking."
    assert events[-1].error.usage.cost.total > 0


@pytest.mark.req("ZG-23", "ZG-24")
async def test_the_cost_follows_every_count():
    async with place("anthropic") as (_, config), AsyncClient(config) as client:
        events = [
            event async for event in toolbridge.stream("there/m", "hi", tools=[look], client=client)
        ]
    usages = [event.partial.usage for event in events[1:]]
    assert all(usage.cost.input == usage.input * RATES.input / 1e6 for usage in usages)
    assert usages[0].cost.total < usages[-1].cost.total


async def test_reasoning_is_pis_word_for_thinking():
    async with AsyncClient(Config(), env=QUIET) as client:
        answer = toolbridge.stream("demo", "hi", reasoning="high", client=client)
        kinds = {event.type async for event in answer}
    assert {"thinking_start", "thinking_delta", "thinking_end"} <= kinds


def test_a_client_is_kept_between_calls():
    with Client(Config(), env=QUIET) as client:
        assert toolbridge.complete("demo", "1 + 1", client=client).text == "1 + 1 = 2"
        assert toolbridge.complete("demo", "1 + 2", client=client).text == "1 + 2 = 3"


def test_bad_words_raise_at_once():
    with pytest.raises(TypeError, match="no option"):
        toolbridge.stream("demo", "hi", warmth=1)
    with pytest.raises(MalformedRequest):
        toolbridge.stream("demo", {"messages": []})


async def test_a_blocking_answer_works_inside_a_running_loop():
    assert toolbridge.stream("demo", "5 + 5").result().text == "5 + 5 = 10"
    assert (await asyncio.to_thread(toolbridge.complete, "demo", "5 + 5")).stop == "end"
