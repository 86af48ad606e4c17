"""Embeddings through the library."""

import pytest
from tests.peers import model_server
from tests.server.test_embeddings import VECTORS, there, upstream

import toolbridge


def test_the_demo_model_embeds_without_configuration():
    with toolbridge.Client(env={}) as client:
        found = client.embed("demo/toolbridge-demo", ["one", "two"], dimensions=8)
    assert [len(vector) for vector in found.vectors] == [8, 8]
    assert found.tokens == 2


async def test_any_provider_embeds():
    async with model_server(upstream) as server:
        client = toolbridge.AsyncClient(there(server.url, "gemini"), env={})
        async with client:
            found = await client.embed("there/m", "one")
    assert [list(vector) for vector in found.vectors] == VECTORS[:1]
    with pytest.raises(RuntimeError, match="closed"):
        await client.embed("there/m", "one")
