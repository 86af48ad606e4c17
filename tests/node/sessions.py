"""A session with a node, and the purse that pays for it."""

import asyncio
from contextlib import aclosing, asynccontextmanager
from itertools import count

from tests.node.server import ANSWER, HOST, Node, running

from toolbridge.core import events as ev
from toolbridge.core.errors import ToolbridgeError
from toolbridge.core.fold import collect
from toolbridge.node.funding.jobs import Host, Job
from toolbridge.node.hosts.access import HostAccess
from toolbridge.node.protocol import encryption
from toolbridge.node.protocol.encryption import Secret
from toolbridge.node.session.connection import Timeouts
from toolbridge.node.session.exchange import Prompt
from toolbridge.node.session.session import NodeSession, SessionSettings

WALLET = Secret.from_hex("12" * 32)
QUICK = Timeouts(connect=5, init=0.8, first=0.8, next=0.8, grace=0.2)
"""For nodes that fall silent. A busy machine must not look like one, so nothing else uses it."""
PATIENT = Timeouts(grace=0.2)
LOCAL = HostAccess(private=True)
TEXT = "".join(ANSWER)


class CountingFunding:
    """Pays with numbers, and remembers everything."""

    def __init__(self, node: Node, **job):
        self.host = Host(node.url, encryption.public_key(HOST))
        self.job = job
        self.numbers = count(101)
        self.opened: list[Job] = []
        self.closed: list[Job] = []
        self.over: set[str] = set()
        self.vanished: set[str] = set()
        """Jobs whose payment the chain has lost."""
        self.tokens: dict[str, int] = {}
        """Tokens that each job has delivered."""
        self.error: ToolbridgeError | None = None
        self.asked = 0
        self.paid = asyncio.Event()
        """Payments wait for it."""
        self.paid.set()
        self.others: list[Host] = []
        """Hosts to go to when the first is not there."""

    async def open(self):
        self.asked += 1
        await self.paid.wait()
        if self.error:
            raise self.error
        self.opened.append(Job(str(next(self.numbers)), self.host, "repo:file", **self.job))
        return self.opened[-1]

    async def is_active(self, job):
        return job.id not in self.over

    def lost(self, job):
        return job.id in self.vanished

    def delivered(self, job, tokens):
        self.tokens[job.id] = self.tokens.get(job.id, 0) + tokens

    async def has_other(self, job):
        return job in self.opened and bool(self.others)

    async def close(self, job, *, failed=False):
        self.closed.append(job)
        if failed and self.others:
            self.host = self.others.pop(0)


@asynccontextmanager
async def session_with(node=None, *, waits=PATIENT, job=None, records=None, **settings):
    async with running() as own:
        node = node or own
        funding = CountingFunding(node, **(job or {}))
        given = SessionSettings(waits, **{"access": LOCAL, **settings})
        session = NodeSession(funding, WALLET, given, records)
        try:
            yield session, node, funding
        finally:
            await session.close()


def prompt(text="hi", *, stops=(), **body):
    return Prompt({"prompt": text, "model": "m", "max_tokens": 50, "stream": True} | body, stops)


@asynccontextmanager
async def reading(source):
    """Yield the batches of a source, one per read; close it behind the block."""

    async def batches():
        while (batch := await source.read()) is not None:
            yield batch

    try:
        async with aclosing(batches()) as each:
            yield each
    finally:
        await source.close()


async def told(session, asked=None):
    """Return the message of one answer, whole or failed."""
    events = []
    async with reading(session.answer(asked or prompt())) as batches:
        async for batch in batches:
            assert batch
            events += batch
    assert isinstance(events[-1], ev.Finished | ev.Failed)
    return collect(events)


async def works(session):
    """The next request is answered as if nothing had been."""
    message = await told(session)
    assert message.stop == "end"
    assert message.text == TEXT
