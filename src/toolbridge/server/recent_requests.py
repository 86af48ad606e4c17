"""The rows of the last requests, for the page.

A row is the one that the ledger gets, so that a request costs one more append here. A new row wakes
no reader: `request_feed.py` compares numbers for as long as a page is open.
"""

from collections import deque
from itertools import islice

from toolbridge.store.ledger import LedgerRow

MOST = 1000
"""Rows that are kept."""


class RecentRequests:
    """The last requests that have ended, in the order of their ends."""

    def __init__(self, most: int = MOST) -> None:
        self._rows: deque[LedgerRow] = deque(maxlen=most)
        self.number = 0
        """The number of requests since the start, which is the number of the last row."""

    def add(self, row: LedgerRow) -> None:
        self.number += 1
        self._rows.append(row)

    def __len__(self) -> int:
        return len(self._rows)

    def after(self, number: int) -> list[LedgerRow]:
        """Return the rows after a number, the oldest first, as far as they are kept."""
        count = min(self.number - number, len(self._rows))
        return list(islice(self._rows, len(self._rows) - count, None))

    def all(self) -> list[LedgerRow]:
        return list(self._rows)
