"""Answers as they come: increments, aborts, failures, and what is left afterwards."""

import asyncio
import gc
import subprocess
import sys
import threading

import pytest
from tests.peers import Heard, Line, ollama, whole
from tests.sdk.household import nothing_left
from tests.sdk.places import OLLAMA, QUIET, config_for, lines, place, said, script

import toolbridge
from toolbridge import AsyncClient, Client, Signal
from toolbridge.config import Config


class Held:
    """A server that says one thing, and the next when it is told to."""

    def __init__(self) -> None:
        self.go_on = asyncio.Event()
        self.gone = asyncio.Event()
        self.sent_last = False

    async def __call__(self, heard: Heard, line: Line) -> None:
        if heard.path == "/api/show":
            await whole(line, {"capabilities": ["completion"]})
            return
        await line.head()
        await line.send(lines(said("first "))[0])
        leaving = asyncio.create_task(line.gone())
        waiting = asyncio.create_task(self.go_on.wait())
        await asyncio.wait([leaving, waiting], return_when=asyncio.FIRST_COMPLETED)
        if leaving.done():
            self.gone.set()
            waiting.cancel()
            return
        self.sent_last = True
        for piece in lines(said("second"), said(done=True)):
            await line.send(piece)
        await line.end()
        await leaving


async def until(claim) -> None:
    for _ in range(500):
        if claim():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it never came true")


async def soon(event: asyncio.Event) -> None:
    await asyncio.wait_for(event.wait(), 5)


async def test_the_first_words_come_before_the_last_are_sent():
    held = Held()
    async with place("ollama", held) as (_, config), AsyncClient(config) as client:
        stream = client.stream("there/m", "hi")
        async for event in stream:
            if isinstance(event, toolbridge.TextDelta):
                assert (event.text, held.sent_last) == ("first ", False) or held.sent_last
                held.go_on.set()
        assert stream.message.text == "first second"


async def test_the_first_words_come_before_the_last_are_sent_to_those_who_block():
    held = Held()
    loop = asyncio.get_running_loop()

    def read(config):
        with Client(config) as client:
            seen = []
            for event in client.stream("there/m", "hi"):
                if isinstance(event, toolbridge.TextDelta):
                    seen.append((event.text, held.sent_last))
                    loop.call_soon_threadsafe(held.go_on.set)
            return seen

    async with place("ollama", held) as (_, config):
        assert await asyncio.to_thread(read, config) == [("first ", False), ("second", True)]


async def test_the_message_is_what_the_events_have_told():
    async with place("ollama") as (_, config), AsyncClient(config) as client:
        stream = client.stream("there/m", "hi")
        events = []
        async for event in stream:
            events.append(event)
            assert stream.message == toolbridge.collect(events)
        assert await stream.result() == events[-1].message


# ── aborts ──


@pytest.mark.req("ZG-34")
async def test_an_abort_in_the_middle_hangs_up_and_is_a_value():
    held = Held()
    async with place("ollama", held) as (_, config), AsyncClient(config) as client:
        stream = client.stream("there/m", "hi")
        async for event in stream:
            if isinstance(event, toolbridge.TextDelta):
                stream.abort("enough")
        await soon(held.gone)
    assert isinstance(event, toolbridge.Failed)
    assert (event.problem.kind, event.problem.text) == ("aborted", "enough")
    assert event.message.text == "first "
    assert event.message.stop == "aborted"
    assert await stream.result() == event.message


async def test_an_abort_hangs_up_also_when_nobody_reads_on():
    held = Held()
    async with place("ollama", held) as (_, config), AsyncClient(config) as client:
        stream = client.stream("there/m", "hi")
        await anext(stream)
        stream.abort()
        await soon(held.gone)


async def test_the_connection_is_closed_when_the_abort_is_told():
    async with place("ollama", Held()) as (_, config), AsyncClient(config) as client:
        stream = client.stream("there/m", "hi")
        await anext(stream)
        stream.abort()
        await stream.result()
        assert stream._source.ag_frame is None


