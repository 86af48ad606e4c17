"""Structured streams over a WebSocket: the same events, and what a client says back."""

import asyncio
import io
import json

import pytest
import websockets
from tests.raw_http import exchange, only
from tests.server.test_stream import LAMP, PIZZA, SEARCH, codes, names, number, one, silent
from tests.streams import Said, ask, call, chunk, reply, scripted, streaming, thing

from toolbridge.config import HttpConfig
from toolbridge.server.request_log import RequestLog


def at(url: str, query: str = "") -> str:
    return f"{url.replace('http', 'ws')}/v1/stream/ws{query}"


async def listen(line) -> list[Said]:
    return [told(message) async for message in line]


def told(message: str) -> Said:
    found = json.loads(message)
    return Said(found["event"], found["data"], found.get("id", ""))


@pytest.mark.req("TF-69")
async def test_the_events_are_those_of_the_other_transport():
    text = f"Hm. {thing('O1', 'Action', SEARCH)}{reply()}"
    async with streaming(scripted(text, text)) as (url, _, _):
        async with websockets.connect(at(url)) as line:
            await line.send(json.dumps({"type": "start", **PIZZA}))
            over_line = await listen(line)
        over_sse = await ask(url, PIZZA)
    assert [(e.name, e.data) for e in over_line] == [(e.name, e.data) for e in over_sse]
    assert [number(event) for event in over_line] == list(range(1, len(over_line) + 1))


async def test_a_tool_is_answered_on_the_same_line():
    answers = (call("T1", "lamp.set", {"on": True}), reply())
    seen: list[Said] = []
    async with streaming(scripted(*answers)) as (url, _, _), websockets.connect(at(url)) as line:
        await line.send(json.dumps({"type": "start", "prompt": "x", "tools": [LAMP]}))
        async for message in line:
            seen.append(told(message))
            if seen[-1].name == "tool.call":
                await line.send(json.dumps({"type": "tool.result", "id": "T1", "result": "lit"}))
    assert one(seen, "tool.result")["result"] == "lit"


async def test_an_abort_ends_the_stream():
    async with streaming(silent) as (url, _, _), websockets.connect(at(url)) as line:
        await line.send(json.dumps({"type": "start", "prompt": "x"}))
        await line.recv()
        await line.send(json.dumps({"type": "abort"}))
        rest = await listen(line)
    assert codes(rest) == ["aborted"]
    assert rest[-1].name == "done"


@pytest.mark.req("TF-33", "TF-34")
async def test_a_pause_stops_the_model_and_a_resume_lets_it_go_on():
    written = 0

    async def endless(_, line) -> None:
        nonlocal written
        await line.head(kind="text/event-stream")
        while written < 3000:
            await line.send(chunk({"content": f"{written} "}))
            written += 1
        await line.send(chunk({"content": reply()}) + chunk({}, "stop"))
        await line.end()

    async with streaming(endless) as (url, _, app), websockets.connect(at(url)) as line:
        await line.send(json.dumps({"type": "start", "prompt": "x"}))
        first = told(await line.recv())
        await line.send(json.dumps({"type": "pause"}))
        run = app.service.streams._live[first.id.partition(":")[0]].run
        before = -1
        while before != run.log.last:  # until nothing more is written
            before = run.log.last
            await asyncio.sleep(0.1)
        assert before < 3000
        await line.send(json.dumps({"type": "resume"}))
        rest = await listen(line)
    assert [number(event) for event in rest] == list(range(2, len(rest) + 2))
    text = "".join(e.data["text"] for e in [first, *rest] if e.name == "text.delta")
    assert text == "".join(f"{n} " for n in range(3000))


async def test_a_line_that_breaks_is_taken_up_again():
    async with streaming(scripted(f"one two three {reply()}")) as (url, server, _):
        async with websockets.connect(at(url)) as line:
            await line.send(json.dumps({"type": "start", "prompt": "x"}))
            first = told(await line.recv())
        async with websockets.connect(at(url)) as line:
            await line.send(json.dumps({"type": "resume", "last_event_id": first.id}))
            rest = await listen(line)
    assert number(rest[0]) == 2
    assert names(rest)[-1] == "done"
    assert len(server.heard) == 1


