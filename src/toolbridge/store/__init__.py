"""The store: values that outlive a request, keys, budgets and the ledger, with their engines."""


class StoreUnavailable(Exception):
    """Raised while keys, budgets or the ledger cannot be read or written; the text has the reason."""


class RowsRefused(Exception):
    """Raised if the ledger works and cannot hold one of the rows; none of them was written."""
