"""Show what the requests to models have used: tokens, cost and errors, in groups.

The groups are those of `--by`: model, key, day, session, client or provider. The figures come from the ledger, a file or a server, also while the gateway runs. Days are in
UTC. Tokens that a provider did not report are estimated, and marked with `~`.
"""

import argparse
import csv
import os
import sys
import time
from collections.abc import Iterable
from pathlib import Path

import msgspec

from toolbridge.accounting.limits_of_keys import dollars
from toolbridge.cli import options
from toolbridge.cli.demo_trace import cut, plain
from toolbridge.config import Config
from toolbridge.core.errors import ConfigError, MalformedRequest
from toolbridge.core.json import dumps
from toolbridge.state_dir import state_dir
from toolbridge.store import StoreUnavailable
from toolbridge.store.engines import LEDGER_FILE, Engines, ledger_url
from toolbridge.store.ledger import GROUPINGS, Grouping, UsageTotal
from toolbridge.store.usage_records import record_of, start_of
from toolbridge.store_settings import ServerUrl

_BAR = 24
_NOBODY = {"key": "(no key)", "session": "(no session)", "client": "(unknown)"}


def arguments(parser: argparse.ArgumentParser) -> None:
    options.add_config(parser)
    parser.add_argument(
        "--by", choices=GROUPINGS, default="model", help="what a row stands for (model)"
    )
    parser.add_argument(
        "--since",
        default="30d",
        metavar="TIME",
        help="the time of the first request: a duration back from now (90m, 12h, 7d, 4w), or a date "
        "(30d)",
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--csv", action="store_true", help="print CSV")
    form.add_argument("--json", action="store_true", help="print one JSON line per group")


def run(args: argparse.Namespace) -> int:
    config, _ = options.load_with_source(args)
    start = start_of(args.since, time.time(), "--since")
    place, totals = read_totals(config, args.by, start)
    if args.csv:
        _print_csv(args.by, totals)
    elif args.json:
        for total in totals:
            print(dumps(record_of(args.by, total)))
    elif totals:
        _print_table(args.by, totals)
    else:
        print(f"there are no requests {_period(args.since)} in {place}")
    return 0


_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def _period(since: str) -> str:
    """Return `--since` in words: `in the last 30 days`, `since 2026-01-31`."""
    unit = _UNITS.get(since[-1])
    if unit is None:
        return f"since {since}"
    count = int(since[:-1])
    return f"in the last {unit.removesuffix('s')}" if count == 1 else f"in the last {count} {unit}"


def read_totals(config: Config, by: Grouping, start: float) -> tuple[str, list[UsageTotal]]:
    """Return where the ledger is, and the sums of all groups since `start`."""
    state = state_dir(os.environ)
    url = ledger_url(config, os.environ)
    if not url and state is None:
        raise MalformedRequest("there is no state directory; set HOME or XDG_STATE_HOME")
    file = None if state is None else state / LEDGER_FILE
    place = ServerUrl(url).shown if url else str(file)
    # `ledger = "off"` keeps the rows of earlier times.
    config = config if url else msgspec.structs.replace(config, ledger="auto")
    open_ledger = Engines(config, state, os.environ).ledger
    if open_ledger is None or (not url and file is not None and not _exists(file)):
        return place, []
    ledger = open_ledger()
    try:
        return place, ledger.totals(by, start)
    except StoreUnavailable as error:
        raise ConfigError(f"the ledger cannot be read: {error}") from None
    finally:
        ledger.close()


def _exists(file: Path) -> bool:
    """Return whether there is a ledger; raise `ConfigError` if its directory cannot be read."""
    try:
        file.stat()
    except FileNotFoundError:
        return False
    except OSError as error:
        raise ConfigError(f"the ledger cannot be read: {file}: {error.strerror}") from None
    return True


def _sum(totals: Iterable[UsageTotal]) -> UsageTotal:
    rows = [msgspec.structs.astuple(total)[1:] for total in totals]
    return UsageTotal("total", *(sum(column) for column in zip(*rows, strict=True)))


def _print_csv(by: Grouping, totals: list[UsageTotal]) -> None:
    names = [by, *UsageTotal.__struct_fields__[1:], "currency"]
    writer = csv.DictWriter(sys.stdout, names, lineterminator="\n")
    writer.writeheader()
    for total in totals:
        writer.writerow(record_of(by, total))


def _print_table(by: Grouping, totals: list[UsageTotal]) -> None:
    if by != "day":
        totals = sorted(totals, key=lambda t: (-t.cost, -_tokens(t), t.group))
    titles = (by.upper(), "REQUESTS", "ERRORS", "INPUT", "CACHED", "OUTPUT", "COST")
    lines = [_cells(by, total) for total in [*totals, _sum(totals)]]
    widths = [max(len(row[at]) for row in [titles, *lines]) for at in range(len(titles))]
    # Bars show the cost, or tokens where nothing has a price.
    weights = [t.cost for t in totals] if any(t.cost for t in totals) else [*map(_tokens, totals)]
    bars = [_bar(weight, max(weights)) for weight in weights]
    for at, row in enumerate([titles, *lines]):
        cells = [
            row[0].ljust(widths[0]),
            *(c.rjust(w) for c, w in zip(row[1:], widths[1:], strict=True)),
        ]
        bar = bars[at - 1] if 0 < at <= len(bars) else ""
        print("  ".join([*cells, bar]).rstrip())
    _print_notes(totals)


def _print_notes(totals: list[UsageTotal]) -> None:
    whole = _sum(totals)
    if whole.unpriced:
        print(f"\n{whole.unpriced} requests have no known price and are not in the cost.")
    if whole.estimated:
        have = "request has" if whole.estimated == 1 else "requests have"
        print(f"\n~ {whole.estimated} {have} estimated tokens: no provider reported them all.")


def _tokens(total: UsageTotal) -> int:
    return total.input + total.cache_read + total.cache_write + total.output


def _cells(by: Grouping, total: UsageTotal) -> tuple[str, ...]:
    mark = "~" if total.estimated else ""
    return (
        cut(plain(total.group), 44) or _NOBODY.get(by, "(none)"),
        f"{total.requests:,}",
        f"{total.errors:,}",
        f"{mark}{total.input + total.cache_read + total.cache_write:,}",
        f"{total.cache_read:,}",
        f"{mark}{total.output:,}",
        dollars(total.cost) if total.cost or not total.unpriced else "?",
    )


def _bar(weight: int, most: int) -> str:
    """Return a bar in eighths of a character; a weight above zero is always visible."""
    if most <= 0 or weight <= 0:
        return ""
    eighths = max(1, round(weight / most * _BAR * 8))
    return "█" * (eighths // 8) + " ▏▎▍▌▋▊▉"[eighths % 8].strip()
