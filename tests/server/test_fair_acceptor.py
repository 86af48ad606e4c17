"""Workers that share a socket: each accepts its part of the connections."""

import asyncio
import errno
import socket
import ssl
from contextlib import asynccontextmanager

import pytest
from tests.certificates import Authority

from toolbridge.server.fair_acceptor import FairAcceptor
from toolbridge.server.worker_loads import WorkerLoad, create_loads, open_load


class Connections:
    """The connections of one worker."""

    def __init__(self, load: WorkerLoad, listener: socket.socket, **tls) -> None:
        self.load = load
        self.open: set[asyncio.BaseTransport] = set()
        self.acceptor = FairAcceptor(listener, lambda: _Protocol(self.open), self.may_accept, **tls)

    def may_accept(self, opening: int) -> bool:
        return self.load.may_accept(len(self.open) + opening)


class _Protocol(asyncio.Protocol):
    def __init__(self, connections: set[asyncio.BaseTransport]) -> None:
        self._open = connections

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self._open.add(transport)

    def connection_lost(self, _: Exception | None) -> None:
        self._open.discard(self.transport)


@asynccontextmanager
async def sharing(folder, count: int, **tls):
    """Yield the connections of workers, all in this event loop, and what connects a client."""
    create_loads(folder, count)
    listener = socket.create_server(("127.0.0.1", 0))
    listener.setblocking(False)
    sockets = [listener.dup() for _ in range(count)]  # as in processes of their own
    workers = [Connections(open_load(folder, n), own, **tls) for n, own in enumerate(sockets, 1)]
    clients = []

    async def connect(**options) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        clients.append(await asyncio.open_connection(*listener.getsockname(), **options))
        return clients[-1]

    try:
        yield workers, connect
    finally:
        for _, writer in clients:
            writer.close()
        for worker in workers:
            worker.acceptor.close()
            for transport in list(worker.open):
                transport.abort()
        for each in (listener, *sockets):
            each.close()


@pytest.fixture
def patient(monkeypatch):
    """Let workers wait for one another as long as a busy machine needs."""
    monkeypatch.setattr("toolbridge.server.fair_acceptor._PATIENCE", 0.05)


async def connected(workers: list[Connections], count: int) -> list[int]:
    """Wait until the workers have `count` connections; return those of each, sorted."""
    async with asyncio.timeout(20):
        while sum(len(worker.open) for worker in workers) != count:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
    return sorted(len(worker.open) for worker in workers)


@pytest.mark.parametrize("gap", [None, 0.003])
async def test_each_worker_accepts_its_part(tmp_path, gap, patient):
    async with sharing(tmp_path, 4) as (workers, connect):
        clients = []
        for _ in range(40):
            clients.append(await connect())
            if gap is not None:
                await asyncio.sleep(gap)
        least, *_, most = await connected(workers, 40)
        assert most <= least + least // 4 + 1
        for _, writer in clients:
            writer.close()
        assert await connected(workers, 0) == [0, 0, 0, 0]


