"""Tools that are run until the model has what it needs."""

import asyncio
import threading
from typing import Annotated, Literal

import msgspec
import pytest
from tests.peers import Heard, Line, whole
from tests.sdk.places import QUIET, lines, place, said
from tests.tables import every_row

import toolbridge
from toolbridge import AsyncClient, Client
from toolbridge.config import Config
from toolbridge.core.messages import Call, Message, Request, Result, Text, ToolChoice, Turn
from toolbridge.sdk.client.tool_loop import ToolLoop
from toolbridge.sdk.streams.options import prepare


def weather(city: Annotated[str, "where"], unit: Literal["c", "f"] = "c") -> str:
    """The weather in a city."""
    return f"{city}: 20 {unit}"


def calls(*wanted: tuple[str, dict]) -> dict:
    return said(
        tool_calls=[{"function": {"name": name, "arguments": given}} for name, given in wanted]
    )


class Scripted:
    """An Ollama that gives one answer after the other."""

    def __init__(self, *answers: list[dict]) -> None:
        self._answers = list(answers)

    async def __call__(self, heard: Heard, line: Line) -> None:
        if heard.path == "/api/show":
            await whole(line, {"capabilities": ["completion", "tools"]})
            return
        await line.head()
        for piece in lines(*self._answers.pop(0)):
            await line.send(piece)
        await line.end()


TWO = [calls(("weather", {"city": "Paris"}), ("weather", {"city": "Rome"})), said(done=True)]
END = [said("All is well."), said(done=True)]


def results_of(run) -> list[Result]:
    return [part for turn in run.turns for part in turn.content if isinstance(part, Result)]


async def test_two_calls_are_made_and_the_model_goes_on():
    script = Scripted(TWO, END)
    async with place("ollama", script) as (server, config), AsyncClient(config) as client:
        run = client.run("there/m", "The weather?", tools=[weather])
        events = [event async for event in run]
    ends = [event.reason for event in events if isinstance(event, toolbridge.Finished)]
    assert ends == ["tool_use", "end"]
    assert (await run.result()).text == "All is well."
    assert [part.content[0].text for part in results_of(run)] == ["Paris: 20 c", "Rome: 20 c"]
    assert [turn.role for turn in run.turns] == ["user", "assistant", "user", "assistant"]
    sent = [m for m in server.chats()[-1].json["messages"] if m["role"] == "tool"]
    assert [message["content"] for message in sent] == ["Paris: 20 c", "Rome: 20 c"]


async def test_a_run_adds_up_what_its_answers_took():
    script = Scripted(TWO, END)
    async with place("ollama", script) as (_, config), AsyncClient(config) as client:
        run = client.run("there/m", "The weather?", tools=[weather])
        last = await run.result()
    assert (run.usage.input, run.usage.output) == (2 * last.usage.input, 2 * last.usage.output)
    assert run.usage.cost.total == pytest.approx(2 * last.usage.cost.total)
    assert last.usage.cost.total > 0


async def test_a_blocking_run_calls_in_the_thread_of_its_caller():
    where = []

    def note(city: str) -> str:
        where.append(threading.current_thread())
        return city

    def work(config):
        with Client(config) as client:
            run = client.run("there/m", "?", tools=[toolbridge.tool(name="weather")(note)])
            return threading.current_thread(), run.result().text, len(results_of(run))

    async with place("ollama", Scripted(TWO, END)) as (_, config):
        thread, text, results = await asyncio.to_thread(work, config)
    assert (text, results) == ("All is well.", 2)
    assert where == [thread, thread]


async def test_coroutines_run_at_the_same_time():
    both = asyncio.Barrier(2)

    async def meet(city: str) -> str:
        await asyncio.wait_for(both.wait(), 20)
        return city

    met = toolbridge.tool(name="weather")(meet)
    async with place("ollama", Scripted(TWO, END)) as (_, config), AsyncClient(config) as client:
        run = client.run("there/m", "?", tools=[met])
        await run.result()
    assert [part.is_error for part in results_of(run)] == [False, False]


async def test_functions_do_not_stop_the_loop():
    both = threading.Barrier(2, timeout=20)
    met = toolbridge.tool(name="weather")(lambda **_: both.wait())
    async with place("ollama", Scripted(TWO, END)) as (_, config), AsyncClient(config) as client:
        run = client.run("there/m", "?", tools=[met])
        await run.result()
    assert [part.is_error for part in results_of(run)] == [False, False]


def test_a_blocking_run_awaits_coroutines():
    async def get_weather(city: str) -> dict:
        """The weather in a city."""
        await asyncio.sleep(0)
        return {"city": city}

    with Client(Config(), env=QUIET) as client:
        run = client.run("demo", "What is the weather in Paris?", tools=[get_weather])
        assert run.result().stop == "end"
    assert results_of(run)[0].content[0].text == '{"city":"Paris"}'


def fails(city: str) -> str:
    raise KeyError(city)


class Place(msgspec.Struct):
    name: str


def typed(city: int) -> int:
    return city


