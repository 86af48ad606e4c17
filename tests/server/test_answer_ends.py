"""A provider that breaks off after the end of its answer has sent all of it."""

import asyncio

import pytest
from tests.peers import Heard, Line, gateway, model_server
from tests.resuming import APIS, Asker, config
from tests.streams import chunk
from tests.waiting import until

WHOLE = chunk({"content": "all of it"}) + chunk({}, "stop") + "data: [DONE]\n\n"


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("way", ["closes", "stays open"])
async def test_the_client_gets_a_complete_answer(api, way):
    left = asyncio.Event()

    async def answer(_: Heard, line: Line) -> None:
        await line.head(kind="text/event-stream")
        await line.send(WHOLE)
        if way == "closes":
            line.cut()
        else:
            await line.gone()
            left.set()

    async with model_server(answer) as server, gateway(config(server.url)) as (url, _):
        found = await Asker(url, api, stream=True).reply()
        if way == "stays open":
            await until(left.is_set)
    assert found.status == 200
    assert b"all of it" in found.body
    assert b"closed the connection" not in found.body
    assert found.ended == "clean"