@pytest.mark.parametrize(
    ("first", "code"),
    [
        ("not json", "malformed_request"),
        ("[]", "malformed_request"),
        ('{"type": "begin"}', "malformed_request"),
        ('{"type": "start"}', "malformed_request"),
        ('{"type": "start", "prompt": "x", "result": "No"}', "unknown_schema"),
        ('{"type": "resume", "last_event_id": "run_0123456789abcdef:1"}', "unknown_run"),
    ],
)
async def test_a_first_message_that_is_not_understood_is_refused(first, code):
    async with streaming(scripted()) as (url, _, _), websockets.connect(at(url)) as line:
        await line.send(first)
        refusal = told(await line.recv())
        await line.wait_closed()
        assert line.close_code == 4400
    assert (refusal.name, refusal.data["error"]["code"]) == ("error", code)


async def test_a_later_message_that_is_not_understood_is_answered_and_the_stream_goes_on():
    async with streaming(silent) as (url, _, _), websockets.connect(at(url)) as line:
        await line.send(json.dumps({"type": "start", "prompt": "x"}))
        await line.recv()
        for wrong in ('{"type": "dance"}', "{", '{"type": "tool.result", "id": "T9", "result": 1}'):
            await line.send(wrong)
            assert told(await line.recv()).name == "rejected"
        await line.send('{"type": "abort"}')
        assert (await listen(line))[-1].name == "done"


async def test_a_line_needs_the_key_where_one_is_set():
    async with streaming(scripted(reply()), key="secret") as (url, _, _):
        for query, status in (("", 401), ("?key=wrong", 403)):
            with pytest.raises(websockets.InvalidStatus) as caught:
                await websockets.connect(at(url, query))
            assert caught.value.response.status_code == status
            assert "key" in json.loads(caught.value.response.body)["error"]["message"]
        async with websockets.connect(at(url, "?key=secret")) as line:
            await line.send('{"type": "start", "prompt": "x"}')
            assert (await listen(line))[-1].name == "done"


async def test_another_path_is_refused():
    async with streaming(scripted()) as (url, _, _):
        with pytest.raises(websockets.InvalidStatus) as caught:
            await websockets.connect(f"{at(url)}/more")
    assert caught.value.response.status_code == 404
    assert "error" in json.loads(caught.value.response.body)


async def test_a_line_on_which_nothing_is_asked_is_closed():
    http = HttpConfig(body_timeout=0.2)
    async with (
        streaming(scripted(), http=http) as (url, _, app),
        websockets.connect(at(url)) as line,
    ):
        await asyncio.wait_for(line.wait_closed(), 20)
        assert line.close_code == 4408
        assert not app.in_flight


async def test_a_line_is_a_request_under_way():
    http = HttpConfig(max_requests=1)
    async with streaming(silent, http=http) as (url, _, _), websockets.connect(at(url)) as line:
        await line.send('{"type": "start", "prompt": "x"}')
        await line.recv()
        with pytest.raises(websockets.InvalidStatus) as caught:
            await websockets.connect(at(url))
        assert caught.value.response.status_code == 429
        assert caught.value.response.headers["retry-after"] == "1"
        await line.send('{"type": "abort"}')
        assert (await listen(line))[-1].name == "done"