async def test_an_abort_reaches_one_who_waits():
    held = Held()
    async with place("ollama", held) as (_, config), AsyncClient(config) as client:
        stream = client.stream("there/m", "hi")
        reading = asyncio.create_task(stream.result())
        await until(lambda: stream.message.text)
        stream.abort()
        message = await asyncio.wait_for(reading, 5)
        await soon(held.gone)
    assert (message.stop, message.text) == ("aborted", "first ")


async def test_an_abort_before_the_first_event_asks_nobody():
    async with place("ollama") as (server, config), AsyncClient(config) as client:
        stream = client.stream("there/m", "hi")
        stream.abort()
        events = [event async for event in stream]
        assert [type(event).__name__ for event in events] == ["Started", "Failed"]
        assert server.heard == []


async def test_an_abort_after_the_end_changes_nothing():
    async with place("ollama") as (_, config), AsyncClient(config) as client:
        stream = client.stream("there/m", "hi")
        message = await stream.result()
        stream.abort()
        assert [event async for event in stream] == []
        assert await stream.result() == message
        assert message.stop == "tool_use"


async def test_an_abort_from_another_thread_reaches_one_who_blocks():
    held = Held()

    def read(config, signal):
        with Client(config) as client:
            return client.complete("there/m", "hi", signal=signal)

    async with place("ollama", held) as (server, config):
        signal = Signal()
        reading = asyncio.create_task(asyncio.to_thread(read, config, signal))
        await until(server.chats)
        signal.abort("from elsewhere")
        message = await asyncio.wait_for(reading, 5)
        await soon(held.gone)
    assert message.problem.text == "from elsewhere"
    assert signal.aborted


async def test_a_signal_that_was_given_before_aborts_at_once():
    signal = Signal()
    signal.abort()
    async with AsyncClient(Config(), env=QUIET) as client:
        message = await client.complete("x", "hi", signal=signal)
    assert message.stop == "aborted"


async def test_a_cancelled_reader_is_cancelled_and_hangs_up():
    held = Held()
    async with place("ollama", held) as (_, config), AsyncClient(config) as client:
        stream = client.stream("there/m", "hi")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await stream.result()
        await soon(held.gone)
        assert (await stream.result()).stop == "aborted"
        assert stream.message.text == "first "


async def test_one_who_is_cancelled_is_cancelled_even_if_the_answer_is_aborted_too():
    async with place("ollama", Held()) as (_, config), AsyncClient(config) as client:
        stream = client.stream("there/m", "hi")
        reading = asyncio.create_task(stream.result())
        await until(lambda: stream.message.text)
        stream.abort()
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading


async def test_what_was_not_handed_out_before_an_abort_is_not_part_of_it():
    async with AsyncClient(Config(), env=QUIET) as client:
        stream = client.stream("x", "[[long]]")
        events = []
        async for event in stream:
            events.append(event)
            if isinstance(event, toolbridge.TextDelta):
                stream.abort()
    names = [type(event).__name__ for event in events]
    assert names == ["Started", "TextStart", "TextDelta", "Failed"]
    assert events[-1].message.text == events[2].text


async def test_a_loop_that_is_left_hangs_up():
    held = Held()

    def read(config):
        client = Client(config)
        for event in client.stream("there/m", "hi"):
            if isinstance(event, toolbridge.TextDelta):
                break
        return client

    async with place("ollama", held) as (_, config):
        client = await asyncio.to_thread(read, config)
        await soon(held.gone)
        await asyncio.to_thread(client.close)


async def test_a_stream_that_is_dropped_hangs_up():
    held = Held()
    async with place("ollama", held) as (_, config), AsyncClient(config) as client:
        async for event in client.stream("there/m", "hi"):
            if isinstance(event, toolbridge.TextDelta):
                break
        gc.collect()
        await soon(held.gone)


async def test_a_client_that_closes_ends_its_answers():
    held = Held()
    async with place("ollama", held) as (_, config):
        async with AsyncClient(config) as client:
            stream, unread = client.stream("there/m", "a"), client.stream("there/m", "b")
            await anext(stream)
        await soon(held.gone)
        assert (await stream.result()).problem.text == "the client was closed"
        assert (await unread.result()).stop == "aborted"
        with pytest.raises(RuntimeError, match="closed"):
            client.stream("there/m", "c")


