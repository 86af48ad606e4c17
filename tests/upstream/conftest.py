"""The tests of HTTP connections run on both event loops: their transports differ.

`toolbridge serve` prefers uvloop; without it, and in the library, asyncio's own loop serves.
"""

import asyncio

import uvloop


def pytest_asyncio_loop_factories(config, item):
    both = item.path.name.startswith("test_http_")
    uv = {"uvloop": uvloop.new_event_loop} if both else {}
    return {"asyncio": asyncio.new_event_loop, **uv}
