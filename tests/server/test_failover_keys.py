"""Chains and keys together: scopes hold for every address, and one request is charged once."""

import asyncio
import contextlib
import sqlite3

import pytest
from tests.key_users import CountingModel, ask, create, key, settings
from tests.peers import gateway, model_server

from toolbridge.config import ProviderConfig
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
