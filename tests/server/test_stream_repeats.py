"""A repeat under the same key is the same run: while it runs, after it, and after a crash."""

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
from tests.streams import Said, ask, call, chunk, read, refused, reply, scripted, streaming

KEY = {"idempotency-key": "k1"}


@pytest.mark.req("TF-35")
async def test_a_repeat_after_the_end_returns_the_same_events():
    async with streaming(scripted(call("T1", "bookings.create", BOOKING), reply())) as (
        url,
        server,
        _,
    ):
        first = await ask(url, PIZZA, **KEY)
        again = await ask(url, PIZZA, **KEY)
        reordered = await ask(url, dict(reversed(PIZZA.items())), **KEY)
    assert first == again == reordered
    assert len(server.heard) == 2


async def test_a_repeat_while_the_first_runs_follows_it():
    go = asyncio.Event()

    async def halting(_, line) -> None:
        await line.head(kind="text/event-stream")
        await line.send(chunk({"content": "one "}))
        await go.wait()
        await line.send(chunk({"content": f"two {reply()}"}) + chunk({}, "stop"))
        await line.end()

    async with streaming(halting) as (url, server, _):
        async with (
            aiohttp.ClientSession() as client,
            client.post(f"{url}/v1/stream", json=PIZZA, headers=KEY) as response,
        ):
            events = read(response)
            first = [await anext(events)]
            repeat = asyncio.create_task(ask(url, PIZZA, **KEY))
            await asyncio.sleep(0.05)
            go.set()
            first += [said async for said in events]
        assert await repeat == first
    assert len(server.heard) == 1


async def test_the_same_key_with_another_body_is_a_conflict():
    async with streaming(scripted(reply(), reply())) as (url, _, _):
        await ask(url, PIZZA, **KEY)
        status, error = await refused(url, {**PIZZA, "prompt": "pasta"}, **KEY)
        assert (status, error["code"]) == (409, "idempotency_conflict")
        assert names(await ask(url, {"prompt": "x"}, **{"idempotency-key": "k2"}))[-1] == "done"


async def test_without_a_key_nothing_is_repeated():
    async with streaming(scripted(reply(), reply())) as (url, server, _):
        one_, other = await ask(url, PIZZA), await ask(url, PIZZA)
    assert one_[0].id != other[0].id
    assert len(server.heard) == 2


@pytest.mark.req("TF-35")
async def test_a_failed_run_is_run_anew_and_its_tools_are_not():
    """The booking is made in the first run, which the model's server then ends."""
    answers = iter([call("T1", "bookings.create", BOOKING), None])

    async def failing(_, line) -> None:
        text = next(answers, "over")
        if text is None:
            line.cut()
            return
        text = text if text != "over" else next(later)
        await line.head(kind="text/event-stream")
        await line.send(chunk({"content": text}) + chunk({}, "stop"))
        await line.end()

    later = iter([call("T1", "bookings.create", BOOKING), reply()])
    async with streaming(failing) as (url, _, _):
        first = await ask(url, PIZZA, **KEY)
        assert codes(first) == ["upstream_error"]
        second = await ask(url, PIZZA, **KEY)
    assert names(second)[-2:] == ["result.end", "done"]
    assert one(second, "tool.result")["cached"] is True
    assert one(second, "tool.result")["result"] == one(first, "tool.result")["result"]


async def test_a_key_belongs_to_its_caller():
    async with streaming(scripted(reply()), key="a") as (url, _, _):
        events = await ask(url, PIZZA, **KEY, **{"x-api-key": "a"})
        last = {"last-event-id": events[0].id}
        assert await ask(url, {}, **last, **{"x-api-key": "a"}) == events[1:]
        assert (await refused(url, {}, **last))[0] == 401


async def test_a_key_that_is_too_long_is_refused():
    async with streaming(scripted()) as (url, _, _):
        status, error = await refused(url, PIZZA, **{"idempotency-key": "k" * 300})
    assert (status, error["where"]) == (400, "Idempotency-Key")


# ── a crash ──────────────────────────────────────────────────────────────────

SERVER = """
    import asyncio, sys
    import uvicorn
    from toolbridge.config import Config, ProviderConfig, StreamConfig
    from toolbridge.server.app import App
    from toolbridge.server.serving import settings
    from toolbridge.demo.restaurant import bookings
    import dataclasses, os, signal

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

    class Server(uvicorn.Server):
        async def startup(self, sockets=None):
            await super().startup(sockets)
            print(self.servers[0].sockets[0].getsockname()[1], flush=True)

    Server(settings(App(config))).run()
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
