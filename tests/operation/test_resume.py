"""Kept answers over several processes: attached elsewhere, and continued after `kill -9`."""

import asyncio
import json
import os
import signal
import time
from contextlib import asynccontextmanager

import pytest
from tests.operating import children, config_for, is_gone
from tests.operating import until as until_in_thread
from tests.peers import model_server
from tests.processes import gateway_process
from tests.resuming import APIS, Asker, PacedModel
from tests.waiting import until

from toolbridge.store.presence import LEASE

pytestmark = pytest.mark.operation
KEY = {"idempotency_key": "k-1"}
RESUME = {"x_toolbridge_resume": "60"}


@asynccontextmanager
async def two_gateways(home, *lines: str):
    """Yield a model, and two gateway processes in front of it that share a store."""
    model = PacedModel()
    env = {"XDG_STATE_HOME": str(home / "shared")}
    async with model_server(model) as server:
        config = config_for(server, *lines)
        async with (
            gateway_process(home / "one", config, env=env) as one,
            gateway_process(home / "two", config, env=env) as two,
        ):
            yield model, one, two


def text_of(api: str, body: bytes) -> str:
    """Return the error in the last event of a stream."""
    last = [line for line in body.split(b"\n") if line.strip()][-1]
    data = json.loads(last.partition(b"data:")[2] or last)
    if api == "openai_responses":
        assert data["type"] == "response.failed"
        return data["response"]["error"]["message"]
    return data["error"] if api == "ollama" else data["error"]["message"]


@pytest.mark.parametrize("stream", [True, False])
async def test_a_repeat_attaches_to_an_answer_of_another_process(tmp_path, stream):
    async with two_gateways(tmp_path) as (model, one, two):
        await model.allow(4)
        begun = [Asker(one.url, api, stream=stream, idempotency_key=api) for api in APIS]
        await until(lambda: model.requests == len(APIS))
        again = [Asker(two.url, api, stream=stream, idempotency_key=api) for api in APIS]
        if stream:
            await until(lambda: all(b"word1" in asker.so_far for asker in again))
        await model.allow()
        for first, second in zip(begun, again, strict=True):
            whole, repeat = await first.reply(), await second.reply()
            assert (whole.status, whole.ended, repeat.ended) == (200, "clean", "clean")
            assert repeat.body == whole.body
        assert model.requests == len(APIS)


async def test_after_kill_9_another_process_replays_what_was_stored_and_says_that_it_is_cut(
    tmp_path,
):
    async with two_gateways(tmp_path) as (model, one, two):
        await model.allow(6)
        begun = [Asker(one.url, api, stream=True, **RESUME) for api in APIS]
        await until(lambda: all(b"word4" in asker.so_far for asker in begun))
        ids = [asker.client.reply.headers["x-toolbridge-answer"] for asker in begun]
        # Stored within 0.2 s; another process can read what a killed one has stored.
        for api, id in zip(APIS, ids, strict=True):
            probe = Asker(two.url, api, stream=True, last_event_id=f"{id}:0")
            await until(lambda probe=probe: b"word4" in probe.so_far)
            await probe.leave()
        os.kill(one.pid, signal.SIGKILL)
        await until_in_thread(lambda: is_gone(one.pid))
        for api, id, asker in zip(APIS, ids, begun, strict=True):
            seen = (await asker.reply()).body
            start = time.monotonic()
            found = await Asker(two.url, api, stream=True, last_event_id=f"{id}:0").reply()
            took = time.monotonic() - start
            assert found.body.startswith(seen), api
            assert found.ended == "cut"
            assert "was stopped; the answer is incomplete" in text_of(api, found.body)
            assert took < LEASE / 2, took
        # The key of a dead process is free.
        await model.allow()
        assert (await Asker(two.url, "anthropic", stream=True, **KEY).reply()).ended == "clean"


