"""A node that breaks behind the gateway: the client is told in its own API, and nothing hangs."""

import asyncio

import aiohttp
import pytest
from tests.node import gateways
from tests.node.gateways import PATIENCE, SHORT, WAITS, ask, body, provider, works
from tests.node.server import Scene, running
from tests.peers import gateway
from tests.waiting import until

from toolbridge.config import Config, ProviderConfig
from toolbridge.core.errors import ConfigError
from toolbridge.routing.nodes import read_waits


def bridged(**table):
    """Serve a gateway that does not take a busy machine for a silent node."""
    return gateways.bridged(**{"waits": WAITS, **table})


IN_MID_STREAM = ["cut", "close", "drop", "swap", "replay", "flip", "garbage", "stall"]


@pytest.mark.req("CB-22", "CB-20")
@pytest.mark.parametrize("wrong", IN_MID_STREAM)
async def test_a_fault_in_the_answer_is_an_error_event_and_the_next_request_works(wrong):
    async with bridged(waits=SHORT if wrong == "stall" else WAITS) as (url, node, _):
        node.play(Scene(("Hello", ", ", "world", "!"), wrong=wrong, at=2, pause=0.01))
        reply = await ask(url)
        assert (reply.status, reply.clean) == (200, False)
        assert reply.kinds[-1] == "error"
        assert "message_stop" not in reply.kinds
        assert reply.error["type"] == ("timeout_error" if wrong == "stall" else "api_error")
        assert "Hello, world".startswith(reply.text)
        assert len(node.heard) == 1  # what was half told is not asked for again
        await works(url)


@pytest.mark.req("CB-22")
@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(
    ("scene", "status", "words"),
    [
        (Scene(wrong="silence"), 504, "sent nothing for 2 s"),
        (Scene(wrong="engine", texts=()), 502, "out of memory"),
        (Scene(wrong="nothing"), 502, "too long for its context"),
        (Scene(wrong="picture"), 400, "draw a"),
        (Scene(wrong="other_key", pause=0.01), 502, "decryption failed"),
        (Scene(fault={"code": "ENCRYPTION_FAILED", "message": "no"}), 502, "ENCRYPTION_FAILED"),
    ],
    ids=lambda value: getattr(value, "wrong", None) or None,
)
async def test_a_fault_before_the_first_word_is_a_status(scene, status, words, stream):
    async with bridged(waits=SHORT if scene.wrong == "silence" else WAITS) as (url, node, _):
        node.play(scene)
        reply = await ask(url, body(stream=stream))
        assert reply.status == status, reply
        assert reply.body["type"] == "error"
        assert words in reply.error["message"]
        assert len(node.heard) == 1
        await works(url)


async def test_a_key_that_is_not_the_hosts_is_refused_and_nothing_is_said():
    async with bridged(host_key="02" + "79be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798") as (
        url, node, _,
    ):  # fmt: skip
        reply = await ask(url)
        assert (reply.status, reply.error["type"]) == (502, "api_error")
        assert not node.heard


@pytest.mark.req("CB-22")
@pytest.mark.parametrize("stream", [True, False])
async def test_a_node_that_is_not_there_is_told_with_its_address(stream):
    config = Config(log="off", providers={"mynode": _gone()})
    async with gateway(config) as (url, _):
        reply = await ask(url, body(stream=stream))
        assert (reply.status, reply.error["type"]) == (502, "api_error")
        assert "127.0.0.1:1" in reply.error["message"]


def _gone() -> ProviderConfig:
    from tests.node.server import Node

    node = Node()
    node.url = "http://127.0.0.1:1"
    return provider(node, waits=WAITS)


@pytest.mark.req("CB-17")
async def test_a_node_that_restarts_between_two_requests_is_asked_again():
    async with bridged() as (url, node, _):
        await works(url)
        node.restart()
        await works(url)
        assert node.connections == 2


