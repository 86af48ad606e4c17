"""Gemini CLI's web_fetch: the pages are read first, and the model answers about them."""

import aiohttp
import pytest
from tests.scripted_chat import chats, says, searching
from tests.server.test_server_tool_kinds import PAGE, fetching, site

AGENT = "GeminiCLI-tui/0.61.0/m (linux; x64; terminal)"
ANSWER = says("Eels swim.", prompt=30, output=7)


def prompt(*urls: str) -> str:
    listed = "\n".join(urls)
    return (
        "Follow the user's instructions to process the authorized URLs.\n\n<user_instructions>\n"
        f"What do eels do? http://other.example/\n</user_instructions>\n\n<authorized_urls>\n"
        f"{listed}\n</authorized_urls>\n"
    )


async def fetch(url: str, text: str, agent: str = AGENT) -> dict:
    asked = {
        "contents": [{"role": "user", "parts": [{"text": text}]}],
        "tools": [{"urlContext": {}}],
        "generationConfig": {"temperature": 0, "topP": 1},
    }
    path = "/v1beta/models/gemini-3-flash-preview:generateContent"
    async with (
        aiohttp.ClientSession(headers={"user-agent": agent}) as session,
        session.post(url + path, json=asked) as answer,
    ):
        assert answer.status == 200, await answer.text()
        return (await answer.json())["candidates"][0]


def records(candidate: dict) -> list[tuple[str, str]]:
    found = candidate["urlContextMetadata"]["urlMetadata"]
    return [(one["retrievedUrl"], one["urlRetrievalStatus"].rsplit("_", 1)[1]) for one in found]


async def test_the_pages_are_fetched_before_the_model_is_asked():
    async with fetching(PAGE, ANSWER) as (url, server, pages):
        refused = "http://10.0.0.1/secret"
        candidate = await fetch(url, prompt(f"{pages.url}/eels", refused, f"{pages.url}/eels"))
    assert candidate["content"]["parts"] == [{"text": "Eels swim."}]
    assert records(candidate) == [(f"{pages.url}/eels", "SUCCESS"), (refused, "UNSAFE")]
    assert [heard.path for heard in pages.heard] == ["/eels"]
    (asked,) = chats(server)
    assert "tools" not in asked
    read, denied = [m["content"] for m in asked["messages"] if m["role"] == "tool"]
    assert "They swim." in read
    assert "url_not_allowed" in denied


async def test_without_a_page_the_answer_is_empty_and_the_model_is_not_asked():
    async with site(PAGE) as pages, searching(ANSWER) as (url, server, *_):
        candidate = await fetch(url, prompt(pages.url))  # a private address
    assert candidate["content"]["parts"] == [{"text": ""}]
    assert candidate["finishReason"] == "STOP"
    assert records(candidate) == [(pages.url, "UNSAFE")]
    assert chats(server) == []
    assert pages.heard == []


@pytest.mark.parametrize("agent", [AGENT, "my-program/1.0"])
async def test_only_an_agent_s_request_is_fetched_without_a_call(agent):
    async with fetching(PAGE, ANSWER) as (url, server, pages):
        await fetch(url, f"What is at {pages.url}/eels ?", agent)
    assert ("tools" in chats(server)[0]) is (agent != AGENT)
    assert len(pages.heard) == (agent == AGENT)
