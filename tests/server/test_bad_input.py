"""Bad input gets a clear error in Anthropic's envelope that names the place; the server goes on."""

import asyncio
import io
import json

import aiohttp
import pytest
from tests.peers import bridged, gateway, recorded
from tests.waiting import until

GOOD = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}


async def post(url: str, body: bytes | dict, path: str = "/v1/messages", **headers: str):
    data = io.BytesIO(json.dumps(body).encode() if isinstance(body, dict) else body)
    async with (
        aiohttp.ClientSession() as session,
        session.post(url + path, data=data, headers=headers) as answer,
    ):
        return answer.status, json.loads(await answer.read()), answer.headers


def without(name: str) -> dict:
    return {key: value for key, value in GOOD.items() if key != name}


BAD = {
    "not JSON": (b"{", 400, "not valid JSON"),
    "nothing": (b"", 400, "not valid JSON"),
    "a list": (b"[]", 400, "object"),
    "no messages": (without("messages"), 400, "messages"),
    "empty messages": (GOOD | {"messages": []}, 400, "messages"),
    "messages of a wrong type": (GOOD | {"messages": "hi"}, 400, "messages"),
    "a message of a wrong type": (GOOD | {"messages": [1]}, 400, "messages.0"),
    "a role of a wrong type": (GOOD | {"messages": [{"role": 1, "content": "x"}]}, 400, "messages.0.role"),
    "an unknown role": (GOOD | {"messages": [{"role": "x", "content": "x"}]}, 400, "messages.0.role"),
    "a text of a wrong type": (
        GOOD | {"messages": [{"role": "user", "content": [{"type": "text", "text": 1}]}]},
        400, "messages.0.content.0.text",
    ),
    "no max_tokens": (without("max_tokens"), 400, "max_tokens"),
    "max_tokens 0": (GOOD | {"max_tokens": 0}, 400, "max_tokens"),
    "max_tokens below 0": (GOOD | {"max_tokens": -1}, 400, "max_tokens"),
    "max_tokens as text": (GOOD | {"max_tokens": "many"}, 400, "max_tokens"),
    "no model": (without("model"), 400, "model"),
    "a tool of a wrong type": (GOOD | {"tools": [1]}, 400, "tools.0"),
    "depth 10,000": (
        b'{"model":"m","max_tokens":9,"messages":[{"role":"user","content":' + b"[" * 10_000
        + b"]" * 10_000 + b"}]}", 400, "nested too deeply",
    ),
    "a lone surrogate": (
        b'{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"\\ud800"}]}',
        400, "surrogate",
    ),
    "broken UTF-8": (
        b'{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"\xff"}]}', 400, "utf-8",
    ),
    "20 MB of words": (GOOD | {"messages": [{"role": "user", "content": "word " * 4_000_000}]},
                       400, "prompt is too long"),
    "40 MB": (b"x" * 40_000_000, 413, "limit"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
@pytest.mark.req("CB-05", "CB-21", "PX-48", "CB-11")
async def test_bad_input_is_answered_with_the_place_of_the_fault(case):
    body, status, words = BAD[case]
    async with gateway() as (url, _):
        found, error, headers = await post(url, body)
        assert (found, error["type"]) == (status, "error")
        assert words in error["error"]["message"]
        assert error["request_id"] == headers["request-id"]
        kinds = {400: "invalid_request_error", 413: "request_too_large"}
        assert error["error"]["type"] == kinds[status]
        again, _, _ = await post(url, GOOD)
        assert again == 200


@pytest.mark.req("CB-24")
async def test_unknown_paths_and_wrong_methods_are_json():
    async with gateway() as (url, _), aiohttp.ClientSession() as session:
        async with session.get(url + "/nope") as answer:
            assert answer.status == 404
            assert (await answer.json())["error"]["type"] == "not_found_error"
        async with session.get(url + "/v1/messages") as answer:
            assert answer.status == 405
            assert (await answer.json())["type"] == "error"


async def test_a_model_that_ollama_does_not_have_is_not_found():
    async with bridged(recorded("ollama/jinja/chat_stream.txt")) as (url, *_):
        status, error, _ = await post(url, GOOD | {"model": "ollama/nope"})
    assert status == 404
    assert error["error"]["type"] == "not_found_error"
    assert "nope" in error["error"]["message"]


async def test_a_hundred_bad_requests_at_once_leave_the_server_well():
    async with gateway() as (url, app):
        bodies = [BAD[case][0] for case in BAD if "MB" not in case] * 6
        found = await asyncio.gather(*(post(url, body) for body in bodies))
        assert {status for status, *_ in found} <= {400, 413}
        assert (await post(url, GOOD))[0] == 200
        await until(lambda: not app.in_flight)
