"""Check the node package against a file of test vectors: `python -m toolbridge.node.vectors FILE`."""
