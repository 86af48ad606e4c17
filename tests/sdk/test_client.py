"""Clients: how they open and close, and blocking in every situation."""

import asyncio
import gc
import subprocess
import sys
import threading

import pytest
from tests.sdk.places import QUIET

import toolbridge
from toolbridge import AsyncClient, Client
from toolbridge.config import Config
from toolbridge.core.errors import Unsupported
from toolbridge.sdk.streams.loop_thread import LoopClosed


async def test_a_blocking_client_works_inside_a_running_loop():
    with Client(Config(), env=QUIET) as client:
        assert client.complete("demo", "5 + 5").text == "5 + 5 = 10"


def test_a_temporary_client_lives_as_long_as_its_answer():
    stream = Client(Config(), env=QUIET).stream("demo", "hi")
    gc.collect()
    assert stream.result().stop == "end"


def test_a_closed_client_takes_no_more():
    client = Client(Config(), env=QUIET)
    stream = client.stream("demo", "hi")
    next(stream)
    client.close()
    client.close()
    assert stream.result().problem.text == "the client was closed"
    with pytest.raises(RuntimeError, match="closed"):
        client.stream("demo", "hi")


def test_a_client_that_was_never_used_has_no_thread():
    before = set(threading.enumerate())
    client = Client(Config(), env=QUIET)
    assert set(threading.enumerate()) == before
    client.close()


def test_many_threads_may_share_a_client():
    answers: list[str] = []
    with Client(Config(), env=QUIET) as client:
        workers = [
            threading.Thread(target=lambda n=n: answers.append(client.ask("demo", f"{n} + 1")))
            for n in range(8)
        ]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    assert sorted(answers) == sorted(f"{n} + 1 = {n + 1}" for n in range(8))


def test_a_stream_is_a_context():
    with Client(Config(), env=QUIET) as client, client.stream("demo", "[[long]]") as stream:
        next(stream)
    assert stream.result().stop == "aborted"


def test_a_conversation_goes_on_from_its_turns():
    with Client(Config(), env=QUIET) as client:
        first = client.stream("demo", "hello")
        first.result()
        again = [*first.turns, toolbridge.Turn("user", (toolbridge.Text("5 + 5"),))]
        assert client.ask("demo", again) == "5 + 5 = 10"
        assert [turn.role for turn in first.turns] == ["user", "assistant"]
        assert first.losses == ()


def test_a_configuration_may_be_a_path(tmp_path):
    path = tmp_path / "toolbridge.toml"
    path.write_text('[map]\ndefault = "demo/toolbridge-demo"\n')
    for given in (path, str(path)):
        with Client(given, env=QUIET) as client:
            assert client.stream("demo", "hi").result().stop == "end"


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


def test_an_async_client_in_another_event_loop_names_the_way_out():
    client = AsyncClient(Config(), env=QUIET)

    async def ask() -> str:
        return await client.ask("demo", "hi")

    assert asyncio.run(ask())
    with pytest.raises(
        Unsupported, match=r"another event loop.* make all requests in one `asyncio"
    ):
        asyncio.run(ask())
    asyncio.run(client.aclose())


def test_an_async_client_that_was_closed_in_its_loop_stays_closed_in_another():
    client = AsyncClient(Config(), env=QUIET)

    async def ask() -> str:
        async with client:
            return await client.ask("demo", "hi")

    assert asyncio.run(ask())
    with pytest.raises(LoopClosed, match="the client is closed"):
        asyncio.run(ask())
