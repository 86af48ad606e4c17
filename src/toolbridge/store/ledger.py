"""The ledger: one row for each request to a model, without prompts and answers.

`server/request_log.py` makes the rows, `store/ledger_writer.py` appends them off the request path,
`toolbridge usage` and `GET /v1/usage` add them up, and `GET /v1/requests` lists them. Costs are whole billionths of a dollar, so that sums are exact.
"""

from typing import Literal, Protocol, TypeAlias

import msgspec

Grouping: TypeAlias = Literal["model", "key", "day", "session", "client", "provider"]
INTERRUPTED = "interrupted"
"""The `error` of a request whose process was killed."""
GROUPINGS: tuple[Grouping, ...] = ("model", "key", "day", "session", "client", "provider")


class LedgerRow(msgspec.Struct, frozen=True, omit_defaults=True):
    """One request; the names of the columns are those of the fields."""

    id: str
    at: float
    """When the request began, in seconds since the epoch."""
    key: str = ""
    """The name of the created key; empty for the key of the configuration, or without keys."""
    client: str = ""
    session: str = ""
    api: str = ""
    asked: str = ""
    """The model that the client asked for."""
    model: str = ""
    """The model that served it."""
    provider: str = ""
    routes: tuple[str, ...] = ()
    """The addresses that were tried, in order."""
    status: int = 0
    error: str = ""
    """The kind of error; empty for an answer."""
    input: int = 0
    """Input tokens that were neither read from a cache nor written to one."""
    cache_read: int = 0
    cache_write: int = 0
    output: int = 0
    """Output tokens, with those of thinking."""
    thinking: int = 0
    estimated: bool = False
    """Whether the provider did not report the tokens of the whole answer."""
    cost: int | None = None
    """Billionths of `currency`; None where the price is not known."""
    currency: str = "USD"
    first_token_ms: float | None = None
    total_ms: float = 0.0
    healings: int = 0
    losses: int = 0


RowFilter: TypeAlias = Literal["", "errors", "healed", "losses"]


class RowQuery(msgspec.Struct, frozen=True):
    """Which rows to return: all conditions hold for each of them."""

    most: int
    since: float = 0.0
    before: tuple[float, str] | None = None
    """The time and the id of a row; only rows before it in the order of the answer are returned."""
    id: str = ""
    key: str | None = None
    """The name of a key; None for the rows of all keys."""
    text: str = ""
    """A text that one of the row's texts contains, in any case."""
    only: RowFilter = ""


class UsageTotal(msgspec.Struct, frozen=True):
    """The sum of the rows of one group."""

    group: str
    requests: int
    errors: int
    input: int
    cache_read: int
    cache_write: int
    output: int
    thinking: int
    cost: int
    unpriced: int
    """Requests with tokens whose price is not known."""
    estimated: int


class LedgerStore(Protocol):
    """Keeps rows; every method raises `StoreUnavailable` if it cannot.

    The methods wait, so the gateway calls them in a thread of their own.
    """

    def append(self, rows: list[LedgerRow]) -> None:
        """Add rows; a row whose id is there already is left out.

        Raise `RowsRefused` if the ledger cannot hold one of them.
        """

    def forget(self, before: float) -> None:
        """Remove the rows of requests that began before this time."""

    def totals(self, by: Grouping, since: float, key: str | None = None) -> list[UsageTotal]:
        """Return the sums of all rows since a time, of one key or of all, in the order of their groups."""

    def rows(self, query: RowQuery) -> list[LedgerRow]:
        """Return rows, the newest first; of rows with the same time the one with the larger id."""

    def close(self) -> None: ...
