"""The processes of a team on a real Redis or Valkey server: machines without a common directory."""

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager

import aiohttp
import pytest
from redis.asyncio import Redis
from tests.key_users import CountingModel, settings
from tests.operating import config_for, logged, models, until
from tests.peers import gateway, model_server
from tests.processes import gateway_process
from tests.server.test_team import *  # noqa: F403  what every team does
from tests.server.test_team import SECRET, answered, get, state  # noqa: F401  a fixture


@pytest.fixture
def two(state, redis_url):  # noqa: F811
    @asynccontextmanager
    async def served(**more):
        model = CountingModel()
        async with model_server(model) as server:
            config = settings(server.url, store=redis_url, **more)
            homes = [{"XDG_STATE_HOME": str(state / name)} for name in ("a", "b")]
            async with (
                gateway(config, homes[0]) as (one, first),
                gateway(config, homes[1]) as (other, second),
            ):
                yield (one, other), (first, second), model

    return served


async def test_the_server_keeps_no_contents_after_they_were_shown(two, redis_url):
    async with two() as ((one, other), _, _):
        id = await answered(one, messages=[{"role": "user", "content": f"hello {SECRET}"}])
        assert (await get(other, f"/v1/requests/{id}"))["explanation"]
        client = Redis.from_url(redis_url)
        names = [key async for key in client.scan_iter("{toolbridge}:v:team_*")]
        kept = [await client.get(key) for key in names]
        await client.aclose()
    assert kept
    assert not [value for value in kept if value and b"hello" in value]


async def one_session_for_each(stack, url, count):
    """Return a session with a kept connection to each worker."""
    found = {}

    async def connect():
        session = await stack.enter_async_context(aiohttp.ClientSession(url))
        body = {"model": "x", "messages": [{"role": "user", "content": "hi"}]}
        async with session.post("/v1/chat/completions", json=body) as answer:
            id = answer.headers["request-id"]
            await answer.read()
        async with session.get(f"/v1/requests/{id}") as answer:
            found.setdefault((await answer.json())["request"]["process"], session)

    while len(found) < count:
        await asyncio.gather(*(connect() for _ in range(2 * count)))
    return list(found.values())


async def until_store(sessions, begin):
    """Wait until every worker shows this state of its store."""
    for session in sessions:
        async with asyncio.timeout(60):
            while True:
                async with session.get("/health") as answer:
                    if (await answer.json())["store"].startswith(begin):
                        break
                await asyncio.sleep(0.05)


async def test_workers_report_once_that_the_store_is_away_and_back(tmp_path, redis_process):
    async with AsyncExitStack() as stack:
        [(_, server)] = await stack.enter_async_context(models("m"))
        config = f'workers = 3\nstore = "{redis_process.url}"\n{config_for(server)}'
        process = await stack.enter_async_context(gateway_process(tmp_path, config))
        sessions = await one_session_for_each(stack, process.url, 3)
        for _ in range(2):
            await asyncio.to_thread(redis_process.kill)
            await until_store(sessions, "memory")
            await asyncio.to_thread(redis_process.start)
            await until_store(sessions, "server")
        await until(lambda: logged(process).count("is used again") >= 2)
    text = logged(process)
    assert text.count("is away") == 2, text
    assert text.count("is used again") == 2, text
