"""Limits of keys over real sockets: admitted exactly, settled in every case, refused in words."""

import asyncio
import contextlib
import json
import re

import aiohttp
import anthropic
import ollama
import openai
import pytest
from google import genai
from tests.key_users import ask, create, key, team
from tests.peers import gateway, model_server
from tests.waiting import until

from toolbridge.server import created_keys

pytestmark = pytest.mark.usefixtures("state")
MANY = 20


@pytest.fixture
def state(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(created_keys, "_PAUSE", 0.0)
    return tmp_path


async def used(name: str) -> list[str]:
    return [line for line in (await key("show", name)).split("\n") if line.startswith("used")]


async def left_nothing_reserved(name: str) -> bool:
    """Wait until no request of the key is reserved; settling follows a departure."""
    for _ in range(200):
        if not any("reserved" in line for line in await used(name)):
            return True
        await asyncio.sleep(0.02)
    return False


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    "limit",
    [
        ("--requests", "4/day"),
        ("--concurrency", "4"),
    ],
)
async def test_twenty_at_once_against_a_limit_of_four_admit_four(state, limit, stream):
    async with team(state) as (url, model):
        alice = await create("alice", *limit)
        model.gate.clear()
        asking = [asyncio.create_task(ask(url, alice, stream=stream)) for _ in range(MANY)]
        await until(lambda: sum(task.done() for task in asking) >= MANY - 4)
        model.gate.set()
        found = [status for status, _, _ in await asyncio.gather(*asking)]
        assert (found.count(200), found.count(429)) == (4, MANY - 4)
        assert model.requests == 4


@pytest.mark.parametrize("what", ["tokens", "dollars"])
async def test_a_budget_for_four_reservations_admits_four_of_twenty(state, what):
    async with team(state) as (url, model):
        probe = await create("probe", f"--{what}", "1M/day")
        model.gate.clear()
        first = asyncio.create_task(ask(url, probe))
        await until(lambda: model.running > 0)
        (line,) = await used("probe")
        one = re.search(r"and \$?([0-9.]+)(?: tokens)? reserved", line)[1]
        model.gate.set()
        await first
        model.gate.clear()
        four = f"{4 * float(one):.9f}" if what == "dollars" else str(4 * int(one))
        alice = await create("alice", f"--{what}", f"{four}/day")
        asking = [asyncio.create_task(ask(url, alice)) for _ in range(MANY)]
        await until(lambda: sum(task.done() for task in asking) >= MANY - 4)
        model.gate.set()
        answers = await asyncio.gather(*asking)
        found = [status for status, _, _ in answers]
        assert (found.count(200), found.count(429)) == (4, MANY - 4)
        # Only running requests hold the limit: it is free again in seconds, not tomorrow.
        for status, body, headers in answers:
            if status == 429:
                assert "running requests of the key 'alice' have reserved" in str(body)
                assert "resets" not in str(body)
                assert (headers["retry-after"], headers["x-should-retry"]) == ("2", "true")


async def test_what_was_used_is_charged_and_not_what_was_reserved(state):
    async with team(state) as (url, model):
        alice = await create("alice", "--tokens", "1k/day", "--dollars", "1/month")
        for _ in range(3):
            assert (await ask(url, alice, max_tokens=500))[0] == 200
        tokens, dollars = await used("alice")
        assert "used      330 tokens of 1,000" in tokens
        # 300 input tokens for $1 and 30 output tokens for $10 per million.
        assert "used      $0.0006 of $1.00" in dollars
        assert (model.input + model.output) == 330


async def test_a_client_that_waits_for_each_answer_is_never_refused(state):
    async with team(state) as (url, _):
        alice = await create("alice", "--concurrency", "1", "--tokens", "1000/day")
        for stream in (False, True) * 4:
            # The reservation of the last request, 600 tokens, must be settled.
            status, body, _ = await ask(url, alice, stream=stream, max_tokens=100)
            assert status == 200, body


async def test_an_upstream_that_fails_costs_nothing_but_a_request(state):
    async with team(state) as (url, model):
        alice = await create("alice", "--tokens", "1k/day", "--requests", "9/day")
        model.status = 500
        assert (await ask(url, alice))[0] >= 500
        tokens, requests = sorted(await used("alice"), key=lambda line: "requests" in line)
        assert "used      0 tokens of" in tokens
        assert "used      1 requests of" in requests


