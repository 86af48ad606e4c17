"""Chains and keys together: scopes hold for every address, and one request is charged once."""

import asyncio
import contextlib
import sqlite3

import msgspec
import pytest
from tests.key_users import CountingModel, ask, create, key, settings
from tests.peers import gateway, model_server

from toolbridge.config import ModelConfig, ProviderConfig, RatesConfig
from toolbridge.policy.routing_rules import RoutingRule
from toolbridge.server import created_keys


@pytest.fixture
async def chain(tmp_path, monkeypatch):
    """Yield a gateway whose default is a dead provider, then a model that counts."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(created_keys, "_PAUSE", 0.0)
    model = CountingModel()
    async with model_server(model) as server:
        places = {
            "dead": ProviderConfig(api="openai_chat", url="http://127.0.0.1:1", retries=0),
            "there": ProviderConfig(api="openai_chat", url=server.url, retries=0),
        }
        config = settings(server.url, providers=places, map={"default": ("dead/x", "there/small")})
        async with gateway(config, {"XDG_STATE_HOME": str(tmp_path)}) as (url, _):
            yield url, model, tmp_path / "toolbridge" / "ledger.sqlite"


async def first_row(ledger) -> dict:
    """Return the first row of the ledger, which is written after the answer."""
    for _ in range(500):
        with (
            contextlib.suppress(sqlite3.OperationalError),
            contextlib.closing(sqlite3.connect(ledger)) as opened,
        ):
            opened.row_factory = sqlite3.Row
            if rows := [dict(one) for one in opened.execute("select * from requests")]:
                return rows[0]
        await asyncio.sleep(0.02)
    raise AssertionError("nothing was written")


@pytest.mark.parametrize("stream", [False, True])
async def test_a_request_that_another_provider_answers_is_charged_once_at_its_price(chain, stream):
    url, _, ledger = chain
    alice = await create("alice", "--requests", "2/day", "--tokens", "9k/day")
    status, _, headers = await ask(url, alice, stream=stream)
    assert (status, headers["x-toolbridge-model"]) == (200, "there/small")
    assert "dead/x" in headers["x-toolbridge-tried"]
    shown = await key("show", "alice")
    assert "used      1 requests of" in shown
    assert "used      110 tokens of" in shown
    row = await first_row(ledger)
    assert "dead/x" in row["routes"]
    assert "there/small" in row["routes"]
    assert row["cost"] == round(1e9 * (100 * 1e-6 + 10 * 10e-6))


async def test_an_address_that_the_key_may_not_use_is_not_tried(chain):
    url, model, _ = chain
    alice = await create("alice", "--models", "there/*")
    status, _, headers = await ask(url, alice)
    assert (status, "x-toolbridge-tried" in headers) == (200, False)
    bob = await create("bob", "--models", "dead/*")
    status, body, _ = await ask(url, bob)
    assert status >= 500, "the chain of this key ends with the dead provider"
    assert model.requests == 1
    carol = await create("carol", "--models", "other/*")
    status, body, _ = await ask(url, carol)
    assert status == 403
    assert "it may use: other/*" in body["error"]["message"]


async def test_a_limit_of_a_key_is_no_failure_of_a_provider(chain):
    url, model, _ = chain
    alice = await create("alice", "--models", "there/*", "--requests", "1/day")
    assert (await ask(url, alice))[0] == 200
    for _ in range(8):
        assert (await ask(url, alice))[0] == 429
    bob = await create("bob", "--models", "there/*")
    status, _, headers = await ask(url, bob)
    assert (status, "x-toolbridge-tried" in headers) == (200, False)
    assert model.requests == 2


@pytest.fixture
async def priced(tmp_path, monkeypatch):
    """Yield a gateway with a chain of a cheap model that is overloaded, a dear one and a cheap one."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(created_keys, "_PAUSE", 0.0)
    failing, dear, last = CountingModel(), CountingModel(), CountingModel()
    failing.status = 503
    async with model_server(failing) as one, model_server(dear) as two, model_server(last) as three:
        places = {
            name: ProviderConfig(api="openai_chat", url=server.url, retries=0)
            for name, server in (("first", one), ("second", two), ("third", three))
        }
        cheap = ModelConfig(rates=RatesConfig(input=1.0, output=10.0))
        prices = {"first/m": cheap, "third/m": cheap}

        @contextlib.asynccontextmanager
        async def serve(*chain, rates=None):
            models = {**prices, "second/m": ModelConfig(rates=rates)}
            # Only models of other machines have a price; nothing may be sent to this address.
            away = msgspec.structs.replace(places["second"], url="http://192.0.2.1")
            there = places if rates else places | {"second": away}
            config = settings(one.url, providers=there, models=models, map={"default": chain})
            async with gateway(config, {"XDG_STATE_HOME": str(tmp_path)}) as (url, _):
                yield url

        yield serve, failing, dear, last


