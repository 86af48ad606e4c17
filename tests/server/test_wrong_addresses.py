"""Addresses of the configuration whose provider does not exist: no other provider gets the prompt."""

import pytest
from tests.key_users import CountingModel, ask
from tests.peers import gateway, model_server

from toolbridge.config import Config, ProviderConfig
from toolbridge.policy.routing_rules import RoutingRule, WeightedModel
from toolbridge.routing.models import ModelRoutes


def settings(url: str, **more) -> Config:
    one = ProviderConfig(api="openai_chat", url=url, retries=0)
    return Config(log="off", ledger="off", **{"providers": {"a": one, "b": one}, **more})


def rule(*targets: str) -> RoutingRule:
    return RoutingRule(model="*", to=tuple(WeightedModel(one) for one in targets))


WRONG = [
    {"map": {"default": "bb/ok"}},
    {"map": {"default": "bb,ok"}},
    {"map": {"default": ("bb/ok", "bc/ok")}},
    {"map": {"fast": "bb/ok", "default": "a/x"}},
    {"map": {"default": "a/x"}, "routes": (rule("bb/ok"),)},
]


@pytest.mark.parametrize("more", WRONG, ids=str)
async def test_a_wrong_provider_is_an_error_and_nobody_gets_the_prompt(more):
    model = CountingModel()
    async with (
        model_server(model) as server,
        gateway(settings(server.url, **more), {}) as (url, app),
    ):
        status, body, _ = await ask(url, model="fast")
        assert (status, model.requests) == (404, 0), body
        text = body["error"]["message"]
        assert "no provider 'bb'" in text
        assert "Did you mean b/ok?" in text or "bc/ok" in text
        routes: ModelRoutes = app.gateway.model_routes
        assert any("no provider 'bb'" in line for line in await routes.problems())


async def test_a_chain_goes_on_after_a_wrong_address():
    model = CountingModel()
    more = {"map": {"default": ("bb/ok", "b/ok")}}
    async with (
        model_server(model) as server,
        gateway(settings(server.url, **more), {}) as (url, app),
    ):
        status, _, headers = await ask(url)
        assert (status, headers["x-toolbridge-model"]) == (200, "b/ok")
        assert "no provider 'bb'" in " ".join(await app.gateway.model_routes.problems())


@pytest.mark.parametrize("name", ["b/org/model", "b/anthropic/claude-x"])
async def test_names_with_slashes_are_served_where_the_provider_is_written(name):
    model = CountingModel()
    more = {"map": {"default": name}}
    async with (
        model_server(model) as server,
        gateway(settings(server.url, **more), {}) as (url, app),
    ):
        assert (await ask(url))[0] == 200
        assert model.heard[0]["model"] == name.partition("/")[2]
        assert await app.gateway.model_routes.problems() == []


async def test_a_provider_without_its_key_is_a_problem_of_the_banner():
    one = ProviderConfig(api="openai_chat", url="https://models.invalid/v1", key="$NOT_SET_HERE")
    more = {"map": {"default": "demo"}, "providers": {"a": one}}
    async with gateway(Config(log="off", ledger="off", **more), {}) as (_, app):
        (line,) = await app.gateway.model_routes.problems()
    assert "NOT_SET_HERE is not set" in line
