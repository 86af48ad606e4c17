"""Use a model on encrypted nodes, paid by deposit: serve it, see its hosts, see the money.

A key that pays is read from CLAUDE_BRIDGE_PRIVATE_KEY, from a file (--key-file), or asked for.
"""

import argparse
from importlib import import_module

PARTS = {
    "serve": "run the gateway with a node's model behind it",
    "hosts": "list the hosts that serve the model, the best first",
    "balance": "show what the account has, and what was spent",
    "settle": "end jobs that were left open, and get back what they did not use",
}


def arguments(parser: argparse.ArgumentParser) -> None:
    parts = parser.add_subparsers(dest="part", required=True, metavar="COMMAND")
    for name, text in PARTS.items():
        module = import_module(f"{__name__}.{name}")
        part = parts.add_parser(name, help=text, description=module.__doc__, allow_abbrev=False)
        module.arguments(part)


def run(args: argparse.Namespace) -> int:
    status: int = import_module(f"{__name__}.{args.part}").run(args)
    return status
