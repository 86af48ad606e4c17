"""Gateways to score in this process (`toolbridge conform --self`).

`translation_config` has one provider for every upstream API; `stream_config` has one provider whose
model plays the cases of structured streams, in four set-ups.
"""

import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from toolbridge import codecs
from toolbridge.config import Config, ModelConfig, ProviderConfig, StreamConfig
from toolbridge.conformance import clients, upstreams
from toolbridge.conformance.cases import APIS
from toolbridge.conformance.client_requests import CaseRequest
from toolbridge.core.errors import ToolbridgeError
from toolbridge.core.json import JsonObject
from toolbridge.core.server_tools import ServerToolKind
from toolbridge.server import routes
from toolbridge.server.app import App
from toolbridge.server.dispatch import Dispatcher, plain_path
from toolbridge.server.http_server import HttpServer
from toolbridge.server_tool_settings import ServerToolSettings, WebSearchSettings

STREAM_PROVIDER = "conform"
STREAM_KEY = "conform-key"
STREAM_TOOLS = str(Path(__file__).parent / "streams" / "tools.py")
LOCAL = "local"
"""The third provider of an API: an engine that has no server tools."""
PASSTHROUGH = "passthrough"
"""The second provider of an API: configured as a vendor's own server is."""


_SERVER_TOOLS: dict[str, tuple[ServerToolKind, ...]] = {
    "anthropic": ("web_search", "web_fetch", "code_execution", "tool_search", "mcp"),
    "openai_responses": ("web_search", "code_execution", "mcp"),
    "gemini": ("web_search", "web_fetch", "code_execution", "mcp"),
    "openai_chat": ("web_search",),
}
"""The server tools that the scripted upstream plays, as the vendors of these APIs have them."""
_QUIRKS: dict[str, JsonObject] = {"openai_chat": {"web_search": "options"}}


def served() -> list[str]:
    """Return the APIs that this toolbridge serves to clients."""
    return [api for api in APIS if _is_served(api)]


def _is_served(api: str) -> bool:
    sent = clients.load(api).ask(CaseRequest(turns=()), "conform", True)
    methods = routes.find(plain_path(sent.path.partition("?")[0]))
    return methods is not None and "POST" in methods


def spoken() -> list[str]:
    """Return the APIs that this toolbridge supports for an upstream."""
    return [api for api in APIS if _is_spoken(api)]


def _is_spoken(api: str) -> bool:
    try:
        codecs.load(api)
    except (ToolbridgeError, ImportError, AttributeError):
        return False
    return True


def model(api: str, *, passthrough: bool = False) -> str:
    """Return the name under which the gateway serves an upstream of `api`."""
    return f"{_provider(api, passthrough=passthrough)}/conform"


def local_model(api: str) -> str:
    """Return the name of the same upstream without server tools: the gateway runs them."""
    return f"conform-{api}-{LOCAL}/conform"


def _provider(api: str, *, passthrough: bool = False) -> str:
    return f"conform-{api}-{PASSTHROUGH}" if passthrough else f"conform-{api}"


def translation_config(url: str) -> Config:
    """Return the configuration of a gateway whose upstreams are all at `url`."""
    providers: dict[str, ProviderConfig] = {}
    for api in spoken():
        base = url if api == "gemini" else url + upstreams.load(api).base
        # The default configuration, as a user writes it for a server that has these tools.
        tools, quirks = _SERVER_TOOLS.get(api, ()), _QUIRKS.get(api, {})
        providers[_provider(api)] = ProviderConfig(
            api=api, url=base, server_tools=tools, quirks=quirks
        )
        local = ProviderConfig(api=api, url=base, server_tools=())
        providers[f"conform-{api}-{LOCAL}"] = local
        passed = ProviderConfig(api=api, url=base, passthrough=True, server_tools=tools)
        providers[_provider(api, passthrough=True)] = passed
    default = model(next(iter(spoken())))
    # One model plays all cases. What the gateway learns from a model that breaks its calls in one
    # case must not change the next, so the tool mode is set.
    known_model = ModelConfig(thinking=True, tool_mode="native")
    known = {f"{name}/conform": known_model for name in providers}
    return Config(
        log="off",
        port=0,
        map={"default": default},
        providers=providers,
        models=known,
        server_tools=ServerToolSettings(
            web_search=WebSearchSettings(backend="searxng", url=url),
        ),
    )


def stream_config(name: str, url: str) -> Config:
    """Return the configuration that cases call `name`, of a gateway whose model is at `url`."""
    streams = {
        "short": StreamConfig(demo=True, tools=(STREAM_TOOLS,), grace=0.2),
        "pinging": StreamConfig(demo=True, tools=(STREAM_TOOLS,), ping=0.05),
        "few": StreamConfig(demo=True, tools=(STREAM_TOOLS,), max_streams=1),
    }
    provider = ProviderConfig(api="openai_chat", url=f"{url}/v1", retries=0)
    return Config(
        log="off",
        port=0,
        key=STREAM_KEY if name == "keyed" else "",
        map={"default": f"{STREAM_PROVIDER}/default"},
        providers={STREAM_PROVIDER: provider},
        stream=streams.get(name, StreamConfig(demo=True, tools=(STREAM_TOOLS,))),
    )


@asynccontextmanager
async def gateways(configs: Mapping[str, Config]) -> AsyncIterator[dict[str, str]]:
    """Serve a gateway for each configuration; yield their URLs by the same names."""
    async with AsyncExitStack() as stack:
        yield {
            name: await stack.enter_async_context(gateway(config))
            for name, config in configs.items()
        }


@asynccontextmanager
async def gateway(config: Config) -> AsyncIterator[str]:
    """Serve a gateway on a free port of loopback; yield its URL."""
    app = App(config, {"OLLAMA_HOST": "127.0.0.1:1"})
    server = HttpServer(Dispatcher(app))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        await server.start(listener)
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            await server.stop(1)
