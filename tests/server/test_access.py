"""Who may call, from where, and what they are told when they may not."""

import aiohttp
import pytest
from tests.peers import gateway

from toolbridge.config import Config
from toolbridge.core.errors import ConfigError
from toolbridge.server.app import App

GOOD = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}


async def call(url: str, method: str = "POST", path: str = "/v1/messages", **headers: str):
    async with (
        aiohttp.ClientSession() as session,
        session.request(method, url + path, json=GOOD, headers=headers) as answer,
    ):
        await answer.read()
        return answer


KEYED = Config(log="off", key="$THE_KEY")
ENV = {"THE_KEY": "s3cret"}


@pytest.mark.req("CB-25", "CB-26")
@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        ({"x-api-key": "wrong"}, 403),
        ({"authorization": "Bearer wrong"}, 403),
        ({"x-api-key": "s3cret"}, 200),
        ({"authorization": "Bearer s3cret"}, 200),
        ({"authorization": "bearer s3cret"}, 200),
        ({"x-goog-api-key": "s3cret"}, 200),
        ({"x-api-key": "s3cret", "anthropic-version": "1999-01-01"}, 200),
    ],
)
async def test_a_key_is_asked_for_when_one_is_set(headers, status):
    async with gateway(KEYED, ENV) as (url, _):
        assert (await call(url, **headers)).status == status


@pytest.mark.req("CB-25")
async def test_the_key_may_stand_in_the_query():
    async with gateway(KEYED, ENV) as (url, _):
        assert (await call(url, path="/v1/messages?key=s3cret")).status == 200


async def test_health_needs_no_key():
    async with gateway(KEYED, ENV) as (url, _):
        assert (await call(url, "GET", "/health")).status == 200
        assert (await call(url, "GET", "/metrics")).status == 401


@pytest.mark.req("CB-25")
async def test_any_key_or_none_is_accepted_when_none_is_set():
    async with gateway() as (url, _):
        assert (await call(url)).status == 200
        assert (await call(url, authorization="Bearer anything")).status == 200


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1"])
def test_listening_beyond_loopback_without_a_key_is_refused(host):
    with pytest.raises(ConfigError, match="without a key"):
        App(Config(host=host), {})
    App(Config(host=host, key="k"), {})


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"host": "evil.example"}, 403),
        ({"host": "evil.example:3456"}, 403),
        ({"host": "localhost:3456"}, 200),
        ({"host": "[::1]:3456"}, 200),
        ({"origin": "https://evil.example"}, 403),
        ({"origin": "http://localhost:5173"}, 200),
        ({"origin": "http://127.0.0.1"}, 200),
        ({"origin": "null"}, 403),
    ],
)
async def test_a_web_page_cannot_call_a_server_on_loopback(headers, status):
    async with gateway() as (url, _):
        assert (await call(url, **headers)).status == status


@pytest.mark.req("CB-24")
async def test_a_preflight_is_answered():
    async with gateway() as (url, _):
        answer = await call(url, "OPTIONS", origin="http://localhost:1")
    assert answer.status == 200
    assert "POST" in answer.headers["access-control-allow-methods"]
    allowed = answer.headers["access-control-allow-headers"]
    for name in ("content-type", "x-api-key", "anthropic-version"):
        assert name in allowed
    assert answer.headers["access-control-allow-origin"] == "http://localhost:1"


@pytest.mark.req("CB-24")
@pytest.mark.parametrize(
    ("config", "origin", "allowed"),
    [
        (Config(log="off"), "https://app.example", None),
        (Config(log="off", cors=("https://app.example",)), "https://app.example", "https://app.example"),
        (Config(log="off", cors=("*",)), "https://app.example", "*"),
        (KEYED, "https://app.example", "*"),
    ],
)  # fmt: skip
async def test_origins_beyond_loopback_need_a_key_or_a_word_in_the_configuration(
    config, origin, allowed
):
    async with gateway(config, ENV) as (url, _):
        answer = await call(url, **{"origin": origin, "x-api-key": "s3cret"})
    assert answer.headers.get("access-control-allow-origin") == allowed
    assert (answer.status == 200) is (allowed is not None)


@pytest.mark.parametrize(
    "headers",
    [
        {"host": "127.evil.example"},
        {"host": "["},
        {"host": "localhost.evil.example"},
        {"origin": "http://127.evil.example"},
        {"origin": "http://["},
        {"origin": "null"},
    ],
)
async def test_a_name_that_only_looks_like_this_machine_may_not_call(headers):
    async with gateway() as (url, _):
        assert (await call(url, **headers)).status == 403


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:99", "127.0.0.9", "[::1]:80", "localhost."]
)
async def test_every_name_of_this_machine_may_call(host):
    async with gateway() as (url, _):
        assert (await call(url, host=host)).status == 200


async def test_a_key_may_hold_any_character():
    async with gateway(Config(log="off", key="schlüssel")) as (url, _):
        assert (await call(url, **{"x-api-key": "schlüssel"})).status == 200
        assert (await call(url, path="/v1/messages?key=schl%C3%BCssel")).status == 200
        assert (await call(url, path="/v1/messages?key=schl%FCssel")).status == 403


def test_a_key_that_is_named_but_not_set_is_refused_at_start():
    with pytest.raises(ConfigError, match=r"key: the variable \$THE_KEY is not set"):
        App(KEYED, {})
