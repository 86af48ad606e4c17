"""Random stories about money: faults, kills, restarts, lies, reorganisations and concurrency.

A story is a sequence of events that a seed decides. Processes are killed between any two steps: from
then on nothing of theirs reaches the chain or the disk. When a story is over, the chain works again,
and everything must come back by the commands that the guide names.
"""

import asyncio
import random
import shutil
import sqlite3
import time
from collections import deque
from collections.abc import Iterable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.node.accounts import ChainBroken, Truth, truth
from tests.node.deployed import HOSTS, MODEL_ID, PAYER, Deployed, account, deployed
from tests.node.lying_rpc import LIES, LyingRpc, lying_rpc
from tests.node.server import Node, Scene
from tests.node.sessions import QUICK, told
from tests.node.stories import three_hosts

from toolbridge.core.errors import ToolbridgeError
from toolbridge.node.chain.amounts import ETH
from toolbridge.node.funding.book_totals import totals
from toolbridge.node.funding.caps import HardCap
from toolbridge.node.provider import LEDGER, NodeProvider

DEPOSIT = 2 * 10**14
LIMIT = 5 * DEPOSIT
CAP = 7 * DEPOSIT + 10**13
"""The hard cap: seven deposits and some gas."""
_SCENES = (
    Scene(), Scene(wrong="cut", pause=0.001), Scene(claims={"completion": 10**9}), Scene(wrong="flip"),
    Scene(responds=False), Scene(wrong="close"),
)  # fmt: skip


class Killed(BaseException):
    """The process is gone; nothing of it happens any more."""


class Fate:
    """Kills a process at a step: before it, or after it was done and before its result is known."""

    def __init__(self, at: int, *, after: bool) -> None:
        self.left = at
        self.after = after
        self.dead = False

    def apply(self, provider: NodeProvider) -> None:
        rpc, file = provider._context.chain.rpc, provider._context.ledger.file
        rpc.ask, file.run = self._mortal(rpc.ask), self._mortal(file.run)

    def _mortal(self, step):
        async def mortal(*given):
            if self.dead:
                raise Killed
            self.left -= 1
            if self.left == 0 and not self.after:
                self.dead = True
                raise Killed
            found = await step(*given)
            if self.left == 0:
                self.dead = True
            if self.dead:
                raise Killed
            return found

        return mortal


@dataclass
class World:
    """A chain with hosts, and a server that may lie about it."""

    home: Deployed
    nodes: list[Node]
    liar: LyingRpc


