"""Engines on loopback: what each reports about itself, and what a route makes of it."""

import asyncio
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.peers import Heard, Line, model_server, whole
from tests.tables import every_row

from toolbridge.config import Config, ModelConfig, ProviderConfig
from toolbridge.policy.model_facts import KnownModel
from toolbridge.routing.models import ModelRoutes
from toolbridge.upstream import engines
from toolbridge.upstream.engine_facts import (
    hash_of,
    read_list,
    read_lmstudio,
    read_object,
    read_props,
    read_sglang,
    read_tgi,
)
from toolbridge.upstream.engines import EngineCatalog
from toolbridge.upstream.hosts import is_private
from toolbridge.upstream.http import Upstream

FIELDS = st.sampled_from([
    "data", "models", "id", "name", "key", "type", "capabilities", "thinking", "types", "effort",
    "default_generation_settings", "build_info", "chat_template", "n_ctx", "loaded_instances", "config",
    "max_context_length", "model_id", "max_concurrent_requests", "top_provider", "architecture",
    "supported_parameters", "owned_by", "supportedGenerationMethods", "retires_at", "meta",
])  # fmt: skip
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
        "/props?model=org%2Fb": PROPS,
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
        async with asyncio.timeout(20):
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


# ── every engine, as its documentation describes it ──

SGLANG_INFO = {
    "model_path": "/m", "is_generation": True, "reasoning_parser": "qwen3",
    "tool_call_parser": "qwen25", "has_image_understanding": False, "has_audio_understanding": False,
}  # fmt: skip
LMSTUDIO = {
    "models": [
        {
            "type": "llm", "key": "qwen/qwen3-8b", "architecture": "qwen3", "format": "gguf",
            "max_context_length": 40960,
            "loaded_instances": [{"id": "qwen3-8b:2", "config": {"context_length": 8192}}],
            "capabilities": {"vision": False, "trained_for_tool_use": True},
        },
        {"type": "embedding", "key": "nomic", "max_context_length": 2048, "loaded_instances": []},
        {"type": "llm", "key": "old/chatty", "max_context_length": 4096, "loaded_instances": [],
         "capabilities": {"vision": True, "trained_for_tool_use": False}},
    ]
}  # fmt: skip
LMSTUDIO_V0 = {
    "data": [
        {"id": "qwen", "object": "model", "type": "vlm", "state": "loaded", "max_context_length": 9000,
         "loaded_context_length": 4500, "capabilities": ["tool_use"]},
        {"id": "plain", "type": "llm", "state": "not-loaded", "max_context_length": 1000},
    ]
}  # fmt: skip
TGI = {
    "model_id": "org/m", "model_sha": "x", "max_concurrent_requests": 128, "max_input_tokens": 4000,
    "max_total_tokens": 4096, "version": "3.3.0", "docker_label": "sha-1",
}  # fmt: skip
OPENROUTER = {
    "data": [
        {
            "id": "x/y", "context_length": 65536, "architecture": {"input_modalities": ["text", "image"]},
            "top_provider": {"context_length": 60000, "max_completion_tokens": 9000},
            "supported_parameters": ["tools", "temperature"],
        }
    ]
}  # fmt: skip


@pytest.mark.parametrize(
    ("pages", "model", "engine_name", "window", "can", "cannot"),
    [
        (
            {"/v1/models": rows("m", owned_by="vllm", max_model_len=8192)},
            "m", "vllm", 8192, set(), set(),
        ),
        (
            {"/v1/models": rows("m", owned_by="sglang", max_model_len=32768),
             "/model_info": SGLANG_INFO, "/server_info": {"context_length": 16384}},
            "m", "sglang", 32768, {"tools", "thinking"}, {"vision"},
        ),
        (
            {"/v1/models": rows("m", owned_by="sglang"), "/get_model_info": SGLANG_INFO,
             "/get_server_info": {"context_length": 16384}},
            "m", "sglang", 16384, {"tools", "thinking"}, {"vision"},
        ),
        (
            {"/v1/models": rows("qwen/qwen3-8b", owned_by="organization_owner"), "/api/v1/models": LMSTUDIO},
            "qwen/qwen3-8b", "lmstudio", 8192, {"tools"}, {"vision"},
        ),
        (
            {"/v1/models": rows("old/chatty"), "/api/v1/models": LMSTUDIO},
            "old/chatty", "lmstudio", 4096, {"vision"}, {"tools"},
        ),
        ({"/api/v1/models": LMSTUDIO}, "qwen3-8b:2", "lmstudio", 8192, {"tools"}, {"vision"}),
        ({"/api/v0/models": LMSTUDIO_V0}, "qwen", "lmstudio", 4500, {"tools", "vision"}, set()),
        ({"/api/v0/models": LMSTUDIO_V0}, "plain", "lmstudio", 1000, set(), {"vision"}),
        ({"/info": TGI}, "tgi", "tgi", 4096, set(), set()),
        ({"/props": PROPS}, "any", "llama.cpp", 4096, {"vision"}, {"tools"}),
        ({"/v1/models": OPENROUTER}, "x/y", "", 65536, {"tools", "vision"}, {"thinking"}),
        ({"/v1/models": rows("g", context_window=131072, max_completion_tokens=9)}, "g", "", 131072, set(), set()),
        ({"/v1/models": [{"id": "t", "type": "chat", "context_length": 7}]}, "t", "", 7, set(), set()),
        (
            {"/v1/models": rows("c", max_context_length=32768,
                                capabilities={"completion_chat": True, "function_calling": True, "vision": False})},
            "c", "", 32768, {"tools"}, {"vision"},
        ),
    ],
)  # fmt: skip
async def test_every_engine_is_recognized(pages, model, engine_name, window, can, cannot):
    async with model_server(engine(pages), probes=True) as server, Upstream() as upstream:
        route = await routed(server.url, model, upstream)
    assert (route.engine, route.target.window) == (engine_name, window)
    assert all(route.facts.known.has(name) for name in can)
    assert all(route.facts.known.has(name) is False for name in cannot)
    assert all(heard.method == "GET" for heard in server.heard)


