"""Ollama's web search endpoint, by the gateway's search engine."""

import aiohttp
import pytest
from tests.key_users import create
from tests.scripted_chat import chats, says, searching
from tests.server.test_server_tool_offers import searching_by_model

from toolbridge.server import created_keys


async def search(url: str, path: str = "/api/web_search", key: str = "", **body):
    headers = {"authorization": f"Bearer {key}"} if key else {}
    async with (
        aiohttp.ClientSession(headers=headers) as session,
        session.post(url + path, json=body) as answer,
    ):
        return answer.status, await answer.json()


@pytest.mark.parametrize("path", ["/api/web_search", "/api/experimental/web_search"])
async def test_the_engine_of_the_gateway_answers(path):
    async with searching(says("never")) as (url, server, double, _):
        status, found = await search(url, path, query="zürich", max_results=2)
    assert status == 200
    assert len(found["results"]) == 2
    assert set(found["results"][0]) == {"title", "url", "content"}
    assert found["results"][0]["url"] == "https://example.org/a"
    assert [asked.query["q"] for asked in double.asked] == ["zürich"]
    assert chats(server) == []


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ({}, "query"),
        ({"query": ""}, "query"),
        ({"query": "  "}, "the query is empty"),
        ({"query": "x" * 3000}, "at most 2000 characters"),
        ({"query": "x", "max_results": 99}, "max_results"),
    ],
)
async def test_a_wrong_body_is_a_400_that_names_the_place(body, text):
    async with searching(says("never")) as (url, *_):
        status, found = await search(url, **body)
    assert status == 400
    assert text in found["error"]


@pytest.mark.parametrize(("fault", "expected"), [(429, 429), ("broken", 502), ("large", 502)])
async def test_a_failed_search_has_the_status_of_its_cause(fault, expected):
    async with searching(says("never")) as (url, _, double, _app):
        double.faults = [fault, fault]
        status, found = await search(url, query="zürich")
    assert status == expected
    assert "the search failed" in found["error"]


async def test_without_an_engine_the_error_names_the_setting():
    async with searching(says("never"), web_search={"backend": "off"}) as (url, *_):
        status, found = await search(url, query="zürich")
    assert status == 400
    assert "[server_tools.web_search]" in found["error"]


async def test_the_scopes_and_limits_of_a_key_hold(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(created_keys, "_PAUSE", 0.0)
    env = {"XDG_STATE_HOME": str(tmp_path)}
    async with searching_by_model(says("never"), env=env, host="127.0.0.1") as (url, _, finder):
        read_only = await create("reader", "--tools", "Read")
        status, found = await search(url, key=read_only, query="zürich")
        assert (status, "may not use the tool web_search" in found["error"]) == (403, True)
        alice = await create("alice", "--tokens", "100k/day")
        status, _ = await search(url, key=alice, query="zürich")
        assert status == 200
        poor = await create("poor", "--tokens", "1k/day")
        status, found = await search(url, key=poor, query="zürich")
        assert (status, "has reached its limit" in found["error"]) == (429, True)
    assert len(chats(finder)) == 1