async def test_a_client_that_leaves_is_charged_what_was_read(state):
    told = asyncio.Event()

    async def endless(heard, line):
        await line.head(kind="text/event-stream")
        for n in range(10_000):
            chunk = {"id": "c", "choices": [{"index": 0, "delta": {"content": f"word {n} "}}]}
            await line.send(f"data: {json.dumps(chunk)}\n\n")
            if n == 50:
                told.set()
            await asyncio.sleep(0.001)

    from tests.key_users import settings

    async with model_server(endless) as server:
        env = {"XDG_STATE_HOME": str(state)}
        async with gateway(settings(server.url), env) as (url, _):
            alice = await create("alice", "--tokens", "100k/day", "--concurrency", "1")
            body = {"model": "x", "max_tokens": 9000, "stream": True, "messages": [
                {"role": "user", "content": "hi"}]}  # fmt: skip
            async with aiohttp.ClientSession() as session:
                got = await session.post(
                    f"{url}/v1/messages", json=body, headers={"x-api-key": alice}
                )
                await told.wait()
                got.close()
            assert await left_nothing_reserved("alice")
            (line,) = await used("alice")
            charged = int(re.search(r"used +([0-9,]+) tokens", line)[1].replace(",", ""))
            assert 50 < charged < 9000


async def test_the_refusal_says_which_limit_when_it_resets_and_who_can_raise_it(state):
    async with team(state) as (url, _):
        alice = await create("alice", "--requests", "1/day")
        await ask(url, alice)
        status, body, headers = await ask(url, alice)
        text = body["error"]["message"]
        assert (status, body["error"]["type"]) == (429, "rate_limit_error")
        assert "limit of 1 requests per day" in text
        assert "00:00:00 UTC" in text
        assert "`toolbridge key set alice --requests N/day`" in text
        assert 1 <= int(headers["retry-after"]) <= 86_400
        assert headers["x-should-retry"] == "false" or int(headers["retry-after"]) <= 60
        await key("set", "alice", "--requests", "2/day")
        assert (await ask(url, alice))[0] == 200


async def test_a_request_that_is_larger_than_its_limit_is_told_so(state):
    async with team(state) as (url, _):
        alice = await create("alice", "--tokens", "100/day")
        status, body, headers = await ask(url, alice, max_tokens=4000)
        assert status == 429
        text = body["error"]["message"]
        assert "more than the whole limit of 100 tokens per day that the key 'alice' has" in text
        assert "no retry helps. Ask for fewer output tokens, or send less." in text
        assert headers["x-should-retry"] == "false"
        assert "retry-after" not in headers


async def test_a_limit_into_which_a_request_never_fits_is_reported_first(state):
    async with team(state) as (url, _):
        alice = await create("alice", "--tokens", "100/minute", "--requests", "1/day")
        assert (await ask(url, alice, max_tokens=5))[0] == 200
        status, body, headers = await ask(url, alice, max_tokens=4000)
        assert (status, headers["x-should-retry"]) == (429, "false")
        assert "limit of 100 tokens per minute that" in body["error"]["message"]


async def test_a_model_without_a_price_is_refused_where_dollars_are_limited(state):
    from toolbridge.config import Config, ProviderConfig

    config = Config(
        log="off",
        map={"default": "there/unheard-of"},
        providers={"there": ProviderConfig(api="openai_chat", url="http://192.0.2.1:9", retries=0)},
    )
    async with gateway(config, {"XDG_STATE_HOME": str(state)}) as (url, _):
        alice = await create("alice", "--dollars", "5/day")
        status, body, _ = await ask(url, alice)
        assert (status, "rates" in body["error"]["message"]) == (403, True)


async def test_official_sdks_raise_their_own_rate_limit_error(state):
    async with team(state) as (url, _):
        alice = await create("alice", "--requests", "1/day")
        await ask(url, alice)
        message = {"role": "user", "content": "x"}
        async with anthropic.AsyncAnthropic(base_url=url, api_key=alice, max_retries=0) as sdk:
            with pytest.raises(anthropic.RateLimitError, match="key set alice") as error:
                await sdk.messages.create(model="x", max_tokens=5, messages=[message])
            assert error.value.response.headers["retry-after"]
        async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key=alice, max_retries=0) as sdk:
            with pytest.raises(openai.RateLimitError, match="key set alice"):
                await sdk.chat.completions.create(model="x", messages=[message])
            with pytest.raises(openai.RateLimitError, match="key set alice"):
                await sdk.responses.create(model="x", input="x")
            with pytest.raises(openai.RateLimitError, match="key set alice"):
                await sdk.chat.completions.create(model="x", messages=[message], stream=True)
        client = genai.Client(api_key=alice, http_options={"base_url": url})
        with pytest.raises(genai.errors.ClientError, match="key set alice") as error:
            await client.aio.models.generate_content(model="x", contents="x")
        assert error.value.code == 429
        await client.aio.aclose()
        sdk = ollama.AsyncClient(host=url, headers={"authorization": f"Bearer {alice}"})
        with pytest.raises(ollama.ResponseError, match="key set alice") as error:
            await sdk.chat(model="x", messages=[message])
        assert error.value.status_code == 429
        await sdk._client.aclose()


