"""End open jobs that their hosts have not settled; the rest of each deposit is refunded."""

import argparse
import asyncio
from typing import TYPE_CHECKING

from toolbridge.cli.node import flags

if TYPE_CHECKING:
    from toolbridge.node.funding.settling import SettledJob
    from toolbridge.node.settings import NodeSettings


def arguments(parser: argparse.ArgumentParser) -> None:
    flags.add(parser)


def run(args: argparse.Namespace) -> int:
    chosen = flags.choose(args)
    settled = asyncio.run(_settle(chosen))
    for job in settled:
        print(_line(job, chosen.settings))
    if not settled:
        print("no open jobs")
    return 0


async def _settle(chosen: flags.NodeChoice) -> "list[SettledJob]":
    async with chosen.open() as provider:
        return await provider.settle()


def _line(job: "SettledJob", settings: "NodeSettings") -> str:
    from toolbridge.node.chain.amounts import format_amount

    coin = "ETH" if settings.pay == "native" else "token"
    back = format_amount(job.refund, settings.decimals)
    cost = format_amount(job.cost, settings.decimals)
    how = f"in transaction {job.transaction}" if job.transaction else "by its host"
    return f"job {job.job}: settled {how}, {back} {coin} refunded, {cost} {coin} paid"