# ── failures ──


async def rejecting(_: Heard, line: Line) -> None:
    await whole(line, {"error": "no such thing"}, 404)


async def test_a_dead_provider_is_a_value():
    config = config_for("openai_chat", "http://127.0.0.1:1", retries=0)
    async with AsyncClient(config) as client:
        stream = client.stream("there/m", "hi")
        events = [event async for event in stream]
    assert [type(event).__name__ for event in events] == ["Started", "Failed"]
    assert events[-1].problem.kind == "unreachable"
    assert stream.message.problem == events[-1].problem


async def test_a_rejection_is_a_value():
    async with place("openai_chat", rejecting) as (_, config), AsyncClient(config) as client:
        message = await client.complete("there/m", "hi")
    assert (message.stop, message.problem.status) == ("error", 404)
    assert message.problem.provider == "there"


async def test_an_unknown_model_is_a_value():
    answer = ollama(script("ollama"))
    async with place("ollama", answer) as (_, config), AsyncClient(config) as client:
        message = await client.complete("there/absent", "hi")
    assert message.problem.kind == "unknown_model"
    assert "ollama pull absent" in message.problem.text


async def test_a_fault_of_ours_is_a_value(monkeypatch):
    async with place("ollama") as (_, config), AsyncClient(config) as client:
        monkeypatch.setattr("toolbridge.sdk.switchboard.estimate_request", lambda _: 1 / 0)
        message = await client.complete("there/m", "hi")
    assert message.problem.kind == "internal"
    assert "ZeroDivisionError" in message.problem.text


async def test_a_prompt_that_does_not_fit_is_a_value():
    config = config_for("ollama", "http://127.0.0.1:1", window=10)
    async with AsyncClient(config) as client:
        message = await client.complete("there/m", "word " * 100)
    assert message.problem.kind == "context_overflow"


async def test_what_the_model_cannot_be_told_is_said():
    async with place("ollama") as (_, config), AsyncClient(config) as client:
        stream = client.stream("there/m", "hi", tools=[toolbridge.Tool("f")], tool_choice="f")
        await stream.result()
    assert "tool_choice" in {loss.what for loss in stream.losses}
    assert stream.model == "there/m"


# ── nothing stays behind ──


async def use(client: AsyncClient, how: str) -> None:
    stream = client.stream("there/m", "hi")
    async for event in stream:
        if how == "abort" and isinstance(event, toolbridge.TextDelta):
            stream.abort()
        if how == "leave" and isinstance(event, toolbridge.TextDelta):
            return


ENDS = [
    ("complete", script("ollama")),
    ("abort", script("ollama")),
    ("leave", script("ollama")),
    ("error", script("ollama", OLLAMA[:1])),
    ("rejection", rejecting),
]


@pytest.mark.req("ZG-34")
@pytest.mark.parametrize(("how", "answer"), ENDS)
async def test_nothing_stays_behind(how, answer):
    async with (
        place("ollama", answer, retries=0) as (_, config),
        nothing_left(),
        AsyncClient(config) as client,
    ):
        await use(client, how)
        await use(client, how)


@pytest.mark.req("ZG-34")
@pytest.mark.parametrize(("how", "answer"), ENDS)
async def test_nothing_stays_behind_a_blocking_client(how, answer):
    def work(config):
        with Client(config) as client:
            stream = client.stream("there/m", "hi")
            for event in stream:
                if how == "abort" and isinstance(event, toolbridge.TextDelta):
                    stream.abort()
                if how == "leave" and isinstance(event, toolbridge.TextDelta):
                    break

    async with place("ollama", answer, retries=0) as (_, config), nothing_left():
        await asyncio.to_thread(work, config)


@pytest.mark.req("ZG-34")
@pytest.mark.parametrize(("how", "answer"), ENDS)
async def test_nothing_stays_behind_while_the_client_is_open(how, answer):
    """A finished answer gives its connection back, any other closes it; no task goes on."""
    async with place("ollama", answer, retries=0) as (_, config), AsyncClient(config) as client:
        await use(client, how)
        gc.collect()
        async with nothing_left():
            for _ in range(5):
                await use(client, how)
                gc.collect()