@pytest.mark.parametrize(("offline", "status"), [("refuse", 503), ("allow", 200)])
async def test_limits_that_cannot_be_checked_refuse_or_allow_as_set(state, offline, status):
    async with team(state, limits_offline=offline) as (url, _):
        alice = await create("alice", "--requests", "5/day")
        assert (await ask(url, alice))[0] == 200
        file = state / "toolbridge" / "keys.sqlite"
        import sqlite3

        with contextlib.closing(sqlite3.connect(file)) as broken:
            broken.execute("drop table used")
        found = await ask(url, alice)
        assert found[0] == status
        assert str(state) not in str(found)
        assert "sqlite" not in str(found)


async def test_a_structured_stream_is_charged_and_refused(state):
    async with team(state) as (url, model):
        alice = await create("alice", "--requests", "1/day", "--tokens", "100k/day")
        headers = {"x-api-key": alice}
        body = {"prompt": "x", "mode": "sentinel", "max_tokens": 50}
        async with aiohttp.ClientSession() as session:
            async with session.post(f"{url}/v1/stream", json=body, headers=headers) as got:
                assert got.status == 200
                await got.text()
            calls = model.requests
            assert calls >= 1
            assert "used      110 tokens" in "".join(await used("alice"))
            async with session.post(f"{url}/v1/stream", json=body, headers=headers) as got:
                text = await got.text()
                assert (got.status, "key set alice" in text) == (429, True)
            assert model.requests == calls


@pytest.mark.parametrize("stream", [False, True])
async def test_a_budget_is_settled_before_the_client_gets_the_end_of_its_answer(state, stream):
    """The client's next request may go to another process, and must find the budget settled."""
    import sqlite3

    async with team(state) as (url, model):
        alice = await create("alice", "--concurrency", "1", "--tokens", "10k/day")
        model.gate.clear()
        asking = asyncio.create_task(ask(url, alice, stream=stream))
        await until(lambda: model.running > 0)
        file = state / "toolbridge" / "keys.sqlite"
        with contextlib.closing(sqlite3.connect(file, isolation_level=None)) as other:
            other.execute("begin immediate")  # another process writes, and settling waits for it
            model.gate.set()
            await until(lambda: model.running == 0)
            await asyncio.sleep(0.3)
            assert not asking.done()
            other.execute("commit")
        assert (await asking)[0] == 200
        assert "used      110 tokens of" in (await used("alice"))[0]


async def test_two_gateways_on_one_file_share_the_budget(state):
    from tests.key_users import CountingModel, settings

    model = CountingModel()
    async with model_server(model) as server:
        config, env = settings(server.url), {"XDG_STATE_HOME": str(state)}
        async with gateway(config, env) as (one, _), gateway(config, env) as (two, _):
            alice = await create("alice", "--requests", "4/month", "--concurrency", "4")
            model.gate.clear()
            urls = (one, two) * (MANY // 2)
            asking = [asyncio.create_task(ask(url, alice)) for url in urls]
            await until(lambda: sum(task.done() for task in asking) >= MANY - 4)
            model.gate.set()
            found = [status for status, _, _ in await asyncio.gather(*asking)]
    assert (found.count(200), model.requests) == (4, 4)


async def test_a_client_that_leaves_while_its_request_is_reserved_leaves_nothing_behind(state):
    import sqlite3

    async with team(state) as (url, model):
        alice = await create("alice", "--concurrency", "1", "--tokens", "10k/day")
        assert (await ask(url, alice))[0] == 200
        file = state / "toolbridge" / "keys.sqlite"
        with contextlib.closing(sqlite3.connect(file, isolation_level=None)) as other:
            other.execute("begin immediate")  # reserving waits for this
            leaving = asyncio.create_task(ask(url, alice))
            await asyncio.sleep(0.3)
            leaving.cancel()
            await asyncio.gather(leaving, return_exceptions=True)
            await asyncio.sleep(0.1)
            other.execute("commit")
        for _ in range(100):  # far less than a lease
            if (await ask(url, alice))[0] == 200:
                break
            await asyncio.sleep(0.05)
        assert model.requests == 2
        assert "used      220 tokens of" in (await used("alice"))[0]