async def test_a_worker_that_lost_its_connections_gets_the_next_ones(tmp_path, patient):
    async with sharing(tmp_path, 2) as (workers, connect):
        first, second = workers
        for _ in range(20):
            await connect()
        await connected(workers, 20)
        for transport in list(first.open):
            transport.abort()
        left = len(second.open)
        await connected(workers, left)
        for _ in range(left // 2):
            await connect()
        await connected(workers, left + left // 2)
        # What the other one has lost is known once it has woken, and a quarter more counts as even.
        assert len(second.open) <= left + left // 4 + 1
        assert len(first.open) >= left // 2 - left // 4 - 1


async def test_connections_of_a_worker_that_does_not_accept_are_accepted_by_the_others(tmp_path):
    """One that is busy or hangs has few connections, and does not take the ones that are left to it."""
    async with sharing(tmp_path, 2) as (workers, connect):
        hanging, serving = workers
        assert hanging.load.may_accept(0)
        hanging.acceptor.close()
        for _ in range(10):
            await connect()
        await connected([serving], 10)


def test_a_worker_that_has_ended_is_not_waited_for(tmp_path):
    loads = create_loads(tmp_path, 3)
    first, _, third = (open_load(tmp_path, worker) for worker in (1, 2, 3))
    assert first.may_accept(50), "the others have not begun"
    assert third.may_accept(2)
    assert not first.may_accept(50)
    loads.forget(3)
    assert first.may_accept(50)


@pytest.mark.parametrize(
    ("mine", "others", "may"),
    [(0, [0], True), (1, [0], False), (4, [4], True), (4, [3], False), (5, [4, 9], True),
     (6, [4, 9], False), (125, [100], True), (126, [100], False)],
)  # fmt: skip
def test_a_quarter_more_connections_are_even_enough(tmp_path, mine, others, may):
    create_loads(tmp_path, 1 + len(others))
    for number, count in enumerate(others, 2):
        open_load(tmp_path, number).may_accept(count)
    assert open_load(tmp_path, 1).may_accept(mine) is may


@pytest.mark.parametrize("content", [None, b""])
def test_without_the_shared_memory_a_worker_serves_as_one_process_does(tmp_path, content):
    if content is not None:
        (tmp_path / "connections").write_bytes(content)
    assert open_load(tmp_path, 1) is None
    assert create_loads(tmp_path / "missing", 2) is None


async def test_tls_clients_that_leave_and_that_stay(tmp_path):
    authority = Authority(tmp_path)
    cert, key, _ = authority.issue()
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(cert, key)
    client = ssl.create_default_context(cafile=str(authority.file))
    faults = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: faults.append(context))
    async with sharing(tmp_path, 2, context=server, handshake=0.2) as (workers, connect):
        for piece in (b"", b"\x16\x03\x01", b"GET / HTTP/1.1\r\n\r\n"):
            reader, writer = await connect()
            writer.write(piece)
            if piece:
                await asyncio.wait_for(reader.read(), 20)  # it ends, with or without an alert
            writer.close()
        for _ in range(6):
            await connect(ssl=client, server_hostname="localhost")
        least, most = await connected(workers, 6)
        assert most - least <= 1
    assert faults == []


async def test_a_fault_of_the_system_is_reported_and_tried_again(tmp_path, monkeypatch):
    monkeypatch.setattr("toolbridge.server.fair_acceptor._PAUSE", 0.01)
    faults = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: faults.append(context))

    class Listener:
        """A socket that cannot accept twice, then an ordinary one."""

        def __init__(self, real: socket.socket) -> None:
            self._real, self._faults = real, [errno.EMFILE, errno.ENFILE]

        def fileno(self) -> int:
            return self._real.fileno()

        def accept(self) -> tuple[socket.socket, object]:
            if self._faults:
                raise OSError(self._faults.pop(), "too many open files")
            return self._real.accept()

    create_loads(tmp_path, 1)
    with socket.create_server(("127.0.0.1", 0)) as real:
        real.setblocking(False)
        worker = Connections(open_load(tmp_path, 1), Listener(real))
        _, writer = await asyncio.open_connection(*real.getsockname())
        await connected([worker], 1)
        worker.acceptor.close()
        writer.close()
        await connected([worker], 0)
    assert [fault["exception"].errno for fault in faults] == [errno.ENFILE, errno.EMFILE]


async def test_what_was_accepted_before_the_end_is_opened(tmp_path):
    async with sharing(tmp_path, 1) as ([worker], connect):
        task = asyncio.create_task(connect())
        async with asyncio.timeout(20):
            while not worker.acceptor.is_opening:  # noqa: ASYNC110
                await asyncio.sleep(0)
        worker.acceptor.close()
        worker.acceptor.close()
        assert not worker.open
        await worker.acceptor.wait_opened()
        assert len(worker.open) == 1
        await asyncio.sleep(0)
        assert not worker.acceptor.is_opening
        await task
