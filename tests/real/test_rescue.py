"""A real llama.cpp that cannot parse the answer of its model, and hides it."""

import pytest
from tests.asking import ask, request
from tests.real.test_llamacpp import bridged

from toolbridge.conformance.client_requests import CasePart, CaseTurn

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]

BROKEN = '<tool_call>\n{"name": "get_weather", broken'
"""The beginning of an answer, which the model continues and the engine then cannot parse."""
TOOL = {"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object"}}}


def turns():
    said = CaseTurn("user", (CasePart(text="[[tool]] go"),))
    return (said, CaseTurn("assistant", (CasePart(text=BROKEN),)))


def test_the_engine_fails_without_the_gateway(tiny):
    messages = [{"role": "user", "content": "x"}, {"role": "assistant", "content": BROKEN}]
    status, body = tiny.post("/v1/chat/completions", {"messages": messages, "tools": [TOOL]})
    assert status == 500
    assert "peg-native" in body


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("client", ["anthropic", "openai_chat", "gemini"])
async def test_the_answer_comes_without_the_engines_parser(tiny, stream, client):
    async with bridged(tiny) as url:
        found = await ask(url, client, request(turns=turns()), stream=stream)
    assert (found.status, found.error) == (200, "")
    assert "Hello from the tiny test model." in found.seen.text
    assert "described in" in found.headers["x-toolbridge-warning"]
