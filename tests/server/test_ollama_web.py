"""Ollama's endpoints for web search and page fetch, by the gateway's engine and page reader."""

import aiohttp
import pytest
from tests.key_users import create
from tests.scripted_chat import chats, says, searching
from tests.server.test_server_tool_kinds import fetching
from tests.server.test_server_tool_offers import searching_by_model

from toolbridge.server import created_keys
from toolbridge.server_tool_settings import WebFetchSettings


async def search(gateway: str, path: str = "/api/web_search", key: str = "", **body):
    headers = {"authorization": f"Bearer {key}"} if key else {}
    async with (
        aiohttp.ClientSession(headers=headers) as session,
        session.post(gateway + path, json=body) as answer,
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
        assert (status, "more than the whole limit" in found["error"]) == (429, True)
    assert len(chats(finder)) == 1


# ── pages ────────────────────────────────────────────────────────────────────

PAGE = (
    "<html><head><title>Eels &amp; more</title></head><body><article><p>They swim to "
    '<a href="/sargasso">the sea</a>, <a href="https://example.org/x">far away</a> and '
    '<a href="/sargasso">back</a>.</p></article></body></html>'
)


@pytest.mark.parametrize("path", ["/api/web_fetch", "/api/experimental/web_fetch"])
async def test_a_page_has_its_title_its_text_and_its_links_once(path):
    async with fetching(PAGE, says("never")) as (url, server, pages):
        status, found = await search(url, path, url=f"{pages.url}/eels")
    assert status == 200
    assert set(found) == {"title", "content", "links"}
    assert found["title"] == "Eels & more"
    assert "They swim to" in found["content"]
    assert found["links"] == [f"{pages.url}/sargasso", "https://example.org/x"]
    assert chats(server) == []


@pytest.mark.parametrize(
    ("body", "status", "text"),
    [
        ({}, 400, "url"),
        ({"url": ""}, 400, "url"),
        ({"url": 7}, 400, "url"),
        ({"url": "ftp://files.example/page"}, 400, "the fetch failed"),
        ({"url": "http://127.0.0.1:1/"}, 403, "the fetch failed"),
        ({"url": "http://169.254.169.254/latest/meta-data"}, 403, "the fetch failed"),
    ],
)
async def test_an_address_that_cannot_be_fetched_has_the_status_of_its_cause(body, status, text):
    async with searching(says("never")) as (url, *_):
        got, found = await search(url, "/api/web_fetch", **body)
    assert got == status
    assert text in found["error"]


async def test_pages_that_are_switched_off_are_an_error_with_the_setting():
    off = {"web_fetch": WebFetchSettings(enabled=False)}
    async with searching(says("never"), server_tools=off) as (url, *_):
        status, found = await search(url, "/api/web_fetch", url="https://example.org/")
    assert (status, "[server_tools.web_fetch]" in found["error"]) == (400, True)


async def test_a_key_without_the_tool_may_not_fetch(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(created_keys, "_PAUSE", 0.0)
    env = {"XDG_STATE_HOME": str(tmp_path)}
    async with searching_by_model(says("never"), env=env, host="127.0.0.1") as (url, *_):
        read_only = await create("reader", "--tools", "Read")
        status, found = await search(url, "/api/web_fetch", key=read_only, url="https://a.example/")
    assert (status, "may not use the tool web_fetch" in found["error"]) == (403, True)
