"""Show every payment, refund, claim, withdrawal and fee of the account, with totals and a plot."""

import argparse
import asyncio
import csv
import sys
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from toolbridge.cli.node import flags
from toolbridge.core.errors import ConfigError
from toolbridge.core.json import Json, dumps
from toolbridge.core.printable import printable

if TYPE_CHECKING:
    from toolbridge.node.chain.amounts import Currency
    from toolbridge.node.funding.book_totals import CurrencyTotal
    from toolbridge.node.funding.books import BookEntry

Named = Callable[[str], "Currency"]
_COLUMNS = ("time", "kind", "amount", "currency", "host", "job", "state", "tokens", "hash", "note")
_BAR = 40


def arguments(parser: argparse.ArgumentParser) -> None:
    flags.add(parser)
    parser.add_argument("--days", type=float, metavar="N", help="only the last N days")
    shape = parser.add_mutually_exclusive_group()
    shape.add_argument("--json", action="store_true", help="print JSON, amounts in wei")
    shape.add_argument("--csv", action="store_true", help="print CSV, one line per row")


def run(args: argparse.Namespace) -> int:
    if args.days is not None and not args.days > 0:
        raise ConfigError(f"--days must be more than 0, not {args.days:g}")
    chosen = flags.choose(args, any_model=True)
    if not args.json and not args.csv:
        chosen.print_heading()
    since = max(0.0, time.time() - args.days * 86_400) if args.days else 0.0
    rows = asyncio.run(_read(chosen, since))
    named = chosen.settings.chain.currency
    if args.json:
        print(dumps(_as_json(rows, named)))
    elif args.csv:
        _print_csv(rows, named)
    else:
        print("\n".join(lines(rows, named)))
    return 0


async def _read(chosen: flags.NodeChoice, since: float) -> "list[BookEntry]":
    async with chosen.open() as provider:
        return await provider.ledger().entries(since)


def _cells(row: "BookEntry", named: Named) -> dict[str, str]:
    """Return a row as text; hosts choose their names, so control characters are replaced."""
    currency = named(row.currency)
    amount, _, symbol = currency.format(row.amount).partition(" ")
    values = (
        time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(row.at)), row.kind, amount, symbol,
        row.host, row.job, row.state, str(row.tokens or ""), row.hash, row.note,
    )  # fmt: skip
    return {name: printable(value) for name, value in zip(_COLUMNS, values, strict=True)}


def lines(rows: "Sequence[BookEntry]", named: Named) -> list[str]:
    """Return the rows as a table, the totals of each currency, and what each day has cost."""
    from toolbridge.node.funding.book_totals import per_day, totals

    if not rows:
        return ["no payment is recorded"]
    cells = [_cells(row, named) for row in rows]
    table = [tuple(_COLUMNS), *(tuple(row.values()) for row in cells)]
    widths = [max(len(row[n]) for row in table) for n in range(len(_COLUMNS))]
    text = [
        "  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip() for row in table
    ]
    for total in totals(rows):
        text += ["", *_total_lines(total, named(total.currency))]
        text += _plot(per_day(rows, total.currency), named(total.currency))
    return text


def _total_lines(total: "CurrencyTotal", currency: "Currency") -> list[str]:
    return [
        (
            f"{currency.symbol}: {currency.format(total.paid)} paid for {total.jobs} jobs, "
            f"{currency.format(total.refunded)} refunded, {currency.format(total.claimed)} billed by hosts "
            f"for {total.tokens} tokens"
        ),
        (
            f"{currency.symbol}: {currency.format(total.open)} in open jobs, "
            f"{currency.format(total.gas)} of gas, {currency.format(total.withdrawn)} withdrawn"
        ),
    ]


def _plot(days: Sequence[tuple[str, int]], currency: "Currency") -> list[str]:
    """Return a bar of plain characters per day, the longest for the most expensive one."""
    most = max((amount for _, amount in days), default=0)
    if not most:
        return []
    bars = [(day, amount, max(1, amount * _BAR // most) if amount else 0) for day, amount in days]
    return [f"  {day}  {'#' * bar:<{_BAR}}  {currency.format(cost)}" for day, cost, bar in bars]


def _as_json(rows: "Sequence[BookEntry]", named: Named) -> Json:
    from toolbridge.node.funding.book_totals import totals

    return {
        "rows": [
            {
                "at": row.at, "chain": row.chain, "kind": row.kind, "amount": str(row.amount),
                "currency": named(row.currency).symbol, "currency_address": row.currency,
                "decimals": row.decimals, "host": row.host, "job": row.job, "hash": row.hash,
                "state": row.state, "tokens": row.tokens, "note": row.note,
            }
            for row in rows
        ],
        "totals": [
            {
                "currency": named(one.currency).symbol, "paid": str(one.paid), "jobs": one.jobs,
                "refunded": str(one.refunded), "billed": str(one.claimed), "tokens": one.tokens,
                "open": str(one.open), "gas": str(one.gas), "withdrawn": str(one.withdrawn),
            }
            for one in totals(rows)
        ],
    }  # fmt: skip


def _print_csv(rows: "Sequence[BookEntry]", named: Named) -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(_COLUMNS)
    for row in rows:
        writer.writerow([_formula_free(cell) for cell in _cells(row, named).values()])


def _formula_free(cell: str) -> str:
    """Return a cell that a spreadsheet does not take for a formula."""
    return f"'{cell}" if cell[:1] in {"=", "+", "@"} else cell