@pytest.mark.req("CB-17")
async def test_a_node_that_forgot_the_key_gets_a_new_one_without_a_word_to_the_client():
    async with bridged(memory="keep") as (url, node, _):
        await works(url)
        node.forget()
        await works(url)
        assert (node.connections, len(node.inits)) == (1, 2)


async def test_an_old_node_without_an_end_and_without_counts_is_understood():
    async with bridged() as (url, node, _):
        node.play(Scene(ends=False, counts=False))
        await works(url)
        await works(url)


async def test_a_client_that_leaves_stops_the_node_and_the_next_one_is_served():
    async with bridged() as (url, node, _):
        node.play(Scene(("word ",) * 500, pause=0.01))
        asked = body(max_tokens=600)
        async with (
            aiohttp.ClientSession() as session,
            session.post(f"{url}/v1/messages", json=asked) as answer,
        ):
            await answer.content.readany()
        await until(lambda: node.cancelled)
        await works(url)
        assert node.connections == 1


@pytest.mark.req("CB-16")
async def test_a_client_that_waits_in_the_queue_and_leaves_is_not_asked_for():
    async with bridged() as (url, node, _):
        node.play(Scene(pause=0.1))
        first = asyncio.create_task(ask(url))
        await until(lambda: node.heard)
        second = asyncio.create_task(ask(url))
        await asyncio.sleep(0.05)
        second.cancel()
        await first
        await works(url)
        assert len(node.heard) == 2


@pytest.mark.parametrize("stream", [True, False])
async def test_a_node_that_has_had_enough_is_left_alone_for_as_long_as_it_says(stream):
    async with bridged() as (url, node, _):
        node.play(Scene(fault={"error": "Rate limit exceeded, retry after 60 seconds"}))
        reply = await ask(url, body(stream=stream))
        assert (reply.status, reply.error["type"]) == (429, "rate_limit_error")
        assert reply.headers["retry-after"] == "60"
        assert (await ask(url)).status == 529
        assert len(node.heard) == 1


async def test_two_failures_let_the_node_rest_and_say_for_how_long():
    async with bridged(waits=SHORT) as (url, node, _):
        node.play(Scene(wrong="silence"), Scene(wrong="silence"))
        for _ in range(2):
            await ask(url, body(stream=False))
        reply = await ask(url)
        assert reply.status == 529
        assert 50 < int(reply.headers["retry-after"]) <= 60
        assert len(node.heard) == 2


@pytest.mark.req("CB-27")
async def test_a_stop_in_the_middle_of_an_answer_hangs_up_on_the_node():
    async with running() as node:
        config = Config(log="off", stop_grace=0, providers={"mynode": provider(node, waits=WAITS)})
        node.play(Scene(("word ",) * 10_000, pause=0.05))
        async with asyncio.timeout(PATIENCE):
            async with gateway(config) as (url, _):
                under_way = asyncio.create_task(ask(url, body(max_tokens=20_000)))
                await until(lambda: len(node.sent) > 5)
            reply = await under_way
        assert "message_stop" not in reply.kinds
        assert (reply.clean, reply.text[:5]) == (False, "word ")
        await until(lambda: node.closed)


@pytest.mark.parametrize(
    ("waits", "words"),
    [
        ({"first": 0}, "providers.mynode.node.waits.first: must be more than 0 seconds"),
        ({"frist": 1}, "node.waits: there is no setting `frist`; did you mean `first`?"),
        ({"first": "long"}, "node.waits: `first` must be a number, not 'long'"),
    ],
)
async def test_a_wait_that_cannot_be_is_said_at_the_start(waits, words):
    with pytest.raises(ConfigError) as raised:
        async with bridged(waits=WAITS | waits):
            pass
    assert words in str(raised.value)


def test_waits_that_are_no_table_are_refused():
    config = ProviderConfig(api="node", node={"waits": 5})
    with pytest.raises(ConfigError, match=r"waits: must be a table with settings: .*`int`"):
        read_waits("mynode", config)
