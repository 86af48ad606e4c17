"""A gateway in front of a node, and a client of it, over real sockets."""

import asyncio
import json
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
from tests.node.deployed import MODEL as CHAIN_MODEL
from tests.node.deployed import NATIVE_PRICE, PAYER, Deployed, deployed
from tests.node.local_chain import LocalChain, local_chain
from tests.node.server import HOST, Node, running
from tests.peers import gateway

from toolbridge.config import Config, ProviderConfig
from toolbridge.node.protocol import encryption
from toolbridge.server.app import App

MODEL = "unsloth/GLM-4.7-Flash-GGUF:GLM-4.7-Flash-UD-Q8_K_XL.gguf"
KEY_NAME = "CLAUDE_BRIDGE_PRIVATE_KEY"
PUBLIC = encryption.public_key(HOST).hex()
WAITS = {"connect": 20.0, "init": 20.0, "first": 20.0, "next": 20.0, "grace": 0.2}
"""A busy machine is not a silent node."""
SHORT = {"connect": 20.0, "init": 2.0, "first": 2.0, "next": 2.0, "grace": 0.2}
"""For faults that are only told by waiting, and for nothing else."""
PATIENCE = WAITS["first"] + 20
"""How long anything may take: what is documented, and room for a busy machine."""

WRITE = {
    "name": "Write",
    "description": "Writes a file.",
    "input_schema": {
        "type": "object",
        "properties": {"file_path": {"type": "string"}, "content": {"type": "string"}},
        "required": ["file_path", "content"],
    },
}


def provider(node: Node, *, quirks: dict | None = None, **table) -> ProviderConfig:
    """Return a provider whose host is known in full: nothing is paid."""
    known = {"model": MODEL, "host_url": node.url, "host_key": PUBLIC}
    return ProviderConfig(api="node", quirks=quirks or {}, node=known | table)


@asynccontextmanager
async def bridged(*, quirks: dict | None = None, models: dict | None = None, log="off", **table):
    """Serve a gateway in front of a node; yield its URL, the node and the application."""
    async with running() as node:
        places = {"mynode": provider(node, quirks=quirks, **table)}
        config = Config(log=log, providers=places, models=models or {})
        async with gateway(config) as (url, app):
            yield url, node, app


@dataclass
class Reply:
    status: int
    headers: dict[str, str]
    body: dict = field(default_factory=dict)
    events: list[dict] = field(default_factory=list)
    clean: bool = True
    """Whether the stream came to an end, and not only to a stop."""

    @property
    def kinds(self) -> list[str]:
        return [event["type"] for event in self.events if event["type"] != "ping"]

    @property
    def text(self) -> str:
        deltas = (event.get("delta", {}) for event in self.events)
        said = "".join(delta.get("text", "") for delta in deltas)
        return said + "".join(block.get("text", "") for block in self.body.get("content", []))

    @property
    def error(self) -> dict:
        return self.body.get("error") or self.events[-1].get("error", {})

    @property
    def stop(self) -> str:
        if self.body:
            return self.body["stop_reason"]
        return next(e for e in self.events if e["type"] == "message_delta")["delta"]["stop_reason"]

    @property
    def usage(self) -> dict:
        if self.body:
            return self.body["usage"]
        return next(e for e in self.events if e["type"] == "message_delta")["usage"]


def body(text: str | list = "hi", **more) -> dict:
    return {
        "model": "claude-sonnet-5-5", "max_tokens": 64, "stream": True,
        "messages": [{"role": "user", "content": text}], **more,
    }  # fmt: skip


async def ask(url: str, request: dict | None = None, *, wait: float = PATIENCE) -> Reply:
    """Return what `POST /v1/messages` gets; an answer that hangs is a failure."""
    async with (
        asyncio.timeout(wait),
        aiohttp.ClientSession() as session,
        session.post(url + "/v1/messages", json=request or body()) as answer,
    ):
        reply = Reply(answer.status, {k.lower(): v for k, v in answer.headers.items()})
        if not answer.headers["content-type"].startswith("text/event-stream"):
            reply.body = await answer.json()
            return reply
        text = b""
        try:
            async for piece in answer.content.iter_any():
                text += piece
        except aiohttp.ClientPayloadError:
            reply.clean = False
    frames = [frame.split("\n") for frame in text.decode().split("\n\n") if frame]
    reply.events = [json.loads(data.removeprefix("data: ")) for _, data in frames]
    return reply


async def works(url: str) -> None:
    """The next request is answered as if nothing had been."""
    reply = await ask(url)
    assert (reply.status, reply.clean, reply.text) == (200, True, "Hello, world"), reply


@asynccontextmanager
async def paid(state: Path, *, price: int = NATIVE_PRICE, hosts: bool = True, **table):
    """Serve a gateway that finds and pays its host on a chain; yield all of them.

    `HERE` in the table stands for where the node is.
    """
    async with local_chain() as chain, deployed(chain.url) as world, running() as node:
        if hosts:
            await world.register(HOST, node.url, price=price)
        network = world.network
        known = {
            "model": CHAIN_MODEL, "network": "", "chain_id": network.chain_id,
            "rpc_url": chain.url, "marketplace": network.marketplace, "seed": 1,
            "registry": network.registry, "multicall": network.multicall,
            "waits": WAITS | {"pay": 2.0, "settle": 60.0}, "price": price,
        }  # fmt: skip
        table = {name: node.url if value == "HERE" else value for name, value in table.items()}
        provider = ProviderConfig(api="node", node=known | table)
        config = Config(log="off", providers={"mynode": provider})
        env = {"XDG_STATE_HOME": str(state), KEY_NAME: PAYER.reveal().hex()}
        async with gateway(config, env) as (url, app):
            yield Paid(url, app, node, chain, world)


@dataclass
class Paid:
    url: str
    app: App
    node: Node
    chain: LocalChain
    world: Deployed
