"""Breakers and requests in flight, over real sockets."""

import asyncio

import aiohttp
from tests.peers import Heard, Line, gateway, model_server
from tests.server.test_failover import ask, asked, fails, says, text_of, two
from tests.waiting import until

from toolbridge.config import Config, ProviderConfig
from toolbridge.policy.provider_breaker import FAILURES


def alone(url: str, **settings) -> Config:
    place = ProviderConfig(api="anthropic", url=url, passthrough=False, retries=0, **settings)
    keys = {"first_byte": 0.05, "keep_alive": 0.05}
    return Config(log="off", map={"default": "a/x"}, providers={"a": place}, **keys)


async def test_a_provider_that_is_down_is_passed_over_until_a_probe_is_answered():
    down = True

    async def first(heard: Heard, line: Line) -> None:
        await (fails(503) if down else says("anthropic", "back"))(heard, line)

    async with (
        model_server(first) as one,
        model_server(says("anthropic", "hello")) as other,
        gateway(two(one.url, other.url)) as (here, app),
    ):
        for _ in range(FAILURES):
            assert text_of((await ask(here))[1]) == "hello"
        reply, _ = await ask(here)
        assert len(one.heard) == FAILURES
        assert "a/x passed over: 5 failures in a row" in reply.headers["x-toolbridge-tried"]
        async with aiohttp.ClientSession() as session:
            metrics = await (await session.get(f"{here}/metrics")).text()
            health = await (await session.get(f"{here}/health")).json()
        assert 'toolbridge_provider_open{provider="a"} 1' in metrics
        assert 'toolbridge_provider_open{provider="b"}' not in metrics
        assert 'toolbridge_failovers_total{provider="a",reason="overload"} 5' in metrics
        assert "5 failures" in health["passed_over"]["a"]
        breaker = app.gateway.router.health._breakers["a"]
        breaker.until = asyncio.get_running_loop().time()  # the rest is over
        assert text_of((await ask(here))[1]) == "hello"  # the probe fails
        assert breaker.until > asyncio.get_running_loop().time()
        down = False
        breaker.until = asyncio.get_running_loop().time()
        assert text_of((await ask(here))[1]) == "back"
        assert text_of((await ask(here))[1]) == "back"
        async with aiohttp.ClientSession() as session:
            assert "passed_over" not in await (await session.get(f"{here}/health")).json()


async def test_a_lone_provider_is_always_tried_and_its_error_is_unchanged():
    async with model_server(fails(503)) as one, gateway(alone(one.url)) as (here, _):
        replies = [await ask(here) for _ in range(FAILURES + 2)]
    assert len(one.heard) == FAILURES + 2
    assert {reply.status for reply, _ in replies} == {529}
    assert len({said.split("req_")[0] for _, said in replies}) == 1
    assert all("x-toolbridge-tried" not in reply.headers for reply, _ in replies)


async def test_a_passed_over_provider_is_tried_if_no_other_one_answers():
    async with (
        model_server(fails(503)) as one,
        model_server(fails(503)) as other,
        gateway(two(one.url, other.url)) as (here, _),
    ):
        for _ in range(FAILURES + 2):
            reply, _ = await ask(here)
        assert reply.status == 529
        assert len(one.heard) == len(other.heard) == FAILURES + 2


class Gate:
    """A server that answers when the test lets it, and knows how many it serves at once."""

    def __init__(self) -> None:
        self.open = asyncio.Semaphore(0)
        self.running = self.most = 0
        self.order: list[str] = []

    async def __call__(self, heard: Heard, line: Line) -> None:
        self.running += 1
        self.most = max(self.most, self.running)
        self.order.append(heard.json["messages"][0]["content"][0]["text"])
        await self.open.acquire()
        self.running -= 1
        await says("anthropic", "hello")(heard, line)


def places(app):
    return app.gateway.router.health._places["a"]


async def post(session, here: str, words: str) -> tuple[int, str]:
    path, body = asked("anthropic", stream=True)
    body = body | {"messages": [{"role": "user", "content": words}]}
    async with session.post(here + path, json=body) as reply:
        return reply.status, await reply.text()


