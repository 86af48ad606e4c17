"""A repeat under the same key is the same run, also after a crash or a restart."""

import asyncio
import json
import os
import signal
import sqlite3
import subprocess
import sys
import textwrap

import aiohttp
import pytest
from tests.peers import model_server
from tests.server.test_stream import BOOKING, PIZZA, codes, names, one
from tests.streams import Said, ask, call, read, reply, scripted

pytestmark = pytest.mark.operation
KEY = {"idempotency-key": "k1"}
SERVER = """
    import asyncio, sys
    from toolbridge.config import Config, ProviderConfig, StreamConfig
    from toolbridge.server.app import App
    from toolbridge.server.dispatch import Dispatcher
    from toolbridge.server.http_server import HttpServer
    from toolbridge.demo.restaurant import bookings
    import dataclasses, os, signal, socket

    url, mode = sys.argv[1:3]
    book = bookings.BOOKINGS_CREATE

    async def and_die(arguments, context):
        result = await book.run(arguments, context)
        os.kill(os.getpid(), signal.SIGKILL)
        return result

    if mode == "die":
        from toolbridge.demo import restaurant
        restaurant.TOOLS = (restaurant.PLACES_SEARCH, dataclasses.replace(book, run=and_die))

    config = Config(log="off", map={"default": "there/m"}, stream=StreamConfig(demo=True), providers={
        "there": ProviderConfig(api="openai_chat", url=url, retries=0)})

    async def serve():
        server, end = HttpServer(Dispatcher(App(config))), asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, end.set)
        listener = socket.create_server(("127.0.0.1", 0))
        await server.start(listener)
        print(listener.getsockname()[1], flush=True)
        await end.wait()
        await server.stop(1)

    asyncio.run(serve())
"""


async def run_server(url: str, mode: str, home) -> tuple[subprocess.Popen, str]:
    process = subprocess.Popen(  # noqa: ASYNC220  a moment, in a test
        [sys.executable, "-c", textwrap.dedent(SERVER), url, mode],
        stdout=subprocess.PIPE,
        env={"HOME": str(home), "PATH": os.environ["PATH"], "OLLAMA_HOST": "127.0.0.1:1"},
    )
    assert process.stdout is not None
    port = await asyncio.to_thread(process.stdout.readline)
    return process, f"http://127.0.0.1:{int(port)}"


async def follow(url: str, seen: list[Said]) -> None:
    async with (
        aiohttp.ClientSession() as client,
        client.post(f"{url}/v1/stream", json=PIZZA, headers=KEY) as response,
    ):
        async for said in read(response):
            seen.append(said)


def end(process: subprocess.Popen) -> None:
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
    process.wait(20)
    assert process.stdout is not None
    process.stdout.close()


async def test_killed_in_the_middle_of_a_booking_it_is_booked_once(tmp_path):
    """The process dies after the booking was written and before anybody was told."""
    booking = call("T1", "bookings.create", BOOKING)
    async with model_server(scripted(booking, booking, reply())) as model:
        process, url = await run_server(model.url, "die", tmp_path)
        seen: list[Said] = []
        with pytest.raises(aiohttp.ClientError):
            await follow(url, seen)
        assert [said.name for said in seen] == ["tool.call"]
        assert process.wait(20) == -signal.SIGKILL
        end(process)

        process, url = await run_server(model.url, "live", tmp_path)
        try:
            # What was said before the crash is still there, with an end.
            rest = await ask(url, {}, **{"last-event-id": seen[0].id})
            assert codes(rest) == ["abandoned"]
            events = await ask(url, PIZZA, **KEY)
        finally:
            end(process)
    assert one(events, "tool.result")["cached"] is True
    assert names(events)[-2:] == ["result.end", "done"]
    database = tmp_path / ".local/state/toolbridge/toolbridge.sqlite"
    with sqlite3.connect(database) as kept:
        assert kept.execute(
            "select count(*) from kept where scope like 'booking/%'"
        ).fetchone() == (1,)
    kept.close()


async def test_a_finished_run_is_the_same_after_a_restart(tmp_path):
    async with model_server(scripted(call("T1", "bookings.create", BOOKING), reply())) as model:
        process, url = await run_server(model.url, "live", tmp_path)
        first = await ask(url, PIZZA, **KEY)
        end(process)
        process, url = await run_server(model.url, "live", tmp_path)
        try:
            assert await ask(url, PIZZA, **KEY) == first
        finally:
            end(process)
        assert len(model.heard) == 2
    written = tmp_path / ".local/state/toolbridge/runs" / first[0].id.partition(":")[0]
    assert {file.name for file in written.iterdir()} == {
        "frames.ndjson", "metrics.json", "prompt.json", "result.json", "tool_logs.json",
    }  # fmt: skip
    assert json.loads((written / "result.json").read_text())["answer"] == "done"
