"""Requests that end in the same turn of the event loop are recorded together, and none is lost."""

import asyncio
import json
import logging

from tests.peers import bridged, gateway, line_of, replay
from tests.raw_http import answers, connect, exchange
from tests.server.test_http_wire import BODY, CLOSE, STREAMED, get, post

from toolbridge.server.metrics import Metrics
from toolbridge.server.request_log import Entry


async def test_a_request_sees_the_one_before_it_on_its_connection_while_others_run():
    begun, goes_on = asyncio.Event(), asyncio.Event()

    async def chat(heard, line):
        if not heard.json["stream"]:
            await replay(line_of("done", done=True))(heard, line)
            return
        await line.head()
        await line.send(json.dumps(line_of("begins")) + "\n")
        begun.set()
        await goes_on.wait()
        await line.send(json.dumps(line_of("ends", done=True)) + "\n")
        await line.end()

    async with bridged(chat) as (url, _, _):
        reader, writer = await connect(url)
        writer.write(post(STREAMED.replace(b"demo", b"claude-x")))
        await asyncio.wait_for(begun.wait(), 30)
        both = post(BODY.replace(b"demo", b"claude-x")) + get(b"/metrics", CLOSE)
        try:
            found = [answers(await exchange(url, both)) for _ in range(3)]
        finally:
            goes_on.set()
        await reader.readuntil(b"message_stop")
        writer.close()
    assert [[answer.status for answer in pair] for pair in found] == [[200, 200]] * 3
    assert [requests_in(pair[1].body.decode()) for pair in found] == [1, 2, 3]


def requests_in(metrics):
    lines = [line for line in metrics.splitlines() if line.startswith("toolbridge_requests_total")]
    return sum(float(line.split()[-1]) for line in lines if 'surface="anthropic"' in line)


async def test_a_record_that_fails_does_not_take_the_others_with_it(monkeypatch, caplog):
    recorded = []
    own = Metrics.record

    def record(self, entry, status):
        recorded.append(entry.fields["url.path"])
        if entry.fields["url.path"] == "/nowhere/1":
            raise RuntimeError("on purpose")
        own(self, entry, status)

    monkeypatch.setattr(Metrics, "record", record)
    paths = [f"/nowhere/{number}" for number in range(4)]
    async with gateway() as (_, app):
        app.in_flight["another"] = None  # as if a request ran all the time
        for path in paths:
            entry = Entry("req_00000000")
            entry.fields["url.path"] = path
            app.record(entry, 200)
        assert recorded == []
        with caplog.at_level(logging.CRITICAL, "asyncio"):
            for _ in range(3):
                await asyncio.sleep(0)
        del app.in_flight["another"]
    assert recorded == paths
