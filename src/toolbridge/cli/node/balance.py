"""Show what the account holds, what it spent in 24 hours, open jobs and unresolved payments."""

import argparse
import asyncio
from typing import TYPE_CHECKING

from toolbridge.cli.node import flags
from toolbridge.core.json import Json, dumps

if TYPE_CHECKING:
    from toolbridge.node.provider import Balance


def arguments(parser: argparse.ArgumentParser) -> None:
    flags.add(parser)
    parser.add_argument("--json", action="store_true", help="print JSON, amounts in wei")


def run(args: argparse.Namespace) -> int:
    chosen = flags.choose(args, any_model=True)
    if not args.json:
        chosen.print_heading()
    balance = asyncio.run(_ask(chosen))
    if args.json:
        print(dumps(_as_json(balance)))
    else:
        print("\n".join(_lines(balance)))
    return 0


async def _ask(chosen: flags.NodeChoice) -> "Balance":
    async with chosen.open() as provider:
        return await provider.balance()


def _as_json(balance: "Balance") -> Json:
    return {
        "address": balance.address,
        "native": str(balance.native),
        "token": str(balance.token),
        "token_decimals": balance.token_currency.decimals if balance.token_currency else 0,
        "currency": balance.currency.symbol,
        "decimals": balance.currency.decimals,
        "deposited": str(balance.deposited),
        "spent": str(balance.spent),
        "limit": str(balance.limit),
        "gas_spent": str(balance.gas_spent),
        "gas_limit": str(balance.gas_limit),
        "cap_day": str(balance.cap.day),
        "cap_job": str(balance.cap.job),
        "counted_by_cap": str(balance.capped),
        "unresolved": list(balance.unresolved),
        "open_jobs": list(balance.open_jobs),
    }


def _lines(balance: "Balance") -> list[str]:
    from toolbridge.node.chain.amounts import ETH

    paid, token = balance.currency.format, balance.token_currency
    lines = [
        f"account      {balance.address}",
        f"balance      {ETH.format(balance.native)}",
        *([f"token        {token.format(balance.token)}"] if token else []),
        f"deposited    {paid(balance.deposited)}",
        f"24 hours     {paid(balance.spent)} of {paid(balance.limit)}",
        f"gas          {ETH.format(balance.gas_spent)} of {ETH.format(balance.gas_limit)}",
        (
            f"hard cap     {paid(balance.capped)} of {paid(balance.cap.day)} signed in 24 hours, "
            f"{paid(balance.cap.job)} per job"
        ),
    ]
    if balance.deposited:
        lines.append("deposited    run `toolbridge node withdraw` to get it back")
    lines += [f"unresolved   {hash}: run `toolbridge node settle`" for hash in balance.unresolved]
    return lines + [
        f"open job     {job}: run `toolbridge node settle` to end it" for job in balance.open_jobs
    ]
