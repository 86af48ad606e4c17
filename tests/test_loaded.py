"""What `import toolbridge` and `toolbridge serve` load: counted, never timed."""

import asyncio
import json

import pytest
from tests.loaded import imported, served
from tests.peers import model_server
from tests.streams import reply, scripted

OPTIONAL = (
    "toolbridge.conformance",
    "toolbridge.node",
    "toolbridge.runs",
    "toolbridge.sdk",
    "toolbridge.structured",
    "toolbridge.tools",
    "aiohttp",
    "jsonschema_rs",
    "hypothesis",
    "pytest",
)
"""What a gateway needs only for some requests, or never."""
TABLE = ("toolbridge.policy.model_families", "toolbridge.policy.model_table")
"""Loaded by a thread while the server starts listening: there or not, as the machine has time."""
REAL = """
[map]
default = "there/m"
[models."there/m"]
tools = false
[providers.there]
api = "openai_chat"
url = "{url}"
"""


def test_the_library_alone_loads_no_network(tmp_path):
    loaded = imported(tmp_path)
    assert (
        loaded.below(*OPTIONAL, "aiohttp", "asyncio", "socket", "ssl", "sqlite3", "uvicorn") == []
    )
    assert loaded.below("toolbridge.server", "toolbridge.demo", "toolbridge.cli") == []
    assert len(loaded.own) <= 116
    assert len(loaded.modules) <= 240


@pytest.mark.parametrize("config", ["", REAL.format(url="http://127.0.0.1:1")])
def test_a_gateway_that_listens_has_loaded_only_what_every_request_needs(tmp_path, config):
    loaded = served(tmp_path, config)
    assert loaded.collects, "the garbage collector rests during the start only"
    assert "toolbridge.server.app" in loaded.modules
    assert loaded.below(*OPTIONAL, "uvicorn", "websockets") == []
    assert loaded.below("toolbridge.demo") == ["toolbridge.demo", "toolbridge.demo.identity"], (
        "the demo model itself waits"
    )
    assert len(loaded.own) - len(loaded.below(*TABLE)) <= 390
    assert len(loaded.modules) - len(loaded.below(*TABLE)) <= 645


async def test_a_stream_of_a_real_provider_does_not_load_the_demo(tmp_path):
    async with model_server(scripted(reply())) as server:
        config = REAL.format(url=server.url)
        post = json.dumps({"prompt": "x", "tools": ["time.now"]})
        loaded = await asyncio.to_thread(served, tmp_path, config, post)
    assert "toolbridge.runs.run" in loaded.modules
    assert loaded.below("toolbridge.demo") == ["toolbridge.demo", "toolbridge.demo.identity"]
    assert loaded.below("toolbridge.conformance", "toolbridge.node", "toolbridge.sdk") == []
    assert len(loaded.own) <= 465


def test_a_stream_of_the_demo_model_loads_its_tools(tmp_path):
    post = json.dumps({"prompt": "Find pizza.", "tools": ["places.search"]})
    loaded = served(tmp_path, post=post)
    assert "toolbridge.demo.restaurant.places" in loaded.modules
