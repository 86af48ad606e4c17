"""End every open job of the account; the rest of each deposit is refunded.

Payments with an unknown outcome are resolved first, and jobs are also searched for in the logs of
the chain, so a lost state directory loses nothing. No spending limit stops it. The exit status is 1
if anything stays open; the reason is printed.
"""

import argparse
import asyncio
from typing import TYPE_CHECKING

from toolbridge.cli.node import flags
from toolbridge.core.errors import ConfigError
from toolbridge.core.printable import printable

if TYPE_CHECKING:
    from toolbridge.node.funding.settling import SettledJob


def arguments(parser: argparse.ArgumentParser) -> None:
    flags.add(parser)
    parser.add_argument(
        "--blocks",
        type=int,
        metavar="N",
        help="how many blocks to search if the server limits the range (3000000)",
    )


def run(args: argparse.Namespace) -> int:
    if args.blocks is not None and args.blocks < 1:
        raise ConfigError(f"--blocks must be at least 1, not {args.blocks}")
    chosen = flags.choose(args, any_model=True)
    chosen.print_heading()
    return asyncio.run(_settle(chosen, args.blocks))


async def _settle(chosen: flags.NodeChoice, blocks: int | None) -> int:
    from toolbridge.node.funding.job_scan import MOST_BLOCKS

    left = count = 0
    async with chosen.open() as provider:
        recovery = await provider.recovery()
        async for one in recovery.settle(MOST_BLOCKS if blocks is None else blocks):
            print(printable(line(one)), flush=True)
            count, left = count + 1, left + bool(one.why)
    if not count:
        print("no open jobs")
    return 1 if left else 0


def line(one: "SettledJob") -> str:
    """Return the outcome of a job or payment as one line."""
    name = f"job {one.job}" if one.job else f"payment {one.payment}"
    if not one.job and not one.payment:
        return f"NOT COMPLETE: {one.why}"
    if one.why:
        return f"{name}: NOT settled: {one.why}"
    if not one.job:
        return f"{name}: was not made, {one.currency.format(one.refund)} is free again"
    how = f"in transaction {one.transaction}" if one.transaction else "by its host"
    text = (
        f"{name}: settled {how}, {one.currency.format(one.refund)} refunded, "
        f"{one.currency.format(one.cost)} paid for {one.billed} tokens"
    )
    if one.delivered >= 0:
        text += f", {one.delivered} delivered"
    return f"{text}; the host {one.host} OVERBILLED" if one.overbilled else text
