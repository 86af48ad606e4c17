"""A node provider: settings in, answers out.

`NodeProvider` puts chain, hosts, funding and sessions together. With `host_url` and `host_key` it
talks to that host directly, and neither a chain nor a payment is needed. `routing.nodes` opens one
per configured provider; `toolbridge node` uses it for hosts, balance, settling and the dry run.
"""

import random
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from toolbridge.core.errors import ConfigError
from toolbridge.node.chain.abi import Value
from toolbridge.node.chain.address import address_of
from toolbridge.node.chain.amounts import ETH, Currency
from toolbridge.node.chain.calls import SessionTerms
from toolbridge.node.chain.client import ChainClient
from toolbridge.node.chain.rpc import Rpc
from toolbridge.node.funding.account import Account
from toolbridge.node.funding.caps import HardCap
from toolbridge.node.funding.chain_funding import ChainFunding
from toolbridge.node.funding.context import FundingContext
from toolbridge.node.funding.jobs import Funding, Host, Job, PrepaidJob
from toolbridge.node.funding.ledger import Budget, Ledger
from toolbridge.node.funding.plan import PaymentPlan, make_plan
from toolbridge.node.funding.recovery import Recovery
from toolbridge.node.funding.settling import SettledJob
from toolbridge.node.hosts.candidates import FoundHosts, HostRequirements
from toolbridge.node.hosts.finder import Finder, Search
from toolbridge.node.hosts.probing import HostProber
from toolbridge.node.hosts.records import FILE as RECORDS
from toolbridge.node.hosts.records import HostRecords
from toolbridge.node.hosts.registry import HostRegistry, model_bytes
from toolbridge.node.protocol import encryption
from toolbridge.node.protocol.delivered import Tolerance
from toolbridge.node.protocol.encryption import Secret
from toolbridge.node.protocol.messages import BASE_SEPOLIA
from toolbridge.node.session.connection import Timeouts, fresh_key
from toolbridge.node.session.exchange import Prompt
from toolbridge.node.session.pool import NodePool
from toolbridge.node.session.session import NodeAnswer, NodeSession, SessionSettings
from toolbridge.node.settings import NodeSettings, read_public

LEDGER = "node-ledger.sqlite"


@dataclass(frozen=True)
class Balance:
    """What an account holds, what it spent in the last 24 hours, and its open jobs."""

    address: str
    native: int
    """Wei."""
    token: int
    token_currency: Currency | None
    """The token of the network; None if it has none."""
    deposited: int
    """Balance in the marketplace, in the currency of `pay`: refunds that could not be sent."""
    spent: int
    limit: int
    currency: Currency
    """The currency of `pay`."""
    gas_spent: int
    gas_limit: int
    cap: HardCap
    capped: int
    """What counts towards the daily cap."""
    open_jobs: tuple[str, ...]
    unresolved: tuple[str, ...]
    """Hashes of transactions whose outcome is not known yet."""