@pytest.mark.parametrize(
    ("function", "expected", "is_error"),
    [
        (fails, "KeyError: 'Paris'", True),
        (typed, "ValidationError: Expected `int`, got `str` - at `$.city`", True),
        (lambda **_: None, "done", False),
        (lambda city: Place(name=city), '{"name":"Paris"}', False),
        (lambda **_: {"a": [1, None]}, '{"a":[1,null]}', False),
        (lambda **_: threading.Lock, str(threading.Lock), False),
    ],
)
async def test_what_a_function_gives_or_raises_is_what_the_model_reads(
    function, expected, is_error
):
    one = [calls(("f", {"city": "Paris"})), said(done=True)]
    tool = toolbridge.tool(name="f")(function)
    async with place("ollama", Scripted(one, END)) as (_, config), AsyncClient(config) as client:
        run = client.run("there/m", "?", tools=[tool])
        assert (await run.result()).text == "All is well."
    (result,) = results_of(run)
    assert (result.content[0].text, result.is_error) == (expected, is_error)
    assert result.name == "f"
    assert result.call_id == run.turns[1].content[0].id


def tool_loop(**options) -> ToolLoop:
    return ToolLoop(prepare("m", "?", {"tools": [weather], **options}), 3)


def told(*parts, stop="tool_use") -> Message:
    return Message(content=parts, stop=stop)


CALL = Call("c", "weather", {"city": "Rome"})


@every_row(
    ("message", "expected"),
    [
        (told(CALL), (CALL,)),
        (told(Text("done"), stop="end"), ()),
        (told(CALL, stop="length"), ()),
        (told(CALL, stop="error"), ()),
        (told(CALL, Call("d", "theirs")), ()),
        (told(), ()),
    ],
)
def test_only_an_answer_that_ended_with_calls_of_ours_is_obeyed(message, expected):
    tools = [weather, toolbridge.Tool("theirs")]
    assert tool_loop(tools=tools).take(message) == expected


def test_turns_run_out():
    work = tool_loop()
    assert [bool(work.take(told(CALL))) for _ in range(3)] == [True, True, False]


def test_a_forced_call_is_forced_once():
    work = tool_loop(tool_choice="required")
    work.take(told(CALL))
    work.give([Result("c")])
    assert work.order.request.tool_choice == ToolChoice()


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (Call("c", "other"), "there is no tool 'other'"),
        (Call("c", "weather", raw='{"city": '), 'not a JSON object: {"city": '),
    ],
)
def test_what_cannot_be_called_says_why(call, text):
    with pytest.raises((LookupError, ValueError), match=r"no tool|JSON") as caught:
        tool_loop().function(call)
    assert text in str(caught.value)


async def test_an_abort_ends_tools_that_wait():
    begun = asyncio.Event()

    async def sleep(city: str) -> str:
        begun.set()
        await asyncio.sleep(60)
        return city

    asleep = toolbridge.tool(name="weather")(sleep)
    two = Scripted(TWO, END)
    async with place("ollama", two) as (server, config), AsyncClient(config) as client:
        run = client.run("there/m", "?", tools=[asleep])
        working = asyncio.create_task(run.result())
        await asyncio.wait_for(begun.wait(), 20)
        run.abort("enough")
        message = await asyncio.wait_for(working, 20)
    assert (message.stop, message.problem.text) == ("aborted", "enough")
    assert len(server.chats()) == 1
    assert all(part.is_error for part in results_of(run))


async def test_a_signal_ends_a_run():
    signal = toolbridge.Signal()
    signal.abort()
    async with AsyncClient(Config(), env=QUIET) as client:
        run = client.run("demo", "hi", signal=signal)
        assert (await run.result()).stop == "aborted"


def test_what_a_function_raises_is_what_the_model_reads_when_blocking_too():
    def get_weather(city: str) -> str:
        """The weather in a city."""
        raise KeyError(city)

    with Client(Config(), env=QUIET) as client:
        run = client.run("demo", "What is the weather in Paris?", tools=[get_weather])
        run.result()
    (result,) = results_of(run)
    assert (result.content[0].text, result.is_error) == ("KeyError: 'Paris'", True)


def test_an_abort_ends_a_blocking_run():
    signal = toolbridge.Signal()

    def get_weather(city: str) -> str:
        """The weather in a city."""
        signal.abort()
        return city

    with Client(Config(), env=QUIET) as client:
        run = client.run("demo", "The weather in Paris?", tools=[get_weather], signal=signal)
        assert run.result().stop == "aborted"


async def test_a_run_that_is_cancelled_is_cancelled():
    async def sleep(city: str) -> str:
        await asyncio.sleep(60)
        return city

    asleep = toolbridge.tool(name="weather")(sleep)
    async with place("ollama", Scripted(TWO)) as (_, config), AsyncClient(config) as client:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3):
                await client.run("there/m", "?", tools=[asleep]).result()


def test_a_run_begins_with_nothing():
    with Client(Config(), env=QUIET) as client:
        run = client.run("demo", "hi")
        assert run.message == Message()
        assert run.usage.cost is None
        assert run.turns == Request("", (Turn("user", (Text("hi"),)),)).turns
        run.abort()
        assert run.result().stop == "aborted"
