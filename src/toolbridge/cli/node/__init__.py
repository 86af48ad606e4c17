"""Use a model on encrypted nodes, paid by deposit: serve it, list hosts, get money back, keep books.

The private key of the account that pays is read from CLAUDE_BRIDGE_PRIVATE_KEY, which
`--env-file FILE` can set too, from a file with the key alone (`--key-file FILE`), or from the terminal.
These and all other flags come after the name of the command: `toolbridge node COMMAND --help`.
"""

import argparse
from importlib import import_module

PARTS = {
    "serve": "run the gateway with a model on a node",
    "hosts": "list the hosts that serve the model, best first",
    "balance": "show what the account holds and has spent",
    "limit": "show and set the hard caps of the account",
    "settle": "end open jobs and get the rest of their deposits back",
    "withdraw": "get balances in the marketplace back",
    "transactions": "list pending transactions, raise their fee, or cancel them",
    "history": "show every payment, refund and claim, with totals",
}


def arguments(parser: argparse.ArgumentParser) -> None:
    parts = parser.add_subparsers(dest="part", required=True, metavar="COMMAND")
    for name, text in PARTS.items():
        module = import_module(f"{__name__}.{name}")
        part = parts.add_parser(name, help=text, description=module.__doc__)
        module.arguments(part)


def run(args: argparse.Namespace) -> int:
    status: int = import_module(f"{__name__}.{args.part}").run(args)
    return status