@pytest.mark.req("ZG-34")
async def test_a_client_that_nobody_closes_closes_itself():
    async with nothing_left():
        message = Client(Config(), env=QUIET).complete("x", "hi")
        assert message.stop == "end"
        gc.collect()


async def test_a_connection_is_used_again():
    ports = set()
    say = script("ollama")

    async def answer(heard: Heard, line: Line) -> None:
        ports.add(line._writer.get_extra_info("peername"))
        await say(heard, line)

    async with place("ollama", answer) as (server, config), AsyncClient(config) as client:
        for _ in range(3):
            await client.complete("there/m", "hi")
        assert len(server.chats()) == 3
    assert len(ports) == 1


# ── blocking ──


async def test_a_blocking_client_works_inside_a_running_loop():
    with Client(Config(), env=QUIET) as client:
        assert client.complete("x", "5 + 5").text == "5 + 5 = 10"


def test_a_temporary_client_lives_as_long_as_its_answer():
    stream = Client(Config(), env=QUIET).stream("x", "hi")
    gc.collect()
    assert stream.result().stop == "end"


def test_a_closed_client_takes_no_more():
    client = Client(Config(), env=QUIET)
    stream = client.stream("x", "hi")
    next(stream)
    client.close()
    client.close()
    assert stream.result().problem.text == "the client was closed"
    with pytest.raises(RuntimeError, match="closed"):
        client.stream("x", "hi")


def test_a_client_that_was_never_used_has_no_thread():
    before = set(threading.enumerate())
    client = Client(Config(), env=QUIET)
    assert set(threading.enumerate()) == before
    client.close()


def test_many_threads_may_share_a_client():
    answers: list[str] = []
    with Client(Config(), env=QUIET) as client:
        workers = [
            threading.Thread(target=lambda n=n: answers.append(client.ask("x", f"{n} + 1")))
            for n in range(8)
        ]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    assert sorted(answers) == sorted(f"{n} + 1 = {n + 1}" for n in range(8))


def test_a_stream_is_a_context():
    with Client(Config(), env=QUIET) as client, client.stream("x", "[[long]]") as stream:
        next(stream)
    assert stream.result().stop == "aborted"


def test_a_conversation_goes_on_from_its_turns():
    with Client(Config(), env=QUIET) as client:
        first = client.stream("x", "hello")
        first.result()
        again = [*first.turns, toolbridge.Turn("user", (toolbridge.Text("5 + 5"),))]
        assert client.ask("x", again) == "5 + 5 = 10"
        assert [turn.role for turn in first.turns] == ["user", "assistant"]


# ── opening ──


def test_a_configuration_may_be_a_path(tmp_path):
    path = tmp_path / "toolbridge.toml"
    path.write_text('[map]\ndefault = "demo/toolbridge-demo"\n')
    for given in (path, str(path)):
        with Client(given, env=QUIET) as client:
            assert client.stream("x", "hi").result().stop == "end"


def test_a_faulty_configuration_raises_at_once(tmp_path):
    with pytest.raises(toolbridge.ConfigError, match="there is no file"):
        Client(tmp_path / "none.toml", env=QUIET)


def test_without_a_name_the_default_answers():
    with Client(Config(), env=QUIET) as client:
        stream = client.stream("", "hi")
        stream.result()
    assert stream.model == "demo/toolbridge-demo"


def test_the_library_opens_no_loop_until_it_is_asked_for():
    code = (
        "import sys, toolbridge;"
        "print([m for m in ('asyncio', 'aiohttp', 'toolbridge.sdk') if m in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_a_process_that_forgets_to_close_ends_without_a_word():
    code = (
        "import toolbridge\n"
        "client = toolbridge.Client(env={'OLLAMA_HOST': '127.0.0.1:1', 'HOME': '/nonexistent'})\n"
        "stream = client.stream('x', '[[long]]')\n"
        "next(stream)\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        capture_output=True, text=True, timeout=30, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
