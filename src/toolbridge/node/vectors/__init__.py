"""Known answers, compared with what we do: `python -m toolbridge.node.vectors FILE`."""
