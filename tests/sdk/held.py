"""A server that waits, and tests that wait for it."""

import asyncio

from tests.peers import Heard, Line, whole
from tests.sdk.places import lines, said


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


async def soon(event: asyncio.Event) -> None:
    await asyncio.wait_for(event.wait(), 20)


async def rejecting(_: Heard, line: Line) -> None:
    await whole(line, {"error": "no such thing"}, 404)
