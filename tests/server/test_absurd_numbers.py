"""Counts and limits that no model can have: of providers in answers, of clients in requests."""

import contextlib
import sqlite3

import aiohttp
import pytest
from tests.key_users import ask, create, key, team

from toolbridge.server import created_keys

HUGE = 10**30
TURN = {"messages": [{"role": "user", "content": "hi"}]}
REQUESTS = {
    "/v1/messages": (TURN, "max_tokens"),
    "/v1/chat/completions": (TURN, "max_tokens"),
    "/v1/chat/completions#2": (TURN, "max_completion_tokens"),
    "/v1/completions": ({"prompt": "hi"}, "max_tokens"),
    "/v1/responses": ({"input": "hi"}, "max_output_tokens"),
    "/v1beta/models/any:generateContent": (
        {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]},
        "generationConfig.maxOutputTokens",
    ),
    "/api/chat": (TURN | {"stream": False}, "options.num_predict"),
    "/api/generate": ({"prompt": "hi", "stream": False}, "options.num_predict"),
}


@pytest.fixture
def state(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(created_keys, "_PAUSE", 0.0)
    return tmp_path


async def post(url: str, body: dict, key: str) -> tuple[int, str, str]:
    """Return status, body and warning."""
    headers = {"x-api-key": key, "x-goog-api-key": key, "authorization": f"Bearer {key}"}
    async with (
        aiohttp.ClientSession() as session,
        session.post(url, json=body, headers=headers) as got,
    ):
        return got.status, await got.text(), got.headers.get("x-toolbridge-warning", "")


def with_limit(path: str, limit: float) -> dict:
    body, field = REQUESTS[path]
    for name in reversed(field.split(".")):
        limit = {name: limit}
    return {"model": "any", **body, **limit}


@pytest.mark.parametrize("path", REQUESTS)
@pytest.mark.parametrize("kind", ["--requests", "--dollars"])
async def test_a_limit_that_no_integer_holds_is_named(state, path, kind):
    async with team(state) as (url, model):
        alice = await create("alice", kind, "100/day")
        where = url + path.split("#")[0]
        status, text, _ = await post(where, with_limit(path, HUGE), alice)
        assert (status, model.requests) == (400, 0)
        assert REQUESTS[path][1] in text
        # The largest integer is what some clients send for "no limit".
        status, text, _ = await post(where, with_limit(path, 2**63 - 1), alice)
        # More than the whole limit: a Responses client would repeat any status but 400.
        refused = 400 if path == "/v1/responses" else 429
        assert status == (200 if kind == "--requests" else refused), text


async def test_a_float_as_limit_of_ollama_is_bounded_too(state):
    async with team(state) as (url, _):
        alice = await create("alice", "--tokens", "100/day")
        for given, status in ((1e300, 400), (1e18, 429), (2.0, 200)):
            assert (await post(f"{url}/api/chat", with_limit("/api/chat", given), alice))[
                0
            ] == status


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("count", [2**63, 2**62, HUGE, -5])
async def test_a_count_of_a_provider_that_cannot_be_right_is_as_if_it_was_missing(
    state, stream, count
):
    async with team(state) as (url, model):
        alice = await create("alice", "--tokens", "1M/day")
        model.reported = {"completion_tokens": count, "cost": 1e300}
        status, _, headers = await ask(url, alice, stream=stream)
        assert status == 200
        if not stream and count > 0:
            assert "usage" in headers["x-toolbridge-warning"]
        model.reported = {}
        assert (await ask(url, alice))[0] == 200
        shown = await key("show", "alice")
        async with aiohttp.ClientSession() as session, session.get(f"{url}/health") as got:
            assert got.status == 200
    assert "used      211 tokens of" in shown, "101 and 110; nothing is reserved"
    file = state / "toolbridge" / "ledger.sqlite"
    with contextlib.closing(sqlite3.connect(file)) as ledger:
        found = ledger.execute("select output, estimated from requests order by at").fetchall()
    assert found == [(1, 1), (10, 0)], "the estimate of 4 characters, and a count"
