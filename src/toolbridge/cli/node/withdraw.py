"""Get balances in the marketplace back: refunds that could not be sent, and deposits in advance."""

import argparse
import asyncio

from toolbridge.cli.node import flags


def arguments(parser: argparse.ArgumentParser) -> None:
    flags.add(parser)


def run(args: argparse.Namespace) -> int:
    chosen = flags.choose(args, any_model=True)
    chosen.print_heading()
    return asyncio.run(_withdraw(chosen))


async def _withdraw(chosen: flags.NodeChoice) -> int:
    count = failed = 0
    async with chosen.open() as provider:
        recovery = await provider.recovery()
        async for one in recovery.withdraw():
            amount = one.currency.format(one.amount)
            done = f"withdrawn in transaction {one.transaction}"
            print(f"{amount}: {f'NOT withdrawn: {one.why}' if one.why else done}", flush=True)
            count, failed = count + 1, failed + bool(one.why)
    if not count:
        print("the marketplace holds no balance of this account")
    return 1 if failed else 0