async def test_a_server_in_a_private_network_or_elsewhere_is_asked_less():
    async with model_server(engine({}), probes=True) as server, Upstream() as upstream:
        for private in (True, False):
            catalog = EngineCatalog(upstream, "x", f"{server.url}/v1/models", {}, private=private)
            await catalog.report()
    paths = [heard.path for heard in server.heard]
    assert paths.count("/v1/models") == 2
    assert paths.count("/props") == 1


async def test_an_engine_gets_the_key_of_its_provider_and_no_other():
    async with model_server(engine({}), probes=True) as server, Upstream() as upstream:
        provider = ProviderConfig(api="openai_chat", url=server.url, key="$MINE")
        config = Config(providers={"mine": provider})
        await ModelRoutes(config, upstream, {"MINE": "secret"}).route("mine/m")
        await ModelRoutes(config, upstream, {}).route("mine/m")
    sent = [heard.headers.get("authorization") for heard in server.heard]
    assert sent[0] == "Bearer secret"
    assert sent[-1] is None


@every_row(
    ("host", "private"),
    [
        ("127.0.0.1", True), ("10.1.2.3", True), ("192.168.0.9", True), ("::1", True), ("gpu", True),
        ("box.local", True), ("host.docker.internal", True), ("api.example.com", False),
        ("8.8.8.8", False), ("local.example.com", False),
    ],
)  # fmt: skip
def test_private_hosts(host, private):
    assert is_private(host) is private


def test_anthropics_capability_tree_is_read():
    tree = {
        "thinking": {"supported": True, "types": {"adaptive": {"supported": True}, "disabled": {"supported": False}, "dreaming": {"supported": True}}},
        "effort": {"supported": True, "low": {"supported": True}, "max": {"supported": False}, "high": True},
        "image_input": {"supported": True}, "pdf_input": {"supported": False},
        "structured_outputs": {"supported": True},
    }  # fmt: skip
    row = {
        "type": "model",
        "id": "claude-next",
        "max_input_tokens": 9,
        "max_tokens": 3,
        "capabilities": tree,
    }
    known = (
        read_list(json.dumps({"data": [row], "has_more": False}).encode())
        .models["claude-next"]
        .known
    )
    assert (known.window, known.max_output) == (9, 3)
    assert (known.thinking_types, known.always_thinks) == (("adaptive",), True)
    assert known.efforts == ("low", "high")
    assert known.can == {"thinking", "vision", "schema", "tools"}
    assert known.cannot == {"pdf"}


def test_geminis_list_is_read():
    model = {
        "name": "models/gemini-x", "inputTokenLimit": 100, "outputTokenLimit": 10, "thinking": True,
        "supportedGenerationMethods": ["generateContent"],
    }  # fmt: skip
    other = {**model, "name": "models/e", "supportedGenerationMethods": ["embedContent"]}
    found = read_list(json.dumps({"models": [model, other]}).encode()).models
    assert found["gemini-x"].known == KnownModel(
        window=100, max_output=10, can=frozenset({"thinking"})
    )
    assert found["e"].embeds


@given(st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(FIELDS, inner, max_size=4), max_leaves=20,
))  # fmt: skip
def test_no_answer_breaks_a_reader(value):
    body = json.dumps(value).encode()
    read_list(body)
    found = read_object(body)
    for read in (read_props, read_lmstudio, read_tgi):
        read(found)
    read_sglang(found, found)


def test_max_tokens_is_a_limit_of_output_only_in_anthropics_list():
    rows = [{"id": "a", "max_tokens": 7, "max_input_tokens": 9}, {"id": "b", "max_tokens": 7}]
    found = read_list(json.dumps({"data": rows}).encode()).models
    assert [found[name].known.max_output for name in ("a", "b")] == [7, 0]