async def test_no_more_requests_than_allowed_are_in_flight_and_the_others_wait():
    gate = Gate()
    async with (
        model_server(gate) as server,
        gateway(alone(server.url, max_in_flight=2)) as (here, app),
        aiohttp.ClientSession() as session,
    ):
        asking = [asyncio.create_task(post(session, here, str(n))) for n in range(6)]
        await until(lambda: gate.running == 2 and places(app).waiting == 4)
        await asyncio.sleep(0.2)  # keep-alives keep the waiting clients
        metrics = await (await session.get(f"{here}/metrics")).text()
        assert 'toolbridge_provider_waiting{provider="a"} 4' in metrics
        for _ in range(6):
            gate.open.release()
        replies = await asyncio.gather(*asking)
        assert gate.most == 2
        assert {text_of(said) for _, said in replies} == {"hello"}
        assert any("event: ping" in said.split("message_start")[0] for _, said in replies)
        assert (places(app).running, places(app).waiting) == (0, 0)


async def test_a_client_that_leaves_the_queue_frees_its_place():
    gate = Gate()
    async with (
        model_server(gate) as server,
        gateway(alone(server.url, max_in_flight=1)) as (here, app),
        aiohttp.ClientSession() as session,
    ):
        first = asyncio.create_task(post(session, here, "1"))
        await until(lambda: gate.running == 1)
        second = asyncio.create_task(post(session, here, "2"))
        await until(lambda: places(app).waiting == 1)
        third = asyncio.create_task(post(session, here, "3"))
        await until(lambda: places(app).waiting == 2)
        second.cancel()
        await until(lambda: places(app).waiting == 1)
        gate.open.release()
        gate.open.release()
        assert [status for status, _ in await asyncio.gather(first, third)] == [200, 200]
        assert gate.order == ["1", "3"]
        await until(lambda: places(app).running == 0)


async def test_a_client_that_leaves_in_flight_frees_its_place():
    gate = Gate()
    async with (
        model_server(gate) as server,
        gateway(alone(server.url, max_in_flight=1)) as (here, app),
        aiohttp.ClientSession() as session,
    ):
        first = asyncio.create_task(post(session, here, "1"))
        await until(lambda: gate.running == 1)
        first.cancel()
        await until(lambda: places(app).running == 0)


async def test_a_full_queue_leads_to_the_next_provider(monkeypatch):
    monkeypatch.setattr("toolbridge.routing.provider_health.MOST_WAITING", 0)
    gate = Gate()
    async with (
        model_server(gate) as one,
        model_server(says("anthropic", "other")) as other,
        gateway(two(one.url, other.url, max_in_flight=1)) as (here, _),
        aiohttp.ClientSession() as session,
    ):
        first = asyncio.create_task(post(session, here, "1"))
        await until(lambda: gate.running == 1)
        _, said = await post(session, here, "2")
        assert text_of(said) == "other"
        gate.open.release()
        assert text_of((await first)[1]) == "hello"


async def test_only_one_request_at_a_time_is_a_probe():
    gate = Gate()
    async with (
        model_server(gate) as one,
        model_server(says("anthropic", "other")) as other,
        gateway(two(one.url, other.url)) as (here, app),
        aiohttp.ClientSession() as session,
    ):
        gate.open.release()
        await post(session, here, "0")
        breaker = app.gateway.router.health._breakers["a"]
        for _ in range(FAILURES):
            breaker.fail(0.0)
        breaker.until = asyncio.get_running_loop().time()  # the rest is over
        asking = [asyncio.create_task(post(session, here, str(n))) for n in range(5)]
        await until(lambda: sum(task.done() for task in asking) == 4)
        assert gate.running == 1
        gate.open.release()
        texts = sorted([text_of(said) for _, said in await asyncio.gather(*asking)])
    assert texts == ["hello", *["other"] * 4]
    assert len(gate.order) == 2


async def test_requests_that_wait_are_not_sent_after_the_breaker_has_opened():
    gate = Gate()
    async with (
        model_server(gate) as one,
        model_server(says("anthropic", "other")) as other,
        gateway(two(one.url, other.url, max_in_flight=1)) as (here, app),
        aiohttp.ClientSession() as session,
    ):
        asking = [asyncio.create_task(post(session, here, str(n))) for n in range(4)]
        await until(lambda: gate.running == 1 and places(app).waiting == 3)
        breaker = app.gateway.router.health._breakers["a"]
        now = asyncio.get_running_loop().time()
        for _ in range(FAILURES):
            breaker.fail(now)
        breaker.answered = breaker.succeed = lambda: None  # the running answer does not close it
        gate.open.release()
        texts = sorted([text_of(said) for _, said in await asyncio.gather(*asking)])
        assert (places(app).running, places(app).waiting) == (0, 0)
    assert texts == ["hello", *["other"] * 3]
    assert len(gate.order) == 1
