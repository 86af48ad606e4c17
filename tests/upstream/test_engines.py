"""Engines on loopback: what each reports about itself, and what a route makes of it."""

import asyncio

import pytest
from tests.peers import Heard, Line, model_server, whole

from toolbridge.config import Config, ModelConfig, ProviderConfig
from toolbridge.routing.models import ModelRoutes
from toolbridge.upstream import engines
from toolbridge.upstream.engine_facts import hash_of
from toolbridge.upstream.engines import EngineCatalog
from toolbridge.upstream.http import Upstream

TEMPLATE = "{% for message in messages %}{{ message.content }}{% endfor %}"
PROPS = {
    "default_generation_settings": {"params": {}, "n_ctx": 4096},
    "total_slots": 2,
    "modalities": {"vision": True, "video": False, "audio": False},
    "chat_template": TEMPLATE,
    "chat_template_caps": {"supports_tools": False, "supports_parallel_tool_calls": False},
    "build_info": "b11549-abc",
}


def rows(*names: str, **fields) -> dict:
    return {
        "object": "list",
        "data": [{"id": name, "object": "model", **fields} for name in names],
    }


def engine(pages: dict[str, object]):
    """Return a server that answers GET requests with `pages`, by path, and 404 otherwise."""

    async def answer(heard: Heard, line: Line) -> None:
        found = pages.get(heard.path)
        await whole(
            line, {"error": "no"} if found is None else found, 404 if found is None else 200
        )

    return answer


LLAMACPP = {"/v1/models": rows("smol", owned_by="llamacpp", meta={"n_ctx": 9}), "/props": PROPS}


async def routed(url: str, model: str, upstream: Upstream, **settings):
    """Return the route of a model at `url`, of a provider without further settings."""
    config = Config(
        providers={"mine": ProviderConfig(api="openai_chat", url=url)},
        models={f"mine/{model}": ModelConfig(**settings)} if settings else {},
    )
    return await ModelRoutes(config, upstream, {}).route(f"mine/{model}")


async def test_llamacpp_reports_its_window_its_tools_and_its_template():
    async with model_server(engine(LLAMACPP), probes=True) as server, Upstream() as upstream:
        route = await routed(server.url, "smol", upstream)
    assert route.engine == "llama.cpp"
    assert route.template == hash_of(TEMPLATE)
    assert route.target.window == 4096  # of one slot
    assert not route.target.can("tools")
    assert route.target.can("vision")
    assert route.target.can("thinking")  # no field tells
    assert route.facts.sources["window"] == "provider"


async def test_llamacpp_with_one_model_answers_to_any_name():
    async with model_server(engine(LLAMACPP), probes=True) as server, Upstream() as upstream:
        route = await routed(server.url, "whatever", upstream)
    assert route.target.window == 4096


async def test_a_llamacpp_router_is_asked_for_each_model():
    pages = {
        "/v1/models": rows("a", "org/b", owned_by="llamacpp"),
        "/props": {"role": "router", "build_info": "b1"},
        "/props?model=org/b": PROPS,
    }
    async with model_server(engine(pages), probes=True) as server, Upstream() as upstream:
        route = await routed(server.url, "org/b", upstream)
        other = await routed(server.url, "a", upstream)
    assert route.template == hash_of(TEMPLATE)
    assert other.target.window == 0


async def test_the_configuration_overrides_what_a_server_reports():
    async with model_server(engine(LLAMACPP), probes=True) as server, Upstream() as upstream:
        route = await routed(server.url, "smol", upstream, window=2048, tools=True)
    assert route.target.window == 2048
    assert route.target.can("tools")
    assert route.facts.sources["tools"] == "config"


async def test_a_server_is_asked_once():
    async with model_server(engine(LLAMACPP), probes=True) as server, Upstream() as upstream:
        config = Config(providers={"mine": ProviderConfig(api="openai_chat", url=server.url)})
        routes = ModelRoutes(config, upstream, {})
        await asyncio.gather(*(routes.route(f"mine/m{n}") for n in range(20)))
    assert sorted(heard.path for heard in server.heard) == ["/props", "/v1/models"]


async def test_a_server_that_hangs_delays_a_route_by_the_limit_once(monkeypatch):
    monkeypatch.setattr(engines, "LIMIT", 0.3)

    async def hang(_: Heard, line: Line) -> None:
        await line.gone()

    async with model_server(hang, probes=True) as server, Upstream() as upstream:
        catalog = EngineCatalog(upstream, "mine", f"{server.url}/v1/models", {}, private=True)
        async with asyncio.timeout(10):
            reports = [await catalog.report(0.3) for _ in range(3)]
    assert [report.answered for report in reports] == [False] * 3
    assert len(server.heard) == 1


async def test_a_server_that_is_not_there_has_no_facts():
    async with Upstream() as upstream:
        route = await routed("http://127.0.0.1:9", "any", upstream)
    assert (route.target.window, route.target.capabilities, route.engine) == (0, None, "")


@pytest.mark.parametrize("body", [b"", b"[]", b"null", b"<html>", b"\xff", b'{"data": 5}'])
async def test_any_other_answer_is_no_fact(body):
    async def answer(_: Heard, line: Line) -> None:
        await line.head(200, "application/json")
        await line.send(body or b" ")
        await line.end()

    async with model_server(answer, probes=True) as server, Upstream() as upstream:
        route = await routed(server.url, "any", upstream)
    assert route.target.capabilities is None
