"""Slots of the real llama.cpp: the prompt of a conversation stays cached beside side requests."""

import aiohttp
import pytest
from tests.peers import gateway
from tests.real.llamacpp import engine

from toolbridge import providers
from toolbridge.config import Config, ProviderConfig

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]

CLAUDE = {"user-agent": "claude-cli/2.1.325 (external, cli)", "x-claude-code-session-id": "s-1"}
BASH = {"name": "Bash", "description": "Run a command.", "input_schema": {"type": "object"}}


@pytest.fixture(scope="module")
def llama():
    """Return a server of two slots without a cache of prompts outside of them."""
    with engine("--parallel", "2", "--cache-ram", "0") as server:
        yield server


def conversation(name: str, turns: int) -> dict:
    said = []
    for turn in range(turns):
        said += [{"role": "user", "content": f"{name} asks {turn}"}]
        said += [{"role": "assistant", "content": f"{name} answers {turn}"}]
    system = f"You are {name}. " + f"{name} follows rule {name}. " * 60
    return {
        "model": "tiny",
        "max_tokens": 8,
        "system": system,
        "messages": said[:-1],
        "tools": [BASH | {"name": f"{name}Bash"}],
    }


TITLE = {
    "model": "tiny",
    "max_tokens": 8,
    "system": [{"type": "text", "text": "You are naming a coding session. " + "Be short. " * 80}],
    "messages": [{"role": "user", "content": "<session>main</session>"}],
}


async def cached(llama, *, pin: bool) -> float:
    """Return the share of the second turn's prompt that was cached, side requests in between."""
    quirks = providers.load("llamacpp").quirks
    there = ProviderConfig(api="openai_chat", url=f"{llama.url}/v1", quirks=quirks, pin_slots=pin)
    config = Config(log="off", map={"default": "there/tiny"}, providers={"there": there})
    main = "Pinned" if pin else "Free"
    async with gateway(config) as (url, _), aiohttp.ClientSession() as session:

        async def ask(body: dict, **headers: str) -> dict:
            more = {name.replace("_", "-"): value for name, value in headers.items()}
            async with session.post(
                f"{url}/v1/messages", json=body, headers=CLAUDE | more
            ) as reply:
                assert reply.status == 200, await reply.text()
                return (await reply.json())["usage"]

        await ask(conversation(main, 1))
        await ask(TITLE)
        for agent in ("Anna", "Berta", "Cilly"):
            await ask(conversation(f"{agent}{main}", 1), x_claude_code_agent_id=agent)
        usage = await ask(conversation(main, 2))
    read = usage.get("cache_read_input_tokens", 0)
    return read / (read + usage["input_tokens"])


async def test_a_conversation_keeps_its_prompt_beside_side_requests(llama):
    free, pinned = await cached(llama, pin=False), await cached(llama, pin=True)
    print(f"cached of the second turn: {free:.1%} without slots, {pinned:.1%} with slots")
    assert pinned > 0.9
    assert free < 0.5
