"""The model server and the load generator notice what a gateway does wrong, over real sockets."""

import asyncio
import json
import queue
import re
import socket
import threading
import time
from contextlib import ExitStack, closing, contextmanager, suppress
from types import SimpleNamespace

import pytest

from bench import bodies, native, scenarios
from bench.native import Load, Mock, finished
from bench.scenarios import Scale
from bench.stall import GAP, _longest, stall
from bench.targets import Server, Target

pytestmark = pytest.mark.skipif(bool(native.missing()), reason=native.missing() or "Linux")
SMALL = Scale(0.01, streams=20)


@pytest.fixture(scope="module")
def mock():
    server = Mock()
    yield server
    server.close()


def direct(mock, path="/api/chat", expect='"done":true'):
    """Return the model server itself as the target: nothing is between it and the load."""
    server = SimpleNamespace(name="direct", port=mock.port, model="m", pid=mock._process.pid)
    return Target(server, path, expect)


class Forwarding:
    """A gateway of one thread: forwards bytes to the model server, with a fault of its own."""

    def __init__(self, upstream, *, garble=b"", block=0.0):
        self._upstream, self._garble, self._block = upstream, garble, block
        self.bodies = []

    async def accept(self, listener):
        """Serve the connections of `listener` until this is cancelled, and leave none behind.

        The server of asyncio makes the task of a new connection in a callback: one that was
        accepted last would begin after the loop has cancelled its tasks.
        """
        loop = asyncio.get_running_loop()
        with ExitStack() as opened:
            async with asyncio.TaskGroup() as connections:
                while True:
                    client, _ = await loop.sock_accept(listener)
                    reader, writer = await asyncio.open_connection(sock=client)
                    opened.callback(writer.close)
                    connections.create_task(self._serve(reader, writer))

    async def _serve(self, reader, writer):
        try:
            await self._forward(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the client has all that it wanted
        finally:
            writer.close()

    async def _forward(self, reader, writer):
        head = await reader.readuntil(b"\r\n\r\n")
        size = int(re.search(rb"content-length: (\d+)", head, re.IGNORECASE)[1])
        body = await reader.readexactly(size)
        self.bodies.append(body)
        if size > 10_000:
            time.sleep(self._block)  # noqa: ASYNC251  the fault: nothing else runs meanwhile
        behind, ahead = await asyncio.open_connection("127.0.0.1", self._upstream)
        with closing(ahead):
            ahead.write(head.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n") + body)
            while piece := await behind.read(65536):
                writer.write(piece.replace(self._garble, b"?") if self._garble else piece)
                await writer.drain()
                if piece.endswith(b"0\r\n\r\n"):
                    break


@contextmanager
def forwarding(mock, **faults):
    gateway, started = Forwarding(mock.port, **faults), queue.Queue()

    async def serve():
        with socket.create_server(("127.0.0.1", 0)) as listener:
            listener.setblocking(False)
            accepting = asyncio.create_task(gateway.accept(listener))
            started.put((listener.getsockname()[1], asyncio.get_running_loop(), accepting))
            with suppress(asyncio.CancelledError):
                await accepting

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    port, loop, accepting = started.get(timeout=30)
    try:
        yield gateway, Server("forwarding", [], port, path="/api/chat", model="m")
    finally:
        loop.call_soon_threadsafe(accepting.cancel)
        thread.join(30)


SCENARIOS = {
    "whole": scenarios.whole(15),
    "stream": scenarios.stream(0),
    "writes": scenarios.writes(0, in_step=True),
    "burst": scenarios.burst,
    "sized": scenarios.sized(48),
}


@pytest.mark.parametrize("name", SCENARIOS)
@pytest.mark.parametrize(
    ("path", "expect"), [("/api/chat", '"done":true'), ("/v1/chat/completions", "[DONE]")]
)
def test_right_answers_are_not_counted_as_wrong(mock, name, path, expect):
    found = SCENARIOS[name](mock, direct(mock, path, expect), SMALL)
    assert found["bad"] == 0
    assert found["cost"] > 0


def test_paced_streams_are_all_complete(mock):
    found = scenarios.paced(mock, direct(mock), SMALL)
    assert found["bad"] == 0
    assert found["cost"] > 0


def test_chunks_that_are_lost_are_wrong_answers(mock):
    mock.configure(chunks=20)
    body = bodies.plain(stream=True)
    with forwarding(mock, garble=b"@") as (_, server):
        load = Load(body, 2, 10, expect='"done":true', options=("-k", 0))
        figures = finished(load.start(server.port, "/api/chat", "lossy"))
    assert (figures["n"], figures["errors"], figures["incomplete"]) == (10, 0, 0)
    assert scenarios._bad(figures, 20) == 1


def test_answers_without_their_end_are_wrong_answers(mock):
    mock.configure(chunks=20)
    load = Load(bodies.plain(stream=True), 2, 10, expect="never written")
    figures = finished(load.start(mock.port, "/api/chat", "endless"))
    assert scenarios._bad(figures, 20) == 10


def test_every_request_has_a_number_of_its_own(mock):
    mock.configure(chunks=2)
    with forwarding(mock) as (gateway, server):
        load = Load(bodies.plain(stream=True), 1, 5, warm=2, options=("-k", 0))
        finished(load.start(server.port, "/api/chat", "numbers"))
    numbers = [re.search(rb"#(\d{7})#", body)[1] for body in gateway.bodies]
    assert numbers == [b"%07d" % number for number in range(1, 8)]
    assert all(json.loads(body) for body in gateway.bodies)


def test_the_stall_of_a_gateway_that_blocks_is_seen_by_the_second_stream(mock):
    with forwarding(mock, block=0.08) as (_, server):
        target = Target(server, "/api/chat", '"done":true')
        found = stall(mock, target, 48, sessions=1, seed="a")
    assert found["bad"] == 0
    assert found["cold_ms"] > 70
    assert found["same_ms"] > 70


def test_a_request_between_two_chunks_counts_the_next_one():
    ms = 1_000_000
    arrivals = [(10 * ms, ms // 5), (10 * ms + 1000 * GAP, ms // 4), (90 * ms, 3 * ms)]
    short = (10 * ms + 1, 10 * ms + 2)
    assert _longest(arrivals, short) == 0.25, "written within a gap after the request began"
    assert _longest(arrivals, (20 * ms, 20 * ms + 1)) == 3, "the model server was late"
    assert _longest(arrivals, (80 * ms, 95 * ms)) is None, "the second stream ended before"


def test_the_longest_time_is_that_of_a_chunk_on_its_way_while_the_request_ran():
    ms = 1_000_000
    arrivals = [(10 * ms, 9 * ms), (30 * ms, 8 * ms), (60 * ms, 20 * ms), (99 * ms, 50 * ms)]
    assert _longest(arrivals, (20 * ms, 35 * ms)) == 8


def test_a_structured_answer_of_the_model_server_is_one_json_object(mock):
    mock.configure(chunks=3, result=True)
    server = Server("direct", [], mock.port, path="/api/chat")
    status, answer = server.ask(bodies.plain(stream=True))
    mock.configure()
    text = "".join(json.loads(line)["message"]["content"] for line in answer.splitlines())
    framed = re.fullmatch(r"⟦BEGIN_RESULT id=R1 schema=\w+⟧(.*)⟦END_RESULT id=R1⟧", text)
    assert status == 200
    assert json.loads(framed[1])["citations"] == []


def test_a_client_that_leaves_is_noticed_by_the_model_server(mock):
    found = scenarios.cancel(mock, direct(mock), SMALL)
    assert (found["reached"], found["bad"]) == (1.0, 0)