class NodeProvider:
    """Answers prompts on nodes; use it as a context manager."""

    def __init__(
        self,
        settings: NodeSettings,
        wallet: Secret | None = None,
        *,
        state: Path,
        waits: Timeouts | None = None,
        pay_wait: float = 120.0,
        settle_after: float = 120.0,
    ) -> None:
        """Create a provider; without a wallet it can only list hosts.

        `pay_wait` is the longest wait for a payment's receipt. A host has `settle_after` seconds to
        settle a job before we do.
        """
        self._settings = settings
        self._paying = wallet is not None and not settings.direct
        self._wallet = wallet or fresh_key()
        self._waits = waits or Timeouts()
        self._pay_wait = pay_wait
        self._settle_after = settle_after
        self._state = state
        self._stack = AsyncExitStack()
        self._finder: Finder | None = None
        self._paid: ChainFunding | None = None
        self._context: FundingContext | None = None
        self._pool: NodePool | None = None
        self._records: HostRecords | None = None
        self.address = address_of(encryption.public_key(self._wallet))
        """The address of our account."""

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            direct = self._settings.direct
            funding: Funding = self._prepaid() if direct else await self._chain_funding(stack)
            self._pool = NodePool(lambda: self._session(funding), self._settings.sessions)
            stack.push_async_callback(self._pool.close)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close all connections; hosts settle, and the ledger keeps the jobs that they leave open."""
        await self._stack.aclose()

    # ── operations ──

    def answer(self, prompt: Prompt) -> NodeAnswer:
        """Return the answer to `prompt`; its first read pays for a job and sends the prompt."""
        if self._pool is None:
            raise RuntimeError("the node provider is not open")
        if not self._paying and not self._settings.direct:
            raise ConfigError(
                "a session cannot be paid without a private key; set CLAUDE_BRIDGE_PRIVATE_KEY, or `key`"
            )
        return self._pool.answer(prompt)

    async def hosts(self, *, measure: bool = False) -> FoundHosts:
        """Return the hosts that serve the model, best first, and why others are excluded."""
        finder, _, context = self._chain_parts()
        await context.chain.check()
        return await finder.find(measure=measure)

    async def forget_faults(self, address: str) -> int:
        """Delete the recorded faults of a host; return how many there were."""
        self._chain_parts()
        return await self._records.forget(address) if self._records is not None else 0

    async def plan(self) -> PaymentPlan:
        """Return what the next session would cost and send, without sending it."""
        self._check_wallet()
        return await make_plan(*self._chain_parts())

    async def recovery(self) -> Recovery:
        """Return what brings money back: settling, withdrawing, replacing transactions."""
        self._check_wallet()
        _, funding, context = self._chain_parts()
        await context.chain.check()
        return Recovery(context, funding.resolver, funding.settler)

    async def settle(self) -> list[SettledJob]:
        """Settle the jobs that no process uses any more; the rest of their deposits is refunded."""
        return [one async for one in (await self.recovery()).settle()]

    def ledger(self) -> Ledger:
        """Return the ledger of the account."""
        self._check_wallet()
        return self._chain_parts()[2].ledger

    async def balance(self) -> Balance:
        """Return the balance of the account, from the chain and the ledger."""
        self._check_wallet()
        _, _, context = self._chain_parts()
        await context.chain.check()
        chain, terms, address = context.chain, context.terms, self.address
        token, held = chain.network.token, 0
        if token:
            held = _int(await chain.read(token, "balanceOf", address))
        market, currency = terms.marketplace, context.budget.currency
        gas = self._gas_budget()
        return Balance(
            address,
            await chain.balance(address),
            held,
            chain.network.currency(token) if token else None,
            _int(await chain.read(market, "getDepositBalance", address, currency.address)),
            await context.ledger.spent(context.budget),
            context.budget.limit,
            currency,
            await context.ledger.spent(gas),
            gas.limit,
            await context.ledger.cap(currency),
            await context.ledger.capped(currency),
            tuple(one.job for one in await context.ledger.find("open", "closed")),
            tuple(one.hash for one in await context.ledger.find("sent")),
        )

    # ── parts ──

    def _chain_parts(self) -> tuple[Finder, ChainFunding, FundingContext]:
        if self._finder is None or self._paid is None or self._context is None:
            raise ConfigError(
                "this command needs a chain, but `host_url` and `host_key` set a direct host; remove them"
            )
        return self._finder, self._paid, self._context

    def _check_wallet(self) -> None:
        if not self._paying and not self._settings.direct:
            raise ConfigError(
                "this command needs the private key of the account; set CLAUDE_BRIDGE_PRIVATE_KEY, or `key`"
            )

    def _prepaid(self) -> PrepaidJob:
        settings = self._settings
        host = Host(settings.host_url, read_public(settings.host_key))
        chain_id = settings.chain_id or BASE_SEPOLIA
        return PrepaidJob(Job(settings.job_id, host, settings.model, chain_id))

    def _session(self, funding: Funding) -> NodeSession:
        return NodeSession(funding, self._wallet, self._session_settings(), self._records)

    def _session_settings(self) -> SessionSettings:
        settings = self._settings
        return SessionSettings(
            self._waits,
            settings.memory,
            tolerance=Tolerance(settings.count_tolerance),
            old_nodes=settings.old_nodes,
            access=settings.access,
        )

    async def _chain_funding(self, stack: AsyncExitStack) -> ChainFunding:
        settings = self._settings
        chain = ChainClient(
            await stack.enter_async_context(Rpc(settings.chain.rpc_url)), settings.chain
        )
        ledger = Ledger(
            self._state / LEDGER,
            chain.network.chain_id,
            self.address,
            chain.network.marketplace,
        )
        account = Account(chain, self._wallet, ledger, self._gas_budget(), wait=self._pay_wait)
        self._records = HostRecords(self._state / RECORDS, chain.network.chain_id)
        self._context = FundingContext(
            chain, account, ledger, self._terms(), self._budget(), self._records
        )
        self._finder = Finder(
            HostRegistry(chain, currency=settings.currency.address),
            await stack.enter_async_context(HostProber(settings.access)),
            self._search(),
            random.Random(settings.seed),  # noqa: S311  the pick of a host is not a secret
            self._records,
        )
        self._paid = ChainFunding(
            self._context, self._finder, pay_wait=self._pay_wait, settle_after=self._settle_after
        )
        stack.push_async_callback(self._paid.stop)
        return self._paid

    def _terms(self) -> SessionTerms:
        settings = self._settings
        return SessionTerms(
            settings.chain.marketplace,
            model_bytes(settings.model),
            "" if settings.pay == "native" else settings.currency.address,
            settings.deposit_amount,
            settings.currency.decimals,
            settings.proof_interval,
            settings.duration,
            settings.proof_timeout,
            settings.currency.symbol,
        )

    def _search(self) -> Search:
        settings = self._settings
        requirements = HostRequirements(
            model_bytes(settings.model),
            settings.highest_price,
            settings.access,
            settings.localhost_override,
            (read_public(settings.host_key),) if settings.host_key else (),
            {settings.host.lower(): settings.host_url} if settings.host_url else None,
            frozenset(one.lower() for one in settings.allow),
            frozenset(one.lower() for one in settings.deny),
        )
        return Search(settings.model, requirements, settings.mode, settings.host)

    def _budget(self) -> Budget:
        settings = self._settings
        return Budget(
            "deposit",
            settings.currency,
            settings.limit_amount,
            "daily_limit",
        )

    def _gas_budget(self) -> Budget:
        return Budget("gas", ETH, self._settings.gas_limit_amount, "daily_gas")


def _int(found: Sequence[Value]) -> int:
    (value,) = found
    return value if isinstance(value, int) else 0
