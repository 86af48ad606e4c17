"""What is left when an answer has ended, in any way: nothing."""

import asyncio
import gc

import pytest
from tests.peers import Heard, Line
from tests.sdk.held import Held, rejecting
from tests.sdk.household import nothing_left
from tests.sdk.places import OLLAMA, QUIET, place, script

import toolbridge
from toolbridge import AsyncClient, Client
from toolbridge.config import Config


async def use(client: AsyncClient, how: str) -> None:
    stream = client.stream("there/m", "hi")
    async for event in stream:
        if how == "abort" and isinstance(event, toolbridge.TextDelta):
            stream.abort()
        if how == "leave" and isinstance(event, toolbridge.TextDelta):
            return


async def unfinished(heard: Heard, line: Line) -> None:
    """Begin an answer: one that has arrived when it is left gives its connection back."""
    await Held()(heard, line)


ENDS = [
    ("complete", script("ollama")),
    ("abort", script("ollama")),
    ("leave", unfinished),
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
        message = Client(Config(), env=QUIET).complete("demo", "hi")
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
