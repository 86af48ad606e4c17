"""A repeat under the same key is the same run: while it runs, after it, and after a crash."""

import asyncio

import aiohttp
import pytest
from tests.server.test_stream import BOOKING, PIZZA, codes, names, one
from tests.streams import ask, call, chunk, read, refused, reply, scripted, streaming

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
