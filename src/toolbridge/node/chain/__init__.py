"""An Ethereum chain: JSON-RPC, contract calls in ABI form, transactions and revert reasons."""