UPGRADE = (
    b"GET /v1/stream/ws HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: Upgrade\r\nupgrade: websocket\r\n"
    b"sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)


@pytest.mark.parametrize(
    "data",
    [
        UPGRADE.replace(b"GET", b"POST"),
        UPGRADE.replace(b"HTTP/1.1", b"HTTP/1.0"),
        UPGRADE.replace(b"host:", b"content-length: 2\r\nhost:") + b"{}",
        UPGRADE + b"\x81\x85abcdxyzzy",
        UPGRADE.replace(b"host:", b"x: %b\r\nhost:" % (b"y" * 8100)),
        UPGRADE.replace(b"version: 13", b"version: 8"),
        UPGRADE.replace(b"sec-websocket-version: 13\r\n", b""),
        UPGRADE.replace(b"dGhlIHNhbXBsZSBub25jZQ==", b"dGhl"),
        UPGRADE.replace(b"sec-websocket-key", b"sec-websocket-other"),
    ],
)
async def test_what_cannot_open_a_line_is_an_error_in_json(data):
    async with streaming(scripted()) as (url, _, _):
        answer = only(await exchange(url, data))
    assert (answer.status, answer.json["error"]["code"]) == (400, "bad_http")
    assert answer.headers["sec-websocket-version"] == "13"


@pytest.mark.parametrize("names", [bytes.lower, bytes.title, bytes.upper])
@pytest.mark.parametrize(
    "changed",
    [
        UPGRADE.replace(b"host:", b"origin: https://evil.example\r\nhost:"),
        UPGRADE.replace(b"host:", b"origin: null\r\nhost:"),
        UPGRADE.replace(b"host:", b"origin: http://127.0.0.1.evil.example\r\nhost:"),
        UPGRADE.replace(b"host: 127.0.0.1", b"host: evil.example"),
    ],
)
async def test_a_web_page_opens_no_line(changed, names):
    """Browsers write `Origin` and `Host`; the names of header fields have no case."""
    line, *fields = changed.split(b"\r\n")
    parts = [field.partition(b":") for field in fields]
    data = b"\r\n".join([line, *(names(name) + colon + value for name, colon, value in parts)])
    async with streaming(scripted(reply())) as (url, _, _):
        answer = only(await exchange(url, data))
    assert (answer.status, answer.json["error"]["code"]) == (403, "not_allowed")
    assert answer.headers["request-id"].startswith("req_")


async def test_a_page_of_loopback_opens_a_line():
    page = "http://localhost:5173"
    async with (
        streaming(scripted(reply())) as (url, _, _),
        websockets.connect(at(url), origin=page) as line,
    ):
        await line.send('{"type": "start", "prompt": "x"}')
        assert (await listen(line))[-1].name == "done"


@pytest.mark.parametrize("name", ["X-Api-Key", "x-api-key", "X-API-KEY"])
async def test_a_key_opens_a_line_in_any_case_of_its_name(name):
    async with streaming(scripted(reply()), key="secret") as (url, _, _):
        sent = [(name, "secret")]
        async with websockets.connect(at(url), additional_headers=sent) as line:
            await line.send('{"type": "start", "prompt": "x"}')
            assert (await listen(line))[-1].name == "done"


async def test_a_line_is_in_the_log_and_in_the_metrics():
    out = io.StringIO()
    async with streaming(scripted(reply())) as (url, _, app):
        app._request_log = RequestLog("json", out)
        async with websockets.connect(at(url)) as line:
            await line.send('{"type": "start", "prompt": "x"}')
            events = await listen(line)
        async with websockets.connect(at(url)) as line:
            await line.send('{"type": "nonsense"}')
            with pytest.raises(websockets.ConnectionClosedError):
                await listen(line)
        only(await exchange(url, UPGRADE.replace(b"host: 127.0.0.1", b"host: evil.example")))
        counted = only(await exchange(url, b"GET /metrics HTTP/1.0\r\n\r\n")).body.decode()
    first, second, third = map(json.loads, out.getvalue().splitlines()[:3])
    assert [one["url.path"] for one in (first, second, third)] == ["/v1/stream/ws"] * 3
    assert [one["http.response.status_code"] for one in (first, second, third)] == [101, 101, 403]
    assert first["run"] == events[0].id.rpartition(":")[0]
    assert "error.type" not in first
    assert [one["error.type"] for one in (second, third)] == ["malformed_request", "not_allowed"]
    sums = [line for line in counted.splitlines() if "toolbridge_requests_total{" in line]
    sums = [
        line.partition("status=")[2]
        for line in sums
        if 'provider="",' in line and 'surface="stream"' in line
    ]
    assert sums == ['"101",surface="stream"} 2', '"403",surface="stream"} 1']
