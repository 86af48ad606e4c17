"""A chain in this process, and our contracts on it."""

import pytest
from tests.node.deployed import deployed
from tests.node.local_chain import local_chain


@pytest.fixture
async def chain():
    async with local_chain() as found:
        yield found


@pytest.fixture
async def home(chain):
    async with deployed(chain.url) as found:
        yield found
