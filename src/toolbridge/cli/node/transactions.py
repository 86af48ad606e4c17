"""List transactions without an outcome; raise their fee, cancel or forget them.

A transaction with too low a fee waits for ever, and so does every later one. `--raise` sends it
again with a higher fee, at most ten times the first. `--cancel` replaces it with a transfer of
nothing. `--forget` frees what it reserved, after another transaction has used its nonce.
"""

import argparse
import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING

from toolbridge.cli.node import flags
from toolbridge.core.errors import ConfigError
from toolbridge.setting_errors import shorten

if TYPE_CHECKING:
    from toolbridge.node.funding.recovery import Recovery


def arguments(parser: argparse.ArgumentParser) -> None:
    flags.add(parser)
    action = parser.add_mutually_exclusive_group()
    action.add_argument("--raise", dest="raised", metavar="HASH", help="send it with a higher fee")
    action.add_argument("--cancel", metavar="HASH", help="replace it with a transfer of nothing")
    action.add_argument("--forget", metavar="HASH", help="free it: its nonce was used elsewhere")


def run(args: argparse.Namespace) -> int:
    chosen = flags.choose(args, any_model=True)
    _check_hashes({"--raise": args.raised, "--cancel": args.cancel, "--forget": args.forget})
    chosen.print_heading()
    return asyncio.run(_act(chosen, args))


def _check_hashes(given: Mapping[str, str | None]) -> None:
    from toolbridge.node.chain.address import is_hash

    for flag, text in given.items():
        if text is not None and not is_hash(text):
            raise ConfigError(
                f"{flag} needs the hash of a transaction (0x and 64 hex digits), not {shorten(text)}; "
                "run `toolbridge node transactions` to list them"
            )


async def _act(chosen: flags.NodeChoice, args: argparse.Namespace) -> int:
    async with chosen.open() as provider:
        recovery = await provider.recovery()
        if args.raised:
            print(f"sent with a higher fee: {await recovery.raise_fee(args.raised)}")
        elif args.cancel:
            print(f"cancellation sent: {await recovery.cancel(args.cancel)}")
            print("run `toolbridge node settle` when a block includes it")
        elif args.forget:
            print(f"forgotten: {await recovery.forget(args.forget)}")
        else:
            await _list(recovery)
    return 0


async def _list(recovery: "Recovery") -> None:
    found = await recovery.transactions()
    for one in found:
        print(f"{one.row.hash}  nonce {one.row.nonce}  {one.row.function}: {one.state}")
    if not found:
        print("no transaction is pending")