@dataclass
class Story:
    """One run of events; `log` is what happened, for a story that fails."""

    world: World
    seed: int
    state: Path
    log: list[str] = field(default_factory=list)
    lied: bool = False
    rolled_back: bool = False
    lost: int = 0
    added: int = 0
    """Coins that came from or went elsewhere."""

    def __post_init__(self) -> None:
        self.dice = random.Random(self.seed)

    # ── the whole of it ──

    async def play(self) -> None:
        home = self.world.home
        self.since = await home.chain.block_number()
        before = await truth(home, self.since)
        await self.capped()
        for _ in range(self.dice.randint(3, 7)):
            event = self.dice.choice(EVENTS)
            self.log.append(event)
            with suppress(ToolbridgeError):
                await getattr(self, event)()
            await self.check_limits(before)
        await self.recover(before)

    async def capped(self) -> None:
        async with self.process() as provider:
            await provider.ledger().set_cap(ETH, HardCap(CAP, DEPOSIT))

    @asynccontextmanager
    async def process(self, fate: Fate | None = None, **more):
        """Run a process; one that was killed leaves its lease and its jobs behind."""
        options = {
            "rpc_url": self.world.liar.url, "waits": QUICK, "pay_wait": 0.2, "settle_after": 60,
            "daily_limit": ETH.format(LIMIT).split()[0], "seed": self.dice.randrange(100),
        } | more  # fmt: skip
        provider = self.world.home.provider(self.state, **options)
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(provider)
            if fate is not None:
                fate.apply(provider)
            try:
                yield provider
            finally:
                if fate is not None:
                    fate.dead = True
                    stack.push_async_callback(self.buried, provider)
                with suppress(Killed, ToolbridgeError):
                    await stack.aclose()

    async def buried(self, provider: NodeProvider) -> None:
        """End the lease of a process that was killed, as time or its process number would."""
        if (self.state / LEDGER).exists():
            db = sqlite3.connect(self.state / LEDGER, timeout=10)
            with db:
                db.execute("delete from leases where owner = ?", (provider._context.ledger.owner,))
            db.close()

    # ── events ──

    async def ask(self, **more) -> None:
        async with self.process(**more) as provider:
            for _ in range(self.dice.randint(1, 2)):
                with suppress(ToolbridgeError):
                    await told(provider)

    async def ask_a_bad_host(self) -> None:
        self.dice.choice(self.world.nodes).play(self.dice.choice(_SCENES))
        await self.ask()

    async def kill(self) -> None:
        fate = Fate(self.dice.randint(5, 60), after=self.dice.random() < 0.5)
        with suppress(Killed):
            async with self.process(fate) as provider:
                for _ in range(2):
                    with suppress(ToolbridgeError):
                        await told(provider)

    async def kill_while_settling(self) -> None:
        fate = Fate(self.dice.randint(1, 25), after=self.dice.random() < 0.5)
        with suppress(Killed):
            async with self.process(fate) as provider:
                await provider.settle()

    async def interrupt(self) -> None:
        """Ctrl-C at some moment of a request."""
        async with self.process() as provider:
            asking = asyncio.ensure_future(told(provider))
            await asyncio.sleep(self.dice.random() * 0.15)
            asking.cancel()
            with suppress(asyncio.CancelledError, ToolbridgeError):
                await asking

    async def several_at_once(self) -> None:
        async with self.process(sessions=2) as one, self.process() as other:
            asked = (told(one), told(one), told(other))
            await asyncio.gather(*asked, return_exceptions=True)

    async def no_blocks(self) -> None:
        async with self.world.home.no_blocks():
            await self.ask()
            if self.dice.random() < 0.5:
                await self.replace()
            if self.dice.random() < 0.3:
                await self.world.home.forget()

    async def replace(self) -> None:
        """Raise or cancel what waits."""
        async with self.process() as provider:
            recovery = await provider.recovery()
            for one in await recovery.transactions():
                act = self.dice.choice((recovery.raise_fee, recovery.cancel))
                with suppress(ToolbridgeError):
                    await act(one.row.hash)

    async def reorganise(self) -> None:
        """Take blocks back, but none from before the story.

        No block may be made meanwhile: anvil 1.7 would put it on a parent that it has removed.
        """
        chain = self.world.home.chain
        await chain.rpc.ask("evm_setAutomine", False)
        try:
            height = await chain.block_number()
            while height != (height := await self._later_height()):
                pass
            depth = min(self.dice.randint(1, 3), height - self.since)
            if depth > 0:
                self.rolled_back = True
                await chain.rpc.ask("anvil_rollback", depth)
        finally:
            await chain.rpc.ask("evm_mine")
            await chain.rpc.ask("evm_setAutomine", True)

    async def _later_height(self) -> int:
        await asyncio.sleep(0.02)
        return await self.world.home.chain.block_number()

    async def reorganise_under_a_session(self) -> None:
        async with self.process() as provider:
            with suppress(ToolbridgeError):
                await told(provider)
            await self.reorganise()
            with suppress(ToolbridgeError):
                await provider._paid.check_payments()
                await told(provider)

    async def lie(self) -> None:
        """Let the server lie during other events."""
        self.lied = True
        self.world.liar.lies = set(self.dice.sample(LIES, self.dice.randint(1, 2)))
        self.log.append(f"({', '.join(sorted(self.world.liar.lies))})")
        try:
            for _ in range(2):
                event = self.dice.choice(("ask", "ask", "kill", "settle", "no_blocks"))
                self.log.append(f"({event})")
                with suppress(ToolbridgeError):
                    await getattr(self, event)()
        finally:
            self.world.liar.lies = set()

    async def settle(self) -> None:
        async with self.process() as provider:
            for one in await provider.settle():
                assert one.why or one.job or one.payment

    async def a_host_bills(self) -> None:
        """A host claims as much as it likes for a job, or settles it itself."""
        home = self.world.home
        for job in (await truth(home, self.since)).open_jobs:
            host = str((await home.session(job))[2])
            key = next(key for key in HOSTS if account(key) == host)
            with suppress(AssertionError, ToolbridgeError):
                await home.prove(key, job, self.dice.choice((1, 100, 5000, 60_000_000)))
                if self.dice.random() < 0.4:
                    await home.later(31)
                    await home.complete(key, job)

    async def use_the_wallet_elsewhere(self) -> None:
        with suppress(AssertionError):
            await self.world.home.act(
                PAYER, self.world.home.network.registry, "approveModel(bytes32)", MODEL_ID
            )

    async def deposit_in_advance(self) -> None:
        market = self.world.home.network.marketplace
        with suppress(AssertionError):
            await self.world.home.act(PAYER, market, "depositNative()", value=10**12)

    async def lose_the_state(self) -> None:
        shutil.rmtree(self.state, ignore_errors=True)
        self.lost += 1
        await self.capped()

    # ── what must hold ──

    async def check_limits(self, before: Truth) -> None:
        now = await truth(self.world.home, self.since)
        paid = now.deposits - before.deposits
        assert paid <= CAP * (1 + self.lost), ("the hard cap was passed", self.told())
        net = now.active - before.active + now.billed - before.billed
        if not (self.lied or self.lost or self.rolled_back):
            assert net <= LIMIT, ("the limit was passed", self.told())
        assert now.total == before.total, ("coins are missing", self.told())

    async def recover(self, before: Truth) -> None:
        """Do what the guide says, and find every coin."""
        home = self.world.home
        await home.mine()
        reasons: list[str] = []
        for _ in range(4):
            async with self.process(pay_wait=3) as provider:
                recovery = await provider.recovery()
                reasons = [one.why for one in await provider.settle() if one.why]
                if not reasons:
                    break
                for one in await recovery.transactions():
                    with suppress(ToolbridgeError):
                        await recovery.cancel(one.row.hash)
            await home.mine()
        assert reasons == [], (reasons, self.told())
        async with self.process(pay_wait=3) as provider:
            async for one in (await provider.recovery()).withdraw():
                assert one.why == "", (one.why, self.told())
            # A payment of a lost state directory may be included once the nonces before it are used.
            assert [one.why for one in await provider.settle() if one.why] == [], self.told()
            assert await provider.settle() == [], self.told()
            ledger, account_ = provider.ledger(), provider._context.account
            left = await ledger.find("reserved", "sent", "open", "closed")
            assert left == [], self.told()
            assert await account_.journal.pending() == [], self.told()
            rows = await ledger.entries()
        now = await truth(home, self.since)
        assert (now.active, now.credited, now.open_jobs) == (0, 0, ()), self.told()
        assert now.wallet + now.gas + now.billed == before.total, self.told()
        if not (self.lost or self.lied or self.rolled_back):
            await self.check_books(rows, before, now)

    async def check_books(self, rows, before: Truth, now: Truth) -> None:
        """The books are those of the chain."""
        (sums,) = [one for one in totals(rows) if one.currency == ETH.address] or [None]
        if sums is None:
            assert now.deposits == before.deposits, self.told()
            return
        assert sums.paid == now.deposits - before.deposits, ("paid", self.told())
        assert sums.refunded == now.refunded - before.refunded, ("refunded", self.told())
        assert sums.claimed == now.billed - before.billed, ("billed", self.told())
        if not {"use_the_wallet_elsewhere", "deposit_in_advance"} & set(self.log):
            assert sums.gas == now.gas - before.gas, ("gas", self.told())

    def told(self) -> str:
        return f"story {self.seed}: {' → '.join(self.log)}"


