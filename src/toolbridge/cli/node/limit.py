"""Show and set the hard caps of the account: the most to spend per day and per job.

A cap is stored with the address of the account in the state directory. It holds over every
configuration file, flag and environment variable, and counts everything that is signed within 24
hours, on all chains, whether or not it comes back.
"""

import argparse
import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

from toolbridge.cli.node import flags
from toolbridge.core.errors import ConfigError

if TYPE_CHECKING:
    from toolbridge.node.funding.ledger import Ledger
    from toolbridge.node.settings import NodeSettings


def arguments(parser: argparse.ArgumentParser) -> None:
    flags.add(parser)
    parser.add_argument("--day", metavar="AMOUNT", help="cap of 24 hours, in the currency of --pay")
    parser.add_argument("--job", metavar="AMOUNT", help="cap of one deposit")


def run(args: argparse.Namespace) -> int:
    chosen = flags.choose(args, any_model=True)
    if chosen.settings.direct:
        raise ConfigError("nothing is paid with `host_url` and `host_key`; remove them")
    asyncio.run(_limit(chosen, args))
    return 0


async def _limit(chosen: flags.NodeChoice, args: argparse.Namespace) -> None:
    async with chosen.open() as provider:
        ledger = provider.ledger()
        await _set(ledger, chosen.settings, args)
        chosen.print_heading()  # after the change, because it has the caps
        for line in await _lines(ledger, chosen.settings):
            print(line)


async def _set(ledger: "Ledger", settings: "NodeSettings", args: argparse.Namespace) -> None:
    """Set the caps that are given; the other one keeps its value."""
    from toolbridge.node.chain.amounts import parse_amount

    currency = settings.currency
    given = {
        name: parse_amount(value, currency.decimals, f"--{name}")
        for name in ("day", "job")
        if (value := getattr(args, name)) is not None
    }
    if given:
        cap = replace(await ledger.cap(currency), **given, default=False)
        # A lower day alone is accepted: it bounds every job.
        if "job" in given and cap.job > cap.day:
            raise ConfigError(
                f"--job is {currency.format(cap.job)}, more than the cap of "
                f"{currency.format(cap.day)} per day; lower --job or raise --day"
            )
        await ledger.set_cap(currency, cap)


async def _lines(ledger: "Ledger", settings: "NodeSettings") -> list[str]:
    from toolbridge.node.chain.amounts import ETH

    network = settings.chain
    currencies = [ETH, *([network.currency(network.token)] if network.token else [])]
    lines: list[str] = []
    for currency in currencies:
        cap = await ledger.cap(currency)
        source = "default" if cap.default else "set by you"
        lines.append(
            f"{currency.symbol:<6} {currency.format(cap.day)} per day, "
            f"{currency.format(cap.job)} per job ({source}); "
            f"{currency.format(await ledger.capped(currency))} signed in the last 24 hours"
        )
    return lines
