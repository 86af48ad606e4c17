"""Find the jobs of an account in the logs of the marketplace.

The ledger has the jobs that this state directory has seen; the chain has all of them. So a lost
state directory loses no deposit. The range of blocks is read at once where the server allows it,
else in windows, from the latest block backwards; what was read once is not read again.
"""

import sqlite3
from collections.abc import AsyncIterator
from dataclasses import dataclass

from toolbridge.core.errors import BrokenWire, TimedOut, Unreachable
from toolbridge.core.json import Json
from toolbridge.node.chain.abi import topic
from toolbridge.node.chain.address import same_account
from toolbridge.node.chain.client import ChainClient, Log, hexed, word
from toolbridge.node.chain.contracts import SESSION_CREATED
from toolbridge.node.chain.rpc import RpcRejected
from toolbridge.node.funding.ledger import Ledger

WINDOW = 9_000
"""Blocks per request; public servers limit the range to 10,000 blocks."""
MOST_BLOCKS = 3_000_000
"""How far back logs are read in windows: 70 days on a chain with a block every two seconds."""
_AGAIN = 1_000
"""Blocks that are read again, because a reorganisation may have replaced them."""
_MOST_LOGS = 10_000
"""Logs of one answer; an honest server has fewer jobs of one account in a range."""


@dataclass(frozen=True)
class ScannedJob:
    """A job of the account, by the log of its creation."""

    job: str
    host: str
    hash: str


class JobScan:
    """The jobs of the ledger's account on one marketplace."""

    def __init__(self, chain: ChainClient, ledger: Ledger) -> None:
        self._chain = chain
        self._ledger = ledger

    async def find(self, most: int = MOST_BLOCKS) -> list[ScannedJob]:
        """Return the jobs in blocks that were not scanned yet, or may have changed since."""
        first, last = await self._ledger.file.run(self._scanned)
        latest = await self._chain.block_number()
        start = max(0, last - _AGAIN + 1) if last >= 0 else 0
        found: dict[str, ScannedJob] = {}
        async for logs in self._logs(start, latest, most):
            found |= {job.job: job for log in logs if (job := self._read(log))}
        done = (first if last >= 0 else max(0, latest - most), latest)
        await self._ledger.file.run(lambda db: self._note(db, *done))
        return list(found.values())

    async def _logs(self, first: int, last: int, most: int) -> AsyncIterator[list[Log]]:
        try:
            yield await self._ask(first, last)
            return
        except (RpcRejected, BrokenWire, TimedOut, Unreachable):
            pass  # the range is too large for this server
        lowest, size = max(first, last - most + 1), WINDOW
        while last >= lowest:
            start = max(lowest, last - size + 1)
            try:
                yield await self._ask(start, last)
            except RpcRejected:
                if size <= 1 or start == last:
                    raise
                size = max(1, size // 4)
                continue
            last = start - 1

    async def _ask(self, first: int, last: int) -> list[Log]:
        topics: list[Json] = [hexed(topic(SESSION_CREATED)), None, word(self._ledger.account)]
        market = self._chain.network.marketplace
        logs = await self._chain.logs(market, topics, (hex(first), hex(last)))
        if len(logs) > _MOST_LOGS:
            raise BrokenWire(f"the JSON-RPC server returned more than {_MOST_LOGS} logs")
        return logs

    def _read(self, log: Log) -> ScannedJob | None:
        """Return the job of a log of our marketplace and account; a server may return others."""
        ours = len(log.topics) == 4 and log.topics[0] == hexed(topic(SESSION_CREATED))
        if not ours or not same_account(log.address, self._chain.network.marketplace):
            return None
        if not same_account(log.topics[2], word(self._ledger.account)):
            return None
        try:
            return ScannedJob(
                str(int(log.topics[1], 16)), f"0x{log.topics[3][-40:]}", log.transaction
            )
        except ValueError:
            return None

    # ── what was scanned ──

    def _scanned(self, db: sqlite3.Connection) -> tuple[int, int]:
        """Return the first and the last block that were scanned; the last is -1 for none."""
        found = db.execute(
            "select first, last from scans where chain = ? and account = ? and market = ?",
            (self._ledger.chain, self._ledger.account, self._ledger.market),
        ).fetchone()
        return found or (0, -1)

    def _note(self, db: sqlite3.Connection, first: int, last: int) -> None:
        ledger = self._ledger
        db.execute(
            "insert or replace into scans (chain, account, market, first, last) values (?, ?, ?, ?, ?)",
            (ledger.chain, ledger.account, ledger.market, first, last),
        )