EVENTS = (
    "ask", "ask", "ask_a_bad_host", "kill", "kill", "kill_while_settling", "interrupt",
    "several_at_once", "no_blocks", "replace", "reorganise", "reorganise_under_a_session", "lie",
    "lie", "settle", "a_host_bills", "use_the_wallet_elsewhere", "deposit_in_advance",
    "lose_the_state",
)  # fmt: skip


async def play(world: World, seed: int, state: Path) -> bool:
    """Play one story; it begins with a clean state directory and ends with nothing open.

    Return False if the chain has lost a block: what the story has left open there is unknown.
    """
    started = time.monotonic()
    story = Story(world, seed, state)
    for node in world.nodes:
        node.scenes.clear()
    asyncio.get_running_loop().set_exception_handler(_ignore_killed)
    try:
        async with asyncio.timeout(120):
            await world.home.forget()  # what an earlier story left in the pool is not of this one
            await story.play()
    except ChainBroken:
        print(f"{story.told()} was given up: the chain has lost a block")
        return False
    except TimeoutError:
        raise AssertionError(f"{story.told()} took {time.monotonic() - started:.0f} s") from None
    return True


def _ignore_killed(loop: asyncio.AbstractEventLoop, context: dict) -> None:
    if not isinstance(context.get("exception"), Killed):
        loop.default_exception_handler(context)


async def play_all(url: str, seeds: Iterable[int], folder: Path) -> None:
    """Play stories on the chain at `url`, with contracts of their own after one that broke it."""
    left = deque(seeds)
    while left:
        async with deployed(url) as home, worlds(home, url) as world:
            whole = True
            while left and whole:
                seed = left.popleft()
                whole = await play(world, seed, folder / str(seed))


@asynccontextmanager
async def worlds(home: Deployed, url: str):
    """Yield the chain at `url` with three hosts, reached through a server that may lie."""
    async with three_hosts(home) as nodes, lying_rpc(url) as liar:
        yield World(home, nodes, liar)
