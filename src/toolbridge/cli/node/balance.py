"""Show what the account holds, what it spent in 24 hours, open jobs and unresolved payments."""

import argparse
import asyncio
from typing import TYPE_CHECKING

from toolbridge.cli.node import flags
from toolbridge.core.json import Json, dumps

if TYPE_CHECKING:
    from toolbridge.node.provider import Balance
    from toolbridge.node.settings import NodeSettings


def arguments(parser: argparse.ArgumentParser) -> None:
    flags.add(parser)
    parser.add_argument("--json", action="store_true", help="print JSON, amounts in wei")


def run(args: argparse.Namespace) -> int:
    chosen = flags.choose(args)
    balance = asyncio.run(_ask(chosen))
    if args.json:
        print(dumps(_as_json(balance)))
    else:
        print("\n".join(_lines(balance, chosen.settings)))
    return 0


async def _ask(chosen: flags.NodeChoice) -> "Balance":
    async with chosen.open() as provider:
        return await provider.balance()


def _as_json(balance: "Balance") -> Json:
    return {
        "address": balance.address,
        "native": str(balance.native),
        "token": str(balance.token),
        "token_decimals": balance.token_decimals,
        "decimals": balance.decimals,
        "deposited": str(balance.deposited),
        "spent": str(balance.spent),
        "limit": str(balance.limit),
        "gas_spent": str(balance.gas_spent),
        "gas_limit": str(balance.gas_limit),
        "unresolved": list(balance.unresolved),
        "open_jobs": list(balance.open_jobs),
    }


def _lines(balance: "Balance", settings: "NodeSettings") -> list[str]:
    from toolbridge.node.chain.amounts import ETHER, format_amount

    def paid(amount: int) -> str:
        coin = "ETH" if settings.pay == "native" else "token"
        return f"{format_amount(amount, balance.decimals)} {coin}"

    def gas(amount: int) -> str:
        return f"{format_amount(amount, ETHER)} ETH"

    lines = [
        f"account      {balance.address}",
        f"balance      {gas(balance.native)}",
        f"token        {format_amount(balance.token, balance.token_decimals)}",
        f"deposited    {paid(balance.deposited)}",
        f"24 hours     {paid(balance.spent)} of {paid(balance.limit)}",
        f"gas          {gas(balance.gas_spent)} of {gas(balance.gas_limit)}",
    ]
    lines += [
        f"unresolved   {hash}: no session is paid until the chain resolves it"
        for hash in balance.unresolved
    ]
    return lines + [
        f"open job     {job}: run `toolbridge node settle` to end it" for job in balance.open_jobs
    ]