async def test_a_complete_answer_outlives_its_process(tmp_path):
    async with two_gateways(tmp_path) as (model, one, two):
        await model.allow()
        wanted = {"stream": True, **RESUME}
        whole = {
            api: await Asker(one.url, api, idempotency_key=api, **wanted).reply() for api in APIS
        }
        os.kill(one.pid, signal.SIGKILL)
        await until_in_thread(lambda: is_gone(one.pid))
        for api, first in whole.items():
            again = await Asker(two.url, api, idempotency_key=api, **wanted).reply()
            assert (again.body, again.ended) == (first.body, "clean")
            last = f"{first.headers['x-toolbridge-answer']}:2"
            rest = await Asker(two.url, api, stream=True, last_event_id=last).reply()
            assert first.body.endswith(rest.body)
            assert rest.ended == "clean"
        assert model.requests == len(APIS)


async def test_the_key_of_a_killed_process_is_taken_over_by_one_repeat(tmp_path):
    async with two_gateways(tmp_path) as (model, one, two):
        await model.allow(3)
        first = Asker(one.url, "anthropic", stream=True, **KEY)
        await until(lambda: first.so_far)
        os.kill(one.pid, signal.SIGKILL)
        await first.reply()
        # A dying process closes its connections first; a repeat before its end would attach to it.
        await until_in_thread(lambda: is_gone(one.pid))
        await model.allow()
        repeats = [Asker(two.url, "anthropic", stream=True, **KEY) for _ in range(5)]
        found = {(await asker.reply()).body for asker in repeats}
        assert len(found) == 1
        assert b"answer 2" in found.pop()
        assert model.requests == 2


async def test_workers_share_answers_and_retries_find_them(tmp_path):
    model = PacedModel()
    async with model_server(model) as server:
        config = config_for(server, "workers = 3", "resume_grace = 30")
        async with gateway_process(tmp_path, config) as process:
            await until_in_thread(lambda: len(children(process.pid)) == 3)
            await model.allow(4)
            first = Asker(process.url, "anthropic", stream=True, **KEY)
            await until(lambda: b"word1" in first.so_far)
            repeats = [Asker(process.url, "anthropic", stream=True, **KEY) for _ in range(8)]
            await until(lambda: all(asker.so_far for asker in repeats))
            left = Asker(process.url, "openai_chat", stream=True, x_stainless_retry_count="0")
            await until(lambda: b"word1" in left.so_far)
            await left.leave()
            assert model.requests == 2
            # The process of the answer notes that its client has left.
            found = b""
            for _ in range(50):
                again = Asker(process.url, "openai_chat", stream=True, x_stainless_retry_count="1")
                await until(lambda again=again: b"answer" in again.so_far)
                found = again.so_far
                if b"answer 2" in found:
                    break
                await again.leave()
            assert b"answer 2" in found
            await model.allow()
            whole = await first.reply()
            assert {(await asker.reply()).body for asker in repeats} == {whole.body}
            assert (await again.reply()).ended == "clean"


async def test_a_structured_stream_is_followed_and_outlived_elsewhere(tmp_path):
    async with two_gateways(tmp_path) as (model, one, two):
        model.words = [f"line {n}\n" for n in range(200)]
        await model.allow(100)
        body = json.dumps({"prompt": "hi", "model": "m"}).encode()
        from toolbridge.conformance.http_client import HttpClient

        first = HttpClient(one.url)
        task = asyncio.create_task(
            first.ask("/v1/stream", {"idempotency-key": "s"}, body, limit=60)
        )
        await until(lambda: b"line 60" in first.reply.body)
        run = first.reply.headers["x-toolbridge-run"]
        second = HttpClient(two.url)
        headers = {"last-event-id": f"{run}:1"}
        following = asyncio.create_task(second.ask("/v1/stream", headers, b"{}", limit=60))
        await until(lambda: b"line 60" in second.reply.body)
        start = time.monotonic()
        os.kill(one.pid, signal.SIGKILL)
        await task
        found = await following
        assert found.ended == "clean"
        assert b'"abandoned"' in found.body
        assert time.monotonic() - start < LEASE / 2
