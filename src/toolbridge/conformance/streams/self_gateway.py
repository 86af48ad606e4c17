"""The gateways to score, in this process: one as it is by default, and three set up otherwise."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from toolbridge.config import Config, ProviderConfig, StreamConfig
from toolbridge.conformance import self_gateway

PROVIDER = "conform"
KEY = "conform-key"
TOOLS = str(Path(__file__).with_name("tools.py"))


def configured(name: str, url: str) -> Config:
    """Return the configuration of a gateway whose model is at `url`."""
    streams = {
        "short": StreamConfig(demo=True, tools=(TOOLS,), grace=0.2, ping=0.05),
        "few": StreamConfig(demo=True, tools=(TOOLS,), most=1),
    }
    return Config(
        log="off",
        port=0,
        key=KEY if name == "keyed" else "",
        map={"default": f"{PROVIDER}/default"},
        providers={PROVIDER: ProviderConfig(api="openai_chat", url=f"{url}/v1", retries=0)},
        stream=streams.get(name, StreamConfig(demo=True, tools=(TOOLS,))),
    )


@asynccontextmanager
async def gateways(names: set[str], url: str) -> AsyncIterator[dict[str, str]]:
    """Serve gateways in front of the model at `url`; yield where each is."""
    async with AsyncExitStack() as stack:
        yield {
            name: await stack.enter_async_context(self_gateway.gateway(configured(name, url)))
            for name in sorted(names)
        }
