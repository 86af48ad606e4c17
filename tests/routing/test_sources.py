"""Sources of answers that are not HTTP: the demo model and an encrypted node."""

import asyncio
from contextlib import asynccontextmanager

import pytest
from tests.node.gateways import MODEL, provider
from tests.node.server import Scene, running
from tests.node.sessions import TEXT
from tests.waiting import until

from toolbridge.config import Config
from toolbridge.core import events as ev
from toolbridge.core.fold import collect
from toolbridge.core.ids import Ids
from toolbridge.core.messages import Request, Text, Turn
from toolbridge.routing.models import ModelRoutes
from toolbridge.routing.sources import ProviderConnections
from toolbridge.translate import RequestOptions, plan
from toolbridge.upstream.http import Upstream


async def read_all(source) -> list[ev.Event]:
    events = []
    while (batch := await source.read()) is not None:
        assert batch
        events += batch
    return events


async def source_of(connections, config, model, **request):
    """Return the source of one answer of `model`, not yet read."""
    async with Upstream() as upstream:
        route = await ModelRoutes(config, upstream, {}).route(model)
    asked = Request(model, (Turn("user", (Text("Tell a long story."),)),), **request)
    ready = plan(asked, route.request_encoder, route.target, RequestOptions())
    return connections.source(route, ready, Ids(b"s"))


@asynccontextmanager
async def node_source(scene=None, **request):
    """Yield the source of one answer of a node, the node and the open connections."""
    async with running() as node:
        if scene:
            node.play(scene)
        config = Config(providers={"mine": provider(node, waits={"grace": 0.2})})
        connections = ProviderConnections(Upstream(), {})
        try:
            yield await source_of(connections, config, f"mine/{MODEL}", **request), node
        finally:
            await connections.close()


class TestNode:
    async def test_an_answer_is_read_to_its_end_and_no_further(self):
        async with node_source() as (source, node):
            assert collect(await read_all(source)).text == TEXT
            assert await source.read() is None
            await source.close()
            await source.close()
            assert node.cancelled == []
        assert len(node.heard) == 1

    async def test_closed_before_the_first_read_it_connects_to_nothing(self):
        async with node_source() as (source, node):
            await source.close()
            assert await source.read() is None
            assert node.connections == 0

    async def test_closed_in_the_middle_it_stops_the_node(self):
        async with node_source(Scene(tuple("abcdefghij"), pause=0.03)) as (source, node):
            assert await source.read()
            await source.close()
            await source.close()
            assert await source.read() is None
            await until(lambda: node.cancelled)

    async def test_cancelled_while_waiting_it_stops_the_node(self):
        async with node_source(Scene(wrong="silence")) as (source, node):
            reading = asyncio.create_task(source.read())
            await until(lambda: node.heard)
            reading.cancel()
            with pytest.raises(asyncio.CancelledError):
                await reading
            assert await source.read() is None
            await source.close()
            await until(lambda: node.cancelled)

    async def test_an_answer_that_we_may_cut_reports_its_tokens_so_far(self):
        """A node takes no stop sequences, and an answer that we cut gets no count from it."""
        async with node_source(stop=("END",)) as (source, _):
            events = await read_all(source)
        counts = [event.usage.output for event in events if isinstance(event, ev.UsageReported)]
        deltas = sum(isinstance(event, ev.TextDelta) for event in events)
        assert isinstance(events[0], ev.Started)
        assert counts[:deltas] == list(range(1, deltas + 1))


class TestDemo:
    async def source(self):
        return await source_of(ProviderConnections(Upstream(), {}), Config(), "demo")

    async def test_an_answer_comes_in_small_batches_and_ends_once(self):
        source = await self.source()
        first = await source.read()
        assert isinstance(first[0], ev.Started)
        assert len(first) <= 8
        events = first + await read_all(source)
        assert isinstance(events[-1], ev.Finished)
        assert await source.read() is None

    async def test_closed_in_the_middle_it_gives_no_more(self):
        source = await self.source()
        first = await source.read()
        assert not isinstance(first[-1], ev.Finished)
        await source.close()
        await source.close()
        assert await source.read() is None

    async def test_between_batches_other_tasks_run(self):
        source, ran = await self.source(), []
        await source.read()
        asyncio.get_running_loop().call_soon(ran.append, True)
        await source.read()
        assert ran
