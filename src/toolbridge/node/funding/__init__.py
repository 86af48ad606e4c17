"""Money: jobs that are paid with a deposit, the ledger with its limits, and refunds."""
