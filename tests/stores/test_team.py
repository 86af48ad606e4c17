"""The processes of a team on a real Redis or Valkey server: machines without a common directory."""

from contextlib import asynccontextmanager

import pytest
from redis.asyncio import Redis
from tests.key_users import CountingModel, settings
from tests.peers import gateway, model_server
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
