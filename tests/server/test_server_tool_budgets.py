"""Keys pay for every request to a model that server tools cause, and for none beyond their limits."""

import json

import aiohttp
import anthropic
import pytest
from tests.key_users import create, key
from tests.scripted_chat import call, chats, says, searching
from tests.server.test_ledger import rows
from tests.server.test_server_tool_kinds import FETCH, body, fetching
from tests.server.test_server_tool_loop import BODY, FOUND, SEARCH, SIDE
from tests.server.test_server_tool_offers import searching_by_model

from toolbridge.server import created_keys

ANSWER = says("In Switzerland.", prompt=30, output=7)
SMALL = BODY | {"max_tokens": 50}


@pytest.fixture
def env(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(created_keys, "_PAUSE", 0.0)
    return {"XDG_STATE_HOME": str(tmp_path)}


async def used(name: str) -> str:
    return "\n".join(line for line in (await key("show", name)).split("\n") if "used" in line)


async def streamed(url: str, alice: str, asked: dict) -> list[dict]:
    """Return the events of an answer that ends with an error."""
    async with (
        aiohttp.ClientSession(headers={"x-api-key": alice}) as session,
        session.post(f"{url}/v1/messages", json=asked | {"stream": True}) as answer,
    ):
        pieces = []
        try:
            async for piece in answer.content.iter_any():
                pieces.append(piece)
        except aiohttp.ClientPayloadError:
            pieces.append(b"")  # after an error the connection is closed
    lines = b"".join(pieces).decode().splitlines()
    return [json.loads(line[6:]) for line in lines if line.startswith("data: ")]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_no_tool_runs_for_a_key_that_has_nothing_left(env, tmp_path, stream):
    dear = says("I will look. ", call("web_search", query="zürich"), prompt=5000, output=5)
    async with searching(dear, ANSWER, env=env, host="127.0.0.1") as (url, server, double, _):
        alice = await create("alice", "--tokens", "3k/day")
        if stream:
            events = await streamed(url, alice, SMALL)
            blocks = [e["content_block"] for e in events if e["type"] == "content_block_start"]
            assert [one["type"] for one in blocks] == [
                "text", "server_tool_use", "web_search_tool_result",
            ]  # fmt: skip
            assert blocks[2]["content"]["error_code"] == "too_many_requests"
            assert events[-1]["type"] == "error"
            error = events[-1]["error"]
            assert error["type"] == "rate_limit_error"
            text = error["message"]
        else:
            async with anthropic.AsyncAnthropic(
                base_url=url, api_key=alice, max_retries=0
            ) as client:
                with pytest.raises(anthropic.RateLimitError) as raised:
                    await client.messages.create(**SMALL)
            text = str(raised.value)
        assert "has reached its limit of 3,000 tokens per day" in text
        assert double.asked == []
        assert len(chats(server)) == 1
        assert "5,005" in (shown := await used("alice"))
        assert "reserved" not in shown
    (row,) = rows(tmp_path)
    assert (row["input"], row["output"]) == (5000, 5)


async def test_results_that_the_key_cannot_pay_for_end_the_answer(env):
    page = f"<html><body><article>{'They swim upstream. ' * 3000}</article></body></html>"
    passes = says(call("web_fetch", url="{url}/eels")), ANSWER
    async with fetching(page, *passes, env=env, host="127.0.0.1") as (url, server, pages):
        alice = await create("alice", "--tokens", "5k/day")
        asked = body(FETCH, text=f"Read {pages.url}/eels") | {"max_tokens": 50}
        events = await streamed(url, alice, asked)
        shown = await used("alice")
    assert events[-1]["type"] == "error"
    assert "this request may use" in events[-1]["error"]["message"]
    assert len(pages.heard) == 1
    assert len(chats(server)) == 1
    assert "15 " in shown
    assert "reserved" not in shown


async def test_each_pass_is_settled_when_it_has_ended(env, tmp_path):
    passes = [says(call("web_search", f"c{i}", query=f"q{i}"), prompt=1000) for i in range(3)]
    async with searching(*passes, ANSWER, env=env, host="127.0.0.1") as (url, server, *_):
        # Four prompts of 1000 and less; never 4 x 50 tokens of output at the same time.
        alice = await create("alice", "--tokens", "4k/day", "--concurrency", "1")
        async with anthropic.AsyncAnthropic(base_url=url, api_key=alice, max_retries=0) as client:
            message = await client.messages.create(**SMALL)
        assert message.content[-1].text == "In Switzerland."
        assert len(chats(server)) == 4
        assert f"{3 * 1005 + 37:,}" in (shown := await used("alice"))
        assert "reserved" not in shown
    (row,) = rows(tmp_path)
    assert (row["input"], row["output"]) == (3030, 22)


async def test_a_pass_that_fails_is_not_charged_but_those_before_it_are(env, tmp_path):
    async with searching(FOUND, 500, env=env, host="127.0.0.1") as (url, *_):
        alice = await create("alice", "--tokens", "10k/day")
        async with anthropic.AsyncAnthropic(base_url=url, api_key=alice, max_retries=0) as client:
            with pytest.raises(anthropic.InternalServerError):
                await client.messages.create(**SMALL)
        assert "15 " in await used("alice")
    (row,) = rows(tmp_path)
    assert (row["input"], row["output"]) == (10, 5)


@pytest.mark.parametrize("direct", [False, True], ids=["in the loop", "by an agent"])
async def test_a_search_by_a_model_is_charged_to_the_key(env, tmp_path, direct):
    passes = says(call("web_search", query="zürich")), ANSWER
    asked = SIDE if direct else BODY | {"tools": [SEARCH]}
    async with searching_by_model(*passes, env=env, host="127.0.0.1") as (url, *_):
        alice = await create("alice", "--tokens", "100k/day", "--requests", "1/day")
        async with anthropic.AsyncAnthropic(base_url=url, api_key=alice, max_retries=0) as client:
            message = await client.messages.create(**asked)
        shown = await used("alice")
    assert message.usage.server_tool_use.web_search_requests == 1
    assert "reserved" not in shown
    found = {row["api"]: (row["input"], row["output"], row["key"]) for row in rows(tmp_path)}
    assert found["web_search"] == (500, 6, "alice")
    assert found["anthropic"] == ((0, 0, "alice") if direct else (40, 12, "alice"))
    assert ("506" if direct else "558") in shown


async def test_a_search_beyond_the_budget_is_an_error_that_the_model_reads(env):
    passes = says(call("web_search", query="zürich")), ANSWER
    async with searching_by_model(*passes, env=env, host="127.0.0.1") as (url, model, finder):
        alice = await create("alice", "--tokens", "1k/day")
        asked = SMALL | {"tools": [SEARCH]}
        async with anthropic.AsyncAnthropic(base_url=url, api_key=alice, max_retries=0) as client:
            message = await client.messages.create(**asked)
    # The search could use 8000 tokens of output.
    assert message.content[1].content.error_code == "too_many_requests"
    assert message.content[-1].text == "In Switzerland."
    assert chats(finder) == []
    assert len(chats(model)) == 2
