"""A small model whose template has no tools, through the gateway as it is configured by default.

SmolLM2-135M is the smallest chat model that a registry has. Its engine ignores tools without an
error, so what these tests measure is the work of the gateway.
"""

import time

import pytest
from tests.asking import ask, request
from tests.peers import gateway
from tests.real import llamacpp
from tests.real.clients import HOME

from toolbridge.config import Config, ProviderConfig
from toolbridge.conformance.client_requests import CaseTool
from toolbridge.core.errors import ToolbridgeError
from toolbridge.upstream import weights

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]

TEXT = {"type": "string"}


def tool(name: str, does: str, *required: str) -> CaseTool:
    schema = {
        "type": "object",
        "properties": dict.fromkeys(required, TEXT),
        "required": [*required],
    }
    return CaseTool(name, does, schema)


TOOLS = (
    tool("get_weather", "Returns the weather in a city.", "city"),
    tool("calculate", "Computes the value of an arithmetic expression.", "expression"),
    tool("send_email", "Sends an email.", "to", "text"),
    tool("search_web", "Searches the web.", "query"),
)
ASKED = {
    "What is the weather in Paris?": "get_weather",
    "Is it raining in Tokyo right now?": "get_weather",
    "What is 17 * 23?": "calculate",
    "Compute (4 + 5) / 3.": "calculate",
    "Send an email to bob@example.com that says hello.": "send_email",
    "Write an email to anna@example.com and thank her.": "send_email",
    "Search the web for the tallest building in the world.": "search_web",
    "Find news about electric cars on the web.": "search_web",
}
SMALL_TALK = (
    "Hello!", "How are you today?", "Tell me a joke.", "Thank you very much.", "What is your name?",
    "Good night!", "Who wrote Romeo and Juliet?", "I like cats. Do you?",
)  # fmt: skip


@pytest.fixture(scope="module")
def smollm2():
    """Return a llama.cpp server with SmolLM2; skip where the model cannot be installed."""
    folder = HOME / "state" / "toolbridge" / "models"
    try:
        model = weights.kept(folder) or weights.fetch(folder)
    except ToolbridgeError as error:
        pytest.skip(f"SmolLM2 cannot be installed: {error}")
    with llamacpp.engine(
        "--ctx", "8192", "--parallel", "1", "--threads", "1", model=model
    ) as engine:
        yield engine


@pytest.fixture
async def url(smollm2):
    there = ProviderConfig(api="openai_chat", url=f"{smollm2.url}/v1")
    config = Config(log="off", map={"default": "there/small"}, providers={"there": there})
    async with gateway(config) as (found, _):
        yield found


def fits(call: tuple[str, dict | None]) -> bool:
    """Return whether a call has every argument of its tool and no other, all of them texts."""
    name, arguments = call
    required = next((tool.schema["required"] for tool in TOOLS if tool.name == name), None)
    return arguments is not None and sorted(arguments) == sorted(required or ())


async def test_calls_that_must_be_made_are_valid_and_mostly_right(url):
    valid = right = 0
    began = time.monotonic()
    for text, name in ASKED.items():
        asked = request(text, tools=TOOLS, choice="required", max_tokens=120)
        found = await ask(url, "anthropic", asked, stream=True)
        assert found.seen.text == ""
        valid += bool(found.calls) and all(map(fits, found.calls))
        right += [called for called, _ in found.calls] == [name]
    print(f"SmolLM2: {valid}/8 valid, {right}/8 right, {time.monotonic() - began:.0f} s")
    assert valid >= 7
    assert right >= 6


async def test_a_named_tool_is_called(url):
    asked = request("It rains.", tools=TOOLS, choice="send_email", max_tokens=120)
    found = await ask(url, "openai_chat", asked, stream=False)
    assert [name for name, _ in found.calls] == ["send_email"]


async def test_small_talk_stays_text(url):
    false_calls = 0
    for text in SMALL_TALK:
        asked = request(text, tools=TOOLS, max_tokens=64)
        found = await ask(url, "openai_chat", asked, stream=True, temperature=0)
        # An answer without text is a call that the token limit has cut off.
        false_calls += bool(found.calls) or not found.seen.text
    print(f"SmolLM2: {false_calls}/8 false calls")
    assert false_calls <= 1
