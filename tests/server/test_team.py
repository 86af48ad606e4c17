"""Processes that share a store: each shows the requests of all, over real sockets."""

import asyncio
import os
import socket
from contextlib import asynccontextmanager

import aiohttp
import pytest
from tests.key_users import CountingModel, ask, settings
from tests.peers import gateway, model_server
from tests.server.test_page_data import get, next_rows, watching
from tests.waiting import until

from toolbridge.server import created_keys, request_feed, team

SECRET = "sk-proj-0123aAbBcCdDeEfF"


@pytest.fixture
def state(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(created_keys, "_PAUSE", 0.0)
    monkeypatch.setattr(team, "_TICK", 0.02)
    monkeypatch.setattr(request_feed, "_TEAM", 0.02)
    return tmp_path


@pytest.fixture
def two(state):
    """Two workers of one machine: one state directory, and nothing else in common."""

    @asynccontextmanager
    async def served(**more):
        model = CountingModel()
        env = {"XDG_STATE_HOME": str(state)}
        async with model_server(model) as server:
            config = settings(server.url, workers=2, **more)
            async with (
                gateway(config, env) as (one, first),
                gateway(config, env) as (other, second),
            ):
                yield (one, other), (first, second), model

    return served


def name():
    return f"{socket.gethostname()}:{os.getpid()}"


async def explained(url, id, status=200, **headers):
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"{url}/v1/explain/{id}", headers=headers) as answer,
    ):
        assert answer.status == status, await answer.text()
        return await answer.json()


async def answered(url, **more):
    """Send a request; return its id when the gateway has recorded it."""
    _, _, headers = await ask(url, **more)
    id = headers["request-id"]
    await get(url, f"/v1/requests/{id}")
    return id


async def test_a_request_of_another_process_is_explained_with_its_edits(two):
    async with two(ledger="off") as ((one, other), _, _):
        id = await answered(one, metadata={"user_id": "u"}, top_k=4)
        own, theirs = await explained(one, id), await explained(other, id)
        missing = await explained(other, "req_0000000000000000", 404)
    assert theirs == own
    assert theirs["process"] == name()
    assert "top_k" in {edit["place"] for edit in theirs["edits"]}
    assert all(edit["reason"] for edit in theirs["edits"])
    assert (theirs["tokens"]["input"], theirs["tokens"]["cost_usd"]) == (100, 0.0002)
    assert "there is no request" in missing["error"]["message"]


async def test_a_structured_stream_of_another_process_is_explained_with_its_calls(two):
    async with two(ledger="off") as ((one, other), _, model), aiohttp.ClientSession() as session:
        body = {"prompt": "x", "mode": "sentinel", "max_tokens": 50}
        async with session.post(f"{one}/v1/stream", json=body) as answer:
            await answer.read()
        id = answer.headers["request-id"]
        own, theirs = await explained(one, id), await explained(other, id)
        last = await explained(other, "last")
    assert theirs == own == last
    assert len(theirs["calls"]) == model.requests > 0


async def test_the_last_request_is_the_last_one_of_all_processes(two):
    async with two() as ((one, other), _, _):
        first = await answered(one)
        assert (await explained(other, "last"))["id"] == first
        second = await answered(other)
        assert (await explained(one, "last"))["id"] == second
        assert (await explained(other, "last"))["id"] == second


async def test_a_request_of_another_process_opens_with_both_bodies(two):
    async with two() as ((one, other), _, _):
        id = await answered(one, messages=[{"role": "user", "content": f"hello {SECRET}"}])
        own, theirs = [await get(url, f"/v1/requests/{id}") for url in (one, other)]
    assert theirs == own
    assert theirs["request"]["process"] == name()
    assert "hello" in str(theirs["came"])
    assert "hello" in str(theirs["sent"])
    assert theirs["answer"]["content"] == [{"type": "text", "text": "Yes."}]
    assert theirs["explanation"]["id"] == id
    assert SECRET not in str(theirs)


async def test_contents_are_not_given_to_another_owner(two):
    async with two() as ((one, _), (_, second), _):
        id = await answered(one)
        (found,) = await second.team.ask(id, "another", bodies=True)
    assert found.row.id == id
    assert found.contents == {}
    assert "belong to the key" in found.why


async def test_running_requests_of_other_processes_are_listed_and_watched(two):
    async with two() as ((one, other), _, model):
        model.gate.clear()
        async with watching(other) as events:
            task = asyncio.create_task(ask(one, stream=True))
            await until(lambda: model.running == 1)
            (row,) = await next_rows(events, lambda rows: rows[0]["model"] == "big")
            assert (row["running"], row["process"]) == (True, name())
            listed = await get(other, "/v1/requests")
            assert [(r["id"], r["process"]) for r in listed["running"]] == [(row["id"], name())]
            async with (
                aiohttp.ClientSession() as session,
                session.get(f"{other}/v1/requests/{row['id']}") as answer,
            ):
                found = await answer.json()
            assert found["request"]["running"]
            assert "running" in found["why"]
            model.gate.set()
            assert (await task)[0] == 200
            ended = await next_rows(events, lambda rows: not rows[0]["running"])
            assert [(r["id"], r["output"], r["process"]) for r in ended] == [
                (row["id"], 10, name())
            ]
            listed = await get(other, "/v1/requests")
            assert [(r["id"], r["process"]) for r in listed["requests"]] == [(row["id"], name())]


async def test_a_process_that_has_ended_is_no_member(two):
    async def others():
        """Leave out processes that another test has killed: the store has them for some seconds."""
        return [member for member in await second.team._others() if member.name == name()]

    async with two() as (_, (first, second), _):
        assert len(await others()) == 1
        await first.team.close()
        assert await others() == []
