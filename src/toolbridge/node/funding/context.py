"""What every part of funding shares: the chain, the account, the ledger, the terms and the budget."""

from dataclasses import dataclass

from toolbridge.node.chain.abi import topic
from toolbridge.node.chain.address import same_account
from toolbridge.node.chain.calls import SessionTerms
from toolbridge.node.chain.client import ChainClient, Receipt, hexed, word
from toolbridge.node.chain.contracts import SESSION_CREATED
from toolbridge.node.funding.account import Account
from toolbridge.node.funding.jobs import FundingUnresolved
from toolbridge.node.funding.ledger import Budget, Ledger
from toolbridge.node.hosts.records import HostRecords


@dataclass(frozen=True)
class FundingContext:
    """The chain, account, ledger, terms and budget of a funding, and the records of hosts."""

    chain: ChainClient
    account: Account
    ledger: Ledger
    terms: SessionTerms
    budget: Budget
    records: HostRecords


def job_of(context: FundingContext, receipt: Receipt) -> str:
    """Return the job id from our `SessionJobCreated` log; a receipt may contain others' logs."""
    for log in receipt.logs:
        ours = same_account(log.address, context.terms.marketplace) and len(log.topics) == 4
        if not ours or log.topics[0] != hexed(topic(SESSION_CREATED)):
            continue
        if same_account(log.topics[2], word(context.account.address)):
            return str(int(log.topics[1], 16))
    why = "it succeeded, but its receipt has no SessionJobCreated log; check `marketplace`"
    raise unresolved(receipt.hash, why)


def unresolved(hash: str, why: str) -> FundingUnresolved:
    """Return the error of a payment whose outcome is unknown."""
    return FundingUnresolved(
        f"the payment in transaction {hash} is unresolved: {why}; no other payment is sent until it "
        "is resolved. The next request checks it again; `toolbridge node transactions` lists such "
        "payments and replaces them"
    )
