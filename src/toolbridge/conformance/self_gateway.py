"""A toolbridge of our own to score, in this process, with one provider for every upstream API."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import uvicorn

from toolbridge import codecs
from toolbridge.config import Config, ModelConfig, ProviderConfig
from toolbridge.conformance import clients, upstreams
from toolbridge.conformance.cases import APIS
from toolbridge.conformance.client_requests import CaseRequest
from toolbridge.core.errors import ToolbridgeError
from toolbridge.server import routes
from toolbridge.server.app import App
from toolbridge.server.dispatch import plain_path
from toolbridge.server.serving import settings

PASSTHROUGH = "passthrough"
"""The second provider of an API: configured as a vendor's own server is."""


def served() -> list[str]:
    """Return the APIs that this toolbridge serves to clients."""
    return [api for api in APIS if _is_served(api)]


def _is_served(api: str) -> bool:
    sent = clients.load(api).ask(CaseRequest(turns=()), "conform", True)
    methods = routes.find(plain_path(sent.path.partition("?")[0]))
    return methods is not None and "POST" in methods


def spoken() -> list[str]:
    """Return the APIs that this toolbridge can speak to an upstream."""
    return [api for api in APIS if _is_spoken(api)]


def _is_spoken(api: str) -> bool:
    try:
        codecs.load(api)
    except (ToolbridgeError, ImportError, AttributeError):
        return False
    return True


def model(api: str, *, passthrough: bool = False) -> str:
    """Return the name under which the house offers an upstream of `api`."""
    return f"{_provider(api, passthrough=passthrough)}/conform"


def _provider(api: str, *, passthrough: bool = False) -> str:
    return f"conform-{api}-{PASSTHROUGH}" if passthrough else f"conform-{api}"


def configured(url: str) -> Config:
    """Return the configuration of a gateway whose upstreams are all at `url`."""
    places: dict[str, ProviderConfig] = {}
    for api in spoken():
        base = url if api == "gemini" else url + upstreams.load(api).base
        # The first is what a user writes: the default configuration.
        places[_provider(api)] = ProviderConfig(api=api, url=base)
        passed = ProviderConfig(api=api, url=base, passthrough=True)
        places[_provider(api, passthrough=True)] = passed
    default = model(next(iter(spoken())))
    known = {name: ModelConfig(thinking=True) for name in (f"{p}/conform" for p in places)}
    return Config(log="off", port=0, map={"default": default}, providers=places, models=known)


@asynccontextmanager
async def gateway(config: Config) -> AsyncIterator[str]:
    """Serve a gateway on a free port of loopback; yield its URL."""
    app = App(config, {"OLLAMA_HOST": "127.0.0.1:1"})
    server = uvicorn.Server(settings(app))
    serving = asyncio.create_task(server._serve())  # noqa: SLF001  `serve` takes the signals over
    while not server.started and not serving.done():  # noqa: ASYNC110  uvicorn tells nobody
        await asyncio.sleep(0.01)
    if serving.done():
        serving.result()
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        await serving
