"""Random stories about money: a sample of those that `make node-stories` plays."""

import os

import pytest
from tests.node.random_stories import play_all

STORIES = int(os.environ.get("NODE_STORIES", "12"))
FIRST = int(os.environ.get("NODE_STORIES_FIRST", "0"))
_EACH = 4


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr("toolbridge.node.funding.resolving.LAG", 0.05)
    # No story cuts the power, so the disk need not be waited for.
    monkeypatch.setattr("toolbridge.node.funding.ledger_file.SYNCHRONOUS", "off")


@pytest.mark.parametrize("first", range(FIRST, FIRST + STORIES, _EACH))
async def test_every_coin_is_accounted_for(chain, tmp_path, first):
    await play_all(chain.url, range(first, first + _EACH), tmp_path)
