"""A malicious host behind the gateway: what a client gets, and what is remembered after a restart."""

import json
import logging
import math

import aiohttp
import pytest
from tests.node import gateways
from tests.node.gateways import PATIENCE, WAITS, ask, body, paid, works
from tests.node.server import HOST, Scene
from tests.waiting import until

from toolbridge.node.chain.address import address_of
from toolbridge.node.hosts.records import FILE, HostRecords
from toolbridge.node.protocol import encryption
from toolbridge.node.provider import LEDGER

ADDRESS = address_of(encryption.public_key(HOST))
APIS = ["anthropic", "openai"]


def bridged(**table):
    return gateways.bridged(**{"waits": WAITS, **table})


class Got:
    """An answer of either API, streamed or whole, in the same terms."""

    def __init__(self, status: int, headers: dict, raw: str, *, stream: bool) -> None:
        self.status = status
        self.headers = headers
        self.raw = raw
        data = [one.removeprefix("data: ") for one in raw.split("\n") if one.startswith("data: ")]
        streamed = stream and status == 200
        self.events = [json.loads(one) for one in data if one != "[DONE]"] if streamed else []
        self.body = {} if streamed else json.loads(raw)
        self.done = "[DONE]" in data or "message_stop" in raw

    @property
    def text(self) -> str:
        said = "".join(one.get("text", "") for one in self.body.get("content", []))
        for choice in self.body.get("choices", []):
            said += choice["message"]["content"]
        for event in self.events:
            said += event.get("delta", {}).get("text", "")
            said += "".join(one["delta"].get("content") or "" for one in event.get("choices", []))
        return said

    @property
    def stop(self) -> str | None:
        found = self.body.get("stop_reason")
        for choice in self.body.get("choices", []):
            found = choice["finish_reason"]
        for event in self.events:
            found = event.get("delta", {}).get("stop_reason") or found
            for choice in event.get("choices", []):
                found = choice.get("finish_reason") or found
        return {"end_turn": "stop", "max_tokens": "length"}.get(found, found)

    @property
    def output(self) -> int | None:
        found = None
        for one in (self.body, *self.events):
            usage = one.get("usage") or {}
            found = usage.get("output_tokens", usage.get("completion_tokens", found))
        return found

    @property
    def error(self) -> str:
        said = [one["error"] for one in (self.body, *self.events) if one.get("error")]
        return said[-1]["message"] if said else ""


async def post(url: str, api: str, *, stream: bool, max_tokens: int = 64) -> Got:
    path = "/v1/messages" if api == "anthropic" else "/v1/chat/completions"
    asked = body(stream=stream, max_tokens=max_tokens)
    if api == "openai" and stream:
        asked["stream_options"] = {"include_usage": True}
    async with aiohttp.ClientSession() as session, session.post(url + path, json=asked) as answer:
        raw = b""
        try:
            async for piece in answer.content.iter_any():
                raw += piece
        except aiohttp.ClientPayloadError:
            pass  # the gateway closes a stream that failed
        return Got(answer.status, dict(answer.headers), raw.decode(), stream=stream)


both = pytest.mark.parametrize("api", APIS)
either = pytest.mark.parametrize("stream", [True, False])


@both
@either
@pytest.mark.parametrize("claim", [10**9, 1e30, -50, math.nan, "12"], ids=str)
@pytest.mark.req("CB-36")
async def test_a_count_that_is_not_credible_does_not_reach_the_client(api, stream, claim, caplog):
    async with bridged() as (url, node, _):
        node.play(Scene(claims={"used": claim, "completion": claim}))
        with caplog.at_level(logging.WARNING, "toolbridge.node"):
            got = await post(url, api, stream=stream)
            await until(lambda: node.closed)
        assert (got.status, got.text, got.stop, got.output) == (200, "Hello, world", "stop", 3)
        assert "3 tokens by our count" in got.raw + got.headers.get("x-toolbridge-warning", "")
        assert len([one for one in caplog.records if "overclaim" in one.message]) == 1


@both
@either
async def test_24_mib_are_cut_at_max_tokens_and_the_node_is_stopped(api, stream):
    async with bridged() as (url, node, _):
        node.play(Scene(("word " * 100_000,) * 48, obeys_limit=False))
        got = await post(url, api, stream=stream, max_tokens=50)
        assert (got.status, got.stop) == (200, "length")
        assert 0 < len(got.text) <= 200
        await until(lambda: node.cancelled or node.closed)


@both
@either
@pytest.mark.req("CB-22")
async def test_a_plaintext_end_is_a_truncation(api, stream):
    async with bridged() as (url, node, _):
        node.play(Scene(responds=False))
        got = await post(url, api, stream=stream)
        assert got.status == (200 if stream else 502)
        assert "without the encrypted confirmation" in got.error
        assert not got.done or api == "openai"
        assert got.stop in {None, "error"}
        assert got.text == ("Hello, world" if stream else "")
        await works(url)


@both
@either
async def test_a_node_of_an_old_version_needs_a_setting_and_is_reported(api, stream):
    async with bridged(old_nodes=True) as (url, node, _):
        node.play(Scene(responds=False))
        got = await post(url, api, stream=stream)
        assert (got.status, got.text, got.stop) == (200, "Hello, world", "stop")
        assert "did not confirm" in got.raw + got.headers.get("x-toolbridge-warning", "")


async def test_a_tolerance_of_zero_accepts_any_count():
    async with bridged(count_tolerance=0) as (url, node, _):
        node.play(Scene(claims={"completion": 10**6}))
        assert (await ask(url)).usage["output_tokens"] == 10**6
        assert not node.closed


class TestPaid:
    async def test_a_host_that_overclaims_is_left_out_also_after_a_restart(self, tmp_path):
        async with paid(tmp_path) as found:
            found.node.play(Scene(claims={"completion": 10**9}))
            reply = await ask(found.url, wait=PATIENCE + 20)
            assert (reply.text, reply.usage["output_tokens"]) == ("Hello, world", 3)
            await until(lambda: found.node.closed)
        records = HostRecords(tmp_path / "toolbridge" / FILE, found.world.network.chain_id)
        assert list(await records.excluded()) == [ADDRESS.lower()]
        for ledger in (tmp_path / "toolbridge").glob(f"{LEDGER}*"):
            ledger.unlink()  # the second chain is a new one, on which the nonces begin again
        async with paid(tmp_path) as again:
            reply = await ask(again.url, wait=PATIENCE + 20)
            assert reply.status == 502
            assert "claims 1000000000 tokens for an answer of 3 tokens" in reply.error["message"]
            assert not again.node.heard
            await records.forget(ADDRESS)
            await works(again.url)

    async def test_the_hosts_command_shows_why(self, tmp_path):
        async with paid(tmp_path) as found:
            found.node.play(Scene(claims={"used": -50}))
            await ask(found.url, wait=PATIENCE + 20)
            await until(lambda: found.node.closed)
            world = found.world.provider(tmp_path / "toolbridge")
            async with world as provider:
                hosts = await provider.hosts()
        assert hosts.candidates == ()
        assert "claims -50 tokens for an answer of 3" in hosts.excluded[0].why