DEAR = RatesConfig(input=100.0, output=1000.0)
BUDGET = ("--dollars", "0.001/day", "--requests", "9/day")
"""More than a cheap answer of 20 tokens may cost, and less than a dear one."""


@pytest.mark.parametrize("stream", [False, True])
async def test_a_dearer_model_of_a_chain_must_fit_the_budget_as_well(priced, stream):
    serve, failing, dear, _ = priced
    async with serve("first/m", "second/m", rates=DEAR) as url:
        alice = await create("alice", *BUDGET)
        status, body, headers = await ask(url, alice, stream=stream)
    assert (status, failing.requests, dear.requests) == (529, 1, 0)
    assert "limit of $0.001 per day" in str(body)
    assert "second/m passed over" in headers["x-toolbridge-tried"]
    shown = await key("show", "alice")
    assert "used      1 requests of" in shown
    assert "used      $0.00 of" in shown
    assert "reserved" not in shown


async def test_a_cheaper_model_answers_where_a_dearer_one_does_not_fit(priced):
    serve, failing, dear, last = priced
    async with serve("first/m", "second/m", "third/m", rates=DEAR) as url:
        alice = await create("alice", *BUDGET)
        status, _, headers = await ask(url, alice)
        assert (status, headers["x-toolbridge-model"]) == (200, "third/m")
        assert (failing.requests, dear.requests, last.requests) == (1, 0, 1)
    shown = await key("show", "alice")
    assert "used      1 requests of" in shown
    assert "used      $0.0002 of" in shown


async def test_a_model_without_a_price_is_passed_over_wherever_it_stands(priced):
    serve, _, _, last = priced
    alice = await create("alice", *BUDGET)
    async with serve("first/m", "second/m", "third/m") as url:
        status, _, headers = await ask(url, alice)
        assert (status, headers["x-toolbridge-model"]) == (200, "third/m")
    async with serve("second/m", "third/m") as url:
        assert (await ask(url, alice))[0] == 200
    async with serve("second/m") as url:
        status, body, _ = await ask(url, alice)
        assert status == 403
        assert "the price of second/m is not known" in body["error"]["message"]
    assert last.requests == 2


async def test_a_model_that_is_passed_over_for_one_key_is_used_for_another(priced):
    serve, _, dear, _ = priced
    async with serve("second/m", "third/m", rates=DEAR) as url:
        alice, bob = await create("alice", *BUDGET), await create("bob")
        for _ in range(6):
            assert (await ask(url, alice))[2]["x-toolbridge-model"] == "third/m"
        assert (await ask(url, bob))[2]["x-toolbridge-model"] == "second/m"
        assert dear.requests == 1


async def test_a_rule_selects_the_model_by_the_name_of_the_key(priced, tmp_path):
    _, _, dear, last = priced
    async with model_server(dear) as two, model_server(last) as three:
        places = {
            name: ProviderConfig(api="openai_chat", url=server.url, retries=0)
            for name, server in (("second", two), ("third", three))
        }
        rule = RoutingRule(to="third/m", key=("ci-*", "bob"))
        config = settings("", providers=places, map={"default": "second/m"}, routes=(rule,))
        config = msgspec.structs.replace(config, key="the-admin", models={})
        async with gateway(config, {"XDG_STATE_HOME": str(tmp_path)}) as (url, _):
            served = {}
            for name in ("ci-tests", "bob", "alice"):
                _, _, headers = await ask(url, await create(name))
                served[name] = headers["x-toolbridge-model"]
                if name == "bob":
                    assert headers["x-toolbridge-route"] == "1 (key ci-* or bob)"
            assert (await ask(url, "the-admin"))[2]["x-toolbridge-model"] == "second/m"
    assert served == {"ci-tests": "third/m", "bob": "third/m", "alice": "second/m"}
